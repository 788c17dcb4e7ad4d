/* Plane sums of op.h, and BatchNorm: in its general form a block sums a channel of a shard, and other kernels apply
 * what came of it. */
#include "device/cuda/lanes/numbers.cuh"

namespace
{

enum { ROWS = LS_CARD_THREADS / LS_LANES }; /* that a block sums side by side */

/* A term of the two sums at a number. A term that is no product has 1 as its second factor: fma(x, 1, r) is r + x. */
typedef struct two_terms {
    float a, b, c, d; /* a * b of the first sum, c * d of the second */
} two_terms;

typedef struct two_sums {
    float first, second;
} two_sums;

/* What the terms are made of: of one channel's numbers. */
typedef struct sum_operands {
    ls_map x;
    const float *dy, *y; /* y NULL: no relu was fused */
    float mean;
} sum_operands;

enum terms { NUMBER, SQUARE, SLOPES };

__device__ inline float slope_at(const sum_operands &of, size_t at)
{
    return !of.y || of.y[at] > 0 ? of.dy[at] : 0;
}

template <terms WHICH> __device__ inline two_terms terms_at(const sum_operands &of, size_t at)
{
    const float x = of.x.data[at];
    if (WHICH == NUMBER)
        return {x, 1, 0, 0};
    if (WHICH == SQUARE)
        return {x - of.mean, x - of.mean, 0, 0};
    const float d = slope_at(of, at);
    return {d, 1, d, x - of.mean};
}

/* The plane sums of a shard's channel, known to the whole block. Each thread sums a row in a lane; then a thread for
 * each lane adds the rows of a run in order. */
template <terms WHICH>
__device__ two_sums plane_sums(const sum_operands &of, int channel, int shard, const ls_cuda_shards *shards)
{
    __shared__ float rows[2][ROWS][LS_LANES], sums[2];
    const int groups = ls_cuda_groups_of(shards->images), mine = ls_cuda_groups_of(ls_cuda_images_in(shards, shard));
    const int row = (int)threadIdx.x / LS_LANES, lane = (int)threadIdx.x % LS_LANES;
    float first = 0, second = 0;
    for (int group = shard * groups; group < shard * groups + mine; group++)
        for (int top = 0; top < of.x.h; top += ROWS) {
            float r = 0, q = 0;
            for (int column = 0; top + row < of.x.h && column < of.x.w; column++) {
                const two_terms t = terms_at<WHICH>(of, ls_map_at(of.x, group, channel, top + row, column) + lane);
                r = fmaf(t.a, t.b, r);
                if (WHICH == SLOPES)
                    q = fmaf(t.c, t.d, q);
            }
            __syncthreads(); /* the run before may still be read */
            rows[0][row][lane] = r;
            rows[1][row][lane] = q;
            __syncthreads();
            const bool adds = row == 0 && lane < ls_cuda_lanes_in(shards, group);
            for (int i = 0; adds && i < ROWS && top + i < of.x.h; i++) {
                first = first + rows[0][i][lane];
                if (WHICH == SLOPES)
                    second = second + rows[1][i][lane];
            }
        }
    first = ls_lanes_sum(first);
    second = ls_lanes_sum(second);
    if (threadIdx.x == 0) {
        sums[0] = first;
        sums[1] = second;
    }
    __syncthreads();
    const two_sums all = {sums[0], sums[1]};
    __syncthreads();
    return all;
}

__device__ inline float images_and_places(ls_map x, int shard, const ls_cuda_shards *shards)
{
    return (float)((size_t)ls_cuda_images_in(shards, shard) * ls_map_places(x));
}

__global__ void channel_sum(float *out, size_t step, ls_map x, ls_cuda_shards shards)
{
    const sum_operands of = {x, nullptr, nullptr, 0};
    const int channel = (int)blockIdx.x, shard = (int)blockIdx.y;
    const two_sums sums = plane_sums<NUMBER>(of, channel, shard, &shards);
    if (threadIdx.x == 0)
        out[shard * step + channel] = sums.first;
}

typedef struct norm_vectors {
    const float *gamma, *beta, *shift; /* shift NULL: none */
    float *saved, *statistics;         /* [2c] of each shard */
    size_t saved_step, statistics_step;
    float eps;
} norm_vectors;

__global__ void statistics_of(ls_map x, norm_vectors v, ls_cuda_shards shards)
{
    const int channel = (int)blockIdx.x, shard = (int)blockIdx.y;
    const float n = images_and_places(x, shard, &shards);
    sum_operands of = {x, nullptr, nullptr, 0};
    of.mean = plane_sums<NUMBER>(of, channel, shard, &shards).first / n;
    const float squares = plane_sums<SQUARE>(of, channel, shard, &shards).first;
    if (threadIdx.x == 0) {
        float *const saved = v.saved + shard * v.saved_step, *const statistics =
                                                                 v.statistics + shard * v.statistics_step;
        saved[channel] = of.mean;
        saved[x.c + channel] = 1 / sqrtf(squares / n + v.eps);
        statistics[channel] = v.shift ? of.mean + v.shift[channel] : of.mean;
        statistics[x.c + channel] = squares / (n - 1);
    }
}

/* A block for each map of a channel of a group. */
__device__ inline size_t map_begin(ls_map x)
{
    return ls_map_at(x, (int)blockIdx.y, (int)blockIdx.x, 0, 0);
}

/* With the saved mean and inverse deviation of the group's shard, or with running statistics. */
template <bool RUNNING>
__global__ void normalize(ls_map y, const float *x, const float *residual, norm_vectors v, int relu,
                          ls_cuda_shards shards)
{
    const int channel = (int)blockIdx.x, shard = (int)blockIdx.y / ls_cuda_groups_of(shards.images);
    const float *const from = v.saved + (RUNNING ? 0 : shard * v.saved_step);
    float mean = from[channel], inv = from[y.c + channel];
    if (RUNNING) {
        inv = 1 / sqrtf(inv + v.eps);
        mean = v.shift ? mean - v.shift[channel] : mean;
    }
    const float scale = v.gamma[channel] * inv, beta = v.beta[channel];
    const size_t begin = map_begin(y), n = ls_map_places(y) * LS_QUADS;
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) {
        const size_t at = begin + i * LS_QUAD;
        ls_quad z = ls_quad_load(x + at), more = ls_quad_set(0);
        if (residual)
            more = ls_quad_load(residual + at);
        for (int l = 0; l < LS_QUAD; l++) {
            float out = fmaf(z.at[l] - mean, scale, beta);
            out = residual ? out + more.at[l] : out;
            z.at[l] = relu ? ls_relu(out) : out;
        }
        ls_quad_store(y.data + at, z);
    }
}

