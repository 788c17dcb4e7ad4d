/* Numbers put elsewhere: operands one after another, and parts, borders and transpositions. */
#include "device/cuda/kernels/numbers.cuh"

namespace
{

template <typename T>
__global__ void place(T *whole, ls_cuda_shape shape, const T *part, ls_cuda_shape small, ls_place first, size_t n)
{
    for (size_t i = ls_thread(); i < n; i += ls_threads()) {
        const ls_place at = ls_place_of(i, small);
        const size_t row = (at.image * shape.h + first.row + at.row) * shape.w + first.column + at.column;
        whole[row * shape.c + first.c + at.c] = part[i];
    }
}

template <typename T>
__global__ void view(T *y, ls_cuda_shape shape, const T *x, ls_cuda_shape has, ls_view_steps s, float border, size_t n)
{
    const unsigned places = (unsigned)(has.h * has.w);
    for (size_t i = ls_thread(); i < n; i += ls_threads()) {
        const ls_place at = ls_place_of(i, shape);
        const int c = (int)at.c, row = (int)at.row, column = (int)at.column;
        if (c < s.low[0] || c >= s.high[0] || row < s.low[1] || row >= s.high[1] || column < s.low[2] ||
            column >= s.high[2]) {
            ls_store(y + i, border);
            continue;
        }
        unsigned place;
        const size_t from = (size_t)(s.first + c * s.step[0] + row * s.step[1] + column * s.step[2]),
                     channel = ls_split(from, places, &place);
        y[i] = x[(at.image * places + place) * has.c + channel];
    }
}

} // namespace

void ls_cuda_place(cudaStream_t stream, int half, void *whole, ls_cuda_shape shape, const void *part,
                   ls_cuda_shape small, int axis, int at)
{
    const unsigned first = (unsigned)at;
    const ls_place begins = {0, axis == 0 ? first : 0, axis == 1 ? first : 0, axis == 2 ? first : 0};
    const size_t n = ls_cuda_numbers(small);
    LS_BY_TYPE(half, place<T><<<ls_cuda_blocks(n), LS_CUDA_THREADS, 0, stream>>>((T *)whole, shape, (const T *)part,
                                                                                 small, begins, n));
}

void ls_cuda_view(cudaStream_t stream, int half, void *y, ls_cuda_shape shape, const void *x, ls_cuda_shape has,
                  const ls_view_steps *steps, float border)
{
    const size_t n = ls_cuda_numbers(shape);
    LS_BY_TYPE(half, view<T><<<ls_cuda_blocks(n), LS_CUDA_THREADS, 0, stream>>>((T *)y, shape, (const T *)x, has,
                                                                                *steps, border, n));
}
