/* Softmax cross-entropy and what is counted beside it. */
#include "base/math.h"
#include "device/ref/ref.h"

/* One image's logits, or probabilities, lie LS_LANES apart. */
static float *numbers_of(const ls_operand *t, int group, int lane)
{
    return t->data + group * ls_ref_places(t) * LS_LANES + lane;
}

static void cross_entropy_of(const float *z, int classes, int label, float smoothing, float *loss, float *p)
{
    float m, s, u = 0;
    ls_ref_softmax(z, classes, p, &m, &s);
    if (smoothing == 0) {
        *loss = ls_logf(s) - (z[label * LS_LANES] - m);
        return;
    }
    for (int c = 0; c < classes; c++)
        u += z[c * LS_LANES] - m;
    *loss = ls_logf(s) - fmaf(1 - smoothing, z[label * LS_LANES] - m, smoothing / (float)classes * u);
}

void ls_ref_cross_entropy(const ls_op_call *call)
{
    const ls_operand *z = &call->in[0], *loss = &call->out[0], *p = &call->out[1];
    for (int group = 0; group < call->groups; group++) {
        int lanes = ls_ref_lanes(call, group);
        for (int lane = 0; lane < LS_LANES; lane++) {
            float *loss_of = numbers_of(loss, group, lane), *p_of = numbers_of(p, group, lane);
            if (lane < lanes) {
                cross_entropy_of(numbers_of(z, group, lane), z->c, ls_ref_label(call, group, lane),
                                 call->attributes->smoothing, loss_of, p_of);
                continue;
            }
            *loss_of = 0;
            for (int c = 0; c < z->c; c++)
                p_of[c * LS_LANES] = 0;
        }
    }
}

void ls_ref_cross_entropy_backward(const ls_op_call *call)
{
    const ls_operand *dloss = &call->in[0], *p = &call->in[1], *dz = &call->out[0];
    const float smoothing = call->attributes->smoothing, share = smoothing / (float)dz->c, keep = 1 - smoothing;
    for (int group = 0; group < call->groups; group++) {
        int lanes = ls_ref_lanes(call, group);
        for (int lane = 0; lane < LS_LANES; lane++) {
            int label = lane < lanes ? ls_ref_label(call, group, lane) : 0;
            const float *p_of = numbers_of(p, group, lane);
            float slope = *numbers_of(dloss, group, lane), *out = numbers_of(dz, group, lane);
            for (int c = 0; c < dz->c; c++) {
                float d = (p_of[c * LS_LANES] - (c == label ? keep + share : share)) * slope;
                out[c * LS_LANES] = lane < lanes ? d : 0;
            }
        }
    }
}

void ls_ref_count_correct(const ls_op_call *call)
{
    const ls_operand *z = &call->in[0];
    int correct = 0;
    for (int group = 0; group < call->groups; group++) {
        for (int lane = 0; lane < ls_ref_lanes(call, group); lane++) {
            const float *numbers = numbers_of(z, group, lane);
            int best = 0;
            for (int c = 1; c < z->c; c++)
                best = numbers[c * LS_LANES] > numbers[best * LS_LANES] ? c : best;
            correct += best == ls_ref_label(call, group, lane);
        }
    }
    call->out[0].data[0] = (float)correct;
}
