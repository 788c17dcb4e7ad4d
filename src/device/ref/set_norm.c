/* Normalisation over sets of an image's numbers: those of each channel and column. */
#include "device/ref/ref.h"

/* One set of one image: its numbers lie `step` apart. */
typedef struct set {
    const float *x, *dy;
    int numbers;
    size_t step;
    float mean;
} set;

typedef enum sum_of { NUMBERS, SQUARES, GRADIENTS, PRODUCTS } sum_of;

static float sum(const set *s, sum_of what)
{
    float total = 0;
    for (int first = 0; first < s->numbers; first += LS_SET_RUN) {
        float r = 0;
        for (int i = first; i < s->numbers && i < first + LS_SET_RUN; i++) {
            float x = s->x[i * s->step], d = x - s->mean, dy = s->dy ? s->dy[i * s->step] : 0;
            r = what == NUMBERS ? r + x : what == SQUARES ? fmaf(d, d, r) : what == GRADIENTS ? r + dy : fmaf(dy, d, r);
        }
        total = total + r;
    }
    return total;
}

/* Number `at` is the first of the set; `saved` its mean, with inv `behind` floats on. */
static void normalize(const ls_op_call *call, set s, size_t at, float *saved, size_t behind)
{
    const float h = (float)s.numbers;
    s.x = call->in[0].data + at;
    s.mean = call->attributes->op == LS_OP_SET_NORM ? sum(&s, NUMBERS) / h : 0;
    const float inv = 1 / sqrtf(sum(&s, SQUARES) / h + call->attributes->eps);
    for (int i = 0; i < s.numbers; i++)
        call->out[0].data[at + i * s.step] = (s.x[i * s.step] - s.mean) * inv;
    saved[0] = s.mean;
    saved[behind] = inv;
}

static void differentiate(const ls_op_call *call, set s, size_t at, const float *saved, size_t behind)
{
    const float h = (float)s.numbers, inv = saved[behind];
    s.dy = call->in[0].data + at;
    s.x = call->in[1].data + at;
    s.mean = saved[0];
    const float k1 = call->attributes->op == LS_OP_SET_NORM_BACKWARD ? sum(&s, GRADIENTS) / h : 0;
    const float k2 = inv * (inv * (sum(&s, PRODUCTS) / h));
    for (int i = 0; i < s.numbers; i++) {
        call->out[0].data[at + i * s.step] = inv * fmaf(s.mean - s.x[i * s.step], k2, s.dy[i * s.step] - k1);
    }
}

static void clear(float *x, int n, size_t step)
{
    for (int i = 0; i < n; i++)
        x[i * step] = 0;
}

/* Lanes without an image are 0 in the outputs. */
static void each(const ls_op_call *call, const ls_operand *saved, int backward)
{
    const ls_operand *x = &call->out[0];
    const size_t step = (size_t)x->w * LS_LANES, behind = x->c * step;
    for (int group = 0; group < call->groups; group++)
        for (int channel = 0; channel < x->c; channel++)
            for (size_t k = 0; k < step; k++) { /* columns and lanes */
                const size_t at = ls_ref_offset(x, group, channel, 0, 0) + k;
                float *statistics = ls_ref_at(saved, group, channel, 0, 0) + k;
                const set s = {.numbers = x->h, .step = step};
                if ((int)(k % LS_LANES) >= ls_ref_lanes(call, group)) {
                    clear(x->data + at, x->h, step);
                    if (!backward)
                        statistics[0] = statistics[behind] = 0;
                } else if (backward) {
                    differentiate(call, s, at, statistics, behind);
                } else {
                    normalize(call, s, at, statistics, behind);
                }
            }
}

void ls_ref_set_norm(const ls_op_call *call)
{
    each(call, &call->out[1], 0);
}

void ls_ref_set_norm_backward(const ls_op_call *call)
{
    each(call, &call->in[2], 1);
}
