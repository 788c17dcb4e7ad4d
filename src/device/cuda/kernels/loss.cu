/* Losses and what is counted: a thread for an image where the classes are few, a block where all images are summed. */
#include "device/cuda/kernels/numbers.cuh"

namespace
{

template <typename T> __device__ float largest(const T *z, int classes)
{
    float m = ls_load(z);
    for (int c = 1; c < classes; c++) {
        const float x = ls_load(z + c);
        m = x > m ? x : m;
    }
    return m;
}

/* p = softmax of z; returns the sum of the exponentials. */
template <typename T, typename P> __device__ float softmax_of(P *p, const T *z, float m, int classes)
{
    float s = 0;
    for (int c = 0; c < classes; c++)
        s += expf(ls_load(z + c) - m);
    for (int c = 0; c < classes; c++)
        ls_store(p + c, expf(ls_load(z + c) - m) / s);
    return s;
}

/* What class c is to be at place i; `label` is not read where there are targets. */
template <typename T> __device__ float target_of(const ls_cuda_targets *w, size_t i, int label, int c)
{
    const float share = w->smoothing / w->classes, keep = 1 - w->smoothing;
    const float t = w->targets ? fmaf(keep, ls_load((const T *)w->targets + i * w->classes + c), share)
                               : (c == label ? keep + share : share);
    return w->weights ? t * w->weights[c] : t;
}

template <typename T> __device__ float weighted_loss(const ls_cuda_targets *w, size_t i, const T *z, float m, float s)
{
    const int label = w->targets ? 0 : w->labels[i];
    float sum = 0;
    for (int c = 0; c < w->classes; c++)
        if (w->targets || w->smoothing != 0 || c == label)
            sum = fmaf(target_of<T>(w, i, label, c), logf(s) - (ls_load(z + c) - m), sum);
    return label < 0 ? 0 : sum;
}

template <typename T> __global__ void cross_entropy(float *loss, float *p, const T *logits, ls_cuda_targets w)
{
    for (size_t i = ls_thread(); i < w.places; i += ls_threads()) {
        const T *z = logits + i * w.classes;
        const float m = largest(z, w.classes), s = softmax_of(p + i * w.classes, z, m, w.classes);
        if (w.targets || w.weights || w.labels[i] < 0) {
            loss[i] = weighted_loss(&w, i, z, m, s);
            continue;
        }
        float right = ls_load(z + w.labels[i]) - m, all = 0;
        for (int c = 0; c < w.classes && w.smoothing != 0; c++)
            all += ls_load(z + c) - m;
        loss[i] = logf(s) - (w.smoothing == 0 ? right : fmaf(1 - w.smoothing, right, w.smoothing / w.classes * all));
    }
}

template <typename T>
__global__ void cross_entropy_backward(T *dlogits, const float *dloss, const float *p, ls_cuda_targets w)
{
    const bool sums = w.targets || w.weights;
    for (size_t i = ls_thread(); i < w.places * w.classes; i += ls_threads()) {
        const size_t place = i / w.classes;
        const int label = w.targets ? 0 : w.labels[place], at = (int)(i % w.classes);
        float total = sums ? 0 : 1;
        for (int c = 0; c < w.classes && sums; c++)
            total += target_of<T>(&w, place, label, c);
        const float d = (total * p[i] - target_of<T>(&w, place, label, at)) * dloss[place];
        ls_store(dlogits + i, label < 0 ? 0 : d);
    }
}

template <typename T> __global__ void softmax(T *y, const T *x, size_t images, int classes)
{
    for (size_t i = ls_thread(); i < images; i += ls_threads())
        softmax_of(y + i * classes, x + i * classes, largest(x + i * classes, classes), classes);
}

template <typename T> __global__ void softmax_backward(T *dx, const T *dy, const T *y, size_t images, int classes)
{
    for (size_t i = ls_thread(); i < images; i += ls_threads()) {
        const size_t first = i * classes;
        float s = 0;
        for (int c = 0; c < classes; c++)
            s = fmaf(ls_load(dy + first + c), ls_load(y + first + c), s);
        for (int c = 0; c < classes; c++)
            ls_store(dx + first + c, ls_load(y + first + c) * (ls_load(dy + first + c) - s));
    }
}

__global__ void fill(float *out, const float *value, size_t n)
{
    for (size_t i = ls_thread(); i < n; i += ls_threads())
        out[i] = *value;
}

/* One block. */
__global__ void sum_images(float *out, const float *x, int images)
{
    float sum = 0;
    for (int i = threadIdx.x; i < images; i += blockDim.x)
        sum += x[i];
    sum = ls_block_sum(sum);
    if (threadIdx.x == 0)
        *out = sum;
}

template <typename T>
__global__ void count_correct(float *out, const T *logits, const int32_t *labels, int images, int classes)
{
    float right = 0; /* whole numbers below 2^24, in any order the same */
    for (int i = threadIdx.x; i < images; i += blockDim.x) {
        const T *z = logits + (size_t)i * classes;
        int best = 0;
        for (int c = 1; c < classes; c++)
            if (ls_load(z + c) > ls_load(z + best))
                best = c;
        right += best == labels[i];
    }
    right = ls_block_sum(right);
    if (threadIdx.x == 0)
        *out = right;
}

/* A block for each image. */
template <typename T> __global__ void sum_each(float *y, const T *a, const T *b, size_t numbers, float factor)
{
    const size_t first = blockIdx.x * numbers;
    float sum = 0;
    for (size_t i = threadIdx.x; i < numbers; i += blockDim.x) {
        const float d = b ? ls_load(a + first + i) - ls_load(b + first + i) : ls_load(a + first + i);
        sum = b ? fmaf(d, d, sum) : sum + d;
    }
    sum = ls_block_sum(sum);
    if (threadIdx.x == 0)
        y[blockIdx.x] = sum * factor;
}

template <typename T>
__global__ void sum_each_backward(T *d, const float *dy, const T *a, const T *b, size_t numbers, size_t n, float factor)
{
    for (size_t i = ls_thread(); i < n; i += ls_threads()) {
        const float slope = dy[i / numbers];
        ls_store(d + i, b ? (ls_load(a + i) - ls_load(b + i)) * (2 * factor) * slope : slope * factor);
    }
}

} // namespace

