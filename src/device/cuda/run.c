/* Runs of a plan: their samples to the card, their kernels as a graph that is replayed, their results back. */
#include "device/cuda/card.h"

#include <stdlib.h>
#include <string.h>

/* ---- Results ---- */

float *ls_card_stage_result(ls_executor *executor, float *host, size_t n)
{
    ls_card *card = ls_card_of(executor);
    if (card->n_staged == LS_CARD_STAGED) {
        ls_card_fail(card, LS_INTERNAL, "lending memory", "a run has too many results");
        return NULL;
    }
    ls_card_staged *staged = &card->side_streams[executor->side_stream].staged[card->n_staged++];
    if (n > staged->capacity || !staged->device) {
        ls_card_await(card, NULL);
        cudaFree(staged->device);
        staged->device = NULL;
        staged->capacity = 0;
        size_t bytes = ls_cuda_aligned((n ? n : 1) * sizeof *host);
        if (ls_card_good(card, cudaMalloc((void **)&staged->device, bytes), "memory for results"))
            staged->capacity = n;
    }
    staged->host = host;
    staged->n = n;
    return staged->device;
}

/* Puts every result where it belongs. */
static void deliver(ls_card_results *results, bool good)
{
    for (int i = 0; i < results->n_pending; i++) {
        const ls_card_pending *p = &results->pending[i];
        if (good)
            memcpy(p->host, p->pinned, p->n * sizeof *p->host);
        else
            memset(p->host, 0, p->n * sizeof *p->host);
    }
    results->n_pending = 0;
    results->pinned_used = 0;
}

/* Waits for everything. */
static void bring_home(ls_card *card)
{
    ls_card_wait(&card->executor);
    deliver(&card->results[card->open], ls_card_good(card, ls_card_await(card, NULL), "waiting for the card"));
}

/* Pinned memory for n floats, until the results are brought home. */
static float *pinned_room(ls_card *card, size_t n)
{
    enum { LEAST = 1 << 20 };
    ls_card_results *results = &card->results[card->open];
    if (results->n_pending == LS_CARD_PENDING || results->pinned_used + n > results->pinned_floats)
        bring_home(card);
    if (n > results->pinned_floats) {
        cudaFreeHost(results->pinned);
        results->pinned = NULL;
        results->pinned_floats = 0;
        size_t floats = n < LEAST ? LEAST : n;
        if (!ls_card_good(card, cudaMallocHost((void **)&results->pinned, floats * sizeof(float)), "pinning memory"))
            return NULL;
        results->pinned_floats = floats;
    }
    float *room = results->pinned + results->pinned_used;
    const size_t lines = (n + 15) / 16 * 16, left = results->pinned_floats - results->pinned_used;
    results->pinned_used += lines <= left ? lines : n;
    return room;
}

static void send_results(ls_card *card)
{
    ls_card_results *results = &card->results[card->open];
    for (int i = 0; i < card->n_staged && card->executor.status == LS_OK; i++) {
        const ls_card_staged *staged = &card->side_streams[card->side_stream].staged[i];
        if (!staged->n)
            continue;
        float *pinned = pinned_room(card, staged->n);
        if (pinned && ls_card_good(card,
                                   cudaMemcpyAsync(pinned, staged->device, staged->n * sizeof *pinned,
                                                   cudaMemcpyDeviceToHost, card->stream),
                                   "a copy from the card"))
            results->pending[results->n_pending++] = (ls_card_pending){staged->host, pinned, staged->n};
    }
    card->n_staged = 0;
}

/* Has the card say whether an update of the open results made a number that is not finite. */
static void ask_finite(ls_card *card)
{
    if (card->executor.status == LS_OK)
        ls_card_good(card,
                     cudaMemcpyAsync(card->results[card->open].broken, card->broken + card->open, sizeof *card->broken,
                                     cudaMemcpyDeviceToHost, card->main),
                     "a copy from the card");
}

