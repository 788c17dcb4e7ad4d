/* Plane sums of op.h, and BatchNorm. The sums of rows stand by themselves, so that a kernel makes them all over the
 * card; then a block for each channel of a shard adds them in order, and says what comes of it; others apply that. */
#include "device/cuda/lanes/numbers.cuh"
#include "device/norm_sums.h"

namespace
{

enum { CHUNK = 256, MAP_THREADS = 32, MAPS = LS_CARD_THREADS / MAP_THREADS }; /* rows at once; maps of a block */

/* What is summed: of a shard's channel, with the mean in `saved`. */
typedef struct sum_operands {
    ls_map x;
    const float *dy, *y; /* y NULL: no relu was fused */
    const float *saved;
    size_t saved_step;
} sum_operands;

enum terms { NUMBER, SQUARE, SLOPES }; /* x; (x - mean)^2; the slope, and its product with x - mean */

__device__ inline ls_quad slopes_at(const sum_operands &of, size_t at)
{
    ls_quad d = ls_quad_load(of.dy + at);
    if (of.y) {
        const ls_quad y = ls_quad_load(of.y + at);
        for (int l = 0; l < LS_QUAD; l++)
            d.at[l] = y.at[l] > 0 ? d.at[l] : 0;
    }
    return d;
}

template <terms WHICH> __device__ inline void add_terms(const sum_operands &of, size_t at, float mean, ls_quad sums[2])
{
    const ls_quad x = ls_quad_load(of.x.data + at), d = WHICH == SLOPES ? slopes_at(of, at) : x;
    for (int l = 0; l < LS_QUAD; l++)
        if (WHICH == SQUARE) {
            sums[0].at[l] = fmaf(x.at[l] - mean, x.at[l] - mean, sums[0].at[l]);
        } else {
            sums[0].at[l] = sums[0].at[l] + d.at[l];
            if (WHICH == SLOPES)
                sums[1].at[l] = fmaf(d.at[l], x.at[l] - mean, sums[1].at[l]);
        }
}

/* rows[sum][channel][group][row][lane]: a thread has a row in four lanes. */
template <terms WHICH>
__global__ void sum_rows(sum_operands of, float *rows, size_t n, int groups, size_t pieces, ls_cuda_shards shards)
{
    const ls_map x = of.x;
    LS_EACH_PIECE(i, pieces)
    {
        const unsigned row = (unsigned)(i / LS_QUADS), map = row / x.h, channel = map % x.c, group = map / x.c;
        const size_t lane = i % LS_QUADS * LS_QUAD;
        const unsigned shard = group / ls_cuda_groups_of(shards.images);
        const float mean = WHICH == NUMBER ? 0 : of.saved[shard * of.saved_step + channel];
        const size_t begin = ls_map_at(x, (int)group, (int)channel, (int)(row % x.h), 0) + lane;
        ls_quad sums[2] = {ls_quad_set(0), ls_quad_set(0)};
#pragma unroll 4
        for (int column = 0; column < x.w; column++)
            add_terms<WHICH>(of, begin + (size_t)column * LS_LANES, mean, sums);
        float *const to = rows + (((size_t)channel * groups + group) * x.h + row % x.h) * LS_LANES + lane;
        ls_quad_store(to, sums[0]);
        if (WHICH == SLOPES)
            ls_quad_store(to + n, sums[1]);
    }
}

/* The plane sums of the block's channel and shard from the sums of their rows, known to the whole block: a thread has a
 * lane of one. */
template <int SUMS>
__device__ void add_rows(const float *rows, size_t n, ls_map x, const ls_cuda_shards *shards, float all[SUMS])
{
    __shared__ ls_quad chunk[SUMS][CHUNK * LS_QUADS];
    __shared__ float sums[SUMS];
    const int channel = (int)blockIdx.x, shard = (int)blockIdx.y, groups = ls_cuda_all_groups(shards);
    const int before = shard * ls_cuda_groups_of(shards->images);
    const int mine = ls_cuda_groups_of(ls_cuda_images_in(shards, shard)), lines = mine * x.h;
    const int lane = (int)threadIdx.x % LS_LANES, which = (int)threadIdx.x / LS_LANES;
    const bool in_last = mine > 0 && lane < ls_cuda_lanes_in(shards, before + mine - 1);
    const int adds = in_last ? lines : lines - x.h; /* without the last group, which has no such image */
    const float *const from = rows + ((size_t)channel * groups + before) * x.h * LS_LANES;
    float sum = 0;
    for (int first = 0; first < lines; first += CHUNK) {
        const int here = lines - first < CHUNK ? lines - first : CHUNK, end = adds - first < here ? adds - first : here;
        __syncthreads(); /* the chunk before may still be read */
        for (int k = 0; k < SUMS; k++)
            for (int i = (int)threadIdx.x; i < here * LS_QUADS; i += LS_CARD_THREADS)
                chunk[k][i] = ls_quad_load(from + k * n + (size_t)first * LS_LANES + i * LS_QUAD);
        __syncthreads();
        if (which < SUMS)
#pragma unroll 8
            for (int i = 0; i < end; i++)
                sum = sum + chunk[which][i * LS_QUADS + lane / LS_QUAD].at[lane % LS_QUAD];
    }
    sum = ls_lanes_sum(sum);
    if (lane == 0 && which < SUMS)
        sums[which] = sum;
    __syncthreads();
    for (int k = 0; k < SUMS; k++)
        all[k] = sums[k];
}

__device__ inline float images_and_places(ls_map x, int shard, const ls_cuda_shards *shards)
{
    return (float)((size_t)ls_cuda_images_in(shards, shard) * ls_map_places(x));
}

__global__ void channel_sum(float *out, size_t step, const float *rows, ls_map x, ls_cuda_shards shards)
{
    float sum[1];
    add_rows<1>(rows, 0, x, &shards, sum);
    if (threadIdx.x == 0)
        out[blockIdx.y * step + blockIdx.x] = sum[0];
}

typedef struct norm_vectors {
    const float *gamma, *beta, *shift; /* shift NULL: none */
    float *saved, *statistics;         /* [2c] of each shard */
    size_t saved_step, statistics_step;
    float eps;
} norm_vectors;

/* Of NORM_SUMS: S, and where Q will be the mean for it. */
__global__ void sum_of(float *out, size_t step, const float *rows, ls_map x, ls_cuda_shards shards)
{
    const int channel = (int)blockIdx.x, shard = (int)blockIdx.y;
    float *const sums = out + shard * step, sum[1];
    add_rows<1>(rows, 0, x, &shards, sum);
    if (threadIdx.x == 0) {
        sums[LS_NORM_FIRST + channel] = sum[0];
        sums[LS_NORM_FIRST + x.c + channel] = sum[0] / images_and_places(x, shard, &shards);
    }
    if (threadIdx.x == 0 && channel == 0) {
        sums[LS_NORM_IMAGES] = (float)ls_cuda_images_in(&shards, shard);
        sums[LS_NORM_PLACES] = (float)ls_map_places(x);
    }
}

__global__ void mean_of(const float *rows, ls_map x, norm_vectors v, ls_cuda_shards shards)
{
    const int channel = (int)blockIdx.x, shard = (int)blockIdx.y;
    float sum[1];
    add_rows<1>(rows, 0, x, &shards, sum);
    if (threadIdx.x == 0)
        v.saved[shard * v.saved_step + channel] = sum[0] / images_and_places(x, shard, &shards);
}

/* Saved and statistics of one channel, whose squares are of n numbers. */
__device__ inline void put_statistics(const norm_vectors &v, int shard, int channel, int channels, float mean,
                                      float squares, float n)
{
    float *const saved = v.saved + shard * v.saved_step, *const statistics = v.statistics + shard * v.statistics_step;
    saved[channel] = mean;
    saved[channels + channel] = 1 / sqrtf(squares / n + v.eps);
    statistics[channel] = v.shift ? mean + v.shift[channel] : mean;
    statistics[channels + channel] = squares / (n - 1);
}

__global__ void statistics_of(const float *rows, ls_map x, norm_vectors v, ls_cuda_shards shards)
{
    const int channel = (int)blockIdx.x, shard = (int)blockIdx.y;
    float squares[1];
    add_rows<1>(rows, 0, x, &shards, squares);
    if (threadIdx.x == 0)
        put_statistics(v, shard, channel, x.c, v.saved[shard * v.saved_step + channel], squares[0],
                       images_and_places(x, shard, &shards));
}

/* The same from totals, of each shard its own. */
__global__ void statistics_from(const float *from, size_t step, norm_vectors v, int channels)
{
    const int channel = (int)(blockIdx.x * LS_CARD_THREADS + threadIdx.x), shard = (int)blockIdx.y;
    const float *const totals = from + shard * step, n = ls_norm_numbers(totals);
    if (channel < channels)
        put_statistics(v, shard, channel, channels, totals[LS_NORM_FIRST + channel] / n,
                       totals[LS_NORM_FIRST + channels + channel], n);
}

/* A warp has a map of a channel of a group; channels lie beside one another in a block. */
__device__ inline int map_channel(void)
{
    return (int)blockIdx.x * MAPS + (int)threadIdx.x / MAP_THREADS;
}

dim3 grid_of_maps(ls_map x, const ls_cuda_shards *shards)
{
    return dim3((unsigned)((x.c + MAPS - 1) / MAPS), (unsigned)ls_cuda_all_groups(shards));
}

/* With the saved mean and inverse deviation of the group's shard, or with running statistics. */
template <bool RUNNING>
__global__ void normalize(ls_map y, const float *x, const float *residual, norm_vectors v, int relu,
                          ls_cuda_shards shards)
{
    const int channel = map_channel(), shard = (int)blockIdx.y / ls_cuda_groups_of(shards.images);
    if (channel >= y.c)
        return;
    const float *const from = v.saved + (RUNNING ? 0 : shard * v.saved_step);
    float mean = from[channel], inv = from[y.c + channel];
    if (RUNNING) {
        inv = 1 / sqrtf(inv + v.eps);
        mean = v.shift ? mean - v.shift[channel] : mean;
    }
    const float scale = v.gamma[channel] * inv, beta = v.beta[channel];
    const size_t begin = ls_map_at(y, (int)blockIdx.y, channel, 0, 0), n = ls_map_places(y) * LS_LANES;
#pragma unroll 4
    for (size_t i = threadIdx.x % MAP_THREADS * LS_QUAD; i < n; i += MAP_THREADS * LS_QUAD) {
        const size_t at = begin + i;
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
    float eps; /* where `saved` are running statistics */
    /* Of NORM_SLOPES and NORM_DATA, of each shard; else NULL: what `dgb` gets as well, what stands for it. */
    float *sums;
    const float *totals;
    size_t sums_step, totals_step;
} slope_vectors;

template <bool RUNNING>
__global__ void sum_slopes(const float *rows, size_t n, ls_map x, slope_vectors v, ls_cuda_shards shards)
{
    const int channel = (int)blockIdx.x, shard = (int)blockIdx.y;
    float sums[2];
    add_rows<2>(rows, n, x, &shards, sums);
    if (threadIdx.x == 0) {
        const float inv = v.saved[shard * v.saved_step + x.c + channel];
        const float dgamma = sums[1] * (RUNNING ? 1 / sqrtf(inv + v.eps) : inv);
        v.dgb[shard * v.dgb_step + channel] = dgamma;
        v.dgb[shard * v.dgb_step + x.c + channel] = sums[0];
        if (v.sums) {
            float *const to = v.sums + shard * v.sums_step;
            to[LS_NORM_FIRST + channel] = dgamma;
            to[LS_NORM_FIRST + x.c + channel] = sums[0];
            to[LS_NORM_IMAGES] = (float)ls_cuda_images_in(&shards, shard);
            to[LS_NORM_PLACES] = (float)ls_map_places(x);
        }
    }
}

__global__ void differentiate(float *dx, float *dresidual, sum_operands of, slope_vectors v, ls_cuda_shards shards)
{
    const int channel = map_channel(), group = (int)blockIdx.y, shard = group / ls_cuda_groups_of(shards.images);
    if (channel >= of.x.c)
        return;
    const float *const totals = v.totals ? v.totals + shard * v.totals_step : NULL;
    const float *const saved = v.saved + shard * v.saved_step, *const dgb = totals ? totals + LS_NORM_FIRST
                                                                                   : v.dgb + shard * v.dgb_step;
    const float n = totals ? ls_norm_numbers(totals) : images_and_places(of.x, shard, &shards);
    const float mean = saved[channel], inv = saved[of.x.c + channel];
    const float k1 = dgb[of.x.c + channel] / n, k2 = inv * (dgb[channel] / n), scale = v.gamma[channel] * inv;
    const size_t begin = ls_map_at(of.x, group, channel, 0, 0), numbers = ls_map_places(of.x) * LS_LANES;
    const int lanes = ls_cuda_lanes_in(&shards, group), lane = (int)(threadIdx.x % LS_QUADS) * LS_QUAD;
#pragma unroll 4
    for (size_t i = threadIdx.x % MAP_THREADS * LS_QUAD; i < numbers; i += MAP_THREADS * LS_QUAD) {
        const ls_quad x = ls_quad_load(of.x.data + begin + i), d = slopes_at(of, begin + i);
        ls_quad out;
        for (int l = 0; l < LS_QUAD; l++)
            out.at[l] = lane + l < lanes ? scale * fmaf(mean - x.at[l], k2, d.at[l] - k1) : 0;
        ls_quad_store(dx + begin + i, out);
        if (dresidual)
            ls_quad_store(dresidual + begin + i, d);
    }
}

__global__ void differentiate_frozen(ls_map dx, const float *dy, slope_vectors v, ls_cuda_shards shards)
{
    const int channel = map_channel(), group = (int)blockIdx.y;
    if (channel >= dx.c)
        return;
    const float scale = v.gamma[channel] * (1 / sqrtf(v.saved[dx.c + channel] + v.eps));
    const size_t begin = ls_map_at(dx, group, channel, 0, 0), numbers = ls_map_places(dx) * LS_LANES;
    const int lanes = ls_cuda_lanes_in(&shards, group), lane = (int)(threadIdx.x % LS_QUADS) * LS_QUAD;
    for (size_t i = threadIdx.x % MAP_THREADS * LS_QUAD; i < numbers; i += MAP_THREADS * LS_QUAD) {
        ls_quad d = ls_quad_load(dy + begin + i);
        for (int l = 0; l < LS_QUAD; l++)
            d.at[l] = lane + l < lanes ? scale * d.at[l] : 0;
        ls_quad_store(dx.data + begin + i, d);
    }
}

/* Floats of a sum's rows. */
size_t rows_of(ls_map x, const ls_cuda_shards *shards)
{
    return (size_t)ls_cuda_all_groups(shards) * x.c * x.h * LS_LANES;
}

template <terms WHICH>
void launch_rows(const sum_operands &of, float *rows, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const size_t n = rows_of(of.x, shards), pieces = n / LS_QUAD;
    sum_rows<WHICH><<<ls_card_blocks(pieces), LS_CARD_THREADS, 0, stream>>>(of, rows, n, ls_cuda_all_groups(shards),
                                                                            pieces, *shards);
}

} // namespace

size_t ls_cuda_lanes_norm_scratch(const ls_op_call *call, const ls_cuda_shards *shards)
{
    const ls_op op = call->attributes->op;
    const bool slopes =
        op == LS_OP_BATCH_NORM_BACKWARD || op == LS_OP_BATCH_NORM_FROZEN_BACKWARD || op == LS_OP_NORM_SLOPES;
    return rows_of(ls_map_of(&call->in[slopes]), shards) * (slopes ? 2 : 1) * sizeof(float);
}

void ls_cuda_lanes_channel_sum(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map x = ls_map_of(&call->in[0]);
    float *const rows = (float *)call->scratch;
    launch_rows<NUMBER>({x, NULL, NULL, NULL, 0}, rows, shards, stream);
    channel_sum<<<dim3(x.c, shards->shards), LS_CARD_THREADS, 0, stream>>>(call->out[0].data, shards->out_step[0], rows,
                                                                           x, *shards);
}

/* An image's only number is its row's sum. */
void ls_cuda_lanes_sum_images(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map x = ls_map_of(&call->in[0]);
    channel_sum<<<dim3(1, shards->shards), LS_CARD_THREADS, 0, stream>>>(call->out[0].data, shards->out_step[0], x.data,
                                                                         x, *shards);
}

void ls_cuda_lanes_batch_norm(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_attributes *how = call->attributes;
    const ls_map x = ls_map_of(&call->in[0]), y = ls_map_of(&call->out[0]);
    const norm_vectors v = {call->in[1].data,  call->in[2].data,    call->in[5].data,    call->out[1].data,
                            call->out[2].data, shards->out_step[1], shards->out_step[2], how->eps};
    const sum_operands of = {x, NULL, NULL, v.saved, v.saved_step};
    const dim3 channels(x.c, shards->shards);
    float *const rows = (float *)call->scratch;
    launch_rows<NUMBER>(of, rows, shards, stream);
    mean_of<<<channels, LS_CARD_THREADS, 0, stream>>>(rows, x, v, *shards);
    launch_rows<SQUARE>(of, rows, shards, stream);
    statistics_of<<<channels, LS_CARD_THREADS, 0, stream>>>(rows, x, v, *shards);
    normalize<false><<<grid_of_maps(y, shards), LS_CARD_THREADS, 0, stream>>>(
        y, x.data, how->fused_add ? call->in[3].data : nullptr, v, how->fused_relu, *shards);
}

void ls_cuda_lanes_norm_sums(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map x = ls_map_of(&call->in[0]);
    float *const sums = call->out[0].data, *const squares = sums + LS_NORM_FIRST + x.c,
                 *const rows = (float *)call->scratch;
    const size_t step = shards->out_step[0];
    const dim3 channels(x.c, shards->shards);
    const sum_operands of = {x, NULL, NULL, squares, step};
    launch_rows<NUMBER>(of, rows, shards, stream);
    sum_of<<<channels, LS_CARD_THREADS, 0, stream>>>(sums, step, rows, x, *shards);
    launch_rows<SQUARE>(of, rows, shards, stream);
    channel_sum<<<channels, LS_CARD_THREADS, 0, stream>>>(squares, step, rows, x, *shards);
}

void ls_cuda_lanes_norm_apply(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_attributes *how = call->attributes;
    const ls_map x = ls_map_of(&call->in[0]), y = ls_map_of(&call->out[0]);
    const norm_vectors v = {call->in[1].data,  call->in[2].data,    call->in[5].data,    call->out[1].data,
                            call->out[2].data, shards->out_step[1], shards->out_step[2], how->eps};
    statistics_from<<<dim3((x.c + LS_CARD_THREADS - 1) / LS_CARD_THREADS, shards->shards), LS_CARD_THREADS, 0,
                      stream>>>(call->in[4].data, shards->in_step[4], v, x.c);
    normalize<false><<<grid_of_maps(y, shards), LS_CARD_THREADS, 0, stream>>>(
        y, x.data, how->fused_add ? call->in[3].data : nullptr, v, how->fused_relu, *shards);
}

void ls_cuda_lanes_batch_norm_infer(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_attributes *how = call->attributes;
    const ls_map x = ls_map_of(&call->in[0]), y = ls_map_of(&call->out[0]);
    const norm_vectors v = {call->in[1].data, call->in[2].data, call->in[5].data, call->in[4].data, nullptr, 0, 0,
                            how->eps};
    normalize<true><<<grid_of_maps(y, shards), LS_CARD_THREADS, 0, stream>>>(
        y, x.data, how->fused_add ? call->in[3].data : nullptr, v, how->fused_relu, *shards);
}

void ls_cuda_lanes_batch_norm_backward(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_attributes *how = call->attributes;
    const ls_map x = ls_map_of(&call->in[1]);
    const sum_operands of = {x, call->in[0].data, how->fused_relu ? call->in[4].data : nullptr, call->in[3].data,
                             shards->in_step[3]};
    const slope_vectors v = {call->in[2].data,
                             call->in[3].data,
                             call->out[1].data,
                             shards->in_step[3],
                             shards->out_step[1],
                             how->eps,
                             NULL,
                             NULL,
                             0,
                             0};
    float *const rows = (float *)call->scratch;
    launch_rows<SLOPES>(of, rows, shards, stream);
    sum_slopes<false>
        <<<dim3(x.c, shards->shards), LS_CARD_THREADS, 0, stream>>>(rows, rows_of(x, shards), x, v, *shards);
    differentiate<<<grid_of_maps(x, shards), LS_CARD_THREADS, 0, stream>>>(
        call->out[0].data, how->fused_add ? call->out[2].data : nullptr, of, v, *shards);
}

void ls_cuda_lanes_norm_slopes(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map x = ls_map_of(&call->in[1]);
    const sum_operands of = {x, call->in[0].data, call->attributes->fused_relu ? call->in[3].data : nullptr,
                             call->in[2].data, shards->in_step[2]};
    const slope_vectors v = {NULL,
                             call->in[2].data,
                             call->out[1].data,
                             shards->in_step[2],
                             shards->out_step[1],
                             0,
                             call->out[0].data,
                             NULL,
                             shards->out_step[0],
                             0};
    float *const rows = (float *)call->scratch;
    launch_rows<SLOPES>(of, rows, shards, stream);
    sum_slopes<false>
        <<<dim3(x.c, shards->shards), LS_CARD_THREADS, 0, stream>>>(rows, rows_of(x, shards), x, v, *shards);
}

void ls_cuda_lanes_norm_data(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_attributes *how = call->attributes;
    const ls_map x = ls_map_of(&call->in[1]);
    const sum_operands of = {x, call->in[0].data, how->fused_relu ? call->in[4].data : nullptr, call->in[3].data,
                             shards->in_step[3]};
    const slope_vectors v = {
        call->in[2].data,  call->in[3].data, NULL, shards->in_step[3], 0, 0, NULL, call->in[5].data, 0,
        shards->in_step[5]};
    differentiate<<<grid_of_maps(x, shards), LS_CARD_THREADS, 0, stream>>>(
        call->out[0].data, how->fused_add ? call->out[1].data : nullptr, of, v, *shards);
}

void ls_cuda_lanes_batch_norm_frozen_backward(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map x = ls_map_of(&call->in[1]);
    const sum_operands of = {x, call->in[0].data, nullptr, call->in[3].data, shards->in_step[3]};
    const slope_vectors v = {call->in[2].data,
                             call->in[3].data,
                             call->out[1].data,
                             shards->in_step[3],
                             shards->out_step[1],
                             call->attributes->eps,
                             NULL,
                             NULL,
                             0,
                             0};
    float *const rows = (float *)call->scratch;
    launch_rows<SLOPES>(of, rows, shards, stream);
    sum_slopes<true>
        <<<dim3(x.c, shards->shards), LS_CARD_THREADS, 0, stream>>>(rows, rows_of(x, shards), x, v, *shards);
    differentiate_frozen<<<grid_of_maps(x, shards), LS_CARD_THREADS, 0, stream>>>(ls_map_of(&call->out[0]),
                                                                                  call->in[0].data, v, *shards);
}
