/* Rows of a table by their numbers. Forward a thread has a number of y. Backward a block has a row of the table, looks
 * for it in the shard's numbers, and its threads have a feature each. */
#include "device/cuda/lanes/numbers.cuh"

namespace
{

enum { WARP = 32, WARPS = LS_CARD_THREADS / WARP, MOST_BLOCKS = 1 << 16 };

__global__ void embedding(ls_map y, const float *x, const float *table, int rows, size_t numbers, ls_cuda_shards shards)
{
    LS_EACH_PIECE(i, numbers)
    {
        const size_t token = i / LS_LANES / y.h;
        const int lane = (int)(i % LS_LANES), feature = (int)(i / LS_LANES % y.h);
        const int row = ls_table_row(x[token * LS_LANES + lane], rows);
        const bool image = lane < ls_cuda_lanes_in(&shards, (int)(token / y.c));
        y.data[i] = !image ? 0 : row < 0 ? nanf("") : table[(size_t)row * y.h + feature];
    }
}

/* Bit i of each warp's word: thread i of it found the row. */
__device__ inline void find(bool found, unsigned words[WARPS])
{
    unsigned bits = found ? 1u << threadIdx.x % WARP : 0;
    for (unsigned half = WARP / 2; half > 0; half /= 2)
        bits |= __shfl_xor_sync(~0u, bits, half);
    __syncthreads(); /* the words before were read */
    if (threadIdx.x % WARP == 0)
        words[threadIdx.x / WARP] = bits;
    __syncthreads();
}

__global__ void embedding_backward(float *dtable, size_t step, ls_map dy, const float *x, int rows,
                                   ls_cuda_shards shards)
{
    __shared__ unsigned words[WARPS];
    const int shard = blockIdx.y, images = ls_cuda_images_in(&shards, shard), features = dy.h;
    const size_t each = (size_t)ls_cuda_groups_of(shards.images) * dy.c * LS_LANES;
    const size_t n = (size_t)ls_cuda_groups_of(images) * dy.c * LS_LANES;
    x += shard * each;
    const float *const from = dy.data + shard * each * features;
    for (int row = blockIdx.x; row < rows; row += gridDim.x)
        for (int first = 0; first < features; first += blockDim.x) {
            const int feature = first + threadIdx.x;
            float total = 0;
            for (size_t begin = 0; begin < n; begin += blockDim.x) {
                const size_t at = begin + threadIdx.x;
                const int image = (int)(at / LS_LANES / dy.c * LS_LANES + at % LS_LANES);
                find(at < n && image < images && ls_table_row(x[at], rows) == row, words);
                for (int i = 0; i < WARPS && feature < features; i++)
                    for (unsigned left = words[i], k = 0; left; left >>= 1, k++) {
                        const size_t number = begin + i * WARP + k;
                        if (left & 1)
                            total =
                                total + from[(number / LS_LANES * features + feature) * LS_LANES + number % LS_LANES];
                    }
            }
            if (feature < features)
                dtable[shard * step + (size_t)row * features + feature] = total;
        }
}

} // namespace

void ls_cuda_lanes_embedding(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map y = ls_map_of(&call->out[0]);
    const size_t n = ls_map_pieces(y, shards) * LS_QUAD;
    embedding<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(y, call->in[0].data, call->in[1].data,
                                                                 call->in[1].c / y.h, n, *shards);
}

void ls_cuda_lanes_embedding_backward(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map dy = ls_map_of(&call->in[0]);
    const int rows = call->out[0].c / dy.h;
    const dim3 blocks((unsigned)(rows < MOST_BLOCKS ? rows : MOST_BLOCKS), (unsigned)shards->shards);
    embedding_backward<<<blocks, LS_CARD_THREADS, 0, stream>>>(call->out[0].data, shards->out_step[0], dy,
                                                               call->in[1].data, rows, *shards);
}
