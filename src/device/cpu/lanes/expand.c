/* Repeating numbers along channels, rows and columns, the sums that are its gradient, and the largest over them,
 * sixteen images side by side. */
#include "device/cpu/lanes/plane.h"

/* How far x, which has 1 along what is repeated, moves on from one channel, row and column of y to the next. */
typedef struct steps {
    ptrdiff_t channel, row, column, group; /* in places */
} steps;

static steps steps_of(const ls_operand *x)
{
    return (steps){.channel = x->c == 1 ? 0 : (ptrdiff_t)x->h * x->w,
                   .row = x->h == 1 ? 0 : x->w,
                   .column = x->w == 1 ? 0 : 1,
                   .group = (ptrdiff_t)x->c * x->h * x->w};
}

LS_INLINE void repeat(const ls_op_call *call, const int weight)
{
    const ls_operand *y = &call->out[0];
    const steps step = steps_of(&call->in[0]);
    float *to = y->data;
    for (int group = 0; group < call->groups; group++) {
        const int lanes = lanes_of_group(call->samples->count, group);
        const float *from = call->in[0].data + (weight ? 0 : group * step.group * LS_LANES);
        for (int c = 0; c < y->c; c++)
            for (int i = 0; i < y->h; i++)
                for (int j = 0; j < y->w; j++, to += LS_LANES) {
                    const ptrdiff_t at = c * step.channel + i * step.row + j * step.column;
                    for (int v = 0; v < LS_LANES; v += LS_VL) {
                        const vf number = weight ? vf_set(from[at]) : vf_load(from + at * LS_LANES + v);
                        vf_store(to + v, vf_keep(vm_first(lanes - v), number));
                    }
                }
    }
}

static void expand(const ls_op_call *call)
{
    repeat(call, 0);
}

static void expand_weight(const ls_op_call *call)
{
    repeat(call, 1);
}

/* Adds a group's numbers of dy in which x's number at (channel, row, column) was repeated, of the lanes from `v` on. */
LS_INLINE vf repeated(const ls_op_call *call, int group, const int at[3], int v, vf total)
{
    const ls_operand *dy = &call->in[0], *dx = &call->out[0];
    const int channels = dx->c == 1 ? dy->c : 1, rows = dx->h == 1 ? dy->h : 1, columns = dx->w == 1 ? dy->w : 1;
    for (int c = at[0]; c < at[0] + channels; c++)
        for (int i = at[1]; i < at[1] + rows; i++) {
            const ptrdiff_t place = (((ptrdiff_t)group * dy->c + c) * dy->h + i) * dy->w + at[2];
            const float *from = dy->data + place * LS_LANES + v;
            vf r = vf_zero();
            for (int j = 0; j < columns; j++)
                r = r + vf_load(from + (ptrdiff_t)j * LS_LANES);
            total = total + r;
        }
    return total;
}

/* x's place number i as channel, row, column. */
LS_INLINE void place_of(const ls_operand *x, int i, int at[3])
{
    at[0] = i / (x->h * x->w);
    at[1] = i / x->w % x->h;
    at[2] = i % x->w;
}

static void expand_backward(const ls_op_call *call)
{
    const ls_operand *dx = &call->out[0];
    const int places = dx->c * dx->h * dx->w;
    float *to = dx->data;
    for (int group = 0; group < call->groups; group++)
        for (int place = 0; place < places; place++, to += LS_LANES)
            for (int v = 0; v < LS_LANES; v += LS_VL) {
                int at[3];
                place_of(dx, place, at);
                const vm image = vm_first(lanes_of_group(call->samples->count, group) - v);
                vf_store(to + v, vf_keep(image, repeated(call, group, at, v, vf_zero())));
            }
}

static void expand_weight_backward(const ls_op_call *call)
{
    const ls_operand *dx = &call->out[0];
    const int places = dx->c * dx->h * dx->w;
    for (int place = 0; place < places; place++) {
        float lane[LS_LANES];
        int at[3];
        place_of(dx, place, at);
        for (int v = 0; v < LS_LANES; v += LS_VL) {
            vf total = vf_zero();
            for (int group = 0; group < call->groups; group++) {
                const vm image = vm_first(lanes_of_group(call->samples->count, group) - v);
                total = vf_select(image, repeated(call, group, at, v, total), total);
            }
            vf_store(lane + v, total);
        }
        dx->data[place] = lanes_sum(lane);
    }
}

