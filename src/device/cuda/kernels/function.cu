/* The functions of one number, by the definition that all devices have them by. */
#include "device/cuda/kernels/numbers.cuh"
#include "device/function.h"

namespace
{

/* In the order of op.h; a kernel for each, so that none carries another one's registers. */
template <int OP, typename T> __global__ void forward(T *y, const T *x, size_t n, ls_function_how how)
{
    for (size_t i = ls_thread(); i < n; i += ls_threads())
        ls_store(y + i, ls_function((ls_op)OP, ls_load(x + i), how));
}

template <int OP, typename T> __global__ void backward(T *dx, const T *dy, const T *v, size_t n, ls_function_how how)
{
    for (size_t i = ls_thread(); i < n; i += ls_threads())
        ls_store(dx + i, ls_function_backward((ls_op)OP, ls_load(dy + i), ls_load(v + i), how));
}

template <int OP, typename T>
void launch(cudaStream_t stream, const ls_attributes *attributes, void *y, const void *dy, const void *x, size_t n)
{
    const ls_function_how how = ls_function_how_of(attributes);
    const unsigned blocks = ls_cuda_blocks(n);
    if constexpr (OP < LS_OP_SQRT_BACKWARD)
        forward<OP, T><<<blocks, LS_CUDA_THREADS, 0, stream>>>((T *)y, (const T *)x, n, how);
    else
        backward<OP, T><<<blocks, LS_CUDA_THREADS, 0, stream>>>((T *)y, (const T *)dy, (const T *)x, n, how);
}

/* Of the operations from OP on, the one that it is. */
template <int OP, typename T>
void launch_from(cudaStream_t stream, const ls_attributes *attributes, void *y, const void *dy, const void *x, size_t n)
{
    if (attributes->op == OP)
        launch<OP, T>(stream, attributes, y, dy, x, n);
    else if constexpr (OP < LS_OP_GELU_TANH_BACKWARD)
        launch_from<OP + 1, T>(stream, attributes, y, dy, x, n);
}

} // namespace

void ls_cuda_function(cudaStream_t stream, int half, const ls_attributes *attributes, void *y, const void *dy,
                      const void *x, size_t n)
{
    LS_BY_TYPE(half, launch_from<LS_OP_EXP, T>(stream, attributes, y, dy, x, n));
}
