/* The card's operations as op.h defines them, addition by addition, in the layout of the lanes: [group][channel][row]
 * [column][16]. They have the bits of a core. What a call's activations hold may be several shards of a batch, so that
 * small shards fill a card; sums over images are each shard's own. */
#pragma once

#include <cuda_runtime_api.h>

#include "base/everywhere.h"
#include "device/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The shards of a launch lie one after another, in as many groups each as the first; the last one may have fewer
 * images, and then as many groups as these need. Sample numbers, changes, labels and rows are those of all images in
 * order. An operand that is no activation, but a vector for each shard, has that of the next one so many floats on; 0:
 * all shards read the same. */
typedef struct ls_cuda_shards {
    int shards, images, last; /* images: of a shard but the last, `last`: of that one */
    size_t shared;            /* bytes of shared memory that a block may have on this card */
    size_t in_step[LS_MAX_IN], out_step[LS_MAX_OUT];
    const float *one;     /* the card's: of the samples, which may change when the launch is repeated */
    const uint64_t *step; /* the same */
} ls_cuda_shards;

LS_EVERYWHERE int ls_cuda_groups_of(int images)
{
    return (images + LS_LANES - 1) / LS_LANES;
}

LS_EVERYWHERE int ls_cuda_all_groups(const ls_cuda_shards *s)
{
    return (s->shards - 1) * ls_cuda_groups_of(s->images) + ls_cuda_groups_of(s->last);
}

LS_EVERYWHERE int ls_cuda_images_in(const ls_cuda_shards *s, int shard)
{
    return shard + 1 == s->shards ? s->last : s->images;
}

/* How many lanes of a group hold an image, and the number of the first of them among all images. */
LS_EVERYWHERE int ls_cuda_lanes_in(const ls_cuda_shards *s, int group)
{
    const int each = ls_cuda_groups_of(s->images), shard = group / each;
    const int left = ls_cuda_images_in(s, shard) - group % each * LS_LANES;
    return left < LS_LANES ? left : LS_LANES;
}

LS_EVERYWHERE int ls_cuda_first_image(const ls_cuda_shards *s, int group)
{
    const int each = ls_cuda_groups_of(s->images);
    return group / each * s->images + group % each * LS_LANES;
}

/* Of the call, attributes, samples, operands and scratch are read. `samples` lie on the card, but for `count`. */
typedef void ls_cuda_operation(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream);

/* ---- samples.cu ---- */
ls_cuda_operation ls_cuda_lanes_images, ls_cuda_lanes_input, ls_cuda_lanes_rows, ls_cuda_lanes_ones;
/* INPUT of rows that are on the card. */
void ls_cuda_lanes_from_rows(const ls_operand *x, const float *rows, const ls_cuda_shards *shards, cudaStream_t stream);
/* ---- pointwise.cu ---- */
ls_cuda_operation ls_cuda_lanes_each; /* ADD, SUBTRACT, MULTIPLY, DIVIDE, SCALE, RELU, and gradients from outputs */
ls_cuda_operation ls_cuda_lanes_add_bias, ls_cuda_lanes_add_scaled, ls_cuda_lanes_dropout, ls_cuda_lanes_reshape;
/* ---- function.cu: the functions of one number, and their gradients ---- */
ls_cuda_operation ls_cuda_lanes_function;
/* ---- expand.cu: the first of parameters too ---- */
ls_cuda_operation ls_cuda_lanes_expand, ls_cuda_lanes_expand_backward, ls_cuda_lanes_expand_weight_backward;
/* ---- view.cu ---- */
ls_cuda_operation ls_cuda_lanes_concat, ls_cuda_lanes_view;
/* ---- set_norm.cu: RMS_NORM's too ---- */
ls_cuda_operation ls_cuda_lanes_set_norm, ls_cuda_lanes_set_norm_backward;
/* ---- batch_matmul.cu ---- */
ls_cuda_operation ls_cuda_lanes_batch_matmul;
/* ---- embedding.cu ---- */
ls_cuda_operation ls_cuda_lanes_embedding, ls_cuda_lanes_embedding_backward;
/* ---- recurrent.cu: LSTM, GRU ---- */
ls_cuda_operation ls_cuda_lanes_recurrent, ls_cuda_lanes_recurrent_backward;
ls_cuda_operation ls_cuda_lanes_last_token, ls_cuda_lanes_last_token_backward;
size_t ls_cuda_lanes_recurrent_scratch(const ls_op_call *call, const ls_cuda_shards *shards); /* backward */
/* ---- attention.cu ---- */
ls_cuda_operation ls_cuda_lanes_attention, ls_cuda_lanes_attention_backward;
size_t ls_cuda_lanes_attention_scratch(const ls_op_call *call, const ls_cuda_shards *shards); /* of the second */
/* ---- max_over.cu ---- */
ls_cuda_operation ls_cuda_lanes_max_over, ls_cuda_lanes_max_over_backward;
/* ---- resize.cu: ADAPTIVE_POOL, BILINEAR ---- */
ls_cuda_operation ls_cuda_lanes_resize, ls_cuda_lanes_resize_backward;
/* ---- pool.cu: both kinds ---- */
ls_cuda_operation ls_cuda_lanes_pool, ls_cuda_lanes_pool_backward;
ls_cuda_operation ls_cuda_lanes_global_pool, ls_cuda_lanes_global_pool_backward;
/* ---- features.cu ---- */
ls_cuda_operation ls_cuda_lanes_cross_entropy, ls_cuda_lanes_cross_entropy_backward, ls_cuda_lanes_count_correct;
ls_cuda_operation ls_cuda_lanes_softmax, ls_cuda_lanes_softmax_backward;
ls_cuda_operation ls_cuda_lanes_sum, ls_cuda_lanes_sum_backward; /* SUM, SQUARED_ERROR */
/* ---- norm.cu ---- */
ls_cuda_operation ls_cuda_lanes_channel_sum, ls_cuda_lanes_sum_images; /* plane sums */
ls_cuda_operation ls_cuda_lanes_batch_norm, ls_cuda_lanes_batch_norm_infer, ls_cuda_lanes_batch_norm_backward;
ls_cuda_operation ls_cuda_lanes_batch_norm_frozen_backward;
ls_cuda_operation ls_cuda_lanes_norm_sums, ls_cuda_lanes_norm_apply, ls_cuda_lanes_norm_slopes, ls_cuda_lanes_norm_data;
size_t ls_cuda_lanes_norm_scratch(const ls_op_call *call, const ls_cuda_shards *shards); /* but of sum_images */
/* ---- conv.cu ---- */
ls_cuda_operation ls_cuda_lanes_conv, ls_cuda_lanes_conv_data, ls_cuda_lanes_conv_weight;
/* ---- conv_tiles.cu: the same by tiles; false: nothing is done, as they would not pay or do not fit ---- */
bool ls_cuda_lanes_conv_by_tiles(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream);
size_t ls_cuda_lanes_conv_scratch(const ls_op_call *call, const ls_cuda_shards *shards);

