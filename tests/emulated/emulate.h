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

void emulate_barrier();
#define __syncthreads emulate_barrier

/* `together`: the block's threads wait for each other. */
void emulate_launch(dim3 grid, dim3 block, bool together, const std::function<void()> &kernel);

using std::isfinite;

#endif
