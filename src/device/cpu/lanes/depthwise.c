/* Convolutions whose groups have one input channel: a place is a sum over the taps of one map, and a weight a sum over
 * its places. Nothing is copied or packed: rows outside the map are read from a line of zeros, and of a row only the
 * places at its ends look whether a tap is inside. */
#include "device/cpu/lanes/cut.h"

enum {
    AT_ONCE = 8, /* places that are summed side by side, or */
    FEWER = 4,   /* where there are fewer */
    SUMS = 9,    /* weights, the same way: all of a kernel of 3 x 3 */
};

/* Where place 0 of a row has this tap: in `x` from its column on, which may lie outside. */
typedef struct depth_tap {
    const float *x;
    int column;
    float w;
} depth_tap;

/* A row of places, `step` columns of the map read apart, which is `width` wide. */
typedef struct depth_row {
    const depth_tap *tap;
    int taps, step, width;
    float *y;
    int places, spread; /* of y's columns */
    float begin;
    int relu, add_zero;
} depth_row;

/* The places [from, to) whose taps are all inside. */
static range inner(const depth_row *row)
{
    int least = 0, most = 0;
    for (int t = 0; t < row->taps; t++) {
        least = row->tap[t].column < least ? row->tap[t].column : least;
        most = t == 0 || row->tap[t].column > most ? row->tap[t].column : most;
    }
    const int from = (-least + row->step - 1) / row->step, room = row->width - 1 - most;
    const int to = room < 0 ? 0 : room / row->step + 1;
    const int end = to < row->places ? to : row->places;
    return from < end ? (range){from, end} : (range){0, 0};
}

LS_INLINE void finish(const depth_row *row, int place, int v, vf sum)
{
    sum = row->add_zero ? sum + vf_zero() : sum;
    vf_store(row->y + (ptrdiff_t)place * row->spread * LS_LANES + v, row->relu ? vf_relu(sum) : sum);
}

LS_INLINE void run_places(const int n, const depth_row *row, int place)
{
    const ptrdiff_t step = (ptrdiff_t)row->step * LS_LANES;
    const depth_tap *last = row->tap + row->taps;
    for (int v = 0; v < LS_LANES; v += LS_VL) {
        vf sum[AT_ONCE];
        LS_UNROLL
        for (int j = 0; j < n; j++)
            sum[j] = vf_set(row->begin);
        for (const depth_tap *tap = row->tap; tap < last; tap++) {
            const float *x = tap->x + place * step + v;
            const vf w = vf_set(tap->w);
            LS_UNROLL
            for (int j = 0; j < n; j++)
                sum[j] = vf_fma(w, vf_load(x + j * step), sum[j]);
        }
        LS_UNROLL
        for (int j = 0; j < n; j++)
            finish(row, place + j, v, sum[j]);
    }
}

/* Of a place at an end, whose taps may be outside. */
static void run_end(const depth_row *row, int place)
{
    const ptrdiff_t step = (ptrdiff_t)row->step * LS_LANES;
    for (int v = 0; v < LS_LANES; v += LS_VL) {
        vf sum = vf_set(row->begin);
        for (int t = 0; t < row->taps; t++) {
            const depth_tap *tap = &row->tap[t];
            const int column = tap->column + place * row->step;
            const vf x = column >= 0 && column < row->width ? vf_load(tap->x + place * step + v) : vf_zero();
            sum = vf_fma(vf_set(tap->w), x, sum);
        }
        finish(row, place, v, sum);
    }
}

/* What is left of a run is computed together with places that are done already. */
static void run_row(const depth_row *row)
{
    const range in = inner(row);
    int place = in.from;
    for (int end = 0; end < in.from; end++)
        run_end(row, end);
    if (in.to - in.from >= AT_ONCE)
        for (; place < in.to; place += AT_ONCE)
            run_places(AT_ONCE, row, place + AT_ONCE <= in.to ? place : in.to - AT_ONCE);
    else if (in.to - in.from >= FEWER)
        for (; place < in.to; place += FEWER)
            run_places(FEWER, row, place + FEWER <= in.to ? place : in.to - FEWER);
    for (; place < in.to; place++)
        run_places(1, row, place);
    for (int end = in.to; end < row->places; end++)
        run_end(row, end);
}

/* The scratch: a line of zeros for the map that is read, and a row's taps. */
typedef struct workspace {
    float *zeros;
    depth_tap *tap;
} workspace;

static workspace workspace_of(const ls_op_call *call)
{
    const int width = call->in[0].w;
    const workspace space = {call->scratch, (depth_tap *)((float *)call->scratch + (ptrdiff_t)width * LS_LANES)};
    lanes_clear(space.zeros, width);
    return space;
}

size_t LANES(ls_lanes_depthwise_scratch)(const ls_op_call *call)
{
    const ls_windows w = ls_windows_of(call->attributes);
    const int outputs = call->attributes->op == LS_OP_CONV_DATA ? call->in[0].c / w.groups : 1;
    return (size_t)call->in[0].w * LS_LANES * sizeof(float) +
           lines((size_t)outputs * w.rows.kernel * w.columns.kernel * sizeof(depth_tap));
}