/* ---- winograd.cu ---- */
ls_cuda_operation ls_cuda_lanes_winograd, ls_cuda_lanes_winograd_weight; /* the first in both directions */
size_t ls_cuda_lanes_winograd_scratch(const ls_op_call *call, const ls_cuda_shards *shards);

/* ---- table.c ---- */
/* The operations that are there: EACH(name in op.h, name here). */
#define LS_CUDA_LANES(EACH)                                                                                            \
    EACH(IMAGES, images)                                                                                               \
    EACH(CONV, conv)                                                                                                   \
    EACH(CONV_DATA, conv_data)                                                                                         \
    EACH(CONV_WEIGHT, conv_weight)                                                                                     \
    EACH(WINOGRAD, winograd)                                                                                           \
    EACH(WINOGRAD_DATA, winograd)                                                                                      \
    EACH(WINOGRAD_WEIGHT, winograd_weight)                                                                             \
    EACH(CHANNEL_SUM, channel_sum)                                                                                     \
    EACH(ADD, each)                                                                                                    \
    EACH(ADD_BIAS, add_bias)                                                                                           \
    EACH(ADD_SCALED, add_scaled)                                                                                       \
    EACH(RELU, each)                                                                                                   \
    EACH(RELU_BACKWARD, each)                                                                                          \
    EACH(AVG_POOL, pool)                                                                                               \
    EACH(AVG_POOL_BACKWARD, pool_backward)                                                                             \
    EACH(MAX_POOL, pool)                                                                                               \
    EACH(MAX_POOL_BACKWARD, pool_backward)                                                                             \
    EACH(GLOBAL_AVG_POOL, global_pool)                                                                                 \
    EACH(GLOBAL_AVG_POOL_BACKWARD, global_pool_backward)                                                               \
    EACH(BATCH_NORM, batch_norm)                                                                                       \
    EACH(BATCH_NORM_INFER, batch_norm_infer)                                                                           \
    EACH(BATCH_NORM_BACKWARD, batch_norm_backward)                                                                     \
    EACH(BATCH_NORM_FROZEN_BACKWARD, batch_norm_frozen_backward)                                                       \
    EACH(NORM_SUMS, norm_sums)                                                                                         \
    EACH(NORM_APPLY, norm_apply)                                                                                       \
    EACH(NORM_SLOPES, norm_slopes)                                                                                     \
    EACH(NORM_DATA, norm_data)                                                                                         \
    EACH(DROPOUT, dropout)                                                                                             \
    EACH(CROSS_ENTROPY, cross_entropy)                                                                                 \
    EACH(CROSS_ENTROPY_BACKWARD, cross_entropy_backward)                                                               \
    EACH(ONES, ones)                                                                                                   \
    EACH(SUM_IMAGES, sum_images)                                                                                       \
    EACH(COUNT_CORRECT, count_correct)                                                                                 \
    EACH(ROWS, rows)                                                                                                   \
    EACH(INPUT, input)                                                                                                 \
    EACH(MULTIPLY, each)                                                                                               \
    EACH(SUBTRACT, each)                                                                                               \
    EACH(DIVIDE, each)                                                                                                 \
    EACH(SCALE, each)                                                                                                  \
    EACH(TANH_BACKWARD, each)                                                                                          \
    EACH(SIGMOID_BACKWARD, each)                                                                                       \
    EACH(TANH, function)                                                                                               \
    EACH(SIGMOID, function)                                                                                            \
    EACH(EXP, function)                                                                                                \
    EACH(LOG, function)                                                                                                \
    EACH(LOG_SIGMOID, function)                                                                                        \
    EACH(SQRT, function)                                                                                               \
    EACH(ABS, function)                                                                                                \
    EACH(POWER, function)                                                                                              \
    EACH(CLAMP, function)                                                                                              \
    EACH(LEAKY_RELU, function)                                                                                         \
    EACH(SILU, function)                                                                                               \
    EACH(GELU, function)                                                                                               \
    EACH(GELU_TANH, function)                                                                                          \
    EACH(SQRT_BACKWARD, function)                                                                                      \
    EACH(ABS_BACKWARD, function)                                                                                       \
    EACH(POWER_BACKWARD, function)                                                                                     \
    EACH(CLAMP_BACKWARD, function)                                                                                     \
    EACH(LEAKY_RELU_BACKWARD, function)                                                                                \
    EACH(LOG_SIGMOID_BACKWARD, function)                                                                               \
    EACH(SILU_BACKWARD, function)                                                                                      \
    EACH(GELU_BACKWARD, function)                                                                                      \
    EACH(GELU_TANH_BACKWARD, function)                                                                                 \
    EACH(EXPAND, expand)                                                                                               \
    EACH(EXPAND_BACKWARD, expand_backward)                                                                             \
    EACH(EXPAND_WEIGHT, expand)                                                                                        \
    EACH(EXPAND_WEIGHT_BACKWARD, expand_weight_backward)                                                               \
    EACH(SET_NORM, set_norm)                                                                                           \
    EACH(SET_NORM_BACKWARD, set_norm_backward)                                                                         \
    EACH(RMS_NORM, set_norm)                                                                                           \
    EACH(RMS_NORM_BACKWARD, set_norm_backward)                                                                         \
    EACH(MAX_OVER, max_over)                                                                                           \
    EACH(MAX_OVER_BACKWARD, max_over_backward)                                                                         \
    EACH(ADAPTIVE_POOL, resize)                                                                                        \
    EACH(ADAPTIVE_POOL_BACKWARD, resize_backward)                                                                      \
    EACH(BILINEAR, resize)                                                                                             \
    EACH(BILINEAR_BACKWARD, resize_backward)                                                                           \
    EACH(SOFTMAX, softmax)                                                                                             \
    EACH(SOFTMAX_BACKWARD, softmax_backward)                                                                           \
    EACH(CONCAT, concat)                                                                                               \
    EACH(VIEW, view)                                                                                                   \
    EACH(BATCH_MATMUL, batch_matmul)                                                                                   \
    EACH(EMBEDDING, embedding)                                                                                         \
    EACH(EMBEDDING_BACKWARD, embedding_backward)                                                                       \
    EACH(LSTM, recurrent)                                                                                              \
    EACH(GRU, recurrent)                                                                                               \
    EACH(LSTM_BACKWARD, recurrent_backward)                                                                            \
    EACH(GRU_BACKWARD, recurrent_backward)                                                                             \
    EACH(LAST_TOKEN, last_token)                                                                                       \
    EACH(LAST_TOKEN_BACKWARD, last_token_backward)                                                                     \
    EACH(ATTENTION, attention)                                                                                         \
    EACH(ATTENTION_BACKWARD, attention_backward)                                                                       \
    EACH(SUM, sum)                                                                                                     \
    EACH(SUM_BACKWARD, sum_backward)                                                                                   \
    EACH(SQUARED_ERROR, sum)                                                                                           \
    EACH(SQUARED_ERROR_BACKWARD, sum_backward)                                                                         \
    EACH(RESHAPE, reshape)
extern ls_cuda_operation *const ls_cuda_lanes[LS_OP_COUNT];                         /* NULL: not there */
size_t ls_cuda_lanes_scratch(const ls_op_call *call, const ls_cuda_shards *shards); /* bytes */

#ifdef __cplusplus
}
#endif
