/* Flat vectors: sums of gradients, and the update. */
#include "device/cpu/lanes/lanes.h"

static void add(float *out, const float *a, const float *b, size_t n)
{
    size_t i = 0;
    for (; i + LS_VL <= n; i += LS_VL)
        vf_store(out + i, vf_add(vf_load(a + i), vf_load(b + i)));
    for (; i < n; i++)
        out[i] = a[i] + b[i];
}

/* A number times zero is zero exactly where it is finite, so one sum remembers whether all were. */
LS_INLINE vf sgd_vector(float *out, const float *w, float *v, vf g, const ls_sgd *how, vf check)
{
    const vf old = vf_load(w);
    g = vf_div(g, vf_set(how->rows));
    if (how->weight_decay != 0.0f)
        g = vf_fma(vf_set(how->weight_decay), old, g);
    if (how->momentum != 0.0f) {
        const vf momentum = vf_set(how->momentum);
        const vf speed = how->first ? g : vf_fma(momentum, vf_load(v), g);
        vf_store(v, speed);
        check = vf_fma(speed, vf_zero(), check);
        g = how->nesterov ? vf_fma(momentum, speed, g) : speed;
    }
    const vf new = vf_fma(vf_set(-how->lr), g, old);
    vf_store(out, new);
    return vf_fma(new, vf_zero(), check);
}

static int sgd(float *out, const float *w, float *v, const float *g, size_t n, const ls_sgd *how)
{
    vf check = vf_zero();
    size_t i = 0;
    for (; i + LS_VL <= n; i += LS_VL)
        check = sgd_vector(out + i, w + i, v ? v + i : NULL, vf_load(g + i), how, check);
    float lane[LS_VL], sum = 0.0f;
    if (i < n) {
        /* The rest as one vector of its own, filled up with zeros. */
        float rest[3][LS_VL] = {{0.0f}}, new[LS_VL];
        for (size_t k = i; k < n; k++) {
            rest[0][k - i] = w[k];
            rest[1][k - i] = g[k];
            rest[2][k - i] = v && how->momentum != 0.0f && !how->first ? v[k] : 0.0f;
        }
        check = sgd_vector(new, rest[0], rest[2], vf_load(rest[1]), how, check);
        for (size_t k = i; k < n; k++) {
            out[k] = new[k - i];
            if (v && how->momentum != 0.0f)
                v[k] = rest[2][k - i];
        }
    }
    vf_store(lane, check);
    for (int k = 0; k < LS_VL; k++)
        sum += lane[k];
    return sum == 0.0f;
}

void LANES(ls_lanes_add_flat)(ls_backend *backend)
{
    backend->add = add;
    backend->sgd = sgd;
}
