/* Results of runs on their way to the host: staged on the card, copied to pinned memory, and delivered when the card is
 * waited for. */
#include "device/cuda/card.h"

#include <stdlib.h>
#include <string.h>

float *ls_card_stage_result(ls_executor *executor, float *host, size_t n)
{
    ls_card *card = ls_card_of(executor);
    if (card->n_staged == LS_CARD_STAGED) {
        ls_card_fail(card, LS_INTERNAL, "staging a result", "a run has too many results");
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

void ls_card_send_results(ls_card *card)
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

bool ls_card_open_results(ls_card *card)
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

void ls_card_close_results(ls_card *card)
{
    for (int i = 0; i < 2; i++) {
        free(card->results[i].pending);
        cudaFreeHost(card->results[i].pinned);
        cudaFreeHost(card->results[i].broken);
    }
    if (card->recorded)
        cudaEventDestroy(card->recorded);
}