/* x's numbers that belong to one place of y: `sizes` of them, `steps` floats from one to the next. */
typedef struct span {
    int sizes[3];
    ptrdiff_t steps[3];
} span;

static span span_of(const ls_operand *x, const ls_operand *y)
{
    return (span){{y->c == 1 ? x->c : 1, y->h == 1 ? x->h : 1, y->w == 1 ? x->w : 1},
                  {(ptrdiff_t)x->h * x->w * LS_LANES, (ptrdiff_t)x->w * LS_LANES, LS_LANES}};
}

/* Where, in floats, the span of y's place number i begins in a group of x. */
static ptrdiff_t begin_of(const span *s, const ls_operand *y, int i)
{
    const int c = i / (y->h * y->w), row = i / y->w % y->h, column = i % y->w;
    return c * s->steps[0] + row * s->steps[1] + column * s->steps[2];
}

/* Each number of a span as `at`, in C order. */
#define EACH_OF_SPAN(s, at)                                                                                            \
    for (int c_ = 0; c_ < (s)->sizes[0]; c_++)                                                                         \
        for (int i_ = 0; i_ < (s)->sizes[1]; i_++)                                                                     \
            for (ptrdiff_t at = c_ * (s)->steps[0] + i_ * (s)->steps[1], end_ = at + (s)->sizes[2] * LS_LANES;         \
                 at < end_; at += LS_LANES)

LS_INLINE vf largest(const span *s, const float *x)
{
    vf most = vf_load(x);
    EACH_OF_SPAN(s, at)
    {
        const vf number = vf_load(x + at);
        most = vf_select(vm_less_equal(number, most) | vm_unordered(most), most, number);
    }
    return most;
}

static void max_over(const ls_op_call *call)
{
    const ls_operand *x = &call->in[0], *y = &call->out[0];
    const span s = span_of(x, y);
    const int places = y->c * y->h * y->w;
    float *to = y->data;
    for (int group = 0; group < call->groups; group++) {
        const int lanes = lanes_of_group(call->samples->count, group);
        const float *from = x->data + (ptrdiff_t)group * x->c * x->h * x->w * LS_LANES;
        for (int i = 0; i < places; i++, to += LS_LANES)
            for (int v = 0; v < LS_LANES; v += LS_VL)
                vf_store(to + v, vf_keep(vm_first(lanes - v), largest(&s, from + begin_of(&s, y, i) + v)));
    }
}

/* dx of one span: dy's number goes to the first of x that is the largest. */
LS_INLINE void give(const span *s, vf dy, vf most, const float *x, float *dx)
{
    EACH_OF_SPAN(s, at)
    {
        const vf number = vf_load(x + at);
        const vm same =
            (vm_less_equal(number, most) & vm_less_equal(most, number)) | (vm_unordered(number) & vm_unordered(most));
        vf_store(dx + at, vf_keep(same, dy));
        dy = vf_select(same, vf_zero(), dy);
    }
}

static void max_over_backward(const ls_op_call *call)
{
    const ls_operand *x = &call->in[1], *y = &call->in[2];
    const span s = span_of(x, y);
    const int places = y->c * y->h * y->w;
    for (int group = 0; group < call->groups; group++) {
        const int lanes = lanes_of_group(call->samples->count, group);
        const ptrdiff_t small = (ptrdiff_t)group * places * LS_LANES;
        const ptrdiff_t large = (ptrdiff_t)group * x->c * x->h * x->w * LS_LANES;
        for (int i = 0; i < places; i++)
            for (int v = 0; v < LS_LANES; v += LS_VL) {
                const ptrdiff_t at = small + (ptrdiff_t)i * LS_LANES + v, begin = large + begin_of(&s, y, i) + v;
                const vf dy = vf_keep(vm_first(lanes - v), vf_load(call->in[0].data + at));
                give(&s, dy, vf_load(y->data + at), x->data + begin, call->out[0].data + begin);
            }
    }
}

void LANES(ls_lanes_add_expand)(ls_backend *backend)
{
    backend->kernel[LS_OP_EXPAND] = expand;
    backend->kernel[LS_OP_EXPAND_BACKWARD] = expand_backward;
    backend->kernel[LS_OP_EXPAND_WEIGHT] = expand_weight;
    backend->kernel[LS_OP_EXPAND_WEIGHT_BACKWARD] = expand_weight_backward;
    backend->kernel[LS_OP_MAX_OVER] = max_over;
    backend->kernel[LS_OP_MAX_OVER_BACKWARD] = max_over_backward;
}