int LANES(ls_lanes_is_depthwise)(const ls_op_call *call)
{
    const int groups = ls_windows_of(call->attributes).groups;
    const int data = call->attributes->op == LS_OP_CONV_DATA, weight = call->attributes->op == LS_OP_CONV_WEIGHT;
    const ls_operand *x = data ? &call->out[0] : &call->in[0];
    const ls_operand *y = data ? &call->in[0] : weight ? &call->in[1] : &call->out[0];
    return groups > 1 && x->c == groups && y->c / groups < LS_OB;
}

int LANES(ls_lanes_depthwise_units)(const ls_op_call *call)
{
    return call->attributes->op == LS_OP_CONV_WEIGHT ? call->in[1].c : call->groups * call->out[0].c;
}

/* One channel of a group of images: its row `row` of y, from the taps of x. */
static void forward_row(const ls_op_call *call, const ls_windows *w, const workspace *space, int group, int o, int row)
{
    const ls_operand *x = &call->in[0], *y = &call->out[0];
    const int c = o / (y->c / w->groups), wide = w->columns.kernel, left = -w->columns.padding;
    const float *plane = x->data + ((ptrdiff_t)group * x->c + c) * x->h * x->w * LS_LANES;
    const float *weight = call->in[1].data + (ptrdiff_t)o * w->rows.kernel * wide;
    depth_tap *tap = space->tap;
    for (int ky = 0; ky < w->rows.kernel; ky++) {
        const int at = row * w->rows.stride - w->rows.padding + ky * w->rows.dilation;
        const float *from = at >= 0 && at < x->h ? plane + (ptrdiff_t)at * x->w * LS_LANES : space->zeros;
        for (int kx = 0; kx < wide; kx++, tap++) {
            tap->column = left + kx * w->columns.dilation;
            tap->x = from + (ptrdiff_t)tap->column * LS_LANES;
            tap->w = *weight++;
        }
    }
    const depth_row all = {.tap = space->tap,
                           .taps = w->rows.kernel * wide,
                           .step = w->columns.stride,
                           .width = x->w,
                           .y = y->data + (((ptrdiff_t)group * y->c + o) * y->h + row) * y->w * LS_LANES,
                           .places = y->w,
                           .spread = 1,
                           .begin = call->in[2].data ? call->in[2].data[o] : 0,
                           .relu = call->attributes->fused_relu};
    run_row(&all);
}

/* The columns of dx that are `first` modulo the stride: those read the same taps of dy, each next one its next place.
 */
static void data_columns(const ls_op_call *call, const ls_windows *w, const workspace *space, int group, int c, int row,
                         int first)
{
    const ls_operand *dy = &call->in[0], *dx = &call->out[0];
    const ls_windows_axis *down = &w->rows, *right = &w->columns;
    const int outputs = dy->c / w->groups, window = down->kernel * right->kernel;
    const ptrdiff_t plane = (ptrdiff_t)dy->h * dy->w * LS_LANES;
    const float *from = dy->data + ((ptrdiff_t)group * dy->c + c * outputs) * plane;
    const float *weight = call->in[1].data + (ptrdiff_t)c * outputs * window;
    depth_tap *tap = space->tap;
    for (int o = 0; o < outputs; o++, from += plane, weight += window)
        for (int ky = 0; ky < down->kernel; ky++) {
            const int above = row + down->padding - ky * down->dilation, at = above / down->stride;
            if (above < 0 || above % down->stride || at >= dy->h)
                continue;
            for (int kx = 0; kx < right->kernel; kx++) {
                const int before = first + right->padding - kx * right->dilation;
                if (before % right->stride)
                    continue;
                tap->column = before / right->stride;
                tap->x = from + ((ptrdiff_t)at * dy->w + tap->column) * LS_LANES;
                tap->w = weight[ky * right->kernel + kx];
                tap++;
            }
        }
    const depth_row all = {.tap = space->tap,
                           .taps = (int)(tap - space->tap),
                           .step = 1,
                           .width = dy->w,
                           .y = dx->data + ((((ptrdiff_t)group * dx->c + c) * dx->h + row) * dx->w + first) * LS_LANES,
                           .places = (dx->w - first + right->stride - 1) / right->stride,
                           .spread = right->stride,
                           .add_zero = 1};
    run_row(&all);
}

void LANES(ls_lanes_depthwise)(const ls_op_call *call)
{
    const ls_windows w = ls_windows_of(call->attributes);
    const ls_operand *out = &call->out[0];
    const workspace space = workspace_of(call);
    const range mine = range_of(call, call->groups * out->c);
    for (int i = mine.from; i < mine.to; i++)
        for (int row = 0; row < out->h; row++)
            if (call->attributes->op == LS_OP_CONV)
                forward_row(call, &w, &space, i / out->c, i % out->c, row);
            else
                for (int first = 0; first < w.columns.stride && first < out->w; first++)
                    data_columns(call, &w, &space, i / out->c, i % out->c, row, first);
}

/* ---- Weights ---- */

