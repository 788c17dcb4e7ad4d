/* Runs of a plan: their samples to the card, their kernels one after another or as a graph, their results back. */
#include "device/cuda/card.h"

#include <string.h>

/* ---- Samples ---- */

/* Of a stage, and of the samples on the card: sample numbers, changes, labels, ls_card_now. */
static size_t changes_at(const ls_card *card)
{
    return ls_cuda_aligned((size_t)card->images * sizeof(uint32_t));
}

static size_t labels_at(const ls_card *card)
{
    return changes_at(card) + ls_cuda_aligned((size_t)card->images * sizeof(ls_change));
}

static size_t now_at(const ls_card *card)
{
    return labels_at(card) + ls_cuda_aligned(card->labels * sizeof(int32_t));
}

static size_t stage_bytes(const ls_card *card)
{
    return now_at(card) + LS_CUDA_ALIGNMENT;
}

static size_t labels_of(const ls_samples *samples)
{
    return (size_t)samples->count * (size_t)samples->labels_each;
}

/* Makes room for the samples of a run. What was kept knows the old place. */
static bool reserve(ls_card *card, const ls_samples *samples)
{
    const int images = samples->count > card->images ? samples->count : card->images;
    const size_t labels = labels_of(samples) > card->labels ? labels_of(samples) : card->labels;
    if (images == card->images && labels == card->labels)
        return true;
    ls_card_await(card, NULL);
    ls_card_drop_graphs(card);
    cudaFree(card->samples);
    card->samples = NULL;
    card->images = images;
    card->labels = labels;
    bool good = ls_card_good(card, cudaMalloc((void **)&card->samples, LS_CARD_STREAMS * stage_bytes(card)),
                             "memory for samples");
    for (int i = 0; i < LS_CARD_STAGES && good; i++) {
        ls_card_stage *stage = &card->stages[i];
        cudaFreeHost(stage->pinned);
        stage->pinned = NULL;
        good = ls_card_good(card, cudaMallocHost((void **)&stage->pinned, stage_bytes(card)), "pinning memory") &&
               (stage->copied || ls_card_good(card, cudaEventCreateWithFlags(&stage->copied, cudaEventDisableTiming),
                                              "making an event"));
    }
    card->images = good ? images : 0;
    card->labels = good ? labels : 0;
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
        ls_card_drop_graphs(card);
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
    return card->samples + (size_t)card->side_stream * stage_bytes(card);
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
        memcpy(stage->pinned + changes_at(card), samples->changes, count * sizeof *samples->changes);
    memcpy(stage->pinned + labels_at(card), samples->labels, labels_of(samples) * sizeof *samples->labels);
    const ls_card_now now = {samples->one, samples->step};
    memcpy(stage->pinned + now_at(card), &now, sizeof now);
    return ls_card_good(card,
                        cudaMemcpyAsync(samples_there(card), stage->pinned, stage_bytes(card), cudaMemcpyHostToDevice,
                                        card->stream),
                        "a copy to the card") &&
           ls_card_good(card, cudaEventRecord(stage->copied, card->stream), "an event");
}

/* ---- Runs ---- */

bool ls_card_begin(ls_executor *executor, const ls_form *form, const ls_samples *samples, ls_samples *there)
{
    ls_card *card = ls_card_of(executor);
    bool first = false;
    card->capturing = NULL;
    if (card->executor.status != LS_OK || !reserve(card, samples))
        return true; /* nothing is handed in any more */
    there->images = resident(card, samples);
    if (!ls_card_enter_side(card, executor->side_stream) || !send_samples(card, samples))
        return true;
    unsigned char *const at = samples_there(card);
    there->index = (const uint32_t *)(const void *)at;
    if (samples->changes)
        there->changes = (const ls_change *)(const void *)(at + changes_at(card));
    there->labels = (const int32_t *)(const void *)(at + labels_at(card));
    card->now = (ls_card_now *)(void *)(at + now_at(card));
    ls_card_kept *kept = ls_card_find_graph(card, form, there, &first);
    if (kept && kept->graph) {
        ls_card_good(card, cudaGraphLaunch(kept->graph, card->stream), "a graph");
        return true;
    }
    if (!kept || first)
        return false;
    ls_card_begin_capture(card, kept);
    return false;
}

void ls_card_end(ls_executor *executor)
{
    ls_card *card = ls_card_of(executor);
    if (card->capturing)
        ls_card_end_capture(card);
    ls_card_good(card, cudaPeekAtLastError(), "a kernel");
    ls_card_send_results(card);
    ls_card_leave_side(card);
}

void ls_card_close_runs(ls_card *card)
{
    ls_card_drop_graphs(card);
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
}
