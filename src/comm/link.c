#include "comm/link.h"

#include <stdio.h>
#include <string.h>

/* What a rank tells the others of itself. */
typedef struct hello {
    bool able;
    unsigned char identity[16];
    int32_t number;    /* NCCL's */
    int32_t connected; /* before */
    char why[LS_WHY];
} hello;

const ls_links *ls_links_load(char *why, size_t size)
{
    return (const ls_links *)ls_plugin_table("nccl", sizeof(ls_links), why, size);
}

/* Whether all can be connected; every rank sees the same. */
static bool judge(const hello *all, int ranks, char *why)
{
    bool cards = false;
    *why = '\0';
    for (int r = 0; r < ranks; r++)
        cards |= all[r].able || *all[r].why;
    for (int r = 0; r < ranks && cards; r++)
        if (!all[r].able) {
            snprintf(why, LS_WHY, "rank %d: %.*s", r, LS_WHY - 24, *all[r].why ? all[r].why : "no GPUs");
            return false;
        }
    if (!cards)
        return false;
    for (int r = 1; r < ranks; r++) {
        for (int q = 0; q < r; q++)
            if (memcmp(all[q].identity, all[r].identity, sizeof all[r].identity) == 0) {
                snprintf(why, LS_WHY, "ranks %d and %d share a card", q, r);
                return false;
            }
        if (all[r].number != all[0].number) {
            snprintf(why, LS_WHY, "ranks 0 and %d have other versions of NCCL", r);
            return false;
        }
        if (all[r].connected != all[0].connected) {
            snprintf(why, LS_WHY, "the cards of ranks 0 and %d are connected with others, for another network", r);
            return false;
        }
    }
    return true;
}

static void waits(void *user, bool waits)
{
    ls_cluster *cluster = user;
    atomic_store(&cluster->waiting, waits);
}

/* Whether all ranks have come as far; where one has not, its reason is everybody's. */
static bool all_good(ls_cluster *cluster, ls_context *context, hello *all, bool good, char *why)
{
    hello *mine = &all[cluster->rank];
    mine->able = good;
    snprintf(mine->why, sizeof mine->why, "%s", why);
    return ls_cluster_gather_each(cluster, context, all, sizeof *all) == LS_OK && judge(all, cluster->ranks, why);
}

static bool find_others(ls_cluster *cluster, ls_executor *executor, const ls_links *links, const ls_link_name *name,
                        char *why)
{
    waits(cluster, true); /* until `all_good` has heard of all */
    return executor->type->peers.connect(executor, links, name, cluster->rank, cluster->ranks, why, LS_WHY);
}

/* Every rank sends each other one a word of its own, over all connections that there will be: cards that do not reach
 * each other as they say have another way now. */
static bool say_first_words(ls_cluster *cluster, ls_executor *executor, char *why)
{
    enum { WORD = 1024, SECONDS = 30 };
    const int rank = cluster->rank, ranks = cluster->ranks;
    const size_t bytes = (size_t)ranks * WORD;
    unsigned char word[WORD];
    const ls_executor_type *type = executor->type;
    unsigned char *there = type->memory.allocate(executor, 2 * bytes);
    if (!there) {
        snprintf(why, LS_WHY, "no memory on %s", executor->name);
        return false;
    }
    memset(word, 1 + rank % 255, WORD);
    for (int r = 0; r < ranks; r++)
        type->memory.put(executor, there + (size_t)r * WORD, word, WORD);
    type->peers.begin_group(executor);
    for (int r = 0; r < ranks; r++) {
        type->peers.receive(executor, r, there + bytes + (size_t)r * WORD, WORD);
        type->peers.send(executor, r, there + (size_t)r * WORD, WORD);
    }
    type->peers.end_group(executor);
    waits(cluster, true);
    const char *failure = type->peers.try_group(executor, SECONDS);
    if (failure) {
        snprintf(why, LS_WHY, "the first transfers from %s: %.*s", executor->name, LS_WHY - 64, failure);
        type->peers.disconnect(executor, false); /* before anybody waits for them */
    }
    bool good = !failure;
    for (int r = 0; r < ranks && good; r++) {
        type->memory.get(executor, word, there + bytes + (size_t)r * WORD, WORD);
        for (int i = 0; i < WORD && good; i++)
            good = word[i] == 1 + r % 255;
        if (!good)
            snprintf(why, LS_WHY, "what rank %d's card sent arrived as something else", r);
    }
    type->memory.release(executor, there);
    return good;
}

bool ls_link_connect(ls_cluster *cluster, ls_context *context, ls_executor *executor, char why[LS_WHY])
{
    const ls_links *links = NULL;
    const int rank = cluster->rank, ranks = cluster->ranks;
    ls_link_name name = {""};
    hello *all = ls_alloc(context, (size_t)ranks, sizeof *all, "what the ranks' cards are");
    if (!all)
        return false;
    if (executor && !executor->type->peers.connect)
        snprintf(why, LS_WHY, "%s cannot be connected", executor->name);
    else if (executor)
        links = ls_links_load(why, LS_WHY);
    if (links) {
        memcpy(all[rank].identity, executor->identity, sizeof executor->identity);
        all[rank].number = links->number;
        all[rank].connected = executor->connected;
    }
    bool good = all_good(cluster, context, all, links != NULL, why);
    if (good && !executor->connected) {
        good = rank > 0 || links->name(&name, why, LS_WHY);
        good = all_good(cluster, context, all, good, why) &&
               ls_cluster_gather_from(cluster, context, 0, &name, sizeof name) == LS_OK;
        good = good && all_good(cluster, context, all, find_others(cluster, executor, links, &name, why), why);
        good = good && all_good(cluster, context, all, say_first_words(cluster, executor, why), why);
        if (!good)
            executor->type->peers.disconnect(executor, false);
        if (good) {
            executor->connected = ++cluster->links;
            executor->waits = waits;
            executor->waits_user = cluster;
        }
    }
    if (good)
        snprintf(why, LS_WHY, "NCCL %d.%d.%d", links->number / 10000, links->number / 100 % 100, links->number % 100);
    ls_release(context, all);
    return good;
}
