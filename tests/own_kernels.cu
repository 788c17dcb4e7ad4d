/* Compiled with -fmad=false, so that nothing is contracted. */
#include "own_kernels.h"

#include <cuda_runtime_api.h>

/* On an emulated card kernels run where they are launched, and touch its memory between these two. */
#ifdef TESTS_EMULATED_EMULATE_H
#include "stream.h"
static void enter(void *stream)
{
    ((emulated_stream *)stream)->enter();
}
static bool leave(void *stream)
{
    ((emulated_stream *)stream)->leave();
    return true;
}
#else
static void enter(void *)
{
}
static bool leave(void *)
{
    return cudaGetLastError() == cudaSuccess;
}
#endif

namespace
{

enum { THREADS = 128 };

struct sizes {
    int rows, channels, places;
};

sizes sizes_of(const ls_custom_call *call)
{
    return {call->rows, call->in[0][0], call->in[0][1] * call->in[0][2]};
}

unsigned blocks_for(int n)
{
    return (unsigned)((n + THREADS - 1) / THREADS);
}

__global__ void weigh(float *y, const float *x, const float *w, sizes s)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < s.rows * s.channels * s.places)
        y[i] = w[i / s.places % s.channels] * (x[i] * x[i]);
}

__global__ void slopes_of_x(float *dx, const float *x, const float *w, const float *dy, sizes s)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < s.rows * s.channels * s.places)
        dx[i] = 2 * w[i / s.places % s.channels] * x[i] * dy[i];
}

/* A thread for each channel, so that the sum has one order. */
__global__ void slope_of_w(float *dw, const float *x, const float *dy, sizes s)
{
    const int channel = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    float sum = 0;
    for (int row = 0; channel < s.channels && row < s.rows; row++)
        for (int place = 0; place < s.places; place++) {
            const int i = (row * s.channels + channel) * s.places + place;
            sum += dy[i] * (x[i] * x[i]);
        }
    if (channel < s.channels)
        dw[channel] = sum;
}

} // namespace

bool own_kernel_forward(const ls_custom_call *call, const float *const in[], float *out, void *stream)
{
    const sizes s = sizes_of(call);
    enter(stream);
    weigh<<<blocks_for(s.rows * s.channels * s.places), THREADS, 0, (cudaStream_t)stream>>>(out, in[0], in[1], s);
    return leave(stream);
}

bool own_kernel_backward(const ls_custom_call *call, const float *const in[], const float *, const float *dout,
                         float *const din[], void *stream)
{
    const sizes s = sizes_of(call);
    enter(stream);
    if (din[0])
        slopes_of_x<<<blocks_for(s.rows * s.channels * s.places), THREADS, 0, (cudaStream_t)stream>>>(din[0], in[0],
                                                                                                      in[1], dout, s);
    if (din[1])
        slope_of_w<<<blocks_for(s.channels), THREADS, 0, (cudaStream_t)stream>>>(din[1], in[0], dout, s);
    return leave(stream);
}
