/* Softmax cross-entropy and what is counted beside it: sixteen images side by side, exp and log one by one. */
#include <math.h>

#include "device/cpu/lanes/cut.h"
#include "device/cpu/lanes/softmax.h"

/* A place of a group's images: the numbers of the classes lie `step` apart. */
typedef struct place {
    int group, lanes, classes, label[LS_LANES]; /* -1: ignored */
    ptrdiff_t step;
    const float *weights, *targets; /* NULL: there are none */
    float smoothing, keep, share;
} place;

/* Where a place's numbers begin in an operand. */
static float *first_of(const ls_operand *t, int group, int at)
{
    return t->data ? t->data + ((ptrdiff_t)group * t->c * t->h * t->w + at) * LS_LANES : NULL;
}

/* Place `at` of a group, of operands shaped like the logits. */
static place place_of(const ls_op_call *call, const ls_operand *logits, int group, int at)
{
    const int each = logits->h * logits->w;
    place p = {.group = group, .lanes = lanes_of_group(call->samples->count, group), .classes = logits->c};
    p.step = (ptrdiff_t)each * LS_LANES;
    p.weights = call->in[2].data;
    p.targets = first_of(&call->in[3], group, at);
    p.smoothing = call->attributes->smoothing;
    p.keep = 1.0f - p.smoothing;
    p.share = p.smoothing / (float)logits->c;
    for (int lane = 0; lane < p.lanes && !p.targets; lane++)
        p.label[lane] = call->samples->labels[((ptrdiff_t)group * LS_LANES + lane) * each + at];
    return p;
}

/* What class c is to be, in each lane. */
LS_INLINE void target_of(const place *p, int c, float t[LS_LANES])
{
    const float right = p->keep + p->share;
    for (int lane = 0; lane < LS_LANES; lane++)
        t[lane] = p->targets            ? fmaf(p->keep, p->targets[c * p->step + lane], p->share)
                  : c == p->label[lane] ? right
                                        : p->share;
    for (int lane = 0; lane < LS_LANES && p->weights; lane++)
        t[lane] *= p->weights[c];
}

/* The loss of labels that all weigh the same. */
static void plain_loss(const place *p, const float *z, const float m[LS_LANES], const float s[LS_LANES], float *loss)
{
    float u[LS_LANES] = {0.0f};
    for (int c = 0; c < p->classes && p->smoothing != 0.0f; c++)
        for (int lane = 0; lane < LS_LANES; lane++)
            u[lane] += z[c * p->step + lane] - m[lane];
    for (int lane = 0; lane < LS_LANES; lane++) {
        loss[lane] = 0.0f;
        if (lane >= p->lanes || p->label[lane] < 0)
            continue;
        const float right = z[p->label[lane] * p->step + lane] - m[lane];
        loss[lane] = ls_logf(s[lane]) - (p->smoothing == 0.0f ? right : fmaf(p->keep, right, p->share * u[lane]));
    }
}

static void weighted_loss(const place *p, const float *z, const float m[LS_LANES], const float s[LS_LANES], float *loss)
{
    const int all = p->targets || p->smoothing != 0.0f;
    float u[LS_LANES] = {0.0f}, logarithm[LS_LANES], t[LS_LANES];
    for (int lane = 0; lane < LS_LANES; lane++)
        logarithm[lane] = ls_logf(s[lane]);
    for (int c = 0; c < p->classes; c++) {
        target_of(p, c, t);
        for (int lane = 0; lane < LS_LANES; lane++) {
            const float more = fmaf(t[lane], logarithm[lane] - (z[c * p->step + lane] - m[lane]), u[lane]);
            u[lane] = all || c == p->label[lane] ? more : u[lane];
        }
    }
    for (int lane = 0; lane < LS_LANES; lane++)
        loss[lane] = lane >= p->lanes || (!p->targets && p->label[lane] < 0) ? 0.0f : u[lane];
}

static void cross_entropy(const ls_op_call *call)
{
    const ls_operand *z = &call->in[0];
    const int each = z->h * z->w;
    const range places = range_of(call, call->groups * each);
    for (int i = places.from; i < places.to; i++) {
        const place p = place_of(call, z, i / each, i % each);
        const float *numbers = first_of(z, p.group, i % each);
        float m[LS_LANES], s[LS_LANES], *loss = first_of(&call->out[0], p.group, i % each);
        softmax_group(numbers, p.classes, p.step, p.lanes, m, s, first_of(&call->out[1], p.group, i % each));
        if (p.weights || p.targets)
            weighted_loss(&p, numbers, m, s, loss);
        else
            plain_loss(&p, numbers, m, s, loss);
    }
}

/* The gradient of one class's logits; `total` is NULL where all labels weigh the same. */
LS_INLINE void slope_of(const place *p, int c, const float *probability, const float *total, const float *dloss,
                        float *dz)
{
    float t[LS_LANES];
    target_of(p, c, t);
    for (int lane = 0; lane < LS_LANES; lane++) {
        const float d =
            (total ? fmaf(total[lane], probability[lane], ls_negative(t[lane])) : probability[lane] - t[lane]) *
            dloss[lane];
        dz[lane] = lane >= p->lanes || p->label[lane] < 0 ? 0.0f : d;
    }
}

static void cross_entropy_backward(const ls_op_call *call)
{
    const ls_operand *dz = &call->out[0];
    const int each = dz->h * dz->w;
    const range places = range_of(call, call->groups * each);
    for (int i = places.from; i < places.to; i++) {
        const place p = place_of(call, dz, i / each, i % each);
        const float *dloss = first_of(&call->in[0], p.group, i % each);
        const float *probabilities = first_of(&call->in[1], p.group, i % each);
        float *out = first_of(dz, p.group, i % each), total[LS_LANES] = {0.0f}, t[LS_LANES];
        const int sums = p.weights || p.targets;
        for (int c = 0; c < p.classes && sums; c++) {
            target_of(&p, c, t);
            for (int lane = 0; lane < LS_LANES; lane++)
                total[lane] += t[lane];
        }
        for (int c = 0; c < p.classes; c++)
            slope_of(&p, c, probabilities + c * p.step, sums ? total : NULL, dloss, out + c * p.step);
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
            correct += best[lane] == call->samples->labels[group * LS_LANES + lane];
    }
    call->out[0].data[0] = (float)correct;
}

void LANES(ls_lanes_add_loss)(ls_backend *backend)
{
    backend->kernel[LS_OP_CROSS_ENTROPY] = cross_entropy;
    backend->kernel[LS_OP_CROSS_ENTROPY_BACKWARD] = cross_entropy_backward;
    backend->kernel[LS_OP_COUNT_CORRECT] = count_correct;
}