/* Some weights of one channel, SUMS or fewer: what is not there is summed like the last. */
typedef struct depth_sums {
    const ls_windows *windows;
    const ls_operand *x, *dy;
    const float *zeros;
    int ky[SUMS], column[SUMS]; /* the rows of the taps in the kernel, and the columns of place 0's in the map */
    range inner;                /* the places of a row whose taps are all inside */
} depth_sums;

static depth_sums sums_of(const ls_op_call *call, const ls_windows *w, const float *zeros, int tap)
{
    depth_sums s = {.windows = w, .x = &call->in[0], .dy = &call->in[1], .zeros = zeros};
    const int last = w->rows.kernel * w->columns.kernel - 1;
    depth_tap taps[SUMS];
    for (int t = 0; t < SUMS; t++) {
        const int number = tap + t < last ? tap + t : last;
        s.ky[t] = number / w->columns.kernel;
        s.column[t] = number % w->columns.kernel * w->columns.dilation - w->columns.padding;
        taps[t].column = s.column[t];
    }
    s.inner =
        inner(&(depth_row){.tap = taps, .taps = SUMS, .step = w->columns.stride, .width = s.x->w, .places = s.dy->w});
    return s;
}

/* The places [from, to) of a row; `ends`: their taps may be outside. */
LS_INLINE void add_places(const int ends, const depth_sums *s, const float *const x[SUMS], const float *dy, int from,
                          int to, vf r[SUMS])
{
    const int step = s->windows->columns.stride;
    for (int j = from; j < to; j++) {
        const vf slope = vf_load(dy + (ptrdiff_t)j * LS_LANES);
        const ptrdiff_t at = (ptrdiff_t)j * step * LS_LANES;
        LS_UNROLL
        for (int t = 0; t < SUMS; t++) {
            const int column = s->column[t] + j * step, inside = !ends || (column >= 0 && column < s->x->w);
            r[t] = vf_fma(slope, inside ? vf_load(x[t] + at) : vf_zero(), r[t]);
        }
    }
}

/* The sums over one group's places of the vector of lanes that the planes begin with. */
LS_INLINE void add_plane(const depth_sums *s, const float *plane, const float *dy, int v, vf r[SUMS])
{
    const ls_windows_axis *down = &s->windows->rows;
    for (int row = 0; row < s->dy->h; row++, dy += (ptrdiff_t)s->dy->w * LS_LANES) {
        const float *x[SUMS];
        for (int t = 0; t < SUMS; t++) {
            const int at = row * down->stride - down->padding + s->ky[t] * down->dilation;
            const float *from = at >= 0 && at < s->x->h ? plane + (ptrdiff_t)at * s->x->w * LS_LANES : s->zeros;
            x[t] = from + (ptrdiff_t)s->column[t] * LS_LANES + v;
        }
        add_places(1, s, x, dy + v, 0, s->inner.from, r);
        add_places(0, s, x, dy + v, s->inner.from, s->inner.to, r);
        add_places(1, s, x, dy + v, s->inner.to, s->dy->w, r);
    }
}

static void sum_taps(const ls_op_call *call, const depth_sums *s, int o, float *dw, int taps)
{
    const int c = o / (s->dy->c / s->windows->groups), by_group = s->dy->h * s->dy->w >= LS_OWN_SUM_PLACES;
    const ptrdiff_t x_plane = (ptrdiff_t)s->x->h * s->x->w * LS_LANES,
                    dy_plane = (ptrdiff_t)s->dy->h * s->dy->w * LS_LANES;
    float sum[SUMS][LS_LANES];
    for (int v = 0; v < LS_LANES; v += LS_VL) {
        vf acc[SUMS], r[SUMS];
        for (int t = 0; t < SUMS; t++)
            acc[t] = r[t] = vf_zero();
        for (int group = 0; group < call->groups; group++) {
            add_plane(s, s->x->data + ((ptrdiff_t)group * s->x->c + c) * x_plane,
                      s->dy->data + ((ptrdiff_t)group * s->dy->c + o) * dy_plane, v, r);
            for (int t = 0; t < SUMS && by_group; t++) {
                acc[t] += r[t];
                r[t] = vf_zero();
            }
        }
        for (int t = 0; t < SUMS; t++)
            vf_store(sum[t] + v, by_group ? acc[t] : r[t]);
    }
    for (int t = 0; t < taps && t < SUMS; t++)
        dw[t] = lanes_sum(sum[t]) + 0.0f;
}

void LANES(ls_lanes_depthwise_weight)(const ls_op_call *call)
{
    const ls_windows w = ls_windows_of(call->attributes);
    const int taps = w.rows.kernel * w.columns.kernel;
    const workspace space = workspace_of(call);
    const range mine = range_of(call, call->in[1].c);
    for (int tap = 0; tap < taps; tap += SUMS) {
        const depth_sums s = sums_of(call, &w, space.zeros, tap);
        for (int o = mine.from; o < mine.to; o++)
            sum_taps(call, &s, o, call->out[0].data + (ptrdiff_t)o * taps + tap, taps - tap);
    }
}
