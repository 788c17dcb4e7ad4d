/* CONV and CONV_DATA. Both are one problem: every place of a map is a sum over channels and over a grid of taps, in
 * that order. The data gradient of a strided convolution falls apart into such problems, one for each (row % stride,
 * column % stride), and each of those into parts whose places have the same taps inside the map. A group of a
 * convolution's channels is a problem of its own. */
#include "device/cpu/lanes/cut.h"
#include "device/cpu/lanes/tile.h"

/* The rows or the columns of a problem. */
typedef struct axis {
    int x, y;          /* of the whole maps */
    int first, spread; /* place i is y's first + i * spread */
    int places;
    int step, tap, turn; /* place i and tap a read x's i * step + tap + a * turn */
    int taps;
    int w, w_taps; /* where the taps begin among those that have weights in w */
} axis;

typedef struct problem {
    const float *x;
    float *y;
    int groups, channels, outputs; /* of images; of the channels' group */
    ptrdiff_t x_group, y_group;    /* floats from a group of images to the next */
    range mine;                    /* outputs that are wanted */
    axis rows, columns;
    const float *w;               /* panels of LS_OB outputs */
    ptrdiff_t w_step, panel_step; /* floats from tap to tap and from panel to panel */
    const float *bias;
    int end; /* TILE_RELU, TILE_ADD_ZERO or 0 */
} problem;

/* How a problem is cut so that a chunk of x stays in the first cache and its places of y in the second. */
typedef struct cut {
    int groups, rows;            /* of a block of places */
    int channels, outputs;       /* of a chunk */
    int copy_rows, copy_columns; /* of x, with its zeros around */
    int row_step, column_step;   /* of places in the copy */
    ptrdiff_t plane;             /* floats of one channel's copy */
    int places;                  /* of a block, at most */
    int in_place;                /* x is read where it lies: the "copy" is all of it */
} cut;

enum {
    BLOCK_PLACES = 84,
    X_BYTES = 28 << 10,  /* of x under one tile */
    Y_BYTES = 480 << 10, /* of y in a block */
};

/* How far it is from a place's first tap in x to its last, and x's row of the foremost one of the first place. */
static int reach(const axis *a)
{
    return (a->taps - 1) * (a->turn > 0 ? a->turn : -a->turn);
}

static int foremost(const axis *a)
{
    return a->turn > 0 ? a->tap : a->tap - reach(a);
}

/* Whether no place reads outside the map. */
static int inside_map(const axis *a)
{
    return foremost(a) >= 0 && foremost(a) + (a->places - 1) * a->step + reach(a) < a->x;
}

/* Whether x needs no zeros around it, no rows left out, and no line more to spread its channels over the caches. */
static int fits_in_place(const problem *p, const cut *c)
{
    const ptrdiff_t plane = (ptrdiff_t)p->rows.x * p->columns.x;
    return c->row_step == p->rows.step && c->column_step == p->columns.step && plane % 8 &&
           c->groups * (p->x_group / LS_LANES) < 1 << 26 && inside_map(&p->rows) && inside_map(&p->columns);
}

static cut cut_problem(const problem *p)
{
    cut c;
    const axis *down = &p->rows, *right = &p->columns;
    const int places = down->places * right->places;
    c.groups = even_part(p->groups, places ? BLOCK_PLACES / places : 1);
    c.rows = even_part(down->places, right->places ? BLOCK_PLACES / right->places : 1);
    if (c.rows < down->places)
        c.groups = 1;
    c.places = c.groups * c.rows * right->places;

    c.row_step = down->taps == 1 ? 1 : down->step;
    c.column_step = right->taps == 1 ? 1 : right->step;
    c.copy_rows = (c.rows - 1) * c.row_step + reach(down) + 1;
    c.copy_columns = (right->places - 1) * c.column_step + reach(right) + 1;
    /* An odd number of lines spreads the channels over the sets of the caches. */
    c.plane = ((ptrdiff_t)c.copy_rows * c.copy_columns | 1) * LS_LANES;

    c.in_place = fits_in_place(p, &c);
    if (c.in_place) {
        c.copy_columns = right->x;
        c.plane = (ptrdiff_t)down->x * right->x * LS_LANES;
    }

    const ptrdiff_t under_tile =
        down->taps * ((ptrdiff_t)reach(right) + 1 + 5 * c.column_step) * LS_LANES * (ptrdiff_t)sizeof(float);
    c.channels = even_part(p->channels, (int)(X_BYTES / under_tile));
    const ptrdiff_t line = (ptrdiff_t)(c.places > 0 ? c.places : 1) * LS_LANES * (ptrdiff_t)sizeof(float);
    c.outputs = even_part(p->mine.to - p->mine.from, (int)(Y_BYTES / line < 16 ? 16 : Y_BYTES / line));
    c.outputs = (c.outputs + LS_OB - 1) / LS_OB * LS_OB;
    return c;
}