/* What it said; its own note is taken back. */
static bool was_finite(ls_card *card, int number)
{
    if (card->executor.status != LS_OK)
        return true; /* that is said otherwise */
    const bool finite = *card->results[number].broken == 0;
    if (!finite)
        ls_card_good(card, cudaMemsetAsync(card->broken + number, 0, sizeof *card->broken, card->main),
                     "a copy to the card");
    return finite;
}

bool ls_card_finish(ls_executor *executor)
{
    ls_card *card = ls_card_in_main(executor);
    ask_finite(card);
    ls_card_end_marks(card);
    bring_home(card);
    return was_finite(card, card->open);
}

void ls_card_record(ls_executor *executor, bool *finite)
{
    ls_card *card = ls_card_in_main(executor);
    ls_card_wait(executor);
    ask_finite(card);
    if (card->executor.status == LS_OK)
        ls_card_good(card, cudaEventRecord(card->recorded, card->main), "an event");
    card->recorded_finite = finite;
    card->open = 1 - card->open;
}

void ls_card_wait(ls_executor *executor)
{
    ls_card *card = ls_card_of(executor);
    const int recorded = 1 - card->open;
    if (!card->recorded_finite)
        return;
    deliver(&card->results[recorded], ls_card_good(card, ls_card_await(card, card->recorded), "waiting for the card"));
    *card->recorded_finite = was_finite(card, recorded);
    card->recorded_finite = NULL;
}

/* What failed is done: `wait` says so. */
bool ls_card_is_done(ls_executor *executor)
{
    ls_card *card = ls_card_of(executor);
    const bool done = !card->recorded_finite || cudaEventQuery(card->recorded) != cudaErrorNotReady;
    if (!done)
        cudaGetLastError(); /* that was no error, but would be reported as one */
    return done;
}

/* ---- Samples ---- */

/* Of a stage, and of the samples on the card: sample numbers, changes, labels, ls_card_now. */
static size_t changes_at(int images)
{
    return ls_cuda_aligned((size_t)images * sizeof(uint32_t));
}

static size_t labels_at(int images)
{
    return changes_at(images) + ls_cuda_aligned((size_t)images * sizeof(ls_change));
}

static size_t now_at(int images)
{
    return labels_at(images) + ls_cuda_aligned((size_t)images * sizeof(int32_t));
}

static size_t stage_bytes(int images)
{
    return now_at(images) + LS_CUDA_ALIGNMENT;
}

static void drop_graph(ls_card_kept *kept)
{
    if (kept->graph)
        cudaGraphExecDestroy(kept->graph);
    kept->graph = NULL;
}

static void drop_kept(ls_card *card)
{
    for (int i = 0; i < card->n_kept; i++)
        drop_graph(&card->kept[i]);
    card->n_kept = 0;
}

/* Makes room for the samples of a run. What was kept knows the old place. */
static bool reserve(ls_card *card, int images)
{
    if (images <= card->images)
        return true;
    ls_card_await(card, NULL);
    drop_kept(card);
    cudaFree(card->samples);
    card->samples = NULL;
    card->images = 0;
    bool good = ls_card_good(card, cudaMalloc((void **)&card->samples, LS_CARD_STREAMS * stage_bytes(images)),
                             "memory for samples");
    for (int i = 0; i < LS_CARD_STAGES && good; i++) {
        ls_card_stage *stage = &card->stages[i];
        cudaFreeHost(stage->pinned);
        stage->pinned = NULL;
        good = ls_card_good(card, cudaMallocHost((void **)&stage->pinned, stage_bytes(images)), "pinning memory") &&
               (stage->copied || ls_card_good(card, cudaEventCreateWithFlags(&stage->copied, cudaEventDisableTiming),
                                              "making an event"));
    }
    card->images = good ? images : 0;
    return good;
}

