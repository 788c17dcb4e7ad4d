/* Sums over images. */
#include "device/ref/ref.h"

float ls_ref_fold(float a[LS_LANES])
{
    for (int half = LS_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            a[i] += a[i + half];
    return a[0];
}

float ls_ref_plane_sum(const ls_op_call *call, const ls_operand *shape, int channel, ls_ref_term *term,
                       const void *what)
{
    float total[LS_LANES] = {0};
    for (int group = 0; group < call->groups; group++) {
        for (int lane = 0; lane < ls_ref_lanes(call, group); lane++) {
            for (int row = 0; row < shape->h; row++) {
                float r = 0;
                for (int column = 0; column < shape->w; column++) {
                    ls_ref_product product = term(what, ls_ref_offset(shape, group, channel, row, column) + lane);
                    r = fmaf(product.a, product.b, r);
                }
                total[lane] += r;
            }
        }
    }
    return ls_ref_fold(total);
}

static ls_ref_product number(const void *what, size_t at)
{
    const ls_operand *x = what;
    return (ls_ref_product){x->data[at], 1};
}

void ls_ref_channel_sum(const ls_op_call *call)
{
    const ls_operand *dy = &call->in[0];
    for (int channel = 0; channel < dy->c; channel++)
        call->out[0].data[channel] = ls_ref_plane_sum(call, dy, channel, number, dy);
}

void ls_ref_sum_images(const ls_op_call *call)
{
    call->out[0].data[0] = ls_ref_plane_sum(call, &call->in[0], 0, number, &call->in[0]);
}