/* The parts of the scratch, each aligned to a line. */
typedef struct workspace {
    float *weights, *x;
    tile_tap *tap;
    int32_t *x_at;
    ptrdiff_t *y_at;
} workspace;

static size_t lay_out(workspace *space, char *scratch, const problem *p, const cut *c)
{
    const size_t taps = (size_t)p->rows.taps * p->columns.taps;
    const size_t outputs = (size_t)(p->outputs + LS_OB - 1) / LS_OB * LS_OB;
    size_t at[6];
    at[0] = 0;
    at[1] = at[0] + lines(outputs * p->channels * p->rows.w_taps * p->columns.w_taps * sizeof(float));
    at[2] = at[1] + (c->in_place ? 0 : lines((size_t)c->groups * c->channels * c->plane * sizeof(float)));
    at[3] = at[2] + lines((size_t)c->channels * taps * sizeof(tile_tap));
    at[4] = at[3] + lines((size_t)c->places * LS_LANES * sizeof(int32_t));
    at[5] = at[4] + lines((size_t)c->places * LS_LANES * sizeof(ptrdiff_t));
    if (space)
        *space = (workspace){(float *)(scratch + at[0]), (float *)(scratch + at[1]), (tile_tap *)(scratch + at[2]),
                             (int32_t *)(scratch + at[3]), (ptrdiff_t *)(scratch + at[4])};
    return at[5];
}

/* One channel's rows [row, row + copy_rows) of places' taps into `to`, zeros outside the map. */
static void copy_plane(const problem *p, const cut *c, const float *x, int row, float *to)
{
    /* More than 1 where a single tap leaves rows or columns out. */
    const int jump = p->columns.step / c->column_step, row_jump = p->rows.step / c->row_step;
    const int first = foremost(&p->rows), left = foremost(&p->columns), width = p->columns.x;
    int from = 0, end = c->copy_columns;
    while (from < end && left + from * jump < 0)
        from++;
    while (end > from && left + (end - 1) * jump >= width)
        end--;
    for (int i = 0; i < c->copy_rows; i++, to += (ptrdiff_t)c->copy_columns * LS_LANES) {
        const int y = row * p->rows.step + first + i * row_jump;
        if (y < 0 || y >= p->rows.x || from == end) {
            lanes_clear(to, c->copy_columns);
            continue;
        }
        lanes_clear(to, from);
        lanes_copy(to + from * LS_LANES, x + ((ptrdiff_t)y * width + left + from * jump) * LS_LANES, end - from, jump);
        lanes_clear(to + end * LS_LANES, c->copy_columns - end);
    }
}

static void list_taps(const problem *p, const cut *c, int channels, tile_tap *tap)
{
    const axis *down = &p->rows, *right = &p->columns;
    const int top = down->turn > 0 ? 0 : reach(down), left = right->turn > 0 ? 0 : reach(right);
    for (int k = 0; k < channels; k++)
        for (int a = 0; a < down->taps; a++)
            for (int b = 0; b < right->taps; b++, tap++) {
                const int row = top + a * down->turn, column = left + b * right->turn;
                tap->x = (int32_t)(k * c->plane + ((ptrdiff_t)row * c->copy_columns + column) * LS_LANES);
                tap->w = (int32_t)(((k * down->w_taps + down->w + a) * right->w_taps + right->w + b) * p->w_step);
            }
}

