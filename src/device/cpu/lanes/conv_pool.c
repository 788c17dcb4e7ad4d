/* CONV_POOL and its gradients: a first layer's map is as large as what it is made of is small, so that it is never
 * stored. */
#include "device/cpu/lanes/cut.h"
#include "device/cpu/lanes/plane.h"

enum {
    KERNEL = 3,
    TAPS = KERNEL * KERNEL,
    WINDOW = 4,                   /* places */
    OUTPUTS = LS_PB >= 6 ? 4 : 2, /* at a time: WINDOW * OUTPUTS accumulators, which the registers hold beside a tap */
};

/* The outputs [o, o + n) of one group. */
typedef struct outputs {
    const float *x, *w, *bias; /* w and bias of output o; bias may be NULL */
    float *y;                  /* of output o, as are the signs, which may be NULL */
    ls_op_signs *signs;
    ptrdiff_t y_step, signs_step; /* from output to output */
    int channels, x_h, x_w, y_h, y_w;
    unsigned images; /* the lanes that hold one, as bits */
} outputs;

/* One window of the pool for vector v of the lanes: the map's four places, and whether they are above zero. */
LS_INLINE void window(const int n, const outputs *o, const float *x, int v, vf mean[OUTPUTS],
                      unsigned bits[OUTPUTS][WINDOW])
{
    vf acc[OUTPUTS][WINDOW];
    LS_UNROLL
    for (int i = 0; i < n; i++)
        LS_UNROLL
    for (int p = 0; p < WINDOW; p++)
        acc[i][p] = o->bias ? vf_set(o->bias[i]) : vf_zero();
    const float *w = o->w;
    for (int c = 0; c < o->channels; c++, w += TAPS, x += (ptrdiff_t)o->x_h * o->x_w * LS_LANES)
        LS_UNROLL
    for (int tap = 0; tap < TAPS; tap++) {
        const float *corner = x + ((ptrdiff_t)(tap / KERNEL) * o->x_w + tap % KERNEL) * LS_LANES;
        vf at[WINDOW];
        LS_UNROLL
        for (int p = 0; p < WINDOW; p++)
            at[p] = vf_load(corner + ((ptrdiff_t)(p / 2) * o->x_w + p % 2) * LS_LANES);
        LS_UNROLL
        for (int i = 0; i < n; i++) {
            const vf weight = vf_set(w[(ptrdiff_t)i * o->channels * TAPS + tap]);
            LS_UNROLL
            for (int p = 0; p < WINDOW; p++)
                acc[i][p] = vf_fma(weight, at[p], acc[i][p]);
        }
    }
    LS_UNROLL
    for (int i = 0; i < n; i++) {
        LS_UNROLL
        for (int p = 0; p < WINDOW; p++) {
            acc[i][p] = vf_relu(acc[i][p]);
            bits[i][p] |= vm_bits(vm_greater(acc[i][p], vf_zero())) << v * LS_VL;
        }
        mean[i] = (((acc[i][0] + acc[i][1]) + acc[i][2]) + acc[i][3]) * (1.0f / 4.0f);
    }
}

LS_INLINE void put_signs(const int n, const outputs *o, int row, int column, unsigned bits[OUTPUTS][WINDOW])
{
    const ptrdiff_t at = (ptrdiff_t)2 * row * 2 * o->y_w + 2 * column;
    LS_UNROLL
    for (int i = 0; i < n; i++)
        LS_UNROLL
    for (int p = 0; p < WINDOW; p++)
        o->signs[i * o->signs_step + at + (ptrdiff_t)(p / 2) * 2 * o->y_w + p % 2] =
            (ls_op_signs)(bits[i][p] & o->images);
}

LS_INLINE void pool_outputs(const int n, const outputs *o)
{
    for (int i = 0; i < o->y_h; i++)
        for (int j = 0; j < o->y_w; j++) {
            const float *x = o->x + ((ptrdiff_t)2 * i * o->x_w + 2 * j) * LS_LANES;
            unsigned bits[OUTPUTS][WINDOW] = {{0}};
            LS_UNROLL
            for (int v = 0; v < LS_NV; v++) {
                vf mean[OUTPUTS];
                window(n, o, x + v * LS_VL, v, mean, bits);
                LS_UNROLL
                for (int k = 0; k < n; k++)
                    vf_store(o->y + k * o->y_step + ((ptrdiff_t)i * o->y_w + j) * LS_LANES + v * LS_VL, mean[k]);
            }
            if (o->signs)
                put_signs(n, o, i, j, bits);
        }
    for (int k = 0; k < n && o->signs; k++)
        for (ptrdiff_t i = (ptrdiff_t)4 * o->y_h * o->y_w; i < o->signs_step; i++)
            o->signs[k * o->signs_step + i] = 0;
}

static void conv_pool(const ls_op_call *call)
{
    const ls_operand *x = &call->in[0], *y = &call->out[0];
    outputs o = {.y_step = (ptrdiff_t)y->h * y->w * LS_LANES,
                 .signs_step = (ptrdiff_t)ls_op_sign_places(2 * y->h, 2 * y->w) * 2 * LS_LANES,
                 .channels = x->c,
                 .x_h = x->h,
                 .x_w = x->w,
                 .y_h = y->h,
                 .y_w = y->w};
    const range mine = range_of(call, call->groups * y->c);
    for (int map = mine.from, n; map < mine.to; map += n) {
        const int group = map / y->c, first = map % y->c;
        n = y->c - first < OUTPUTS ? y->c - first : OUTPUTS;
        n = mine.to - map < n ? mine.to - map : n;
        o.x = x->data + (ptrdiff_t)group * x->c * x->h * x->w * LS_LANES;
        o.w = call->in[1].data + (ptrdiff_t)first * x->c * TAPS;
        o.bias = call->in[2].data ? call->in[2].data + first : NULL;
        o.y = y->data + map * o.y_step;
        o.signs = call->out[1].data ? (ls_op_signs *)call->out[1].data + map * o.signs_step : NULL;
        o.images = (1u << lanes_of_group(call->samples->count, group)) - 1;
        if (n == OUTPUTS) {
            pool_outputs(OUTPUTS, &o);
        } else {
            n = 1;
            pool_outputs(1, &o);
        }
    }
}

