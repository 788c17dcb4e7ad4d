/* Dropout: the random numbers of sixteen images side by side. */
#include "device/cpu/lanes/drawn.h"
#include "device/cpu/lanes/plane.h"

static void dropout(const ls_op_call *call)
{
    const ls_operand *out = &call->out[0];
    const ptrdiff_t places = (ptrdiff_t)out->c * out->h * out->w;
    const float rest = 1.0f / (1.0f - call->attributes->factor);
    const uint64_t limit = drawn_limit(call->attributes->factor);
    const float *x = call->in[0].data;
    float *to = out->data;
    for (int group = 0; group < call->groups; group++) {
        const int lanes = lanes_of_group(call->samples->count, group);
        const drawn_streams all = drawn_streams_of(call, group, lanes);
        for (ptrdiff_t place = 0; place < places; place++, x += LS_LANES, to += LS_LANES) {
            uint64_t number[LS_LANES];
            drawn_numbers(&all, (uint64_t)place, number);
            for (int lane = 0; lane < LS_LANES; lane++) {
                const float kept = x[lane] * rest;
                to[lane] = lane < lanes && number[lane] >= limit ? kept : 0.0f;
            }
        }
    }
}

void LANES(ls_lanes_add_dropout)(ls_backend *backend)
{
    backend->kernel[LS_OP_DROPOUT] = dropout;
}
