/* Losses, and what else goes over all numbers of an image. A thread has an image. */
#include "base/math.h"
#include "device/cuda/lanes/numbers.cuh"

namespace
{

/* A lane of a group; its numbers lie LS_LANES apart, and begin at (group * numbers) * LS_LANES + lane. */
typedef struct one_image {
    int group, lane, image; /* among all images; -1: none */
} one_image;

__device__ inline one_image image_of(size_t i, const ls_cuda_shards *shards)
{
    one_image n = {(int)(i / LS_LANES), (int)(i % LS_LANES), -1};
    if (n.lane < ls_cuda_lanes_in(shards, n.group))
        n.image = ls_cuda_first_image(shards, n.group) + n.lane;
    return n;
}

__device__ inline size_t first_of(one_image n, size_t numbers)
{
    return n.group * numbers * LS_LANES + n.lane;
}

__device__ void clear(float *x, int n)
{
    for (int c = 0; c < n; c++)
        x[c * LS_LANES] = 0;
}

__device__ float largest(const float *z, int n)
{
    float m = z[0];
    for (int c = 1; c < n; c++)
        m = z[c * LS_LANES] > m ? z[c * LS_LANES] : m;
    return m;
}

/* p = softmax of z, whose largest is m; returns the sum of the exponentials. */
__device__ float softmax_of(float *p, const float *z, float m, int n)
{
    float s = 0;
    for (int c = 0; c < n; c++) {
        p[c * LS_LANES] = ls_expf(z[c * LS_LANES] - m);
        s = c == 0 ? p[0] : s + p[c * LS_LANES];
    }
    for (int c = 0; c < n; c++)
        p[c * LS_LANES] = p[c * LS_LANES] / s;
    return s;
}

__global__ void cross_entropy(float *loss, float *p, const float *logits, const int32_t *labels, int classes,
                              float smoothing, size_t lanes, ls_cuda_shards shards)
{
    LS_EACH_PIECE(i, lanes)
    {
        const one_image n = image_of(i, &shards);
        const size_t first = first_of(n, classes);
        const float *z = logits + first;
        if (n.image < 0) {
            loss[i] = 0;
            clear(p + first, classes);
            continue;
        }
        const float m = largest(z, classes), s = softmax_of(p + first, z, m, classes);
        const float right = z[labels[n.image] * LS_LANES] - m;
        float all = 0;
        for (int c = 0; c < classes && smoothing != 0; c++)
            all = all + (z[c * LS_LANES] - m);
        loss[i] = ls_logf(s) - (smoothing == 0 ? right : fmaf(1 - smoothing, right, smoothing / (float)classes * all));
    }
}

__global__ void cross_entropy_backward(float *dlogits, const float *dloss, const float *p, const int32_t *labels,
                                       int classes, float smoothing, size_t lanes, ls_cuda_shards shards)
{
    const float share = smoothing / (float)classes, keep = 1 - smoothing;
    LS_EACH_PIECE(i, lanes)
    {
        const one_image n = image_of(i, &shards);
        const size_t first = first_of(n, classes);
        for (int c = 0; c < classes; c++) {
            float d = 0;
            if (n.image >= 0)
                d = (p[first + c * LS_LANES] - (c == labels[n.image] ? keep + share : share)) * dloss[i];
            dlogits[first + c * LS_LANES] = d;
        }
    }
}

__global__ void softmax(float *y, const float *x, int features, size_t lanes, ls_cuda_shards shards)
{
    LS_EACH_PIECE(i, lanes)
    {
        const one_image n = image_of(i, &shards);
        const size_t first = first_of(n, features);
        if (n.image < 0)
            clear(y + first, features);
        else
            softmax_of(y + first, x + first, largest(x + first, features), features);
    }
}

__global__ void softmax_backward(float *dx, const float *dy, const float *y, int features, size_t lanes,
                                 ls_cuda_shards shards)
{
    LS_EACH_PIECE(i, lanes)
    {
        const one_image n = image_of(i, &shards);
        const size_t first = first_of(n, features);
        float s = 0;
        for (int c = 0; c < features; c++)
            s = fmaf(dy[first + c * LS_LANES], y[first + c * LS_LANES], s);
        for (int c = 0; c < features; c++) {
            const size_t at = first + c * LS_LANES;
            dx[at] = n.image < 0 ? 0 : y[at] * (dy[at] - s);
        }
    }
}

/* A block for each shard. What its threads count are whole numbers, in any order the same. */
__global__ void count_correct(float *out, size_t step, const float *logits, const int32_t *labels, int classes,
                              ls_cuda_shards shards)
{
    __shared__ int correct;
    const int shard = (int)blockIdx.x, images = ls_cuda_images_in(&shards, shard);
    const int groups = ls_cuda_groups_of(shards.images);
    if (threadIdx.x == 0)
        correct = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < images; i += blockDim.x) {
        const one_image n = {shard * groups + i / LS_LANES, i % LS_LANES, shard * shards.images + i};
        const float *z = logits + first_of(n, classes);
        int best = 0;
        for (int c = 1; c < classes; c++)
            best = z[c * LS_LANES] > z[best * LS_LANES] ? c : best;
        if (best == labels[n.image])
            atomicAdd(&correct, 1);
    }
    __syncthreads();
    if (threadIdx.x == 0)
        out[shard * step] = (float)correct;
}

