/* Products of matrices for convolutions, Winograd's too, by tiles in shared memory. Sizes are padded to whole tiles.
 * Tiles change no bits: a sum is one thread's, in the order of its depth. */
#pragma once

#include <cuda_runtime_api.h>
#include <stddef.h>

enum {
    LS_PRODUCT_DEPTH = 16, /* what the channels, or columns, that are summed over are a multiple of */
    LS_PRODUCT_LINES = 64, /* and the outputs of U, V and E */
    LS_PRODUCT_COLUMNS = 128,
    LS_PRODUCT_PLACES = 81
};

static inline size_t ls_product_up_to(size_t n, size_t whole)
{
    return (n + whole - 1) / whole * whole;
}

/* m[place][output][column] = the sum over channels of u[its place][channel][output] * v[place][channel][column], in
 * runs of `run` channels: the first run's sum, and then each further one's added to it. Channels that are there to fill
 * up have -0 in u and 0 in v: adding -0 changes nothing. */
typedef struct ls_card_product {
    const float *u, *v;
    float *m;
    int places, channels, outputs, columns;
    int run;
    const float *bias; /* [output], where there is one run: what it begins at; NULL: 0 */
    unsigned char u_of[LS_PRODUCT_PLACES];
} ls_card_product;

/* m[shard][sum][output][channel] = the sum over a shard's columns of e[place][output][column] *
 * v[place][channel][column], in runs of `run` columns, each of which goes through all places of the sum. */
typedef struct ls_card_weighing {
    const float *e, *v;
    float *m, *parts;
    int outputs, channels;   /* channels are a multiple of LS_PRODUCT_LINES too */
    int shards, depth, last; /* columns of a shard but the last, and of that one */
    int columns;             /* of all */
    int run;
    int sums, next, share;    /* sum i has so many places, from number next * i on, */
    ptrdiff_t e_step, v_step; /* which lie so many floats apart */
} ls_card_weighing;

/* Whether a block can have the shared memory that these take, of which it may have so many bytes. */
bool ls_card_product_fits(bool many, size_t shared); /* many: there are several runs */
bool ls_card_weighing_fits(size_t shared);

/* Floats of `parts`, which sums of too few blocks to fill a card need. */
size_t ls_card_weighing_parts(const ls_card_weighing *w);

void ls_card_multiply(const ls_card_product *p, size_t shared, cudaStream_t stream);
void ls_card_weigh(const ls_card_weighing *w, cudaStream_t stream);
