/* Numbers put elsewhere: operands one after another, and parts, borders and transpositions; the sixteen lanes of a
 * place move as one. And maps of another size, which are averages of nearby places. */
#include <string.h>

#include "device/cpu/lanes/plane.h"
#include "device/resize.h"
#include "device/view.h"

/* What lies together of an operand, and so moves at once: its places from the axis on. */
static ptrdiff_t run_of(const ls_operand *t, int axis)
{
    return (ptrdiff_t)(axis < 1 ? t->c : 1) * (axis < 2 ? t->h : 1) * t->w * LS_LANES;
}

static void concat(const ls_op_call *call)
{
    const ls_operand *x = call->in, *y = &call->out[0];
    const int axis = call->attributes->axis;
    const ptrdiff_t runs = (ptrdiff_t)call->groups * (axis > 0 ? y->c : 1) * (axis > 1 ? y->h : 1);
    float *to = y->data;
    for (ptrdiff_t i = 0; i < runs; i++)
        for (int k = 0; k < LS_MAX_IN && x[k].data; k++) {
            const ptrdiff_t run = run_of(&x[k], axis);
            memcpy(to, x[k].data + i * run, (size_t)run * sizeof *to);
            to += run;
        }
}

static float *fill(float *to, int places, const vf border[LS_NV])
{
    for (int i = 0; i < places; i++, to += LS_LANES)
        for (int v = 0; v < LS_NV; v++)
            vf_store(to + v * LS_VL, border[v]);
    return to;
}

/* `places` of x, from one on, `step` apart. */
static float *copy(float *to, int places, const float *from, ptrdiff_t step)
{
    if (step == 1)
        memcpy(to, from, (size_t)places * LS_LANES * sizeof *to);
    for (int i = 0; i < places && step != 1; i++)
        for (int v = 0; v < LS_LANES; v += LS_VL)
            vf_store(to + (ptrdiff_t)i * LS_LANES + v, vf_load(from + i * step * LS_LANES + v));
    return to + (ptrdiff_t)places * LS_LANES;
}

static void view(const ls_op_call *call)
{
    const ls_operand *x = &call->in[0], *y = &call->out[0];
    const ls_view_steps s = ls_view_steps_of(call);
    const vf outside = vf_set(call->attributes->factor);
    float *to = y->data;
    for (int group = 0; group < call->groups; group++) {
        const int lanes = lanes_of_group(call->samples->count, group);
        const float *from = x->data + (ptrdiff_t)group * x->c * x->h * x->w * LS_LANES;
        vf border[LS_NV];
        for (int v = 0; v < LS_NV; v++)
            border[v] = vf_keep(vm_first(lanes - v * LS_VL), outside);
        for (int i = 0; i < y->c; i++)
            for (int j = 0; j < y->h; j++) {
                const int there = i >= s.low[0] && i < s.high[0] && j >= s.low[1] && j < s.high[1];
                const int low = there ? s.low[2] : y->w, high = there ? s.high[2] : y->w;
                const ptrdiff_t first = s.first + i * s.step[0] + j * s.step[1] + low * s.step[2];
                to = fill(to, low, border);
                if (high > low)
                    to = copy(to, high - low, from + first * LS_LANES, s.step[2]);
                to = fill(to, y->w - high, border);
            }
    }
}

/* ---- Maps of another size ---- */

/* The floats of one map. */
static ptrdiff_t map_of(const ls_operand *t)
{
    return (ptrdiff_t)t->h * t->w * LS_LANES;
}

/* One place of y, of the lanes from `from` on. */
LS_INLINE vf tapped(const ls_taps *rows, const ls_taps *columns, const float *from, ptrdiff_t row)
{
    vf acc = vf_zero();
    for (int i = rows->first; i < rows->first + rows->count; i++)
        for (int j = columns->first; j < columns->first + columns->count; j++) {
            const float weight = ls_tap_weight(rows, i) * ls_tap_weight(columns, j);
            acc = vf_fma(vf_set(weight), vf_load(from + i * row + (ptrdiff_t)j * LS_LANES), acc);
        }
    return acc;
}

