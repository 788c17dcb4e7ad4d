/* Flat vectors: gradients, weights and the optimizer's state. */
#include "device/ref/ref.h"

void ls_ref_vector_add(float *out, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = a[i] + b[i];
}

void ls_ref_add_scaled(const ls_op_call *call)
{
    for (int i = 0; i < call->out[0].c; i++)
        call->out[0].data[i] = fmaf(call->attributes->factor, call->in[0].data[i], call->in[1].data[i]);
}

int ls_ref_vector_sgd(float *out, const float *w, float *v, const float *gradient, size_t n, const ls_sgd *how)
{
    int finite = 1;
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] / how->divisor;
        if (how->weight_decay != 0)
            g = fmaf(how->weight_decay, w[i], g);
        if (how->momentum != 0) {
            v[i] = how->first ? g : fmaf(how->momentum, v[i], g);
            finite = finite && isfinite(v[i]);
            g = how->nesterov ? fmaf(how->momentum, v[i], g) : v[i];
        }
        out[i] = fmaf(-how->lr, g, w[i]);
        finite = finite && isfinite(out[i]);
    }
    return finite;
}

int ls_ref_vector_adam(float *out, const float *w, float *m, float *v, const float *gradient, size_t n,
                       const ls_adam *how)
{
    int finite = 1;
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] / how->divisor, kept = w[i];
        if (how->weight_decay != 0)
            g = fmaf(how->weight_decay, w[i], g);
        if (how->first)
            m[i] = v[i] = 0;
        m[i] = fmaf(how->share1, g - m[i], m[i]);
        v[i] = fmaf(how->share2, fmaf(g, g, 0 - v[i]), v[i]);
        if (how->decay != 0)
            kept = fmaf(-how->decay, w[i], w[i]);
        out[i] = fmaf(-how->rate, m[i] / fmaf(sqrtf(v[i]), how->scale, how->eps), kept);
        finite = finite && isfinite(m[i]) && isfinite(v[i]) && isfinite(out[i]);
    }
    return finite;
}

int ls_ref_vector_average(float *average, const float *out, size_t n, const ls_averaging *how)
{
    int finite = 1;
    for (size_t i = 0; i < n; i++) {
        average[i] = how->first ? out[i] : fmaf(how->share, out[i] - average[i], average[i]);
        finite = finite && isfinite(average[i]);
    }
    return finite;
}
