/* Flat vectors: sums of partial gradients in the tree's order, their norm, and the update. */
#include "device/cuda/kernels/numbers.cuh"

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

/* The formulas of device/update.h. They return whether the new numbers are finite. */
__device__ bool sgd_at(const ls_sgd &how, float sum, float w, float *v, float *out)
{
    float g = sum / how.divisor;
    bool finite = true;
    if (how.weight_decay != 0)
        g = fmaf(how.weight_decay, w, g);
    if (how.momentum != 0) {
        *v = how.first ? g : fmaf(how.momentum, *v, g);
        finite = isfinite(*v);
        g = how.nesterov ? fmaf(how.momentum, *v, g) : *v;
    }
    *out = fmaf(-how.lr, g, w);
    return finite && isfinite(*out);
}

__device__ bool adam_at(const ls_adam &how, float sum, float w, float *m, float *v, float *out)
{
    float g = sum / how.divisor;
    if (how.weight_decay != 0)
        g = fmaf(how.weight_decay, w, g);
    const float old_m = how.first ? 0 : *m, old_v = how.first ? 0 : *v;
    *m = fmaf(how.share1, g - old_m, old_m);
    *v = fmaf(how.share2, fmaf(g, g, 0 - old_v), old_v);
    if (how.decay != 0)
        w = fmaf(-how.decay, w, w);
    *out = fmaf(-how.rate, *m / fmaf(sqrtf(*v), how.scale, how.eps), w);
    return isfinite(*m) && isfinite(*v) && isfinite(*out);
}

__device__ bool average_at(const ls_averaging &how, float out, float *average)
{
    *average = how.first ? out : fmaf(how.share, out - *average, *average);
    return isfinite(*average);
}

__global__ void update(const __grid_constant__ ls_terms terms, float *out, const float *w, float *moments, size_t n,
                       const __grid_constant__ ls_update how, int *broken)
{
    bool finite = true;
    for (size_t i = ls_thread(); i < n; i += ls_threads()) {
        const float sum = sum_at(terms, i);
        float *first = moments ? moments + i : moments;
        finite &= how.rule == LS_RULE_ADAM ? adam_at(how.adam, sum, w[i], first, first + how.stride, out + i)
                                           : sgd_at(how.sgd, sum, w[i], first, out + i);
        if (how.averaging.share != 0)
            finite &= average_at(how.averaging, out[i], first + how.average_at);
    }
    if (!finite)
        *broken = 1;
}

/* A thread adds LS_SQUARED of them one after another: the order is part of the norm. Its products are exact. */
__global__ void square(const float *x, size_t n, double *sums, size_t blocks)
{
    for (size_t block = ls_thread(); block < blocks; block += ls_threads()) {
        const size_t at = block * LS_SQUARED, end = n - at < LS_SQUARED ? n : at + LS_SQUARED;
        double sum = 0;
        for (size_t i = at; i < end; i++)
            sum = fma((double)x[i], (double)x[i], sum);
        sums[block] = sum;
    }
}

} // namespace

void ls_cuda_square(cudaStream_t stream, const float *x, size_t n, double *sums)
{
    enum { THREADS = 32 }; /* few sums, on as many multiprocessors as there are */
    const size_t sums_n = (n + LS_SQUARED - 1) / LS_SQUARED, blocks = (sums_n + THREADS - 1) / THREADS;
    square<<<(unsigned)(blocks < LS_CUDA_MOST_BLOCKS ? blocks : LS_CUDA_MOST_BLOCKS), THREADS, 0, stream>>>(x, n, sums,
                                                                                                            sums_n);
}

void ls_cuda_sum(cudaStream_t stream, const ls_terms *terms, float *out, size_t n)
{
    sum<<<ls_cuda_blocks(n), LS_CUDA_THREADS, 0, stream>>>(*terms, out, n);
}

void ls_cuda_update(cudaStream_t stream, const ls_terms *terms, float *out, const float *w, float *moments, size_t n,
                    const ls_update *how, int *broken)
{
    update<<<ls_cuda_blocks(n), LS_CUDA_THREADS, 0, stream>>>(*terms, out, w, moments, n, *how, broken);
}
