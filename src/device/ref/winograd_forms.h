/* Winograd's transforms in one dimension, for each number of taps and outputs of a tile. */
#ifndef LS_DEVICE_REF_WINOGRAD_FORMS_H
#define LS_DEVICE_REF_WINOGRAD_FORMS_H

/* The steps work on numbers `step` apart, in and out. */
typedef void ls_ref_step(const float *from, int from_step, float *to, int to_step);

typedef struct ls_ref_form {
    int taps, tile, window; /* window: places, and the inputs that a tile reads */
    int distinct;           /* places with a U of their own, all or 1 */
    ls_ref_step *weights, *inputs, *products, *slopes, *sums, *gradients;
} ls_ref_form;

const ls_ref_form *ls_ref_form_of(int taps, int tile); /* one that `winograd.h` has */

#endif
