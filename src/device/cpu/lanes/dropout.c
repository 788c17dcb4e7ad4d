/* Dropout: the random numbers of sixteen images side by side. */
#include "base/random.h"
#include "device/cpu/lanes/plane.h"

/* Sixteen streams; block i of each is ls_philox with their own key and tail. */
typedef struct streams {
    uint32_t key[2][LS_LANES], tail[2][LS_LANES];
} streams;

/* The first two words of block i, in loops that compilers turn into vectors. */
static void philox16(const streams *s, uint64_t i, uint32_t low[LS_LANES], uint32_t high[LS_LANES])
{
    uint32_t c0[LS_LANES], c1[LS_LANES], c2[LS_LANES], c3[LS_LANES];
    for (int lane = 0; lane < LS_LANES; lane++) {
        c0[lane] = (uint32_t)i;
        c1[lane] = (uint32_t)(i >> 32);
        c2[lane] = s->tail[0][lane];
        c3[lane] = s->tail[1][lane];
    }
    for (uint32_t round = 0; round < 10; round++)
        for (int lane = 0; lane < LS_LANES; lane++) {
            const uint64_t p0 = (uint64_t)0xd2511f53u * c0[lane], p1 = (uint64_t)0xcd9e8d57u * c2[lane];
            c0[lane] = (uint32_t)(p1 >> 32) ^ c1[lane] ^ (s->key[0][lane] + round * 0x9e3779b9u);
            c1[lane] = (uint32_t)p1;
            c2[lane] = (uint32_t)(p0 >> 32) ^ c3[lane] ^ (s->key[1][lane] + round * 0xbb67ae85u);
            c3[lane] = (uint32_t)p0;
        }
    for (int lane = 0; lane < LS_LANES; lane++) {
        low[lane] = c0[lane];
        high[lane] = c1[lane];
    }
}

/* k * 2^-53 is below the rate where the whole number k is below this. */
static uint64_t limit_of(float rate)
{
    const double bound = (double)rate * 0x1p53;
    const uint64_t whole = (uint64_t)bound;
    return whole + ((double)whole < bound);
}

static streams streams_of(const ls_op_call *call, int group, int lanes)
{
    const ls_samples *samples = call->samples;
    streams all;
    for (int lane = 0; lane < LS_LANES; lane++) {
        const uint64_t sample = lane < lanes ? samples->index[group * LS_LANES + lane] : 0;
        const ls_random_stream stream = {samples->seed, LS_FOR_DROPOUT, call->attributes->key ^ sample, samples->step};
        const ls_derived from = ls_random_derive(&stream);
        for (int k = 0; k < 2; k++) {
            all.key[k][lane] = from.key[k];
            all.tail[k][lane] = from.tail[k];
        }
    }
    return all;
}

static void dropout(const ls_op_call *call)
{
    const ls_operand *out = &call->out[0];
    const ptrdiff_t places = (ptrdiff_t)out->c * out->h * out->w;
    const float rest = 1.0f / (1.0f - call->attributes->factor);
    const uint64_t limit = limit_of(call->attributes->factor);
    const float *x = call->in[0].data;
    float *to = out->data;
    for (int group = 0; group < call->groups; group++) {
        const int lanes = lanes_of_group(call->samples->count, group);
        const streams all = streams_of(call, group, lanes);
        for (ptrdiff_t place = 0; place < places; place++, x += LS_LANES, to += LS_LANES) {
            uint32_t low[LS_LANES], high[LS_LANES];
            philox16(&all, (uint64_t)place, low, high);
            for (int lane = 0; lane < LS_LANES; lane++) {
                const uint64_t number = ((uint64_t)high[lane] << 32 | low[lane]) >> 11;
                const float kept = x[lane] * rest;
                to[lane] = lane < lanes && number >= limit ? kept : 0.0f;
            }
        }
    }
}

void LANES(ls_lanes_add_dropout)(ls_backend *backend)
{
    backend->kernel[LS_OP_DROPOUT] = dropout;
}
