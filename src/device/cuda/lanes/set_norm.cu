/* Normalisation over sets of an image's numbers: those of each channel and column. A thread has a set of an image. */
#include "device/cuda/lanes/numbers.cuh"

namespace
{

/* The set's first number and its mean, among all; `behind` the mean by so many floats lies inv. */
struct set {
    size_t first, saved;
    bool image;
};

__device__ inline set set_of(ls_map x, size_t i, const ls_cuda_shards *shards)
{
    const size_t line = (size_t)x.w * LS_LANES, sets = x.c * line, group = i / sets, channel = i % sets / line;
    return {(i / line * x.h) * line + i % line, (group * 2 * x.c + channel) * line + i % line,
            (int)(i % LS_LANES) < ls_cuda_lanes_in(shards, (int)group)};
}

/* sum(term(number's place)) of op.h; a term takes r and gives the next. */
template <typename Term> __device__ float sum_of_set(ls_map x, size_t first, Term term)
{
    const size_t line = (size_t)x.w * LS_LANES;
    float total = 0;
    for (int begin = 0; begin < x.h; begin += LS_SET_RUN) {
        const int end = begin + LS_SET_RUN < x.h ? begin + LS_SET_RUN : x.h;
        float r = 0;
        for (int i = begin; i < end; i++)
            r = term(first + i * line, r);
        total = total + r;
    }
    return total;
}

__global__ void set_norm(int centered, float *y, float *saved, ls_map x, float eps, size_t sets, ls_cuda_shards shards)
{
    const size_t line = (size_t)x.w * LS_LANES, behind = x.c * line;
    const float h = (float)x.h;
    LS_EACH_PIECE(i, sets)
    {
        const set s = set_of(x, i, &shards);
        const float mean =
            centered ? sum_of_set(x, s.first, [&](size_t at, float r) { return r + x.data[at]; }) / h : 0;
        const float squares = sum_of_set(x, s.first, [&](size_t at, float r) {
            const float d = x.data[at] - mean;
            return fmaf(d, d, r);
        });
        const float inv = 1 / sqrtf(squares / h + eps);
        for (int k = 0; k < x.h; k++) {
            const size_t at = s.first + k * line;
            y[at] = s.image ? (x.data[at] - mean) * inv : 0;
        }
        saved[s.saved] = s.image ? mean : 0;
        saved[s.saved + behind] = s.image ? inv : 0;
    }
}

__global__ void set_norm_backward(int centered, float *dx, const float *dy, ls_map x, const float *saved, size_t sets,
                                  ls_cuda_shards shards)
{
    const size_t line = (size_t)x.w * LS_LANES, behind = x.c * line;
    const float h = (float)x.h;
    LS_EACH_PIECE(i, sets)
    {
        const set s = set_of(x, i, &shards);
        const float mean = saved[s.saved], inv = saved[s.saved + behind];
        const float k1 = centered ? sum_of_set(x, s.first, [&](size_t at, float r) { return r + dy[at]; }) / h : 0;
        const float products =
            sum_of_set(x, s.first, [&](size_t at, float r) { return fmaf(dy[at], x.data[at] - mean, r); });
        const float k2 = inv * (inv * (products / h));
        for (int k = 0; k < x.h; k++) {
            const size_t at = s.first + k * line;
            dx[at] = s.image ? inv * fmaf(mean - x.data[at], k2, dy[at] - k1) : 0;
        }
    }
}

size_t sets_of(ls_map x, const ls_cuda_shards *shards)
{
    return (size_t)ls_cuda_all_groups(shards) * x.c * x.w * LS_LANES;
}

} // namespace

void ls_cuda_lanes_set_norm(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map x = ls_map_of(&call->in[0]);
    const size_t n = sets_of(x, shards);
    set_norm<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(call->attributes->op == LS_OP_SET_NORM,
                                                                call->out[0].data, call->out[1].data, x,
                                                                call->attributes->eps, n, *shards);
}

void ls_cuda_lanes_set_norm_backward(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map x = ls_map_of(&call->in[1]);
    const size_t n = sets_of(x, shards);
    set_norm_backward<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(
        call->attributes->op == LS_OP_SET_NORM_BACKWARD, call->out[0].data, call->in[0].data, x, call->in[2].data, n,
        *shards);
}
