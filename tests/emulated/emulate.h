/* Runs the card's kernels on the host, so that what they compute is tested where there is no card: block after block, a
 * thread at a time, and where a kernel waits for its block's threads each of them as a fiber. Included in front of a
 * kernel's source, whose launches launches.py has turned into calls of emulate_launch. Nothing of this says how a card
 * schedules, or how fast it is. */
#ifndef TESTS_EMULATED_EMULATE_H
#define TESTS_EMULATED_EMULATE_H

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>
#include <functional>
#include <math.h>
#include <string.h>

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __grid_constant__
#undef __launch_bounds__
#define __global__
#define __device__
#define __host__
#define __shared__ static /* blocks run one after another */
#define __grid_constant__
#define __launch_bounds__(...)

struct emulate_index {
    unsigned x, y, z;
};
extern emulate_index threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

/* Waits for the block's threads, or for those of the warp. */
void emulate_barrier();
void emulate_warp_barrier();
#define __syncthreads emulate_barrier

/* What the thread of the warp with number `from` hands in, when all of its threads have handed in something. */
void emulate_exchange(const void *mine, void *got, size_t bytes, unsigned from);
unsigned emulate_lane();

template <typename T> T emulate_shuffle(T x, unsigned from, unsigned width)
{
    const unsigned lane = emulate_lane();
    emulate_exchange(&x, &x, sizeof x, from / width == lane / width ? from : lane);
    return x;
}

template <typename T> T __shfl_down_sync(unsigned, T x, unsigned by, int width = 32)
{
    return emulate_shuffle(x, emulate_lane() + by, (unsigned)width);
}

template <typename T> T __shfl_xor_sync(unsigned, T x, unsigned by, int width = 32)
{
    return emulate_shuffle(x, emulate_lane() ^ by, (unsigned)width);
}

inline int atomicAdd(int *to, int x)
{
    return (*to += x) - x;
}

inline void __syncwarp(unsigned = ~0u)
{
    emulate_warp_barrier();
}

/* The block's shared memory whose size is the launch's. It begins as NaNs. */
void *emulate_shared();

/* Copies from global to shared memory that run beside the thread. They may arrive at once or as late as they are waited
 * for: in every second block the one, and in the others the other. */
void __pipeline_memcpy_async(void *to, const void *from, size_t bytes);
void __pipeline_commit();
void __pipeline_wait_prior(size_t groups);

/* `together`: the block's threads wait for each other. `shared`: bytes of emulate_shared. */
void emulate_launch(dim3 grid, dim3 block, size_t shared, bool together, const std::function<void()> &kernel);

using std::isfinite;

#endif
