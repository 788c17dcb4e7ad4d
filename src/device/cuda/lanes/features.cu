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

__device__ void clear(float *x, int n, size_t step)
{
    for (int c = 0; c < n; c++)
        x[c * step] = 0;
}

__device__ float largest(const float *z, int n, size_t step)
{
    float m = z[0];
    for (int c = 1; c < n; c++)
        m = z[c * step] > m ? z[c * step] : m;
    return m;
}

/* p = softmax of z, whose largest is m; returns the sum of the exponentials. */
__device__ float softmax_of(float *p, const float *z, float m, int n, size_t step)
{
    float s = 0;
    for (int c = 0; c < n; c++) {
        p[c * step] = ls_expf(z[c * step] - m);
        s = c == 0 ? p[0] : s + p[c * step];
    }
    for (int c = 0; c < n; c++)
        p[c * step] = p[c * step] / s;
    return s;
}

/* What classes are to be, at each place. */
typedef struct wanted {
    int classes, each; /* each: places */
    const int32_t *labels;
    const float *weights, *targets; /* NULL: there are none */
    float smoothing, keep, share;
} wanted;

wanted wanted_of(const ls_op_call *call, const ls_operand *logits)
{
    const float smoothing = call->attributes->smoothing;
    return {logits->c, logits->h * logits->w, call->samples->labels,       call->in[2].data, call->in[3].data,
            smoothing, 1 - smoothing,         smoothing / (float)logits->c};
}

/* A place of one image: its numbers of the classes lie `step` apart. */
typedef struct one_place {
    bool image;
    int label; /* -1: ignored */
    size_t first, step;
} one_place;

/* Lane i of the places of all groups. */
__device__ one_place place_of(size_t i, const wanted *w, const ls_cuda_shards *shards)
{
    const size_t each = w->each, group = i / LS_LANES / each, at = i / LS_LANES % each, lane = i % LS_LANES;
    const one_image n = image_of(group * LS_LANES + lane, shards);
    const int label = n.image < 0 || w->targets ? 0 : w->labels[n.image * each + at];
    return {n.image >= 0, label, (group * w->classes * each + at) * LS_LANES + lane, each * LS_LANES};
}

__device__ float target_of(const wanted *w, one_place p, int c)
{
    const float t = w->targets ? fmaf(w->keep, w->targets[p.first + c * p.step], w->share)
                               : (c == p.label ? w->keep + w->share : w->share);
    return w->weights ? t * w->weights[c] : t;
}

/* m and s are what the softmax of z found. */
__device__ float loss_of(const wanted *w, one_place p, const float *z, float m, float s)
{
    float u = 0;
    if (!w->targets && !w->weights) {
        for (int c = 0; c < w->classes && w->smoothing != 0; c++)
            u = u + (z[c * p.step] - m);
        const float right = z[p.label * p.step] - m;
        return ls_logf(s) - (w->smoothing == 0 ? right : fmaf(w->keep, right, w->share * u));
    }
    for (int c = 0; c < w->classes; c++)
        if (w->targets || w->smoothing != 0 || c == p.label)
            u = fmaf(target_of(w, p, c), ls_logf(s) - (z[c * p.step] - m), u);
    return u;
}

__global__ void cross_entropy(float *loss, float *probabilities, const float *logits, wanted w, size_t lanes,
                              ls_cuda_shards shards)
{
    LS_EACH_PIECE(i, lanes)
    {
        const one_place p = place_of(i, &w, &shards);
        const float *z = logits + p.first;
        if (!p.image) {
            loss[i] = 0;
            clear(probabilities + p.first, w.classes, p.step);
            continue;
        }
        const float m = largest(z, w.classes, p.step);
        const float s = softmax_of(probabilities + p.first, z, m, w.classes, p.step);
        loss[i] = p.label < 0 ? 0 : loss_of(&w, p, z, m, s);
    }
}

__global__ void cross_entropy_backward(float *dlogits, const float *dloss, const float *probabilities, wanted w,
                                       size_t lanes, ls_cuda_shards shards)
{
    const bool sums = w.targets || w.weights;
    LS_EACH_PIECE(i, lanes)
    {
        const one_place p = place_of(i, &w, &shards);
        const bool counts = p.image && p.label >= 0;
        float total = 0;
        for (int c = 0; c < w.classes && sums && counts; c++)
            total = total + target_of(&w, p, c);
        for (int c = 0; c < w.classes; c++) {
            const size_t at = p.first + c * p.step;
            const float t = counts ? target_of(&w, p, c) : 0;
            const float d = sums ? fmaf(total, probabilities[at], -t) : probabilities[at] - t;
            dlogits[at] = counts ? d * dloss[i] : 0;
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
            clear(y + first, features, LS_LANES);
        else
            softmax_of(y + first, x + first, largest(x + first, features, LS_LANES), features, LS_LANES);
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
    const wanted w = wanted_of(call, &call->in[0]);
    const size_t n = lanes_of(shards) * w.each;
    cross_entropy<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(call->out[0].data, call->out[1].data,
                                                                     call->in[0].data, w, n, *shards);
}

void ls_cuda_lanes_cross_entropy_backward(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const wanted w = wanted_of(call, &call->out[0]);
    const size_t n = lanes_of(shards) * w.each;
    cross_entropy_backward<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(call->out[0].data, call->in[0].data,
                                                                              call->in[1].data, w, n, *shards);
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
