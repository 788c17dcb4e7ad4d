/* Convolutions and linear layers as products of matrices by the tiles of product.h. What is multiplied is laid out in
 * scratch for as many groups or shards at once as a bounded size holds.
 *   Weights' gradients: E of dy [lane][output][column] and V of x [lane][channel and tap][column], a column being a
 * group's place of dy; M [unit][lane][output][channel and tap]. A unit is what op.h sums by itself: a group, or all of
 * a shard's.
 *   Kernels of 1: U of the weights [channel read][channel written], V [channel read][column] and M [channel
 * written][column], a column being a lane of a group's place of the smaller map. */
#include "device/cuda/lanes/numbers.cuh"
#include "device/cuda/lanes/product.h"

namespace
{

enum { MOST_BLOCKS = 65535, LEAST_PAIRS = 128 /* of lines of both sides: fewer leave tiles empty */ };
const size_t most_floats = (size_t)128 << 20;

/* What `count` take of the scratch at the most: never less for more images, as a batch may have fewer than its plan. */
size_t reserved(int count, size_t each, size_t others)
{
    const size_t n = others + count * each;
    return n < most_floats ? n : most_floats;
}

/* How many of `count` fit, of which each takes so many floats, beside others. */
int at_once(int count, size_t each, size_t others)
{
    const size_t n = others < most_floats ? (most_floats - others) / each : 0;
    return n < (size_t)count ? (int)n : count;
}

/* ---- Gradients of weights ---- */

typedef struct weighing {
    ls_map x, dy;
    int kernel, stride, padding, in_out;
    int lines;              /* channels and taps, */
    int e_lines, v_lines;   /* and outputs and those as they are laid out */
    int units, by_shard;    /* all, and of a shard but the last */
    int each, groups;       /* groups of a unit but the last, and of all */
    int depth, last, count; /* columns of a unit but the last, and of that one; units laid out at once */
    size_t reserve;         /* floats of scratch */
    float *e, *v, *m;
} weighing;

/* Whether it goes by tiles. */
bool lay_out_weighing(weighing *j, const ls_op_call *call, const ls_cuda_shards *shards)
{
    const ls_attributes *a = call->attributes;
    *j = {};
    j->x = ls_map_of(&call->in[0]);
    j->dy = ls_map_of(&call->in[1]);
    j->kernel = a->kernel;
    j->stride = a->stride;
    j->padding = a->padding;
    j->in_out = a->weight_in_out;
    const size_t lines = (size_t)j->x.c * a->kernel * a->kernel, places = ls_map_places(j->dy);
    const int each = ls_cuda_groups_of(shards->images), last = ls_cuda_groups_of(shards->last);
    const bool by_group = places >= LS_OWN_SUM_PLACES;
    j->lines = (int)lines;
    j->e_lines = (int)ls_product_up_to(j->dy.c, LS_PRODUCT_LINES);
    j->v_lines = (int)ls_product_up_to(lines, LS_PRODUCT_LINES);
    j->groups = ls_cuda_all_groups(shards);
    j->units = by_group ? j->groups : shards->shards;
    j->by_shard = by_group ? each : 1;
    j->each = by_group ? 1 : each;
    j->depth = (int)ls_product_up_to(j->each * places, LS_PRODUCT_DEPTH);
    j->last = by_group ? j->depth : (int)ls_product_up_to(last * places, LS_PRODUCT_DEPTH);
    const size_t pairs = (size_t)j->e_lines * j->v_lines * LS_LANES, m = j->units * pairs;
    const size_t of_unit = (size_t)(j->e_lines + j->v_lines) * j->depth * LS_LANES;
    if (!ls_windows_plain(a) || j->groups == 0 || j->dy.c * lines < LEAST_PAIRS || lines > MOST_BLOCKS ||
        j->dy.c > MOST_BLOCKS || !ls_card_weighing_fits(shards->shared))
        return false;
    j->reserve = reserved(j->units, of_unit, m);
    j->count = at_once(j->units, of_unit, m);
    j->count = j->count < MOST_BLOCKS / LS_LANES ? j->count : MOST_BLOCKS / LS_LANES;
    j->m = (float *)call->scratch;
    if (j->m) {
        j->e = j->m + m;
        j->v = j->e + (size_t)j->e_lines * j->count * j->depth * LS_LANES;
    }
    return j->count > 0;
}

/* E, or V, of some units: what the windows of dy's places have of a map. */
typedef struct spreading {
    ls_map map;
    int kernel, stride, padding;
    int h, w, each, depth; /* dy's rows and columns, and as above */
    int first, groups;     /* the group that begins, and of all */
    int lines, columns;    /* as they are laid out */
    float *to;
} spreading;

__global__ void spread(spreading s)
{
    const int column = (int)ls_line_piece(), taps = s.kernel * s.kernel, line = (int)blockIdx.y, tap = line % taps;
    if (column >= s.columns)
        return;
    const int at = column % s.depth, places = s.h * s.w, nth = at / places, place = at % places;
    const int group = s.first + column / s.depth * s.each + nth;
    const int row = place / s.w * s.stride - s.padding + tap / s.kernel;
    const int q = place % s.w * s.stride - s.padding + tap % s.kernel;
    const bool inside = row >= 0 && row < s.map.h && q >= 0 && q < s.map.w;
    const bool there = inside && nth < s.each && group < s.groups;
    const float *from = there ? s.map.data + ls_map_at(s.map, group, line / taps, row, q) : NULL;
    float *const to = s.to + (size_t)line * s.columns + column;
    const size_t lane = (size_t)s.lines * s.columns;
#pragma unroll
    for (int l = 0; l < LS_LANES; l += LS_QUAD) {
        const ls_quad x = there ? ls_quad_load(from + l) : ls_quad_set(0);
        for (int i = 0; i < LS_QUAD; i++)
            to[(l + i) * lane] = x.at[i];
    }
}

/* A thread has a weight of a shard. */
__global__ void fold(weighing j, float *dw, size_t step)
{
    const int line = (int)ls_line_piece(), o = (int)blockIdx.y, shard = (int)blockIdx.z, taps = j.kernel * j.kernel;
    const int first = shard * j.by_shard, end = first + j.by_shard < j.units ? first + j.by_shard : j.units;
    if (line >= j.lines)
        return;
    const size_t lane = (size_t)j.e_lines * j.v_lines;
    float acc[LS_LANES] = {};
    for (int unit = first; unit < end; unit++) {
        const float *m = j.m + unit * LS_LANES * lane + (size_t)o * j.v_lines + line;
#pragma unroll
        for (int l = 0; l < LS_LANES; l++)
            acc[l] = acc[l] + m[l * lane];
    }
#pragma unroll
    for (int half = LS_LANES / 2; half > 0; half /= 2)
#pragma unroll
        for (int l = 0; l < half; l++)
            acc[l] = acc[l] + acc[l + half];
    const int c = line / taps, tap = line % taps;
    const size_t pair = j.in_out ? (size_t)c * j.dy.c + o : (size_t)o * j.x.c + c;
    dw[shard * step + pair * taps + tap] = acc[0] + 0.0f; /* no -0 */
}

void weigh_by_tiles(const weighing &j, float *dw, const ls_cuda_shards *shards, cudaStream_t stream)
{
    for (int first = 0; first < j.units; first += j.count) {
        const bool ends = j.units - first <= j.count;
        const int units = ends ? j.units - first : j.count, last = ends ? j.last : j.depth;
        const int columns = (units - 1) * j.depth + last, group = first * j.each;
        /* Lines that fill up tiles may hold anything. */
        spread<<<ls_line_blocks(columns, j.dy.c, 1), LS_LINE_THREADS, 0, stream>>>(
            {j.dy, 1, 1, 0, j.dy.h, j.dy.w, j.each, j.depth, group, j.groups, j.e_lines, columns, j.e});
        spread<<<ls_line_blocks(columns, j.lines, 1), LS_LINE_THREADS, 0, stream>>>(
            {j.x, j.kernel, j.stride, j.padding, j.dy.h, j.dy.w, j.each, j.depth, group, j.groups, j.v_lines, columns,
             j.v});
        float *const m = j.m + (size_t)first * LS_LANES * j.e_lines * j.v_lines;
        const ls_card_weighing w = {j.e,  j.v,     m,       NULL,     j.e_lines, j.v_lines, units, j.depth,
                                    last, columns, j.depth, LS_LANES, 1,         1,         0,     0};
        ls_card_weigh(&w, stream);
    }
    fold<<<ls_line_blocks(j.lines, j.dy.c, shards->shards), LS_LINE_THREADS, 0, stream>>>(j, dw, shards->out_step[0]);
}

/* ---- Kernels of 1 ---- */

typedef struct multiplying {
    ls_map x, y;               /* what is read and written */
    int h, w, stride, by_data; /* rows and columns of the smaller map, which is y or, of CONV_DATA, dy */
    int in_out, relu;
    int x_c, y_c;       /* channels as they are laid out */
    int groups, count;  /* of all, and laid out at once */
    int first, columns; /* the group that begins, and columns as they are laid out */
    size_t reserve;     /* floats of scratch */
    const float *weights, *bias;
    float *u, *begins, *v, *m; /* begins: the bias for all outputs that are laid out */
} multiplying;

/* Whether it goes by tiles. */
bool lay_out_multiplying(multiplying *j, const ls_op_call *call, const ls_cuda_shards *shards)
{
    const ls_attributes *a = call->attributes;
    const bool by_data = a->op == LS_OP_CONV_DATA;
    const ls_operand *small = by_data ? &call->in[0] : &call->out[0];
    *j = {};
    j->x = ls_map_of(&call->in[0]);
    j->y = ls_map_of(&call->out[0]);
    j->h = small->h;
    j->w = small->w;
    j->stride = a->stride;
    j->by_data = by_data;
    j->in_out = a->weight_in_out;
    j->relu = !by_data && a->fused_relu;
    j->x_c = (int)ls_product_up_to(j->x.c, LS_PRODUCT_DEPTH);
    j->y_c = (int)ls_product_up_to(j->y.c, LS_PRODUCT_LINES);
    j->groups = ls_cuda_all_groups(shards);
    j->weights = call->in[1].data;
    j->bias = by_data ? NULL : call->in[2].data;
    const size_t lines = (size_t)j->x_c + j->y_c, u = (size_t)j->x_c * j->y_c,
                 of_group = (size_t)j->h * j->w * LS_LANES;
    const size_t others = u + j->y_c + lines * LS_PRODUCT_COLUMNS;
    if (!ls_windows_plain(a) || a->kernel != 1 || a->padding != 0 || (size_t)j->x.c * j->y.c < LEAST_PAIRS ||
        j->x_c > MOST_BLOCKS || !ls_card_product_fits(false, shards->shared))
        return false;
    j->reserve = reserved(j->groups, lines * of_group, others);
    j->count = at_once(j->groups, lines * of_group, others);
    j->columns = (int)ls_product_up_to(j->count * of_group, LS_PRODUCT_COLUMNS);
    j->u = (float *)call->scratch;
    if (j->u) {
        j->begins = j->u + u;
        j->v = j->begins + j->y_c;
        j->m = j->v + (size_t)j->x_c * j->columns;
    }
    return j->count > 0;
}

__global__ void weights(multiplying j)
{
    const int out = (int)ls_line_piece(), in = (int)blockIdx.y;
    if (out >= j.y_c)
        return;
    const bool there = out < j.y.c && in < j.x.c, by_read = j.by_data != j.in_out; /* what is read comes first in w */
    const size_t at = by_read ? (size_t)in * j.y.c + out : (size_t)out * j.x.c + in;
    j.u[(size_t)in * j.y_c + out] = there ? j.weights[at] : -0.0f;
    if (in == 0)
        j.begins[out] = j.bias && out < j.y.c ? j.bias[out] : 0;
}

/* V: four lanes of a channel's column. */
__global__ void gather(multiplying j)
{
    const int column = (int)ls_line_piece() * LS_QUAD, c = (int)blockIdx.y, step = j.by_data ? 1 : j.stride;
    if (column >= j.columns)
        return;
    const int place = column / LS_LANES, row = place / j.w, group = j.first + row / j.h;
    ls_quad x = ls_quad_set(0);
    if (c < j.x.c && group < j.groups)
        x = ls_quad_load(j.x.data + ls_map_at(j.x, group, c, row % j.h * step, place % j.w * step) + column % LS_LANES);
    ls_quad_store(j.v + (size_t)c * j.columns + column, x);
}

/* M goes to its places; of CONV_DATA the strides leave others between. */
__global__ void scatter(multiplying j, size_t pieces)
{
    LS_EACH_PIECE(i, pieces)
    {
        const ls_spot at = ls_spot_of(j.y, i);
        const int step = j.by_data ? j.stride : 1, row = at.row / step, column = at.column / step;
        const bool there = at.row % step == 0 && at.column % step == 0 && row < j.h && column < j.w;
        const size_t place = ((size_t)at.group * j.h + row) * j.w + column;
        ls_quad y = ls_quad_set(0);
        if (there)
            y = ls_quad_load(j.m + (size_t)at.channel * j.columns + place * LS_LANES + at.lane);
        for (int l = 0; l < LS_QUAD; l++) {
            y.at[l] = j.by_data ? y.at[l] + 0.0f : y.at[l]; /* no -0 */
            y.at[l] = j.relu ? ls_relu(y.at[l]) : y.at[l];
        }
        ls_quad_store(j.y.data + ls_map_at(j.y, j.first + at.group, at.channel, at.row, at.column) + at.lane, y);
    }
}

void multiply_by_tiles(multiplying j, const ls_cuda_shards *shards, cudaStream_t stream)
{
    weights<<<ls_line_blocks(j.y_c, j.x_c, 1), LS_LINE_THREADS, 0, stream>>>(j);
    const ls_card_product p = {j.u, j.v, j.m, 1, j.x_c, j.y_c, j.columns, j.x_c, j.begins, {0}};
    for (; j.first < j.groups; j.first += j.count) {
        const int groups = j.groups - j.first < j.count ? j.groups - j.first : j.count;
        const size_t pieces = groups * j.y.c * ls_map_places(j.y) * LS_QUADS;
        gather<<<ls_line_blocks(j.columns / LS_QUAD, j.x_c, 1), LS_LINE_THREADS, 0, stream>>>(j);
        ls_card_multiply(&p, shards->shared, stream);
        scatter<<<ls_card_blocks(pieces), LS_CARD_THREADS, 0, stream>>>(j, pieces);
    }
}

} // namespace

size_t ls_cuda_lanes_conv_scratch(const ls_op_call *call, const ls_cuda_shards *shards)
{
    ls_op_call no_data = *call;
    no_data.scratch = NULL;
    if (call->attributes->op == LS_OP_CONV_WEIGHT) {
        weighing w;
        lay_out_weighing(&w, &no_data, shards);
        return w.reserve * sizeof(float);
    }
    multiplying m;
    lay_out_multiplying(&m, &no_data, shards);
    return m.reserve * sizeof(float);
}

bool ls_cuda_lanes_conv_by_tiles(const ls_op_call *call, const ls_cuda_shards *shards, cudaStream_t stream)
{
    if (call->attributes->op == LS_OP_CONV_WEIGHT) {
        weighing w;
        if (!lay_out_weighing(&w, call, shards))
            return false;
        weigh_by_tiles(w, call->out[0].data, shards, stream);
        return true;
    }
    multiplying m;
    if (!lay_out_multiplying(&m, call, shards))
        return false;
    multiply_by_tiles(m, shards, stream);
    return true;
}
