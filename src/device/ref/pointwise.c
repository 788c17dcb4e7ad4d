/* Operations that treat every number alone. */
#include "base/random.h"
#include "device/ref/ref.h"

void ls_ref_add(const ls_op_call *call)
{
    const float *a = call->in[0].data, *b = call->in[1].data;
    for (size_t i = 0; i < ls_ref_size(call, &call->out[0]); i++)
        call->out[0].data[i] = a[i] + b[i];
}

void ls_ref_add_bias(const ls_op_call *call, int group, int channel, int row, int column)
{
    size_t at = ls_ref_offset(&call->out[0], group, channel, row, column);
    for (int lane = 0; lane < LS_LANES; lane++)
        call->out[0].data[at + lane] = call->in[0].data[at + lane] + call->in[1].data[channel];
}

void ls_ref_relu(const ls_op_call *call)
{
    for (size_t i = 0; i < ls_ref_size(call, &call->out[0]); i++)
        call->out[0].data[i] = ls_ref_relu_of(call->in[0].data[i]);
}

void ls_ref_relu_backward(const ls_op_call *call)
{
    const float *dy = call->in[0].data, *y = call->in[1].data;
    for (size_t i = 0; i < ls_ref_size(call, &call->out[0]); i++)
        call->out[0].data[i] = y[i] > 0 ? dy[i] : 0;
}

void ls_ref_dropout(const ls_op_call *call)
{
    const ls_samples *samples = call->samples;
    const ls_operand *x = &call->in[0];
    float rate = call->attributes->factor, scale = 1.0f / (1.0f - rate);
    size_t places = ls_ref_places(x);
    for (int group = 0; group < call->groups; group++) {
        int lanes = ls_ref_lanes(call, group);
        for (int lane = 0; lane < LS_LANES; lane++) {
            int image = lane < lanes;
            uint64_t sample = image ? samples->index[group * LS_LANES + lane] : 0;
            ls_random_stream stream = {samples->seed, LS_FOR_DROPOUT, call->attributes->key ^ sample, samples->step};
            for (size_t place = 0; place < places; place++) {
                size_t at = (group * places + place) * LS_LANES + lane;
                int kept = image && !(ls_random_uniform(&stream, place) < rate);
                call->out[0].data[at] = kept ? x->data[at] * scale : 0;
            }
        }
    }
}

/* The lanes are in C order, whatever the shape. */
void ls_ref_reshape(const ls_op_call *call)
{
    for (size_t i = 0; i < ls_ref_size(call, &call->out[0]); i++)
        call->out[0].data[i] = call->in[0].data[i];
}
