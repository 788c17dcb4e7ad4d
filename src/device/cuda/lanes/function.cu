/* The functions of one number and their gradients. */
#include "device/cuda/lanes/numbers.cuh"
#include "device/function.h"

namespace
{

/* A thread has one number at a time, as most functions cost more than its way to the thread. */
template <bool BACKWARD>
__global__ void function(ls_op op, float *out, const float *a, const float *b, size_t n, size_t group_numbers,
                         ls_function_how how, ls_cuda_shards shards)
{
    LS_EACH_PIECE(i, n)
    {
        float y = 0;
        if ((int)(i % LS_LANES) < ls_cuda_lanes_in(&shards, (int)(i / group_numbers)))
            y = BACKWARD ? ls_function_backward(op, a[i], b[i], how) : ls_function(op, a[i], how);
        out[i] = y;
    }
}

} // namespace

void ls_cuda_lanes_function(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map out = ls_map_of(&call->out[0]);
    const ls_function_how how = ls_function_how_of(call->attributes);
    const size_t group = out.c * ls_map_places(out) * LS_LANES, n = ls_cuda_all_groups(shards) * group;
    const ls_op op = call->attributes->op;
    const float *const a = call->in[0].data, *const b = call->in[1].data;
    if (b)
        function<true><<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(op, out.data, a, b, n, group, how, *shards);
    else
        function<false><<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(op, out.data, a, b, n, group, how, *shards);
}
