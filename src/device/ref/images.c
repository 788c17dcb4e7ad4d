/* Between images or rows in memory and lanes. */
#include "device/ref/ref.h"

static float number(const ls_samples *samples, size_t i)
{
    if (samples->floats)
        return ((const float *)samples->images)[i];
    return (float)((const uint8_t *)samples->images)[i] / 255.0f;
}

/* Image i of the shard, at one place. */
static float pixel(const ls_samples *samples, const ls_operand *x, int i, int channel, int row, int column)
{
    static const ls_change none = {0};
    const ls_change *change = samples->changes ? &samples->changes[i] : &none;
    int32_t from = ls_change_source(change, x->h, x->w, row, column);
    size_t plane = (size_t)x->h * x->w;
    return from < 0 ? 0 : number(samples, ((size_t)samples->index[i] * x->c + channel) * plane + from);
}

void ls_ref_images(const ls_op_call *call, int group, int channel, int row, int column)
{
    const ls_operand *x = &call->out[0];
    float *out = ls_ref_at(x, group, channel, row, column);
    for (int lane = 0; lane < LS_LANES; lane++) {
        int i = group * LS_LANES + lane;
        out[lane] = lane < ls_ref_lanes(call, group) ? pixel(call->samples, x, i, channel, row, column) : 0;
    }
}

void ls_ref_ones(const ls_op_call *call)
{
    for (int group = 0; group < call->groups; group++)
        for (int lane = 0; lane < LS_LANES; lane++)
            call->out[0].data[group * LS_LANES + lane] = lane < ls_ref_lanes(call, group) ? call->samples->one : 0;
}

void ls_ref_rows(const ls_op_call *call)
{
    const ls_operand *x = &call->in[0];
    size_t numbers = ls_ref_places(x);
    for (int image = 0; image < call->samples->count; image++) {
        const float *from = x->data + image / LS_LANES * numbers * LS_LANES + image % LS_LANES;
        for (size_t i = 0; i < numbers; i++)
            call->out[0].data[image * numbers + i] = from[i * LS_LANES];
    }
}

void ls_ref_input(const ls_op_call *call)
{
    const ls_operand *x = &call->out[0];
    const float *rows = call->samples->rows[call->attributes->input];
    size_t numbers = ls_ref_places(x);
    for (int image = 0; image < call->groups * LS_LANES; image++) {
        float *to = x->data + image / LS_LANES * numbers * LS_LANES + image % LS_LANES;
        for (size_t i = 0; i < numbers; i++)
            to[i * LS_LANES] = image < call->samples->count ? rows[image * numbers + i] : 0;
    }
}