LS_INLINE void resize(const int bilinear, const ls_op_call *call)
{
    const ls_operand *x = &call->in[0], *y = &call->out[0];
    float *to = y->data;
    for (int map = 0; map < call->groups * y->c; map++) {
        const int lanes = lanes_of_group(call->samples->count, map / y->c);
        const float *from = x->data + map * map_of(x);
        for (int i = 0; i < y->h; i++) {
            const ls_taps rows = ls_taps_of(bilinear, i, x->h, y->h);
            for (int j = 0; j < y->w; j++, to += LS_LANES) {
                const ls_taps columns = ls_taps_of(bilinear, j, x->w, y->w);
                for (int v = 0; v < LS_LANES; v += LS_VL) {
                    const vf acc = tapped(&rows, &columns, from + v, (ptrdiff_t)x->w * LS_LANES);
                    vf_store(to + v, vf_keep(vm_first(lanes - v), acc));
                }
            }
        }
    }
}

/* One place of dx: what of dy's map was made of it. */
LS_INLINE void gather(const int bilinear, const ls_operand *dx, const ls_operand *dy, int row, int column,
                      const float *from, vf acc[LS_NV])
{
    const int end = ls_taps_end(bilinear, row, dx->h, dy->h);
    const int first = ls_taps_first(bilinear, column, dx->w, dy->w);
    const int last = ls_taps_end(bilinear, column, dx->w, dy->w);
    for (int v = 0; v < LS_NV; v++)
        acc[v] = vf_zero();
    for (int i = ls_taps_first(bilinear, row, dx->h, dy->h); i < end; i++) {
        const ls_taps rows = ls_taps_of(bilinear, i, dx->h, dy->h);
        for (int j = first; j < last; j++) {
            const ls_taps columns = ls_taps_of(bilinear, j, dx->w, dy->w);
            const vf weight = vf_set(ls_tap_weight(&rows, row) * ls_tap_weight(&columns, column));
            for (int v = 0; v < LS_NV; v++)
                acc[v] = vf_fma(weight, vf_load(from + ((ptrdiff_t)i * dy->w + j) * LS_LANES + v * LS_VL), acc[v]);
        }
    }
}

LS_INLINE void resize_backward(const int bilinear, const ls_op_call *call)
{
    const ls_operand *dy = &call->in[0], *dx = &call->out[0];
    float *to = dx->data;
    for (int map = 0; map < call->groups * dx->c; map++) {
        const int lanes = lanes_of_group(call->samples->count, map / dx->c);
        const float *from = dy->data + map * map_of(dy);
        for (int i = 0; i < dx->h; i++)
            for (int j = 0; j < dx->w; j++, to += LS_LANES) {
                vf acc[LS_NV];
                gather(bilinear, dx, dy, i, j, from, acc);
                for (int v = 0; v < LS_NV; v++)
                    vf_store(to + v * LS_VL, vf_keep(vm_first(lanes - v * LS_VL), acc[v]));
            }
    }
}

static void adaptive_pool(const ls_op_call *call)
{
    resize(0, call);
}

static void adaptive_pool_backward(const ls_op_call *call)
{
    resize_backward(0, call);
}

static void bilinear(const ls_op_call *call)
{
    resize(1, call);
}

static void bilinear_backward(const ls_op_call *call)
{
    resize_backward(1, call);
}

void LANES(ls_lanes_add_view)(ls_backend *backend)
{
    backend->kernel[LS_OP_CONCAT] = concat;
    backend->kernel[LS_OP_VIEW] = view;
    backend->kernel[LS_OP_ADAPTIVE_POOL] = adaptive_pool;
    backend->kernel[LS_OP_ADAPTIVE_POOL_BACKWARD] = adaptive_pool_backward;
    backend->kernel[LS_OP_BILINEAR] = bilinear;
    backend->kernel[LS_OP_BILINEAR_BACKWARD] = bilinear_backward;
}
