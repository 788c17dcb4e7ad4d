/* Executors of several processes that are connected, one of each: numbers go from the memory of one to that of another.
 * A plugin, lockstep-nccl, that is loaded when ranks have cards to connect; this is all that library, the cards' plugin
 * and this one know of each other. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/plugin.h"

/* By which those who belong together find each other. */
typedef struct ls_link_name {
    char bytes[128];
} ls_link_name;

typedef struct ls_link ls_link;
typedef struct ls_links {
    ls_plugin plugin; /* first */
    int number;       /* of NCCL's version: only the same one can be connected */
    bool (*name)(ls_link_name *name, char *why, size_t why_size);
    /* Waits for the others, all of which call this with the same name. `stream` is a cudaStream_t of the current card,
     * in which transfers take their turn. NULL after a failure. */
    ls_link *(*connect)(const ls_link_name *name, int rank, int ranks, void *stream, char *why, size_t why_size);
    /* Transfers between `begin` and `end` are under way together, those between two ranks in the order in which both
     * hand them in. False after a failure; `failure` has the words. */
    void (*begin)(ls_link *link);
    void (*send)(ls_link *link, int rank, const void *data, size_t bytes);
    void (*receive)(ls_link *link, int rank, void *data, size_t bytes);
    bool (*end)(ls_link *link);
    /* What went wrong with a transfer, also of one that was handed in; NULL: nothing so far. */
    const char *(*failure)(ls_link *link);
    /* `good`: nothing is under way. Else it is cut off, and the stream can be waited for. */
    void (*disconnect)(ls_link *link, bool good);
} ls_links;
