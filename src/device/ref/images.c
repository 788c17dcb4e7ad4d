/* Between images or rows in memory and lanes. */
#include "device/ref/ref.h"

void ls_ref_images(const ls_op_call *call)
{
    const ls_samples *samples = call->samples;
    size_t places = ls_ref_places(&call->out[0]);
    for (int group = 0; group < call->groups; group++) {
        int lanes = ls_ref_lanes(call, group);
        for (int lane = 0; lane < LS_LANES; lane++) {
            uint32_t sample = lane < lanes ? samples->index[group * LS_LANES + lane] : 0;
            for (size_t place = 0; place < places; place++) {
                float *out = call->out[0].data + (group * places + place) * LS_LANES + lane;
                *out = lane < lanes ? (float)samples->images[sample * places + place] / 255.0f : 0;
            }
        }
    }
}

void ls_ref_ones(const ls_op_call *call)
{
    for (int group = 0; group < call->groups; group++) {
        for (int lane = 0; lane < LS_LANES; lane++) {
            call->out[0].data[group * LS_LANES + lane] = lane < ls_ref_lanes(call, group) ? call->samples->one : 0;
        }
    }
}

void ls_ref_rows(const ls_op_call *call)
{
    const ls_operand *x = &call->in[0];
    size_t numbers = ls_ref_places(x);
    for (int image = 0; image < call->samples->count; image++) {
        const float *from = x->data + image / LS_LANES * numbers * LS_LANES + image % LS_LANES;
        for (size_t i = 0; i < numbers; i++) {
            call->out[0].data[image * numbers + i] = from[i * LS_LANES];
        }
    }
}

void ls_ref_input(const ls_op_call *call)
{
    const ls_operand *x = &call->out[0];
    const float *rows = call->samples->rows[call->attributes->input];
    size_t numbers = ls_ref_places(x);
    for (int image = 0; image < call->groups * LS_LANES; image++) {
        float *to = x->data + image / LS_LANES * numbers * LS_LANES + image % LS_LANES;
        for (size_t i = 0; i < numbers; i++) {
            to[i * LS_LANES] = image < call->samples->count ? rows[image * numbers + i] : 0;
        }
    }
}