/* ---- Gradients ---- */

/* What one channel of x and one of dy give. */
typedef struct slopes {
    const float *x, *dy; /* of group 0 */
    const ls_op_signs *signs;
    ptrdiff_t x_step, dy_step, signs_step; /* from group to group */
    int x_w, dy_h, dy_w;
    float dw[TAPS][LS_LANES], db[LS_LANES]; /* by lane */
} slopes;

/* Of vector v of the lanes and groups [first, end), whose products are added before they join the sums of those in
 * front. A row's d is summed by itself, as the plane sum is. */
LS_INLINE void slopes_of(slopes *s, const int v, int first, int end)
{
    vf acc[TAPS], total = first ? vf_load(s->db + v * LS_VL) : vf_zero();
    LS_UNROLL
    for (int tap = 0; tap < TAPS; tap++)
        acc[tap] = vf_zero();
    for (int group = first; group < end; group++) {
        const ls_op_signs *sign = s->signs + group * s->signs_step;
        for (int row = 0; row < 2 * s->dy_h; row++) {
            const float *dy = s->dy + group * s->dy_step + (ptrdiff_t)(row / 2) * s->dy_w * LS_LANES + v * LS_VL;
            const float *x = s->x + group * s->x_step + (ptrdiff_t)row * s->x_w * LS_LANES + v * LS_VL;
            vf sum = vf_zero();
            for (int j = 0; j < s->dy_w; j++, dy += LS_LANES, x += 2 * LS_LANES, sign += 2) {
                __asm__("" : "+r"(x)); /* else gcc keeps x for the next windows where accumulators should be */
                const vf mean = (vf_zero() + vf_load(dy)) * (1.0f / 4.0f);
                const vf left = vf_keep(vm_of_bits(sign[0], v * LS_VL), mean);
                const vf right = vf_keep(vm_of_bits(sign[1], v * LS_VL), mean);
                sum = (sum + left) + right;
                LS_UNROLL
                for (int i = 0; i < KERNEL; i++)
                    LS_UNROLL
                for (int k = 0; k <= KERNEL; k++) { /* two neighbours read it, as one's tap k and the other's k - 1 */
                    const vf at = vf_load(x + ((ptrdiff_t)i * s->x_w + k) * LS_LANES);
                    if (k < KERNEL)
                        acc[i * KERNEL + k] = vf_fma(left, at, acc[i * KERNEL + k]);
                    if (k > 0)
                        acc[i * KERNEL + k - 1] = vf_fma(right, at, acc[i * KERNEL + k - 1]);
                }
            }
            total += sum;
        }
    }
    LS_UNROLL
    for (int tap = 0; tap < TAPS; tap++) {
        float *dw = s->dw[tap] + v * LS_VL;
        vf_store(dw, first ? vf_load(dw) + acc[tap] : acc[tap]);
    }
    vf_store(s->db + v * LS_VL, total);
}

static void conv_pool_weight(const ls_op_call *call)
{
    const ls_operand *x = &call->in[0], *dy = &call->in[1];
    float *dw = call->out[0].data, *db = call->out[1].data;
    const ptrdiff_t signs = (ptrdiff_t)ls_op_sign_places(2 * dy->h, 2 * dy->w) * 2 * LS_LANES;
    slopes s = {.x_step = (ptrdiff_t)x->c * x->h * x->w * LS_LANES,
                .dy_step = (ptrdiff_t)dy->c * dy->h * dy->w * LS_LANES,
                .signs_step = dy->c * signs,
                .x_w = x->w,
                .dy_h = dy->h,
                .dy_w = dy->w};
    const int together = 4 * dy->h * dy->w < LS_OWN_SUM_PLACES ? call->groups : 1;
    const range mine = range_of(call, dy->c);
    for (int o = mine.from; o < mine.to; o++)
        for (int c = 0; c < x->c; c++) {
            s.x = x->data + (ptrdiff_t)c * x->h * x->w * LS_LANES;
            s.dy = dy->data + (ptrdiff_t)o * dy->h * dy->w * LS_LANES;
            s.signs = (const ls_op_signs *)call->in[2].data + o * signs;
            for (int v = 0; v < LS_NV; v++)
                for (int group = 0; group < call->groups; group += together)
                    slopes_of(&s, v, group, group + together);
            for (int tap = 0; tap < TAPS && dw; tap++)
                dw[((ptrdiff_t)o * x->c + c) * TAPS + tap] = lanes_sum(s.dw[tap]) + 0.0f; /* no -0 */
            if (db && c == 0)
                db[o] = lanes_sum(s.db);
        }
}

int LANES(ls_lanes_conv_pool_units)(const ls_op_call *call)
{
    return call->attributes->op == LS_OP_CONV_POOL ? call->groups * call->out[0].c : call->in[1].c;
}

void LANES(ls_lanes_add_conv_pool)(ls_backend *backend)
{
    backend->kernel[LS_OP_CONV_POOL] = conv_pool;
    backend->kernel[LS_OP_CONV_POOL_WEIGHT] = conv_pool_weight;
}
