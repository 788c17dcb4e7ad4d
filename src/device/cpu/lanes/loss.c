/* Softmax cross-entropy and what is counted beside it: sixteen images side by side, exp and log one by one. */
#include <math.h>

#include "device/cpu/lanes/softmax.h"

static int label_of(const ls_op_call *call, int group, int lane)
{
    const ls_samples *samples = call->samples;
    return samples->labels[group * LS_LANES + lane];
}

static void group_loss(const ls_op_call *call, int group, int lanes, const float *z, int classes, float *loss, float *p)
{
    const float smoothing = call->attributes->smoothing, share = smoothing / (float)classes;
    float m[LS_LANES], s[LS_LANES], u[LS_LANES] = {0.0f};
    softmax_group(z, classes, lanes, m, s, p);
    for (int c = 0; c < classes && smoothing != 0.0f; c++)
        for (int lane = 0; lane < LS_LANES; lane++)
            u[lane] += z[c * LS_LANES + lane] - m[lane];
    for (int lane = 0; lane < LS_LANES; lane++) {
        if (lane >= lanes) {
            loss[lane] = 0.0f;
            continue;
        }
        const float right = z[label_of(call, group, lane) * LS_LANES + lane] - m[lane];
        loss[lane] = ls_logf(s[lane]) - (smoothing == 0.0f ? right : fmaf(1.0f - smoothing, right, share * u[lane]));
    }
}

static void cross_entropy(const ls_op_call *call)
{
    const int classes = call->in[0].c;
    for (int group = 0; group < call->groups; group++)
        group_loss(call, group, lanes_of_group(call->samples->count, group),
                   call->in[0].data + (ptrdiff_t)group * classes * LS_LANES, classes,
                   call->out[0].data + (ptrdiff_t)group * LS_LANES,
                   call->out[1].data + (ptrdiff_t)group * classes * LS_LANES);
}

static void cross_entropy_backward(const ls_op_call *call)
{
    const int classes = call->out[0].c;
    const float smoothing = call->attributes->smoothing, share = smoothing / (float)classes;
    const float right = (1.0f - smoothing) + share;
    for (int group = 0; group < call->groups; group++) {
        const int lanes = lanes_of_group(call->samples->count, group);
        const ptrdiff_t at = (ptrdiff_t)group * classes * LS_LANES;
        const float *slope = call->in[0].data + (ptrdiff_t)group * LS_LANES, *p = call->in[1].data + at;
        float *out = call->out[0].data + at;
        int label[LS_LANES] = {0};
        for (int lane = 0; lane < lanes; lane++)
            label[lane] = label_of(call, group, lane);
        for (int c = 0; c < classes; c++)
            for (int lane = 0; lane < LS_LANES; lane++) {
                const float d = (p[c * LS_LANES + lane] - (c == label[lane] ? right : share)) * slope[lane];
                out[c * LS_LANES + lane] = lane < lanes ? d : 0.0f;
            }
    }
}

static void count_correct(const ls_op_call *call)
{
    const int classes = call->in[0].c;
    int correct = 0;
    for (int group = 0; group < call->groups; group++) {
        const float *z = call->in[0].data + (ptrdiff_t)group * classes * LS_LANES;
        float m[LS_LANES];
        int best[LS_LANES] = {0};
        for (int lane = 0; lane < LS_LANES; lane++)
            m[lane] = z[lane];
        for (int c = 1; c < classes; c++)
            for (int lane = 0; lane < LS_LANES; lane++) {
                const float a = z[c * LS_LANES + lane];
                best[lane] = a > m[lane] ? c : best[lane];
                m[lane] = a > m[lane] ? a : m[lane];
            }
        for (int lane = 0; lane < lanes_of_group(call->samples->count, group); lane++)
            correct += best[lane] == label_of(call, group, lane);
    }
    call->out[0].data[0] = (float)correct;
}

void LANES(ls_lanes_add_loss)(ls_backend *backend)
{
    backend->kernel[LS_OP_CROSS_ENTROPY] = cross_entropy;
    backend->kernel[LS_OP_CROSS_ENTROPY_BACKWARD] = cross_entropy_backward;
    backend->kernel[LS_OP_COUNT_CORRECT] = count_correct;
}