/* The sum of SUM where b is NULL, else that of SQUARED_ERROR. */
__global__ void sum_numbers(float *y, ls_map a, const float *b, float factor, size_t lanes, ls_cuda_shards shards)
{
    LS_EACH_PIECE(i, lanes)
    {
        const one_image n = image_of(i, &shards);
        size_t at = first_of(n, a.c * ls_map_places(a));
        float total = 0;
        for (int channel = 0; channel < a.c && n.image >= 0; channel++) {
            float t = 0;
            for (int row = 0; row < a.h; row++) {
                float r = 0;
                for (int column = 0; column < a.w; column++, at += LS_LANES) {
                    const float d = b ? a.data[at] - b[at] : a.data[at];
                    r = b ? fmaf(d, d, r) : r + d;
                }
                t = t + r;
            }
            total = total + t;
        }
        y[i] = n.image < 0 ? 0 : total * factor;
    }
}

__global__ void sum_backward(float *d, const float *dy, const float *a, const float *b, size_t numbers, float factor,
                             size_t all, ls_cuda_shards shards)
{
    LS_EACH_PIECE(i, all)
    {
        const size_t group = i / LS_LANES / numbers;
        const int lane = (int)(i % LS_LANES);
        const float slope = dy[group * LS_LANES + lane];
        float x = 0;
        if (lane < ls_cuda_lanes_in(&shards, (int)group))
            x = b ? (a[i] - b[i]) * (2 * factor) * slope : slope * factor;
        d[i] = x;
    }
}

size_t lanes_of(const ls_cuda_shards *shards)
{
    return (size_t)ls_cuda_all_groups(shards) * LS_LANES;
}

} // namespace

void ls_cuda_lanes_cross_entropy(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const size_t n = lanes_of(shards);
    cross_entropy<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(
        call->out[0].data, call->out[1].data, call->in[0].data, call->samples->labels, call->in[0].c,
        call->attributes->smoothing, n, *shards);
}

void ls_cuda_lanes_cross_entropy_backward(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const size_t n = lanes_of(shards);
    cross_entropy_backward<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(
        call->out[0].data, call->in[0].data, call->in[1].data, call->samples->labels, call->out[0].c,
        call->attributes->smoothing, n, *shards);
}

void ls_cuda_lanes_softmax(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const size_t n = lanes_of(shards);
    softmax<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(call->out[0].data, call->in[0].data, call->in[0].c, n,
                                                               *shards);
}

void ls_cuda_lanes_softmax_backward(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const size_t n = lanes_of(shards);
    softmax_backward<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(call->out[0].data, call->in[0].data,
                                                                        call->in[1].data, call->in[1].c, n, *shards);
}

void ls_cuda_lanes_count_correct(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    count_correct<<<shards->shards, LS_CARD_THREADS, 0, stream>>>(
        call->out[0].data, shards->out_step[0], call->in[0].data, call->samples->labels, call->in[0].c, *shards);
}

void ls_cuda_lanes_sum(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const size_t n = lanes_of(shards);
    sum_numbers<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(
        call->out[0].data, ls_map_of(&call->in[0]), call->in[1].data, call->attributes->factor, n, *shards);
}

void ls_cuda_lanes_sum_backward(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map d = ls_map_of(&call->out[0]);
    const size_t n = ls_map_pieces(d, shards) * LS_QUAD;
    sum_backward<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(d.data, call->in[0].data, call->in[1].data,
                                                                    call->in[2].data, d.c * ls_map_places(d),
                                                                    call->attributes->factor, n, *shards);
}