void ls_cuda_cross_entropy(cudaStream_t stream, int half, float *loss, float *probabilities, const void *logits,
                           ls_cuda_targets targets)
{
    LS_BY_TYPE(half, cross_entropy<T><<<ls_cuda_blocks(targets.places), LS_CUDA_THREADS, 0, stream>>>(
                         loss, probabilities, (const T *)logits, targets));
}

void ls_cuda_cross_entropy_backward(cudaStream_t stream, int half, void *dlogits, const float *dloss,
                                    const float *probabilities, ls_cuda_targets targets)
{
    const size_t n = targets.places * targets.classes;
    LS_BY_TYPE(half, cross_entropy_backward<T>
               <<<ls_cuda_blocks(n), LS_CUDA_THREADS, 0, stream>>>((T *)dlogits, dloss, probabilities, targets));
}

void ls_cuda_softmax(cudaStream_t stream, int half, void *y, const void *x, int images, int classes)
{
    LS_BY_TYPE(half, softmax<T>
               <<<ls_cuda_blocks(images), LS_CUDA_THREADS, 0, stream>>>((T *)y, (const T *)x, images, classes));
}

void ls_cuda_softmax_backward(cudaStream_t stream, int half, void *dx, const void *dy, const void *y, int images,
                              int classes)
{
    LS_BY_TYPE(half, softmax_backward<T><<<ls_cuda_blocks(images), LS_CUDA_THREADS, 0, stream>>>(
                         (T *)dx, (const T *)dy, (const T *)y, images, classes));
}

void ls_cuda_fill(cudaStream_t stream, float *out, const float *value, int images)
{
    fill<<<ls_cuda_blocks(images), LS_CUDA_THREADS, 0, stream>>>(out, value, images);
}

void ls_cuda_sum_images(cudaStream_t stream, float *out, const float *x, int images)
{
    sum_images<<<1, LS_CUDA_THREADS, 0, stream>>>(out, x, images);
}

void ls_cuda_count_correct(cudaStream_t stream, int half, float *out, const void *logits, const int32_t *labels,
                           int images, int classes)
{
    LS_BY_TYPE(half,
               count_correct<T><<<1, LS_CUDA_THREADS, 0, stream>>>(out, (const T *)logits, labels, images, classes));
}

void ls_cuda_sum_each(cudaStream_t stream, int half, float *y, const void *a, const void *b, ls_cuda_shape shape,
                      float factor)
{
    const size_t numbers = ls_cuda_numbers(shape) / shape.images;
    LS_BY_TYPE(half, sum_each<T>
               <<<shape.images, LS_CUDA_THREADS, 0, stream>>>(y, (const T *)a, (const T *)b, numbers, factor));
}

void ls_cuda_sum_each_backward(cudaStream_t stream, int half, void *d, const float *dy, const void *a, const void *b,
                               ls_cuda_shape shape, float factor)
{
    const size_t n = ls_cuda_numbers(shape);
    LS_BY_TYPE(half, sum_each_backward<T><<<ls_cuda_blocks(n), LS_CUDA_THREADS, 0, stream>>>(
                         (T *)d, dy, (const T *)a, (const T *)b, n / shape.images, n, factor));
}
