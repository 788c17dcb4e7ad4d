/* Winograd's transforms in one dimension, for each number of taps and outputs of a tile. */
#pragma once

typedef void ls_ref_step(const float *from, float *to);

typedef struct ls_ref_form {
    int taps, tile, window; /* window: places, and the inputs that a tile reads */
    int distinct;           /* places with a U of their own, all or 1 */
    ls_ref_step *weights, *inputs, *products, *slopes, *sums, *gradients;
} ls_ref_form;

const ls_ref_form *ls_ref_form_of(int taps, int tile); /* one that `winograd.h` has */
