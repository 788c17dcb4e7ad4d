/* Flat vectors: sums of gradients, and the update. */
#include "device/cpu/lanes/lanes.h"

#include <string.h>

static void add(float *out, const float *a, const float *b, size_t n)
{
    size_t i = 0;
    for (; i + LS_VL <= n; i += LS_VL)
        vf_store(out + i, vf_load(a + i) + vf_load(b + i));
    for (; i < n; i++)
        out[i] = a[i] + b[i];
}

/* A number times zero is zero exactly where it is finite, so that one sum, `check`, remembers whether all were. */
static int is_finite(vf check)
{
    float lane[LS_VL], sum = 0.0f;
    vf_store(lane, check);
    for (int k = 0; k < LS_VL; k++)
        sum += lane[k];
    return sum == 0.0f;
}

/* The update of LS_VL weights. */
typedef vf update_vector(float *out, const float *w, float *const moments[], vf g, const void *how, vf check);

/* Inlined with the rule, so that what does not change is looked at once. */
LS_INLINE int update(update_vector *rule, float *out, const float *w, float *const moments[], int n_moments,
                     const float *g, size_t n, const void *how)
{
    vf check = vf_zero();
    float *at[LS_MOST_MOMENTS] = {NULL};
    size_t i = 0;
    for (; i + LS_VL <= n; i += LS_VL) {
        for (int m = 0; m < n_moments; m++)
            at[m] = moments[m] + i;
        check = rule(out + i, w + i, at, vf_load(g + i), how, check);
    }
    if (i < n) {
        /* The rest as one vector of its own, filled up with zeros. */
        float old[LS_VL] = {0.0f}, gradient[LS_VL] = {0.0f}, kept[LS_MOST_MOMENTS][LS_VL] = {{0.0f}}, new[LS_VL];
        for (size_t k = i; k < n; k++) {
            old[k - i] = w[k];
            gradient[k - i] = g[k];
            for (int m = 0; m < n_moments; m++)
                kept[m][k - i] = moments[m][k];
        }
        check = rule(new, old, (float *[]){kept[0], kept[1]}, vf_load(gradient), how, check);
        for (size_t k = i; k < n; k++) {
            out[k] = new[k - i];
            for (int m = 0; m < n_moments; m++)
                moments[m][k] = kept[m][k - i];
        }
    }
    return is_finite(check);
}

LS_INLINE vf sgd_vector(float *out, const float *w, float *const moments[], vf g, const void *rule, vf check)
{
    const ls_sgd *how = rule;
    const vf old = vf_load(w);
    g = g / how->divisor;
    if (how->weight_decay != 0.0f)
        g = vf_fma(vf_set(how->weight_decay), old, g);
    if (how->momentum != 0.0f) {
        const vf momentum = vf_set(how->momentum);
        const vf speed = how->first ? g : vf_fma(momentum, vf_load(moments[0]), g);
        vf_store(moments[0], speed);
        check = vf_fma(speed, vf_zero(), check);
        g = how->nesterov ? vf_fma(momentum, speed, g) : speed;
    }
    const vf new = vf_fma(vf_set(-how->lr), g, old);
    vf_store(out, new);
    return vf_fma(new, vf_zero(), check);
}

static int sgd(float *out, const float *w, float *v, const float *g, size_t n, const ls_sgd *how)
{
    return update(sgd_vector, out, w, &v, how->momentum != 0.0f, g, n, how);
}

LS_INLINE vf adam_vector(float *out, const float *w, float *const moments[], vf g, const void *rule, vf check)
{
    const ls_adam *how = rule;
    const vf old = vf_load(w), zero = vf_zero();
    vf m = how->first ? zero : vf_load(moments[0]), v = how->first ? zero : vf_load(moments[1]), kept = old;
    g = g / how->divisor;
    if (how->weight_decay != 0.0f)
        g = vf_fma(vf_set(how->weight_decay), old, g);
    m = vf_fma(vf_set(how->share1), g - m, m);
    v = vf_fma(vf_set(how->share2), vf_fma(g, g, zero - v), v);
    if (how->decay != 0.0f)
        kept = vf_fma(vf_set(-how->decay), old, old);
    const vf spread = vf_fma(vf_sqrt(v), vf_set(how->scale), vf_set(how->eps));
    const vf new = vf_fma(vf_set(-how->rate), m / spread, kept);
    vf_store(moments[0], m);
    vf_store(moments[1], v);
    vf_store(out, new);
    check = vf_fma(m, zero, check);
    return vf_fma(new, zero, vf_fma(v, zero, check));
}

LS_INLINE vf average_vector(float *average, vf out, const ls_averaging *how)
{
    const vf old = vf_load(average), new = how->first ? out : vf_fma(vf_set(how->share), out - old, old);
    vf_store(average, new);
    return new;
}

static int average(float *average, const float *out, size_t n, const ls_averaging *how)
{
    vf check = vf_zero();
    size_t i = 0;
    for (; i + LS_VL <= n; i += LS_VL)
        check = vf_fma(average_vector(average + i, vf_load(out + i), how), vf_zero(), check);
    if (i < n) {
        float kept[LS_VL] = {0.0f}, new[LS_VL] = {0.0f};
        memcpy(kept, average + i, (n - i) * sizeof *kept);
        memcpy(new, out + i, (n - i) * sizeof *new);
        check = vf_fma(average_vector(kept, vf_load(new), how), vf_zero(), check);
        memcpy(average + i, kept, (n - i) * sizeof *kept);
    }
    return is_finite(check);
}

static int adam(float *out, const float *w, float *m, float *v, const float *g, size_t n, const ls_adam *how)
{
    return update(adam_vector, out, w, (float *[]){m, v}, 2, g, n, how);
}

static void add_scaled(const ls_op_call *call)
{
    const float *a = call->in[0].data, *b = call->in[1].data;
    float *out = call->out[0].data;
    const float factor = call->attributes->factor;
    const int n = call->out[0].c;
    int i = 0;
    for (; i + LS_VL <= n; i += LS_VL)
        vf_store(out + i, vf_fma(vf_set(factor), vf_load(a + i), vf_load(b + i)));
    for (; i < n; i++)
        out[i] = fmaf(factor, a[i], b[i]);
}

void LANES(ls_lanes_add_flat)(ls_backend *backend)
{
    backend->add = add;
    backend->kernel[LS_OP_ADD_SCALED] = add_scaled;
    backend->sgd = sgd;
    backend->adam = adam;
    backend->average = average;
}
