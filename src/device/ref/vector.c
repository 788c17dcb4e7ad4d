/* Flat vectors: gradients, weights and the optimizer's state. */
#include "device/ref/ref.h"

void ls_ref_vector_add(float *out, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = a[i] + b[i];
    }
}

int ls_ref_vector_sgd(float *out, const float *w, float *v, const float *gradient, size_t n, const ls_sgd *how)
{
    int finite = 1;
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] / how->rows;
        if (how->weight_decay != 0) {
            g = fmaf(how->weight_decay, w[i], g);
        }
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
