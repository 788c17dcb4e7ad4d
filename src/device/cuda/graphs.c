/* Runs of a plan that are kept as graphs, by their form. */
#include "device/cuda/card.h"

static void drop_graph(ls_card_kept *kept)
{
    if (kept->graph)
        cudaGraphExecDestroy(kept->graph);
    kept->graph = NULL;
}

void ls_card_drop_graphs(ls_card *card)
{
    for (int i = 0; i < card->n_kept; i++)
        drop_graph(&card->kept[i]);
    card->n_kept = 0;
}

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

ls_card_kept *ls_card_find_graph(ls_card *card, const ls_form *form, const ls_samples *there, bool *first)
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

void ls_card_begin_capture(ls_card *card, ls_card_kept *kept)
{
    ls_card_lock(); /* until its end */
    if (ls_card_good(card, cudaStreamBeginCapture(card->stream, cudaStreamCaptureModeThreadLocal), "capturing a graph"))
        card->capturing = kept;
    else
        ls_card_unlock();
}

void ls_card_end_capture(ls_card *card)
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