/* The places of groups [group, group + groups) and rows [row, row + rows), each as LS_NV vectors. */
static int list_places(const problem *p, const cut *c, int group, int groups, int row, int rows, workspace *space)
{
    const axis *down = &p->rows, *right = &p->columns;
    const ptrdiff_t x_group = c->in_place ? p->x_group : c->channels * c->plane;
    int n = 0;
    for (int g = 0; g < groups; g++)
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < right->places; j++)
                for (int v = 0; v < LS_NV; v++, n++) {
                    space->x_at[n] =
                        (int32_t)(g * x_group +
                                  ((ptrdiff_t)i * c->row_step * c->copy_columns + j * c->column_step) * LS_LANES +
                                  v * LS_VL);
                    const ptrdiff_t place = (ptrdiff_t)(down->first + (row + i) * down->spread) * right->y +
                                            right->first + j * right->spread;
                    space->y_at[n] = (group + g) * p->y_group + place * LS_LANES + v * LS_VL;
                }
    return n;
}

LS_INLINE void tile_by_width(const int ob, int pb, const tile_job *job)
{
    switch (pb) {
    case 1:
        tile_run(ob, 1, job);
        break;
    case 2:
        tile_run(ob, 2, job);
        break;
#if LS_PB >= 3
    case 3:
        tile_run(ob, 3, job);
        break;
#endif
#if LS_PB >= 6
    case 4:
        tile_run(ob, 4, job);
        break;
    case 5:
        tile_run(ob, 5, job);
        break;
    case 6:
        tile_run(ob, 6, job);
        break;
#endif
    }
}

static __attribute__((noinline)) void tile_1(int pb, const tile_job *job)
{
    tile_by_width(1, pb, job);
}

static __attribute__((noinline)) void tile_2(int pb, const tile_job *job)
{
    tile_by_width(2, pb, job);
}

static __attribute__((noinline)) void tile_3(int pb, const tile_job *job)
{
    tile_by_width(3, pb, job);
}

static __attribute__((noinline)) void tile_4(int pb, const tile_job *job)
{
    tile_by_width(4, pb, job);
}

/* All tiles of a block of places, a chunk of outputs and a chunk of channels. */
static void run_chunk(const problem *p, const workspace *space, const float *x, int places, int output, int outputs,
                      int channel, int channels)
{
    static void (*const tile[LS_OB])(int, const tile_job *) = {tile_1, tile_2, tile_3, tile_4};
    const int taps = p->rows.taps * p->columns.taps;
    const ptrdiff_t plane = (ptrdiff_t)p->rows.y * p->columns.y * LS_LANES;
    tile_job job = {.tap = space->tap, .taps = channels * taps, .x = x, .y_step = plane};
    job.end = (channel > 0 ? TILE_GO_ON : 0) | (channel + channels == p->channels ? p->end : 0);
    for (int place = 0; place < places; place += LS_PB) {
        const int pb = places - place < LS_PB ? places - place : LS_PB;
        job.x_at = space->x_at + place;
        job.y_at = space->y_at + place;
        for (int o = output; o < output + outputs; o += LS_OB) {
            const int ob = p->outputs - o < LS_OB ? p->outputs - o : LS_OB;
            job.w =
                p->w + o / LS_OB * p->panel_step + (ptrdiff_t)channel * p->rows.w_taps * p->columns.w_taps * p->w_step;
            job.y = p->y + o * plane;
            job.bias = p->bias ? p->bias + o : NULL;
            tile[ob - 1](pb, &job);
        }
    }
}

static void run_block(const problem *p, const cut *c, workspace *space, int group, int row)
{
    const int groups = p->groups - group < c->groups ? p->groups - group : c->groups;
    const int rows = p->rows.places - row < c->rows ? p->rows.places - row : c->rows;
    const ptrdiff_t plane = (ptrdiff_t)p->rows.x * p->columns.x * LS_LANES;
    const int places = list_places(p, c, group, groups, row, rows, space);
    const float *x = p->x + group * p->x_group;
    if (c->in_place)
        x += ((ptrdiff_t)(foremost(&p->rows) + row * p->rows.step) * p->columns.x + foremost(&p->columns)) * LS_LANES;
    for (int o = p->mine.from; o < p->mine.to; o += c->outputs) {
        const int outputs = p->mine.to - o < c->outputs ? p->mine.to - o : c->outputs;
        for (int k = 0; k < p->channels; k += c->channels) {
            const int channels = p->channels - k < c->channels ? p->channels - k : c->channels;
            const int copies = !c->in_place && (o == p->mine.from || channels < p->channels);
            for (int g = 0; g < groups && copies; g++)
                for (int i = 0; i < channels; i++)
                    copy_plane(p, c, x + g * p->x_group + (k + i) * plane, row,
                               space->x + (g * c->channels + i) * c->plane);
            run_chunk(p, space, c->in_place ? x + k * plane : space->x, places, o, outputs, k, channels);
        }
    }
}

