/* The reference kernels: `op.h` as plain C. Read a kernel beside its paragraph there; nothing here is meant to be fast.
 *
 * Kernels that mix places of a map compute the lanes that hold an image and leave 0 in the others. */
#pragma once

#include <math.h>

#include "device/backend.h"

ls_kernel ls_ref_ones, ls_ref_rows, ls_ref_input;
ls_kernel ls_ref_conv_weight, ls_ref_conv_pool, ls_ref_conv_pool_weight;
ls_kernel ls_ref_winograd, ls_ref_winograd_weight; /* the first in both directions */
ls_kernel ls_ref_channel_sum, ls_ref_sum_images, ls_ref_add_scaled;
ls_kernel ls_ref_add, ls_ref_relu, ls_ref_relu_backward, ls_ref_dropout;
ls_kernel ls_ref_batch_norm, ls_ref_batch_norm_infer, ls_ref_batch_norm_backward;
ls_kernel ls_ref_batch_norm_frozen_backward;
ls_kernel ls_ref_norm_sums, ls_ref_norm_apply, ls_ref_norm_slopes, ls_ref_norm_data;
ls_kernel ls_ref_set_norm, ls_ref_set_norm_backward; /* RMS_NORM's too */
ls_kernel ls_ref_cross_entropy, ls_ref_cross_entropy_backward, ls_ref_count_correct;
ls_kernel ls_ref_concat, ls_ref_reshape;
ls_kernel ls_ref_expand_weight_backward;
ls_kernel ls_ref_embedding_backward;
ls_kernel ls_ref_recurrent, ls_ref_recurrent_backward; /* LSTM, GRU */
ls_kernel ls_ref_attention, ls_ref_attention_backward;
ls_kernel ls_ref_custom, ls_ref_custom_backward;

/* Of several operations: those that treat every number alone, and those over all numbers of an image. */
ls_kernel ls_ref_each_number, ls_ref_each_image;

/* Those that compute one place of their output after another, each by a function of its own. */
ls_kernel ls_ref_each_place;
typedef void ls_ref_place(const ls_op_call *call, int group, int channel, int row, int column);
ls_ref_place ls_ref_images, ls_ref_conv, ls_ref_conv_data, ls_ref_add_bias;
ls_ref_place ls_ref_avg_pool, ls_ref_max_pool, ls_ref_pool_backward; /* the last of both */
ls_ref_place ls_ref_global_avg_pool, ls_ref_global_avg_pool_backward;
ls_ref_place ls_ref_expand, ls_ref_expand_backward; /* the first of weights too */
ls_ref_place ls_ref_view, ls_ref_max_over, ls_ref_max_over_backward;
ls_ref_place ls_ref_batch_matmul, ls_ref_embedding;
ls_ref_place ls_ref_last_token, ls_ref_last_token_backward;
ls_ref_place ls_ref_resize, ls_ref_resize_backward; /* ADAPTIVE_POOL and BILINEAR */

size_t ls_ref_conv_pool_scratch(const ls_op_call *call); /* both directions */
size_t ls_ref_winograd_scratch(const ls_op_call *call);  /* both directions */
size_t ls_ref_winograd_weight_scratch(const ls_op_call *call);
size_t ls_ref_custom_scratch(const ls_op_call *call);
size_t ls_ref_recurrent_scratch(const ls_op_call *call); /* backward */
void ls_ref_vector_add(float *out, const float *a, const float *b, size_t n);
int ls_ref_vector_sgd(float *out, const float *w, float *v, const float *g, size_t n, const ls_sgd *how);
int ls_ref_vector_adam(float *out, const float *w, float *m, float *v, const float *g, size_t n, const ls_adam *how);
int ls_ref_vector_average(float *average, const float *out, size_t n, const ls_averaging *how);

/* The two factors of one term of a plane sum, for the number at element `at` of the operands that `what` knows. A term
 * that is no product has 1 as its second factor: fma(x, 1, r) is r + x, bit for bit. */
typedef struct ls_ref_product {
    float a, b;
} ls_ref_product;
typedef ls_ref_product ls_ref_term(const void *what, size_t at);

/* The plane sum of one channel of operands shaped like `shape`. */
float ls_ref_plane_sum(const ls_op_call *call, const ls_operand *shape, int channel, ls_ref_term *term,
                       const void *what);
float ls_ref_fold(float a[LS_LANES]); /* lanes(a) */

/* y = softmax of one image's x[features], with the largest, m, and the sum s of exp(x - m); numbers lie `step`
 * apart. */
void ls_ref_softmax(const float *x, int features, size_t step, float *y, float *m, float *s);

extern const float ls_ref_zeros[LS_LANES];

/* How many lanes of a group hold an image. */
static inline int ls_ref_lanes(const ls_op_call *call, int group)
{
    int left = call->samples->count - group * LS_LANES;
    return left < LS_LANES ? left : LS_LANES;
}

/* Where the 16 lanes of one place begin. */
static inline size_t ls_ref_offset(const ls_operand *t, int group, int channel, int row, int column)
{
    return ((((size_t)group * t->c + channel) * t->h + row) * t->w + column) * LS_LANES;
}

static inline float *ls_ref_at(const ls_operand *t, int group, int channel, int row, int column)
{
    return t->data + ls_ref_offset(t, group, channel, row, column);
}

static inline int ls_ref_inside(const ls_operand *t, int row, int column)
{
    return row >= 0 && row < t->h && column >= 0 && column < t->w;
}

/* The same for a tap, which is zero outside the map. */
static inline const float *ls_ref_tap(const ls_operand *t, int group, int channel, int row, int column)
{
    return ls_ref_inside(t, row, column) ? ls_ref_at(t, group, channel, row, column) : ls_ref_zeros;
}

/* Numbers in one image, and in the whole operand with its padded lanes. */
static inline size_t ls_ref_places(const ls_operand *t)
{
    return (size_t)t->c * t->h * t->w;
}

static inline size_t ls_ref_size(const ls_op_call *call, const ls_operand *t)
{
    return call->groups * ls_ref_places(t) * LS_LANES;
}

static inline float ls_ref_relu_of(float x)
{
    return x < 0 ? 0 : x;
}
