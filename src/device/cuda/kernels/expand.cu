/* Repeating numbers along channels, rows and columns, and the sums that are its gradient. */
#include "device/cuda/kernels/numbers.cuh"

namespace
{

/* Where x, which has 1 along what is repeated, has the number of that place. */
__device__ size_t repeated_at(ls_place at, ls_cuda_shape x, int weight)
{
    const size_t c = x.c == 1 ? 0 : at.c, row = x.h == 1 ? 0 : at.row, column = x.w == 1 ? 0 : at.column;
    return weight ? (c * x.h + row) * x.w + column : ((at.image * x.h + row) * x.w + column) * x.c + c;
}

template <typename T, typename X>
__global__ void expand(T *y, ls_cuda_shape shape, const X *x, ls_cuda_shape small, int weight, size_t n)
{
    for (size_t i = ls_thread(); i < n; i += ls_threads())
        ls_store(y + i, ls_load(x + repeated_at(ls_place_of(i, shape), small, weight)));
}

/* A block at a time makes one number of dx: its threads take the places that it was repeated in by turns, and their
 * sums are added in a tree. */
template <typename T, typename X>
__global__ void sum_repeated(X *dx, ls_cuda_shape small, int weight, const T *dy, ls_cuda_shape shape, size_t n)
{
    const unsigned channels = small.c == 1 ? shape.c : 1, rows = small.h == 1 ? shape.h : 1,
                   columns = small.w == 1 ? shape.w : 1;
    const size_t images = weight ? shape.images : 1, terms = images * channels * rows * columns;
    for (size_t i = blockIdx.x; i < n; i += gridDim.x) {
        const ls_place first = ls_place_of(i, small);
        float sum = 0;
        for (size_t k = threadIdx.x; k < terms; k += blockDim.x) {
            unsigned c, row, column;
            const size_t image = ls_split(ls_split(ls_split(k, channels, &c), columns, &column), rows, &row);
            const size_t line = ((first.image + image) * shape.h + first.row + row) * shape.w + first.column + column;
            sum += ls_load(dy + line * shape.c + first.c + c);
        }
        sum = ls_block_sum(sum);
        if (threadIdx.x == 0)
            ls_store(dx + repeated_at(first, small, weight), sum);
    }
}

} // namespace

void ls_cuda_expand(cudaStream_t stream, int half, void *y, ls_cuda_shape shape, const void *x, ls_cuda_shape small,
                    int weight)
{
    const size_t n = ls_cuda_numbers(shape);
    const unsigned blocks = ls_cuda_blocks(n);
    if (weight)
        LS_BY_TYPE(half, expand<<<blocks, LS_CUDA_THREADS, 0, stream>>>((T *)y, shape, (const float *)x, small, 1, n));
    else
        LS_BY_TYPE(half, expand<<<blocks, LS_CUDA_THREADS, 0, stream>>>((T *)y, shape, (const T *)x, small, 0, n));
}

void ls_cuda_expand_backward(cudaStream_t stream, int half, void *dx, ls_cuda_shape small, int weight, const void *dy,
                             ls_cuda_shape shape)
{
    small.images = weight ? 1 : small.images;
    const size_t n = ls_cuda_numbers(small);
    const unsigned blocks = (unsigned)(n < LS_CUDA_MOST_BLOCKS ? n : LS_CUDA_MOST_BLOCKS);
    if (weight)
        LS_BY_TYPE(
            half, sum_repeated<<<blocks, LS_CUDA_THREADS, 0, stream>>>((float *)dx, small, 1, (const T *)dy, shape, n));
    else
        LS_BY_TYPE(half,
                   sum_repeated<<<blocks, LS_CUDA_THREADS, 0, stream>>>((T *)dx, small, 0, (const T *)dy, shape, n));
}