/* A problem without taps: places that no window reaches. */
static void clear_places(const problem *p)
{
    const axis *down = &p->rows, *right = &p->columns;
    for (int group = 0; group < p->groups; group++)
        for (int o = p->mine.from; o < p->mine.to; o++)
            for (int i = 0; i < down->places; i++)
                for (int j = 0; j < right->places; j++) {
                    const ptrdiff_t row = (ptrdiff_t)o * down->y + down->first + i * down->spread;
                    lanes_clear(
                        p->y + group * p->y_group + (row * right->y + right->first + j * right->spread) * LS_LANES, 1);
                }
}

static void solve(const problem *p, const cut *c, workspace *space)
{
    list_taps(p, c, c->channels, space->tap);
    for (int g = 0; g < p->groups; g += c->groups)
        for (int row = 0; row < p->rows.places; row += c->rows)
            run_block(p, c, space, g, row);
}

/* Of group number `part` of the channels; a call's share is of the outputs where there is one group, else of the
 * groups. */
static problem problem_of(const ls_op_call *call, const ls_operand *x, const ls_operand *y, int groups, int part)
{
    const ptrdiff_t x_plane = (ptrdiff_t)x->h * x->w * LS_LANES, y_plane = (ptrdiff_t)y->h * y->w * LS_LANES;
    problem p = {.groups = call->groups,
                 .channels = x->c / groups,
                 .outputs = y->c / groups,
                 .x_group = x->c * x_plane,
                 .y_group = y->c * y_plane};
    p.x = x->data ? x->data + part * p.channels * x_plane : NULL;
    p.y = y->data ? y->data + part * p.outputs * y_plane : NULL;
    p.mine = groups == 1 ? range_by(call, p.outputs, LS_OB) : (range){0, p.outputs};
    return p;
}

static range groups_of(const ls_op_call *call, int groups)
{
    return groups == 1 ? (range){0, 1} : range_of(call, groups);
}

static axis forward_axis(const ls_windows_axis *a, int x, int y)
{
    return (axis){.x = x,
                  .y = y,
                  .spread = 1,
                  .places = y,
                  .step = a->stride,
                  .tap = -a->padding,
                  .turn = a->dilation,
                  .taps = a->kernel,
                  .w_taps = a->kernel};
}

static problem forward_problem(const ls_op_call *call, const ls_windows *w, int part)
{
    const ls_operand *x = &call->in[0], *y = &call->out[0];
    problem p = problem_of(call, x, y, w->groups, part);
    p.rows = forward_axis(&w->rows, x->h, y->h);
    p.columns = forward_axis(&w->columns, x->w, y->w);
    p.bias = call->in[2].data ? call->in[2].data + part * p.outputs : NULL;
    p.end = call->attributes->fused_relu ? TILE_RELU : 0;
    return p;
}

static int common_divisor(int a, int b)
{
    return b ? common_divisor(b, a % b) : a;
}

/* The kernel's rows that meet those of dy at the places that are `first` modulo the stride: every so many, from one
 * on. */
typedef struct every {
    int from, step;
} every;

static every taps_at(const ls_windows_axis *a, int first)
{
    every of = {0, a->stride / common_divisor(a->stride, a->dilation)};
    while (of.from < of.step && (first + a->padding - of.from * a->dilation) % a->stride)
        of.from++;
    of.from = of.from < of.step ? of.from : a->kernel; /* none does */
    return of;
}

static axis data_axis(const ls_windows_axis *a, int dy, int dx, int first)
{
    const every of = taps_at(a, first);
    axis made = {.x = dy,
                 .y = dx,
                 .first = first,
                 .spread = a->stride,
                 .places = (dx - first + a->stride - 1) / a->stride,
                 .step = 1,
                 .turn = -(of.step * a->dilation / a->stride)};
    if (of.from < a->kernel) {
        made.tap = (first + a->padding - of.from * a->dilation) / a->stride;
        made.taps = made.w_taps = (a->kernel - of.from + of.step - 1) / of.step;
    }
    return made;
}

