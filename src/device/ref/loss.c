/* Softmax cross-entropy and what is counted beside it. */
#include "base/math.h"
#include "device/ref/ref.h"

/* A place of one image: its numbers of the classes lie `step` apart. */
typedef struct place {
    int classes, label; /* -1: ignored */
    size_t step;
    const float *weights, *targets; /* NULL: there are none */
    bool smooths;
    float keep, share;
} place;

static size_t first_of(const ls_operand *t, int group, int at, int lane)
{
    return (group * ls_ref_places(t) + at) * LS_LANES + lane;
}

/* Place `at` of an image, of operands shaped like the logits. */
static place place_of(const ls_op_call *call, const ls_operand *logits, const ls_operand *weights,
                      const ls_operand *targets, int group, int at, int lane)
{
    const ls_samples *samples = call->samples;
    const int each = logits->h * logits->w;
    const float smoothing = call->attributes->smoothing;
    place made = {.classes = logits->c, .step = (size_t)each * LS_LANES, .weights = weights->data};
    made.smooths = smoothing != 0;
    made.keep = 1 - smoothing;
    made.share = smoothing / (float)logits->c;
    if (targets->data)
        made.targets = targets->data + first_of(targets, group, at, lane);
    else if (lane < ls_ref_lanes(call, group))
        made.label = samples->labels[(group * LS_LANES + lane) * each + at];
    return made;
}

/* Lanes without an image have the label 0. */
static bool counts(const ls_op_call *call, const place *p, int group, int lane)
{
    return lane < ls_ref_lanes(call, group) && (p->targets || p->label >= 0);
}

static float target_of(const place *p, int c)
{
    const float t =
        p->targets ? fmaf(p->keep, p->targets[c * p->step], p->share) : (c == p->label ? p->keep + p->share : p->share);
    return p->weights ? t * p->weights[c] : t;
}

/* m and s are what the softmax of z found. */
static float loss_of(const place *p, const float *z, float m, float s)
{
    float u = 0;
    if (!p->targets && !p->weights && !p->smooths)
        return ls_logf(s) - (z[p->label * p->step] - m);
    if (!p->targets && !p->weights) {
        for (int c = 0; c < p->classes; c++)
            u += z[c * p->step] - m;
        return ls_logf(s) - fmaf(p->keep, z[p->label * p->step] - m, p->share * u);
    }
    for (int c = 0; c < p->classes; c++)
        if (p->targets || p->smooths || c == p->label)
            u = fmaf(target_of(p, c), ls_logf(s) - (z[c * p->step] - m), u);
    return u;
}

void ls_ref_cross_entropy(const ls_op_call *call)
{
    const ls_operand *z = &call->in[0], *loss = &call->out[0], *probabilities = &call->out[1];
    for (int group = 0; group < call->groups; group++)
        for (int at = 0; at < z->h * z->w; at++)
            for (int lane = 0; lane < LS_LANES; lane++) {
                const place p = place_of(call, z, &call->in[2], &call->in[3], group, at, lane);
                const float *numbers = z->data + first_of(z, group, at, lane);
                float m, s, *y = probabilities->data + first_of(probabilities, group, at, lane);
                ls_ref_softmax(numbers, z->c, p.step, y, &m, &s);
                loss->data[first_of(loss, group, at, lane)] =
                    counts(call, &p, group, lane) ? loss_of(&p, numbers, m, s) : 0;
                for (int c = 0; c < z->c && lane >= ls_ref_lanes(call, group); c++)
                    y[c * p.step] = 0;
            }
}

static float slope_of(const place *p, int c, float probability, float total)
{
    if (!p->targets && !p->weights)
        return probability - target_of(p, c);
    return fmaf(total, probability, ls_negative(target_of(p, c)));
}

void ls_ref_cross_entropy_backward(const ls_op_call *call)
{
    const ls_operand *dloss = &call->in[0], *probabilities = &call->in[1], *dz = &call->out[0];
    for (int group = 0; group < call->groups; group++)
        for (int at = 0; at < dz->h * dz->w; at++)
            for (int lane = 0; lane < LS_LANES; lane++) {
                const place p = place_of(call, dz, &call->in[2], &call->in[3], group, at, lane);
                const size_t first = first_of(dz, group, at, lane);
                const float slope = dloss->data[first_of(dloss, group, at, lane)];
                const bool counted = counts(call, &p, group, lane);
                float total = 0;
                for (int c = 0; c < dz->c; c++)
                    total += target_of(&p, c);
                for (int c = 0; c < dz->c; c++) {
                    const size_t i = first + c * p.step;
                    dz->data[i] = counted ? slope_of(&p, c, probabilities->data[i], total) * slope : 0;
                }
            }
}

void ls_ref_count_correct(const ls_op_call *call)
{
    const ls_operand *z = &call->in[0];
    int correct = 0;
    for (int group = 0; group < call->groups; group++) {
        for (int lane = 0; lane < ls_ref_lanes(call, group); lane++) {
            const float *numbers = z->data + first_of(z, group, 0, lane);
            int best = 0;
            for (int c = 1; c < z->c; c++)
                best = numbers[c * LS_LANES] > numbers[best * LS_LANES] ? c : best;
            correct += best == call->samples->labels[group * LS_LANES + lane];
        }
    }
    call->out[0].data[0] = (float)correct;
}
