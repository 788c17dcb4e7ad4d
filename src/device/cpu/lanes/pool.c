/* Pooling: average, largest, and the average of a whole map. */
#include "device/cpu/lanes/cut.h"

/* Windows [first, last] of one dimension hold a place. */
typedef struct span {
    int first, last;
} span;

static span windows_of(const ls_attributes *a, int place, int windows)
{
    const int begins = place + a->padding - a->kernel + 1, last = (place + a->padding) / a->stride;
    return (span){begins <= 0 ? 0 : (begins + a->stride - 1) / a->stride, last < windows ? last : windows - 1};
}

static float share_of(const ls_attributes *a)
{
    return 1.0f / (float)(a->kernel * a->kernel);
}

/* Planes of all groups that are wanted. */
static range planes_of(const ls_op_call *call)
{
    return range_of(call, call->groups * call->out[0].c);
}

/* The average of one window; `x` is its plane. */
LS_INLINE vf window_sum(const ls_attributes *a, const ls_operand *shape, const float *x, int row, int column)
{
    vf acc = vf_zero();
    for (int i = 0; i < a->kernel; i++)
        for (int j = 0; j < a->kernel; j++) {
            const int y = row + i, z = column + j;
            const int inside = y >= 0 && y < shape->h && z >= 0 && z < shape->w;
            const vf tap = inside ? vf_load(x + ((ptrdiff_t)y * shape->w + z) * LS_LANES) : vf_zero();
            acc = i || j ? acc + tap : tap;
        }
    return acc;
}

/* Windows of 2 x 2 that lie side by side inside the map. */
static void halve_plane(const float *x, int columns, float *y, int y_rows, int y_columns)
{
    const vf share = vf_set(1.0f / 4.0f);
    for (int i = 0; i < y_rows; i++, y += y_columns * LS_LANES) {
        const float *top = x + (ptrdiff_t)2 * i * columns * LS_LANES, *bottom = top + (ptrdiff_t)columns * LS_LANES;
        for (int j = 0; j < y_columns; j++)
            LS_UNROLL
        for (int v = 0; v < LS_LANES; v += LS_VL) {
            const int at = 2 * j * LS_LANES + v;
            vf acc = vf_load(top + at) + vf_load(top + at + LS_LANES);
            acc = (acc + vf_load(bottom + at)) + vf_load(bottom + at + LS_LANES);
            vf_store(y + j * LS_LANES + v, acc * share);
        }
    }
}

static int side_by_side(const ls_attributes *a, const ls_operand *x, const ls_operand *y)
{
    return a->kernel == 2 && a->stride == 2 && a->padding == 0 && 2 * y->h <= x->h && 2 * y->w <= x->w;
}

static void avg_pool(const ls_op_call *call)
{
    const ls_attributes *a = call->attributes;
    const ls_operand *x = &call->in[0], *y = &call->out[0];
    const vf share = vf_set(share_of(a));
    const int halve = side_by_side(a, x, y);
    const range mine = planes_of(call);
    for (ptrdiff_t plane = mine.from; plane < mine.to; plane++) {
        const float *from = x->data + plane * x->h * x->w * LS_LANES;
        float *to = y->data + plane * y->h * y->w * LS_LANES;
        if (halve) {
            halve_plane(from, x->w, to, y->h, y->w);
            continue;
        }
        for (int i = 0; i < y->h; i++)
            for (int j = 0; j < y->w; j++)
                for (int v = 0; v < LS_LANES; v += LS_VL, to += LS_VL)
                    vf_store(to, window_sum(a, x, from + v, i * a->stride - a->padding, j * a->stride - a->padding) *
                                     share);
    }
}

/* dx from windows of 2 x 2 side by side; places that no window holds are 0. */
static void double_plane(const float *dy, const ls_operand *y, const float *x, const ls_operand *shape, float *dx)
{
    const vf share = vf_set(1.0f / 4.0f);
    for (int i = 0; i < shape->h; i++) {
        if (i / 2 >= y->h) {
            lanes_clear(dx + (ptrdiff_t)i * shape->w * LS_LANES, shape->w);
            continue;
        }
        const float *from = dy + (ptrdiff_t)(i / 2) * y->w * LS_LANES;
        const ptrdiff_t row = (ptrdiff_t)i * shape->w * LS_LANES;
        for (int j = 0; j < y->w; j++)
            LS_UNROLL
        for (int v = 0; v < LS_LANES; v += LS_VL) {
            const vf d = (vf_zero() + vf_load(from + j * LS_LANES + v)) * share;
            LS_UNROLL
            for (int k = 0; k < 2; k++) {
                const ptrdiff_t at = row + (2 * j + k) * LS_LANES + v;
                vf_store(dx + at, x ? vf_keep(vm_greater(vf_load(x + at), vf_zero()), d) : d);
            }
        }
        lanes_clear(dx + row + 2 * y->w * LS_LANES, shape->w - 2 * y->w);
    }
}