static problem data_problem(const ls_op_call *call, const ls_windows *w, int part, int row, int column)
{
    const ls_operand *dy = &call->in[0], *dx = &call->out[0];
    problem p = problem_of(call, dy, dx, w->groups, part);
    p.rows = data_axis(&w->rows, dy->h, dx->h, row);
    p.columns = data_axis(&w->columns, dy->w, dx->w, column);
    p.end = TILE_ADD_ZERO;
    return p;
}

/* The taps [first, first + taps) of place number `place` lie inside the map. */
typedef struct inside {
    int first, taps;
} inside;

static inside taps_inside(const axis *a, int place)
{
    const int at = place + a->tap, gap = -a->turn;
    const int first = at - (a->x - 1) > 0 ? (at - (a->x - 1) + gap - 1) / gap : 0;
    const int end = at < 0 ? 0 : at / gap + 1 < a->taps ? at / gap + 1 : a->taps;
    return end > first ? (inside){first, end - first} : (inside){0, 0};
}

/* The places from `place` on that have the same taps. */
static axis axis_part(const axis *a, int place)
{
    const inside of = taps_inside(a, place);
    axis part = *a;
    part.first += place * a->spread;
    part.tap += place + of.first * a->turn;
    part.w = of.first;
    part.taps = of.taps;
    for (part.places = 1; place + part.places < a->places; part.places++) {
        const inside next = taps_inside(a, place + part.places);
        if (of.first != next.first || of.taps != next.taps)
            break;
    }
    return part;
}

static void forward(const ls_op_call *call)
{
    const ls_windows w = ls_windows_of(call->attributes);
    const range mine = groups_of(call, w.groups);
    if (LANES(ls_lanes_is_depthwise)(call)) {
        LANES(ls_lanes_depthwise)(call);
        return;
    }
    for (int part = mine.from; part < mine.to; part++) {
        problem p = forward_problem(call, &w, part);
        const cut c = cut_problem(&p);
        const ptrdiff_t row = (ptrdiff_t)p.channels * p.rows.taps * p.columns.taps;
        const float *weights = call->in[1].data + part * p.outputs * row;
        workspace space;
        lay_out(&space, call->scratch, &p, &c);
        if (call->attributes->weight_in_out) {
            p.w = weights;
            p.w_step = p.outputs;
            p.panel_step = LS_OB;
        } else {
            p.w = space.weights;
            p.w_step = LS_OB;
            p.panel_step = row * LS_OB;
            for (int o = p.mine.from; o < p.mine.to; o += LS_OB)
                lanes_turn(weights + o * row, row, p.outputs - o < LS_OB ? p.outputs - o : LS_OB, (int)row,
                           space.weights + o * row, LS_OB);
        }
        solve(&p, &c, &space);
    }
}

/* Panels of w[o][c][ky][kx] over input channels, of the problem's taps. */
static void pack_data(const problem *p, const float *w, const ls_windows *windows, float *to)
{
    const int kernel = windows->rows.kernel, wide = windows->columns.kernel;
    const every down = taps_at(&windows->rows, p->rows.first), right = taps_at(&windows->columns, p->columns.first);
    const ptrdiff_t window = (ptrdiff_t)kernel * wide;
    to += p->mine.from / LS_OB * p->panel_step;
    for (int c = p->mine.from; c < p->mine.to; c += LS_OB) {
        const int ob = p->outputs - c < LS_OB ? p->outputs - c : LS_OB;
        for (int o = 0; o < p->channels; o++) {
            const float *from = w + ((ptrdiff_t)o * p->outputs + c) * window;
            if (p->rows.taps * p->columns.taps == window && ob == LS_OB) {
                lanes_turn(from, window, LS_OB, (int)window, to, LS_OB);
                to += window * LS_OB;
                continue;
            }
            for (int ky = down.from; ky < kernel; ky += down.step)
                for (int kx = right.from; kx < wide; kx += right.step, to += LS_OB)
                    for (int i = 0; i < ob; i++)
                        to[i] = from[i * window + ky * wide + kx];
        }
    }
}

