/* LSTM and GRU, and the token in front of a length. A launch is one token of all groups: in it a block has UNITS
 * features of a group, and a thread four lanes of one of them, forward all of its gates. What the sums are over goes
 * through shared memory in chunks, so that each number of the weights is fetched once for a group's lanes. */
#include "device/cuda/lanes/numbers.cuh"
#include "device/recurrent.h"

namespace
{

enum { UNITS = 16, THREADS = UNITS * LS_QUADS, CHUNK = 32, MOST_GATES = LS_LSTM_GATES, MOST_SAVED = LS_LSTM_SAVED };

/* A pass at one token; before and after it in the forward pass, -1 for none. */
struct pass {
    int tokens, h, token, before, after;
    const float *weights, *bias, *lengths;
};

/* Where an operand with so many rows a token has the lanes of one. */
__device__ inline size_t at(const pass &s, int group, int token, int rows, int row)
{
    return (((size_t)group * s.tokens + token) * rows + row) * LS_LANES;
}

/* How many tokens of the thread's images count. */
__device__ inline void count(const pass &s, const ls_cuda_shards &shards, int group, int lane, int ends[LS_QUAD])
{
    for (int l = 0; l < LS_QUAD; l++) {
        const float *const length = s.lengths ? s.lengths + (size_t)group * LS_LANES + lane + l : NULL;
        ends[l] = ls_tokens_in(length, s.tokens, lane + l < ls_cuda_lanes_in(&shards, group));
    }
}

/* Rows of 16 lanes from one on into shared memory. */
__device__ inline void fetch(ls_quad to[CHUNK][LS_QUADS], const float *from, int rows)
{
    for (int i = threadIdx.x; i < rows * LS_QUADS; i += THREADS)
        to[i / LS_QUADS][i % LS_QUADS] = ls_quad_load(from + i * LS_QUAD);
}

/* a of the gates, whose products are with y at the token before. */
template <int GATES>
__device__ inline void sums(const pass &s, const float *y, int group, int first, int unit, int lane,
                            ls_quad a[MOST_GATES])
{
    __shared__ ls_quad state[CHUNK][LS_QUADS];
    __shared__ float weights[MOST_GATES][UNITS][CHUNK + 1];
    for (int q = 0; q < GATES; q++)
        a[q] = ls_quad_set(s.bias && unit < s.h ? s.bias[q * s.h + unit] : 0);
    for (int k = 0; s.before >= 0 && k < s.h; k += CHUNK) {
        const int n = s.h - k < CHUNK ? s.h - k : CHUNK;
        __syncthreads(); /* the chunk before was read */
        fetch(state, y + at(s, group, s.before, s.h, k), n);
        for (int i = threadIdx.x; i < GATES * UNITS * CHUNK; i += THREADS) {
            const int q = i / CHUNK / UNITS, u = i / CHUNK % UNITS, column = i % CHUNK;
            if (first + u < s.h && column < n)
                weights[q][u][column] = s.weights[((size_t)q * s.h + first + u) * s.h + k + column];
        }
        __syncthreads();
        for (int i = 0; i < n && unit < s.h; i++) {
            const ls_quad x = state[i][lane / LS_QUAD];
            for (int q = 0; q < GATES; q++)
                for (int l = 0; l < LS_QUAD; l++)
                    a[q].at[l] = fmaf(weights[q][unit - first][i], x.at[l], a[q].at[l]);
        }
    }
}

template <int GATES, int SAVED>
__global__ void forward(pass s, const float *p, float *y, float *saved, ls_cuda_shards shards)
{
    const int group = blockIdx.y, first = blockIdx.x * UNITS, unit = first + threadIdx.x / LS_QUADS;
    const int lane = threadIdx.x % LS_QUADS * LS_QUAD;
    ls_quad a[MOST_GATES];
    sums<GATES>(s, y, group, first, unit, lane, a);
    if (unit >= s.h)
        return;
    const bool lstm = GATES == LS_LSTM_GATES;
    int ends[LS_QUAD];
    count(s, shards, group, lane, ends);
    for (int l = 0; l < LS_QUAD; l++) {
        const bool counts = s.token < ends[l];
        float x[MOST_GATES], sum[MOST_GATES], kept[MOST_SAVED], last = 0;
        for (int q = 0; q < GATES; q++) {
            x[q] = p[at(s, group, s.token, GATES * s.h, q * s.h + unit) + lane + l];
            sum[q] = a[q].at[l];
        }
        if (s.before >= 0)
            last = lstm ? saved[at(s, group, s.before, SAVED * s.h, 4 * s.h + unit) + lane + l]
                        : y[at(s, group, s.before, s.h, unit) + lane + l];
        const float made = lstm ? ls_lstm_step(x, sum, last, kept) : ls_gru_step(x, sum, last, kept);
        y[at(s, group, s.token, s.h, unit) + lane + l] = ends[l] < 0 ? nanf("") : counts ? made : 0;
        for (int q = 0; q < SAVED; q++)
            saved[at(s, group, s.token, SAVED * s.h, q * s.h + unit) + lane + l] = counts ? kept[q] : 0;
    }
}

/* u: over the gates' rows of the token after. */
template <int GATES>
__device__ inline void sum_back(const pass &s, const float *da, int group, int first, int unit, int lane, ls_quad *u)
{
    __shared__ ls_quad slopes[CHUNK][LS_QUADS];
    __shared__ float weights[CHUNK][UNITS];
    const int rows = GATES * s.h;
    for (int r = 0; s.after >= 0 && r < rows; r += CHUNK) {
        const int n = rows - r < CHUNK ? rows - r : CHUNK;
        __syncthreads(); /* the chunk before was read */
        fetch(slopes, da + at(s, group, s.after, rows, r), n);
        for (int i = threadIdx.x; i < n * UNITS; i += THREADS)
            if (first + i % UNITS < s.h)
                weights[i / UNITS][i % UNITS] = s.weights[(size_t)(r + i / UNITS) * s.h + first + i % UNITS];
        __syncthreads();
        for (int i = 0; i < n && unit < s.h; i++) {
            const ls_quad x = slopes[i][lane / LS_QUAD];
            for (int l = 0; l < LS_QUAD; l++)
                u->at[l] = fmaf(weights[i][unit - first], x.at[l], u->at[l]);
        }
    }
}

/* `carries`: [group][feature][16]. */
template <int GATES, int SAVED>
__global__ void backward(pass s, const float *dy, const float *saved, const float *y, float *dp, float *da,
                         float *carries, ls_cuda_shards shards)
{
    const bool lstm = GATES == LS_LSTM_GATES;
    const int group = blockIdx.y, first = blockIdx.x * UNITS, unit = first + threadIdx.x / LS_QUADS;
    const int lane = threadIdx.x % LS_QUADS * LS_QUAD;
    float *const carried = carries + ((size_t)group * s.h + unit) * LS_LANES + lane;
    const bool some = s.after >= 0 && unit < s.h;
    const ls_quad brought = some ? ls_quad_load(carried) : ls_quad_set(0);
    ls_quad u = lstm ? ls_quad_set(0) : brought;
    sum_back<GATES>(s, lstm ? dp : da, group, first, unit, lane, &u);
    if (unit >= s.h)
        return;
    int ends[LS_QUAD];
    count(s, shards, group, lane, ends);
    for (int l = 0; l < LS_QUAD; l++) {
        const bool counts = s.token < ends[l];
        float kept[MOST_SAVED], x[MOST_GATES], sum[MOST_GATES], last = 0, carry = brought.at[l];
        for (int q = 0; q < SAVED; q++)
            kept[q] = saved[at(s, group, s.token, SAVED * s.h, q * s.h + unit) + lane + l];
        if (s.before >= 0)
            last = lstm ? saved[at(s, group, s.before, SAVED * s.h, 4 * s.h + unit) + lane + l]
                        : y[at(s, group, s.before, s.h, unit) + lane + l];
        float d = dy[at(s, group, s.token, s.h, unit) + lane + l];
        if (s.after >= 0)
            d = d + u.at[l];
        if (lstm)
            ls_lstm_slopes(d, kept, last, &carry, x);
        else
            ls_gru_slopes(d, kept, last, &carry, x, sum);
        carried[l] = counts ? carry : 0;
        for (int q = 0; q < GATES; q++) {
            const size_t to = at(s, group, s.token, GATES * s.h, q * s.h + unit) + lane + l;
            dp[to] = counts ? x[q] : 0;
            if (!lstm)
                da[to] = counts ? sum[q] : 0;
        }
    }
}

/* Number i of y, or of dx: the token in front of its image's length. */
__global__ void last_token(ls_map y, ls_map x, const float *lengths, size_t numbers, ls_cuda_shards shards)
{
    LS_EACH_PIECE(i, numbers)
    {
        const int lane = (int)(i % LS_LANES), feature = (int)(i / LS_LANES % y.c);
        const int group = (int)(i / LS_LANES / y.c);
        const int end =
            ls_tokens_in(lengths + (size_t)group * LS_LANES + lane, x.c, lane < ls_cuda_lanes_in(&shards, group));
        y.data[i] = end < 0 ? nanf("") : end ? x.data[ls_map_at(x, group, end - 1, feature, 0) + lane] : 0;
    }
}

__global__ void last_token_backward(ls_map dx, const float *dy, const float *lengths, size_t numbers,
                                    ls_cuda_shards shards)
{
    LS_EACH_PIECE(i, numbers)
    {
        const int lane = (int)(i % LS_LANES), feature = (int)(i / LS_LANES % dx.h);
        const int token = (int)(i / LS_LANES / dx.h % dx.c), group = (int)(i / LS_LANES / dx.h / dx.c);
        const int end =
            ls_tokens_in(lengths + (size_t)group * LS_LANES + lane, dx.c, lane < ls_cuda_lanes_in(&shards, group));
        dx.data[i] = end == token + 1 ? dy[((size_t)group * dx.h + feature) * LS_LANES + lane] : 0;
    }
}

pass pass_of(const ls_op_call *call, const ls_operand &y, const ls_operand &weights, const float *bias)
{
    pass s = {};
    s.tokens = y.c;
    s.h = y.h;
    s.weights = weights.data;
    s.bias = bias;
    s.lengths = call->in[3].data;
    return s;
}

/* At what the forward pass comes to after so many tokens. */
void set_token(pass *s, int stride, int nth)
{
    const int last = s->tokens - 1, token = stride > 0 ? nth : last - nth;
    s->token = token;
    s->before = nth > 0 ? token - stride : -1;
    s->after = nth < last ? token + stride : -1;
}

dim3 blocks_of(const pass &s, const ls_cuda_shards *shards)
{
    return dim3((unsigned)((s.h + UNITS - 1) / UNITS), (unsigned)ls_cuda_all_groups(shards));
}

} // namespace