/* The sum over the windows that hold a place. */
LS_INLINE vf place_sum(const ls_operand *y, const float *dy, span rows, span columns)
{
    vf acc = vf_zero();
    for (int i = rows.first; i <= rows.last; i++)
        for (int j = columns.first; j <= columns.last; j++)
            acc += vf_load(dy + ((ptrdiff_t)i * y->w + j) * LS_LANES);
    return acc;
}

static void spread_plane(const ls_attributes *a, const ls_operand *y, const float *dy, const ls_operand *shape,
                         const float *x, float *dx)
{
    const vf share = vf_set(share_of(a));
    ptrdiff_t at = 0;
    for (int i = 0; i < shape->h; i++)
        for (int j = 0; j < shape->w; j++) {
            const span rows = windows_of(a, i, y->h), columns = windows_of(a, j, y->w);
            for (int v = 0; v < LS_LANES; v += LS_VL, at += LS_VL) {
                const vf d = place_sum(y, dy + v, rows, columns) * share;
                vf_store(dx + at, x ? vf_keep(vm_greater(vf_load(x + at), vf_zero()), d) : d);
            }
        }
}

static void avg_pool_backward(const ls_op_call *call)
{
    const ls_attributes *a = call->attributes;
    const ls_operand *dy = &call->in[0], *dx = &call->out[0];
    const int side = side_by_side(a, dx, dy);
    const range mine = planes_of(call);
    for (ptrdiff_t plane = mine.from; plane < mine.to; plane++) {
        const ptrdiff_t at = plane * dx->h * dx->w * LS_LANES;
        const float *from = dy->data + plane * dy->h * dy->w * LS_LANES,
                    *x = a->fused_relu ? call->in[1].data + at : NULL;
        if (side)
            double_plane(from, dy, x, dx, dx->data + at);
        else
            spread_plane(a, dy, from, dx, x, dx->data + at);
    }
}

/* The largest inside tap of one window, in its order. */
LS_INLINE vf window_largest(const ls_attributes *a, const ls_operand *shape, const float *x, int row, int column)
{
    vf best = vf_zero();
    int found = 0;
    for (int i = row < 0 ? -row : 0; i < a->kernel && row + i < shape->h; i++)
        for (int j = column < 0 ? -column : 0; j < a->kernel && column + j < shape->w; j++) {
            const vf tap = vf_load(x + ((ptrdiff_t)(row + i) * shape->w + column + j) * LS_LANES);
            best = found ? vf_select(vm_less_equal(tap, best) | vm_unordered(best), best, tap) : tap;
            found = 1;
        }
    return best;
}

static void max_pool(const ls_op_call *call)
{
    const ls_attributes *a = call->attributes;
    const ls_operand *x = &call->in[0], *y = &call->out[0];
    const range mine = planes_of(call);
    float *to = y->data + (ptrdiff_t)mine.from * y->h * y->w * LS_LANES;
    for (ptrdiff_t plane = mine.from; plane < mine.to; plane++) {
        const float *from = x->data + plane * x->h * x->w * LS_LANES;
        for (int i = 0; i < y->h; i++)
            for (int j = 0; j < y->w; j++)
                for (int v = 0; v < LS_LANES; v += LS_VL, to += LS_VL)
                    vf_store(to,
                             window_largest(a, x, from + v, i * a->stride - a->padding, j * a->stride - a->padding));
    }
}