/* Packed weights lie at the beginning of the scratch, whatever the part. */
static void data_weights(const ls_op_call *call, problem *p, const ls_windows *windows, int part)
{
    const ptrdiff_t window = (ptrdiff_t)windows->rows.kernel * windows->columns.kernel;
    const float *w = call->in[1].data + part * p->channels * p->outputs * window;
    float *packed = call->scratch;
    p->w = packed;
    p->w_step = LS_OB;
    p->panel_step = (ptrdiff_t)p->channels * p->rows.taps * p->columns.taps * LS_OB;
    if (call->attributes->weight_in_out) {
        for (int c = p->mine.from; c < p->mine.to; c += LS_OB)
            lanes_turn(w + (ptrdiff_t)c * p->channels, p->channels, p->outputs - c < LS_OB ? p->outputs - c : LS_OB,
                       p->channels, packed + (ptrdiff_t)c * p->channels, LS_OB);
    } else if (window == 1) {
        p->w = w;
        p->w_step = p->outputs;
        p->panel_step = LS_OB;
    } else {
        pack_data(p, w, windows, packed);
    }
}

/* Solves a data problem, its weights packed, part by part; without a scratch it only says how much of it is needed. */
static size_t solve_parts(const problem *p, char *scratch)
{
    size_t most = 0;
    problem part = *p;
    for (int row = 0; row < p->rows.places; row += part.rows.places) {
        part.rows = axis_part(&p->rows, row);
        for (int column = 0; column < p->columns.places; column += part.columns.places) {
            part.columns = axis_part(&p->columns, column);
            if (!part.rows.taps || !part.columns.taps) {
                if (scratch)
                    clear_places(&part);
                continue;
            }
            const cut c = cut_problem(&part);
            workspace space;
            const size_t bytes = lay_out(&space, scratch, &part, &c);
            most = bytes > most ? bytes : most;
            if (scratch)
                solve(&part, &c, &space);
        }
    }
    return most;
}

/* The parts of one group of channels; without a scratch only how much of it is needed. */
static size_t solve_data(const ls_op_call *call, const ls_windows *w, int part)
{
    const ls_operand *dx = &call->out[0];
    size_t most = 0;
    for (int row = 0; row < w->rows.stride && row < dx->h; row++)
        for (int column = 0; column < w->columns.stride && column < dx->w; column++) {
            problem p = data_problem(call, w, part, row, column);
            if (call->scratch)
                data_weights(call, &p, w, part);
            const size_t bytes = solve_parts(&p, call->scratch);
            most = bytes > most ? bytes : most;
        }
    return most;
}

static void data(const ls_op_call *call)
{
    const ls_windows w = ls_windows_of(call->attributes);
    const range mine = groups_of(call, w.groups);
    if (LANES(ls_lanes_is_depthwise)(call)) {
        LANES(ls_lanes_depthwise)(call);
        return;
    }
    for (int part = mine.from; part < mine.to; part++)
        solve_data(call, &w, part);
}

size_t LANES(ls_lanes_conv_scratch)(const ls_op_call *call)
{
    const ls_windows w = ls_windows_of(call->attributes);
    ls_op_call no_data = *call;
    no_data.scratch = NULL;
    if (LANES(ls_lanes_is_depthwise)(call))
        return LANES(ls_lanes_depthwise_scratch)(call);
    if (call->attributes->op != LS_OP_CONV)
        return solve_data(&no_data, &w, 0);
    const problem p = forward_problem(call, &w, 0);
    const cut c = cut_problem(&p);
    return lay_out(NULL, NULL, &p, &c);
}

int LANES(ls_lanes_conv_units)(const ls_op_call *call)
{
    const int groups = ls_windows_of(call->attributes).groups;
    if (LANES(ls_lanes_is_depthwise)(call))
        return LANES(ls_lanes_depthwise_units)(call);
    return groups > 1 ? groups : (call->out[0].c + LS_OB - 1) / LS_OB;
}

void LANES(ls_lanes_add_conv)(ls_backend *backend)
{
    backend->kernel[LS_OP_CONV] = forward;
    backend->kernel[LS_OP_CONV_DATA] = data;
}
