/* Flat vectors: sums of partial gradients in the tree's order, and the update. */
#include "device/cuda/numbers.cuh"

namespace
{

/* The sum of number i, worked off as the list says. Every thread goes the same way. */
__device__ float sum_at(const ls_terms &terms, size_t i)
{
    float stack[LS_TERMS_DEPTH];
    int depth = 0;
    for (int k = 0; k < terms.n; k++) {
        if (terms.at[k]) {
            stack[depth++] = terms.at[k][i];
        } else {
            depth--;
            stack[depth - 1] = stack[depth - 1] + stack[depth];
        }
    }
    return stack[0];
}

__global__ void sum(const __grid_constant__ ls_terms terms, float *out, size_t n)
{
    for (size_t i = ls_thread(); i < n; i += ls_threads())
        out[i] = sum_at(terms, i);
}

__global__ void update(const __grid_constant__ ls_terms terms, float *out, const float *w, float *v, size_t n,
                       ls_sgd how, int *broken)
{
    bool finite = true;
    for (size_t i = ls_thread(); i < n; i += ls_threads()) {
        float g = sum_at(terms, i) / how.rows;
        if (how.weight_decay != 0)
            g = fmaf(how.weight_decay, w[i], g);
        if (how.momentum != 0) {
            v[i] = how.first ? g : fmaf(how.momentum, v[i], g);
            finite = finite && isfinite(v[i]);
            g = how.nesterov ? fmaf(how.momentum, v[i], g) : v[i];
        }
        out[i] = fmaf(-how.lr, g, w[i]);
        finite = finite && isfinite(out[i]);
    }
    if (!finite)
        *broken = 1;
}

} // namespace

void ls_cuda_sum(cudaStream_t stream, const ls_terms *terms, float *out, size_t n)
{
    sum<<<ls_cuda_blocks(n), LS_CUDA_THREADS, 0, stream>>>(*terms, out, n);
}

void ls_cuda_update(cudaStream_t stream, const ls_terms *terms, float *out, const float *w, float *v, size_t n,
                    const ls_sgd *how, int *broken)
{
    update<<<ls_cuda_blocks(n), LS_CUDA_THREADS, 0, stream>>>(*terms, out, w, v, n, *how, broken);
}
