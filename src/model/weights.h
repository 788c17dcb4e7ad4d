/* A network's tensors in files. */
#pragma once

#include "io/safetensors.h"
#include "model/network.h"

/* The current values, all work done, in the order of the layout's views; the caller releases the list. NULL after a
 * failure. */
ls_named_array *ls_weights_list(ls_network *network);

/* What a file's metadata says of a network: its model, seed, shard, the images' shape, the classes' names. */
typedef struct ls_weights_about {
    const char *pairs[6][2];
    int n;
    char seed[32], shard[32], images[192], *classes;
} ls_weights_about;
/* `lockstep` is the first pair's value. To be freed, also after a failure. */
ls_status ls_weights_tell(const ls_network *network, const char *lockstep, ls_weights_about *about);
void ls_weights_about_free(ls_context *context, ls_weights_about *about);
