/* Normalisation over sets of an image's numbers, those of each channel and column, sixteen images side by side. */
#include "device/cpu/lanes/plane.h"

/* One set, of the lanes from one on: its numbers lie `step` floats apart. */
typedef struct set {
    const float *x, *dy;
    int numbers;
    ptrdiff_t step;
} set;

typedef struct sums {
    vf first, second;
} sums;

enum { NUMBERS, SQUARES, GRADIENTS }; /* the last: of dy, and of products dy * (x - mean) */

LS_INLINE sums sums_of(const int what, const set *s, vf mean)
{
    sums total = {vf_zero(), vf_zero()};
    for (int begin = 0; begin < s->numbers; begin += LS_SET_RUN) {
        const int end = begin + LS_SET_RUN < s->numbers ? begin + LS_SET_RUN : s->numbers;
        sums r = {vf_zero(), vf_zero()};
        for (int i = begin; i < end; i++) {
            const vf x = vf_load(s->x + i * s->step), d = x - mean;
            if (what == NUMBERS) {
                r.first += x;
            } else if (what == SQUARES) {
                r.first = vf_fma(d, d, r.first);
            } else {
                const vf dy = vf_load(s->dy + i * s->step);
                r.first += dy;
                r.second = vf_fma(dy, d, r.second);
            }
        }
        total.first += r.first;
        total.second += r.second;
    }
    return total;
}

/* Normalises a set into `y`; mean and inv go to `saved`, `behind` floats apart. */
LS_INLINE void normalize(const int centered, const set *s, float eps, vm image, float *y, float *saved,
                         ptrdiff_t behind)
{
    const vf h = vf_set((float)s->numbers);
    const vf mean = centered ? sums_of(NUMBERS, s, vf_zero()).first / h : vf_zero();
    const vf inv = vf_set(1.0f) / vf_sqrt(sums_of(SQUARES, s, mean).first / h + vf_set(eps));
    for (int i = 0; i < s->numbers; i++)
        vf_store(y + i * s->step, vf_keep(image, (vf_load(s->x + i * s->step) - mean) * inv));
    vf_store(saved, vf_keep(image, mean));
    vf_store(saved + behind, vf_keep(image, inv));
}

LS_INLINE void differentiate(const int centered, const set *s, vm image, float *dx, const float *saved,
                             ptrdiff_t behind)
{
    const vf h = vf_set((float)s->numbers), mean = vf_load(saved), inv = vf_load(saved + behind);
    const sums of = sums_of(GRADIENTS, s, mean);
    const vf k1 = centered ? of.first / h : vf_zero(), k2 = inv * (inv * (of.second / h));
    for (int i = 0; i < s->numbers; i++) {
        const vf x = vf_load(s->x + i * s->step), dy = vf_load(s->dy + i * s->step);
        vf_store(dx + i * s->step, vf_keep(image, inv * vf_fma(mean - x, k2, dy - k1)));
    }
}

LS_INLINE void each_set(const int centered, const int backward, const ls_op_call *call)
{
    const ls_operand *out = &call->out[0], *saved = backward ? &call->in[2] : &call->out[1];
    const float *x = backward ? call->in[1].data : call->in[0].data, *dy = call->in[0].data;
    const ptrdiff_t step = (ptrdiff_t)out->w * LS_LANES, behind = out->c * step;
    for (int group = 0; group < call->groups; group++)
        for (int c = 0; c < out->c; c++)
            for (ptrdiff_t k = 0; k < step; k += LS_VL) { /* columns and lanes */
                const ptrdiff_t at = ((ptrdiff_t)group * out->c + c) * out->h * step + k;
                float *statistics = saved->data + ((ptrdiff_t)group * 2 * out->c + c) * step + k;
                const int lanes = lanes_of_group(call->samples->count, group);
                const vm image = vm_first(lanes - (int)(k % LS_LANES));
                const set s = {x + at, dy + at, out->h, step};
                if (backward)
                    differentiate(centered, &s, image, out->data + at, statistics, behind);
                else
                    normalize(centered, &s, call->attributes->eps, image, out->data + at, statistics, behind);
            }
}

static void set_norm(const ls_op_call *call)
{
    each_set(1, 0, call);
}

static void set_norm_backward(const ls_op_call *call)
{
    each_set(1, 1, call);
}

static void rms_norm(const ls_op_call *call)
{
    each_set(0, 0, call);
}

static void rms_norm_backward(const ls_op_call *call)
{
    each_set(0, 1, call);
}

void LANES(ls_lanes_add_set_norm)(ls_backend *backend)
{
    backend->kernel[LS_OP_SET_NORM] = set_norm;
    backend->kernel[LS_OP_SET_NORM_BACKWARD] = set_norm_backward;
    backend->kernel[LS_OP_RMS_NORM] = rms_norm;
    backend->kernel[LS_OP_RMS_NORM_BACKWARD] = rms_norm_backward;
}
