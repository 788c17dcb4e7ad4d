/* Transfers between this card and those of other ranks. They take their turn in the card's stream, and come to an end
 * when the others hand in theirs: who waits for the stream looks at how they are meanwhile. */
#include "device/cuda/card.h"

#include <stdio.h>

bool ls_card_connect(ls_executor *executor, const ls_links *links, const ls_link_name *name, int rank, int ranks,
                     char *why, size_t why_size)
{
    ls_card *card = ls_card_of(executor);
    if (card->executor.status != LS_OK) {
        snprintf(why, why_size, "%s", card->message);
        return false;
    }
    if (!card->own && cudaEventCreateWithFlags(&card->own, cudaEventDisableTiming) != cudaSuccess) {
        cudaGetLastError();
        snprintf(why, why_size, "%s makes no event", card->name);
        return false;
    }
    card->links = links;
    card->link = links->connect(name, rank, ranks, card->main, why, why_size);
    return card->link != NULL;
}

void ls_card_disconnect(ls_executor *executor, bool good)
{
    ls_card *card = ls_card_of(executor);
    if (card->link)
        card->links->disconnect(card->link, good);
    card->link = NULL;
    card->own_is_there = false;
}

void ls_card_begin_group(ls_executor *executor)
{
    ls_card *card = ls_card_in_main(executor);
    if (!card->link)
        return;
    if (!card->own_is_there)
        card->own_is_there = ls_card_good(card, cudaEventRecord(card->own, card->main), "an event");
    card->links->begin(card->link);
}

void ls_card_send(ls_executor *executor, int rank, const void *data, size_t bytes)
{
    ls_card *card = ls_card_of(executor);
    if (card->executor.status == LS_OK)
        card->links->send(card->link, rank, data, bytes);
}

void ls_card_receive(ls_executor *executor, int rank, void *data, size_t bytes)
{
    ls_card *card = ls_card_of(executor);
    if (card->executor.status == LS_OK)
        card->links->receive(card->link, rank, data, bytes);
}

void ls_card_end_group(ls_executor *executor)
{
    ls_card *card = ls_card_of(executor);
    if (card->link && !card->links->end(card->link))
        ls_card_look_at_link(card);
}

void ls_card_look(ls_executor *executor)
{
    ls_card_look_at_link(ls_card_of(executor));
}

bool ls_card_look_at_link(ls_card *card)
{
    /* Until all have connected, whoever connects looks for himself, and there is another way. */
    const char *failure = card->link && card->executor.connected ? card->links->failure(card->link) : NULL;
    if (!failure)
        return true;
    ls_card_fail(card, LS_IO, "a transfer between ranks' cards", failure);
    card->links->disconnect(card->link, false); /* which ends what waits */
    card->link = NULL;
    return false;
}
