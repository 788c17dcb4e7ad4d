#include "device/ref/ref.h"

const float ls_ref_zeros[LS_LANES];

void ls_ref_each_place(const ls_op_call *call)
{
    static ls_ref_place *const places_of[LS_OP_COUNT] = {
        [LS_OP_IMAGES] = ls_ref_images,
        [LS_OP_CONV] = ls_ref_conv,
        [LS_OP_CONV_DATA] = ls_ref_conv_data,
        [LS_OP_ADD_BIAS] = ls_ref_add_bias,
        [LS_OP_AVG_POOL] = ls_ref_avg_pool,
        [LS_OP_AVG_POOL_BACKWARD] = ls_ref_pool_backward,
        [LS_OP_MAX_POOL] = ls_ref_max_pool,
        [LS_OP_MAX_POOL_BACKWARD] = ls_ref_pool_backward,
        [LS_OP_GLOBAL_AVG_POOL] = ls_ref_global_avg_pool,
        [LS_OP_GLOBAL_AVG_POOL_BACKWARD] = ls_ref_global_avg_pool_backward,
        [LS_OP_EXPAND] = ls_ref_expand,
        [LS_OP_EXPAND_WEIGHT] = ls_ref_expand,
        [LS_OP_EXPAND_BACKWARD] = ls_ref_expand_backward,
        [LS_OP_VIEW] = ls_ref_view,
        [LS_OP_MAX_OVER] = ls_ref_max_over,
        [LS_OP_MAX_OVER_BACKWARD] = ls_ref_max_over_backward,
        [LS_OP_BATCH_MATMUL] = ls_ref_batch_matmul,
        [LS_OP_EMBEDDING] = ls_ref_embedding,
        [LS_OP_LAST_TOKEN] = ls_ref_last_token,
        [LS_OP_LAST_TOKEN_BACKWARD] = ls_ref_last_token_backward,
        [LS_OP_ADAPTIVE_POOL] = ls_ref_resize,
        [LS_OP_BILINEAR] = ls_ref_resize,
        [LS_OP_ADAPTIVE_POOL_BACKWARD] = ls_ref_resize_backward,
        [LS_OP_BILINEAR_BACKWARD] = ls_ref_resize_backward,
    };
    ls_ref_place *at = places_of[call->attributes->op];
    const ls_operand *out = &call->out[0];
    for (int group = 0; group < call->groups; group++)
        for (int channel = 0; channel < out->c; channel++)
            for (int row = 0; row < out->h; row++)
                for (int column = 0; column < out->w; column++)
                    at(call, group, channel, row, column);
}