/* The data set's images on the card; a data set that was used longest ago makes room. NULL where there are none. */
static const void *resident(ls_card *card, const ls_samples *samples)
{
    if (!samples->images || !samples->owner)
        return NULL;
    ls_card_resident *place = &card->residents[0];
    for (int i = 0; i < LS_CARD_RESIDENTS; i++) {
        ls_card_resident *r = &card->residents[i];
        if (r->owner == samples->owner && r->host == samples->images) {
            r->used = ++card->uses;
            return r->device;
        }
        if (r->used < place->used)
            place = r;
    }
    if (place->owner) {
        ls_card_await(card, NULL);
        drop_kept(card);
        cudaFree(place->device);
        card->callbacks.drop(place->owner);
        *place = (ls_card_resident){.owner = NULL};
    }
    void *device = NULL;
    if (!ls_card_good(card, cudaMalloc(&device, samples->image_bytes), "memory for the images") ||
        !ls_card_good(
            card, cudaMemcpyAsync(device, samples->images, samples->image_bytes, cudaMemcpyHostToDevice, card->main),
            "a copy to the card") ||
        !ls_card_good(card, ls_card_await(card, NULL), "a copy to the card")) {
        cudaFree(device);
        return NULL;
    }
    card->callbacks.hold(samples->owner);
    *place = (ls_card_resident){samples->owner, samples->images, device, ++card->uses};
    return device;
}

/* Those of the side stream that was entered. */
static unsigned char *samples_there(const ls_card *card)
{
    return card->samples + (size_t)card->side_stream * stage_bytes(card->images);
}

/* Sends a run's samples, and waits where too many runs are in hand. */
static bool send_samples(ls_card *card, const ls_samples *samples)
{
    ls_card_stage *stage = &card->stages[card->runs++ % LS_CARD_STAGES];
    const size_t count = (size_t)samples->count;
    if (!ls_card_good(card, ls_card_await(card, stage->copied), "waiting for the card"))
        return false;
    memcpy(stage->pinned, samples->index, count * sizeof *samples->index);
    if (samples->changes)
        memcpy(stage->pinned + changes_at(card->images), samples->changes, count * sizeof *samples->changes);
    memcpy(stage->pinned + labels_at(card->images), samples->labels, count * sizeof *samples->labels);
    const ls_card_now now = {samples->one, samples->step};
    memcpy(stage->pinned + now_at(card->images), &now, sizeof now);
    return ls_card_good(card,
                        cudaMemcpyAsync(samples_there(card), stage->pinned, stage_bytes(card->images),
                                        cudaMemcpyHostToDevice, card->stream),
                        "a copy to the card") &&
           ls_card_good(card, cudaEventRecord(stage->copied, card->stream), "an event");
}

/* ---- Graphs ---- */

static bool same_form(const ls_form *a, const ls_form *b)
{
    bool same = a->plan == b->plan && a->count == b->count && a->scratch == b->scratch;
    for (int i = 0; i < LS_FORM_PLACES; i++)
        same &= a->at[i] == b->at[i];
    return same;
}

/* A free place, or that of what was used longest ago: of a network that is no more, say. */
static ls_card_kept *place_to_keep(ls_card *card)
{
    if (card->n_kept < LS_CARD_KEPT)
        return &card->kept[card->n_kept++];
    ls_card_kept *oldest = &card->kept[0];
    for (int i = 1; i < card->n_kept; i++)
        if (card->kept[i].used < oldest->used)
            oldest = &card->kept[i];
    if (oldest->graph)
        ls_card_await(card, NULL);
    drop_graph(oldest);
    return oldest;
}

/* The place of a form among those kept: the second time it comes it is captured. NULL where it never will be. */
static ls_card_kept *find(ls_card *card, const ls_form *form, const ls_samples *there, bool *first)
{
    *first = false;
    if (card->executor.plain || card->executor.gpu_trace || form->passing)
        return NULL;
    for (int k = 0; k < LS_MAX_INPUTS; k++)
        if (there->rows[k]) /* these lie elsewhere each time */
            return NULL;
    for (int i = 0; i < card->n_kept; i++) {
        ls_card_kept *kept = &card->kept[i];
        if (same_form(&kept->form, form) && kept->side_stream == card->side_stream && kept->images == there->images &&
            kept->changes == there->changes) {
            kept->used = card->runs;
            return kept;
        }
    }
    ls_card_kept *kept = place_to_keep(card);
    *first = true;
    *kept = (ls_card_kept){.form = *form,
                           .side_stream = card->side_stream,
                           .images = there->images,
                           .changes = there->changes,
                           .used = card->runs};
    return kept;
}