/* Adds a window's dy to the place that each lane chose, the taps counted as `window_largest` meets them. */
LS_INLINE void give_window(const ls_attributes *a, const ls_operand *shape, const float *x, int row, int column, vf dy,
                           float *dx)
{
    vf best = vf_zero(), chosen = vf_set(-1.0f);
    const int top = row < 0 ? -row : 0, left = column < 0 ? -column : 0;
    for (int i = top; i < a->kernel && row + i < shape->h; i++)
        for (int j = left; j < a->kernel && column + j < shape->w; j++) {
            const vf tap = vf_load(x + ((ptrdiff_t)(row + i) * shape->w + column + j) * LS_LANES);
            const vm first = vm_greater(vf_zero(), chosen);
            const vm stays = vm_less_equal(tap, best) | vm_unordered(best);
            const vf number = vf_set((float)(i * a->kernel + j));
            best = vf_select(first, tap, vf_select(stays, best, tap));
            chosen = vf_select(first, number, vf_select(stays, chosen, number));
        }
    for (int i = top; i < a->kernel && row + i < shape->h; i++)
        for (int j = left; j < a->kernel && column + j < shape->w; j++) {
            float *to = dx + ((ptrdiff_t)(row + i) * shape->w + column + j) * LS_LANES;
            const float number = (float)(i * a->kernel + j);
            const vm here = vm_greater(chosen, vf_set(number - 0.5f)) & vm_greater(vf_set(number + 0.5f), chosen);
            vf_store(to, vf_select(here, vf_load(to) + dy, vf_load(to)));
        }
}

/* Windows give in their order, so that a place adds up what it gets in that order too. */
static void max_pool_backward(const ls_op_call *call)
{
    const ls_attributes *a = call->attributes;
    const ls_operand *dy = &call->in[0], *dx = &call->out[0];
    const range mine = planes_of(call);
    const float *from = dy->data + (ptrdiff_t)mine.from * dy->h * dy->w * LS_LANES;
    for (ptrdiff_t plane = mine.from; plane < mine.to; plane++) {
        const ptrdiff_t numbers = (ptrdiff_t)dx->h * dx->w * LS_LANES;
        const float *x = call->in[1].data + plane * numbers;
        float *to = dx->data + plane * numbers;
        lanes_clear(to, dx->h * dx->w);
        for (int i = 0; i < dy->h; i++)
            for (int j = 0; j < dy->w; j++)
                for (int v = 0; v < LS_LANES; v += LS_VL, from += LS_VL)
                    give_window(a, dx, x + v, i * a->stride - a->padding, j * a->stride - a->padding, vf_load(from),
                                to + v);
        for (ptrdiff_t i = 0; i < numbers && a->fused_relu; i += LS_VL)
            vf_store(to + i, vf_keep(vm_greater(vf_load(x + i), vf_zero()), vf_load(to + i)));
    }
}

static void global_avg_pool(const ls_op_call *call)
{
    const ls_operand *x = &call->in[0];
    const vf places = vf_set((float)(x->h * x->w));
    const range mine = planes_of(call);
    const float *from = x->data + (ptrdiff_t)mine.from * x->h * x->w * LS_LANES;
    float *to = call->out[0].data + (ptrdiff_t)mine.from * LS_LANES;
    for (ptrdiff_t plane = mine.from; plane < mine.to; plane++, from += x->h * x->w * LS_LANES)
        for (int v = 0; v < LS_LANES; v += LS_VL, to += LS_VL) {
            vf total = vf_zero();
            for (int i = 0; i < x->h; i++) {
                vf r = vf_zero();
                for (int j = 0; j < x->w; j++)
                    r += vf_load(from + ((ptrdiff_t)i * x->w + j) * LS_LANES + v);
                total += r;
            }
            vf_store(to, total / places);
        }
}

static void global_avg_pool_backward(const ls_op_call *call)
{
    const ls_operand *dx = &call->out[0];
    const int places = dx->h * dx->w;
    const range mine = planes_of(call);
    const float *from = call->in[0].data + (ptrdiff_t)mine.from * LS_LANES;
    float *to = dx->data + (ptrdiff_t)mine.from * places * LS_LANES;
    for (ptrdiff_t plane = mine.from; plane < mine.to; plane++, to += places * LS_LANES)
        for (int v = 0; v < LS_LANES; v += LS_VL, from += LS_VL) {
            const vf d = vf_load(from) / (float)places;
            for (int i = 0; i < places; i++)
                vf_store(to + (ptrdiff_t)i * LS_LANES + v, d);
        }
}

void LANES(ls_lanes_add_pool)(ls_backend *backend)
{
    backend->kernel[LS_OP_AVG_POOL] = avg_pool;
    backend->kernel[LS_OP_AVG_POOL_BACKWARD] = avg_pool_backward;
    backend->kernel[LS_OP_MAX_POOL] = max_pool;
    backend->kernel[LS_OP_MAX_POOL_BACKWARD] = max_pool_backward;
    backend->kernel[LS_OP_GLOBAL_AVG_POOL] = global_avg_pool;
    backend->kernel[LS_OP_GLOBAL_AVG_POOL_BACKWARD] = global_avg_pool_backward;
}
