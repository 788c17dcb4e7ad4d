/* Marks in a card's stream: events, whose distance to the last one the card knows to half a microsecond. The last one
 * is at the moment at which the host has waited for it, as nearly as the host comes to know. */
#include "device/cuda/card.h"

#include <stdlib.h>

/* NULL where there is no room for one more. */
static cudaEvent_t next_event(ls_card *card)
{
    if (!card->marks)
        card->marks = calloc(LS_MOST_MARKS + 1, sizeof *card->marks);
    if (!card->marks || card->executor.status != LS_OK)
        return NULL;
    if (card->n_marks == card->n_made &&
        ls_card_good(card, cudaEventCreate(&card->marks[card->n_made]), "making an event"))
        card->n_made++;
    return card->n_marks < card->n_made ? card->marks[card->n_marks] : NULL;
}

int ls_card_mark(ls_executor *executor)
{
    ls_card *card = ls_card_in_main(executor);
    cudaEvent_t event = card->n_marks < LS_MOST_MARKS ? next_event(card) : NULL;
    card->last = NULL;
    if (!event || !ls_card_good(card, cudaEventRecord(event, card->main), "an event"))
        return -1;
    return card->n_marks++;
}

void ls_card_end_marks(ls_card *card)
{
    cudaEvent_t event = card->n_marks ? next_event(card) : NULL;
    if (event && ls_card_good(card, cudaEventRecord(event, card->main), "an event") &&
        ls_card_good(card, ls_card_await(card, event), "waiting for the card"))
        card->last = event;
    card->last_is_at = ls_card_seconds();
    card->n_marks = 0;
}

double ls_card_reached(ls_executor *executor, int mark)
{
    ls_card *card = ls_card_of(executor);
    float before = 0; /* milliseconds */
    if (card->last)
        ls_card_good(card, cudaEventElapsedTime(&before, card->marks[mark], card->last), "reading an event");
    return card->last_is_at - 1e-3 * (double)before;
}

void ls_card_close_marks(ls_card *card)
{
    for (int i = 0; i < card->n_made; i++)
        cudaEventDestroy(card->marks[i]);
    free(card->marks);
}