bool ls_card_begin(ls_executor *executor, const ls_form *form, const ls_samples *samples, ls_samples *there)
{
    ls_card *card = ls_card_of(executor);
    bool first = false;
    card->capturing = NULL;
    if (card->executor.status != LS_OK || !reserve(card, samples->count))
        return true; /* nothing is handed in any more */
    there->images = resident(card, samples);
    if (!ls_card_enter_side(card, executor->side_stream) || !send_samples(card, samples))
        return true;
    unsigned char *const at = samples_there(card);
    there->index = (const uint32_t *)(const void *)at;
    if (samples->changes)
        there->changes = (const ls_change *)(const void *)(at + changes_at(card->images));
    there->labels = (const int32_t *)(const void *)(at + labels_at(card->images));
    card->now = (ls_card_now *)(void *)(at + now_at(card->images));
    ls_card_kept *kept = find(card, form, there, &first);
    if (kept && kept->graph) {
        ls_card_good(card, cudaGraphLaunch(kept->graph, card->stream), "a graph");
        return true;
    }
    if (!kept || first)
        return false;
    ls_card_lock(); /* until its end */
    if (ls_card_good(card, cudaStreamBeginCapture(card->stream, cudaStreamCaptureModeThreadLocal), "capturing a graph"))
        card->capturing = kept;
    else
        ls_card_unlock();
    return false;
}

static void end_capture(ls_card *card)
{
    ls_card_kept *kept = card->capturing;
    cudaGraph_t graph = NULL;
    card->capturing = NULL;
    const cudaError_t ended = cudaStreamEndCapture(card->stream, &graph);
    ls_card_unlock();
    if (ls_card_good(card, ended, "capturing a graph") &&
        ls_card_good(card, cudaGraphInstantiate(&kept->graph, graph, 0), "making a graph"))
        ls_card_good(card, cudaGraphLaunch(kept->graph, card->stream), "a graph");
    if (graph)
        cudaGraphDestroy(graph);
}

void ls_card_end(ls_executor *executor)
{
    ls_card *card = ls_card_of(executor);
    if (card->capturing)
        end_capture(card);
    ls_card_good(card, cudaPeekAtLastError(), "a kernel");
    send_results(card);
    ls_card_leave_side(card);
}

bool ls_card_open_runs(ls_card *card)
{
    for (int i = 0; i < 2; i++) {
        ls_card_results *results = &card->results[i];
        results->pending = calloc(LS_CARD_PENDING, sizeof *results->pending);
        if (!results->pending)
            return ls_card_fail(card, LS_OUT_OF_MEMORY, "starting the card", "no memory on the host");
        if (!ls_card_good(card, cudaMallocHost((void **)&results->broken, sizeof *results->broken), "pinning memory"))
            return false;
    }
    return ls_card_good(card, cudaEventCreateWithFlags(&card->recorded, cudaEventDisableTiming), "making an event");
}

void ls_card_close_runs(ls_card *card)
{
    drop_kept(card);
    for (int i = 0; i < LS_CARD_RESIDENTS; i++)
        if (card->residents[i].owner) {
            cudaFree(card->residents[i].device);
            card->callbacks.drop(card->residents[i].owner);
        }
    for (int i = 0; i < LS_CARD_STAGES; i++) {
        cudaFreeHost(card->stages[i].pinned);
        if (card->stages[i].copied)
            cudaEventDestroy(card->stages[i].copied);
    }
    cudaFree(card->samples);
    for (int i = 0; i < 2; i++) {
        free(card->results[i].pending);
        cudaFreeHost(card->results[i].pinned);
        cudaFreeHost(card->results[i].broken);
    }
    if (card->recorded)
        cudaEventDestroy(card->recorded);
}