void ls_cuda_lanes_recurrent(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const bool lstm = call->attributes->op == LS_OP_LSTM;
    const float *const p = call->in[0].data;
    float *const y = call->out[0].data, *const saved = call->out[1].data;
    pass s = pass_of(call, call->out[0], call->in[1], call->in[2].data);
    for (int nth = 0; nth < s.tokens; nth++) {
        set_token(&s, call->attributes->stride, nth);
        if (lstm)
            forward<LS_LSTM_GATES, LS_LSTM_SAVED>
                <<<blocks_of(s, shards), THREADS, 0, stream>>>(s, p, y, saved, *shards);
        else
            forward<LS_GRU_GATES, LS_GRU_SAVED><<<blocks_of(s, shards), THREADS, 0, stream>>>(s, p, y, saved, *shards);
    }
}

void ls_cuda_lanes_recurrent_backward(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const bool lstm = call->attributes->op == LS_OP_LSTM_BACKWARD;
    const float *const dy = call->in[0].data, *const saved = call->in[1].data, *const y = call->in[4].data;
    float *const dp = call->out[0].data, *const da = call->out[1].data, *const carries = (float *)call->scratch;
    pass s = pass_of(call, call->in[0], call->in[2], NULL);
    for (int nth = s.tokens - 1; nth >= 0; nth--) {
        set_token(&s, call->attributes->stride, nth);
        if (lstm)
            backward<LS_LSTM_GATES, LS_LSTM_SAVED>
                <<<blocks_of(s, shards), THREADS, 0, stream>>>(s, dy, saved, y, dp, da, carries, *shards);
        else
            backward<LS_GRU_GATES, LS_GRU_SAVED>
                <<<blocks_of(s, shards), THREADS, 0, stream>>>(s, dy, saved, y, dp, da, carries, *shards);
    }
}

size_t ls_cuda_lanes_recurrent_scratch(const ls_op_call *call, const ls_cuda_shards *shards)
{
    return (size_t)ls_cuda_all_groups(shards) * call->in[0].h * LS_LANES * sizeof(float);
}

void ls_cuda_lanes_last_token(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map y = ls_map_of(&call->out[0]);
    const size_t n = ls_map_pieces(y, shards) * LS_QUAD;
    last_token<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(y, ls_map_of(&call->in[0]), call->in[1].data, n,
                                                                  *shards);
}

void ls_cuda_lanes_last_token_backward(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    const ls_map dx = ls_map_of(&call->out[0]);
    const size_t n = ls_map_pieces(dx, shards) * LS_QUAD;
    last_token_backward<<<ls_card_blocks(n), LS_CARD_THREADS, 0, stream>>>(dx, call->in[0].data, call->in[1].data, n,
                                                                           *shards);
}