typedef struct slope_vectors {
    const float *gamma, *saved;
    float *dgb; /* [2c] of each shard: dgamma, dbeta */
    size_t saved_step, dgb_step;
} slope_vectors;

__global__ void sum_slopes(sum_operands of, slope_vectors v, ls_cuda_shards shards)
{
    const int channel = (int)blockIdx.x, shard = (int)blockIdx.y;
    const float *const saved = v.saved + shard * v.saved_step;
    of.mean = saved[channel];
    const two_sums sums = plane_sums<SLOPES>(of, channel, shard, &shards);
    if (threadIdx.x == 0) {
        v.dgb[shard * v.dgb_step + channel] = sums.second * saved[of.x.c + channel];
        v.dgb[shard * v.dgb_step + of.x.c + channel] = sums.first;
    }
}

__global__ void differentiate(float *dx, float *dresidual, sum_operands of, slope_vectors v, ls_cuda_shards shards)
{
    const int channel = (int)blockIdx.x, group = (int)blockIdx.y, shard = group / ls_cuda_groups_of(shards.images);
    const float *const saved = v.saved + shard * v.saved_step, *const dgb = v.dgb + shard * v.dgb_step;
    const float n = images_and_places(of.x, shard, &shards), mean = saved[channel], inv = saved[of.x.c + channel];
    const float k1 = dgb[of.x.c + channel] / n, k2 = inv * (dgb[channel] / n), scale = v.gamma[channel] * inv;
    const size_t begin = map_begin(of.x), numbers = ls_map_places(of.x) * LS_LANES;
    const int lanes = ls_cuda_lanes_in(&shards, group);
    for (size_t i = threadIdx.x; i < numbers; i += blockDim.x) {
        const float d = slope_at(of, begin + i), x = of.x.data[begin + i];
        dx[begin + i] = (int)(i % LS_LANES) < lanes ? scale * fmaf(mean - x, k2, d - k1) : 0;
        if (dresidual)
            dresidual[begin + i] = d;
    }
}

} // namespace

void ls_cuda_lanes_channel_sum(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map x = ls_map_of(&call->in[0]);
    channel_sum<<<dim3(x.c, shards->shards), LS_CARD_THREADS, 0, stream>>>(call->out[0].data, shards->out_step[0], x,
                                                                           *shards);
}

void ls_cuda_lanes_sum_images(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    channel_sum<<<dim3(1, shards->shards), LS_CARD_THREADS, 0, stream>>>(call->out[0].data, shards->out_step[0],
                                                                         ls_map_of(&call->in[0]), *shards);
}

void ls_cuda_lanes_batch_norm(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_attributes *how = call->attributes;
    const ls_map x = ls_map_of(&call->in[0]), y = ls_map_of(&call->out[0]);
    const norm_vectors v = {call->in[1].data,  call->in[2].data,    call->in[5].data,    call->out[1].data,
                            call->out[2].data, shards->out_step[1], shards->out_step[2], how->eps};
    statistics_of<<<dim3(x.c, shards->shards), LS_CARD_THREADS, 0, stream>>>(x, v, *shards);
    normalize<false><<<dim3(x.c, ls_cuda_all_groups(shards)), LS_CARD_THREADS, 0, stream>>>(
        y, x.data, how->fused_add ? call->in[3].data : nullptr, v, how->fused_relu, *shards);
}

void ls_cuda_lanes_batch_norm_infer(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_attributes *how = call->attributes;
    const ls_map x = ls_map_of(&call->in[0]), y = ls_map_of(&call->out[0]);
    const norm_vectors v = {call->in[1].data, call->in[2].data, call->in[5].data, call->in[4].data, nullptr, 0, 0,
                            how->eps};
    normalize<true><<<dim3(x.c, ls_cuda_all_groups(shards)), LS_CARD_THREADS, 0, stream>>>(
        y, x.data, how->fused_add ? call->in[3].data : nullptr, v, how->fused_relu, *shards);
}

void ls_cuda_lanes_batch_norm_backward(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_attributes *how = call->attributes;
    const ls_map x = ls_map_of(&call->in[1]);
    const sum_operands of = {x, call->in[0].data, how->fused_relu ? call->in[4].data : nullptr, 0};
    const slope_vectors v = {call->in[2].data, call->in[3].data, call->out[1].data, shards->in_step[3],
                             shards->out_step[1]};
    sum_slopes<<<dim3(x.c, shards->shards), LS_CARD_THREADS, 0, stream>>>(of, v, *shards);
    differentiate<<<dim3(x.c, ls_cuda_all_groups(shards)), LS_CARD_THREADS, 0, stream>>>(
        call->out[0].data, how->fused_add ? call->out[2].data : nullptr, of, v, *shards);
}
