/* CONV and CONV_DATA. Both are one problem: every place of a map is a sum over channels and over a grid of taps, in
 * that order. The data gradient of a strided convolution falls apart into stride^2 such problems, one for each (row %
 * s, column % s), and each of those into parts whose places have the same taps inside the map. */
#include "device/cpu/lanes/cut.h"
#include "device/cpu/lanes/tile.h"

typedef struct problem {
    const float *x;
    float *y;
    int groups, channels, outputs;
    range mine;                    /* outputs that are wanted */
    int x_h, x_w, y_h, y_w;        /* the whole maps */
    int row0, column0, spread;     /* place (i, j) is y's row0 + i * spread, column0 + j * spread */
    int rows, columns;             /* of places */
    int step;                      /* place (i, j) and tap (a, b) read x's row i * step + tap_row + a * turn, ... */
    int tap_row, tap_column, turn; /* turn is 1 or -1 */
    int tap_rows, tap_columns;
    int w_row, w_column, w_rows, w_columns; /* where the taps begin among those that have weights in w */
    const float *w;                         /* panels of LS_OB outputs */
    ptrdiff_t w_step, panel_step;           /* floats from tap to tap and from panel to panel */
    const float *bias;
    int end; /* TILE_RELU, TILE_ADD_ZERO or 0 */
} problem;

/* How a problem is cut so that a chunk of x stays in the first cache and its places of y in the second. */
typedef struct cut {
    int groups, rows;            /* of a block of places */
    int channels, outputs;       /* of a chunk */
    int copy_rows, copy_columns; /* of x, with its zeros around */
    int copy_step;               /* of places in the copy */
    ptrdiff_t plane;             /* floats of one channel's copy */
    int places;                  /* of a block, at most */
    int in_place;                /* x is read where it lies: the "copy" is all of it */
} cut;

enum {
    BLOCK_PLACES = 84,
    X_BYTES = 28 << 10,  /* of x under one tile */
    Y_BYTES = 480 << 10, /* of y in a block */
};

/* The row and the column of x's map that the first place's taps begin at. */
static int first_row(const problem *p)
{
    return p->turn > 0 ? p->tap_row : p->tap_row - (p->tap_rows - 1);
}

static int first_column(const problem *p)
{
    return p->turn > 0 ? p->tap_column : p->tap_column - (p->tap_columns - 1);
}

/* Whether x needs no zeros around it, no rows left out, and no line more to spread its channels over the caches. */
static int fits_in_place(const problem *p, const cut *c)
{
    const ptrdiff_t plane = (ptrdiff_t)p->x_h * p->x_w;
    return c->copy_step == p->step && plane % 8 && c->groups * p->channels * plane < 1 << 26 && first_row(p) >= 0 &&
           first_column(p) >= 0 && first_row(p) + (p->rows - 1) * p->step + p->tap_rows <= p->x_h &&
           first_column(p) + (p->columns - 1) * p->step + p->tap_columns <= p->x_w;
}

static cut cut_problem(const problem *p)
{
    cut c;
    const int places = p->rows * p->columns;
    c.groups = even_part(p->groups, places ? BLOCK_PLACES / places : 1);
    c.rows = even_part(p->rows, p->columns ? BLOCK_PLACES / p->columns : 1);
    if (c.rows < p->rows)
        c.groups = 1;
    c.places = c.groups * c.rows * p->columns;

    const int one_tap = p->tap_rows == 1 && p->tap_columns == 1;
    c.copy_step = one_tap ? 1 : p->step;
    c.copy_rows = (c.rows - 1) * c.copy_step + p->tap_rows;
    c.copy_columns = (p->columns - 1) * c.copy_step + p->tap_columns;
    /* An odd number of lines spreads the channels over the sets of the caches. */
    c.plane = ((ptrdiff_t)c.copy_rows * c.copy_columns | 1) * LS_LANES;

    c.in_place = fits_in_place(p, &c);
    if (c.in_place) {
        c.copy_columns = p->x_w;
        c.plane = (ptrdiff_t)p->x_h * p->x_w * LS_LANES;
    }

    const int under_tile = p->tap_rows * (p->tap_columns + 5 * c.copy_step) * LS_LANES * (int)sizeof(float);
    c.channels = even_part(p->channels, X_BYTES / under_tile);
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
    const size_t taps = (size_t)p->tap_rows * p->tap_columns;
    const size_t outputs = (size_t)(p->outputs + LS_OB - 1) / LS_OB * LS_OB;
    size_t at[6];
    at[0] = 0;
    at[1] = at[0] + lines(outputs * p->channels * p->w_rows * p->w_columns * sizeof(float));
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
    const int jump = p->step / c->copy_step; /* more than 1 where a single tap leaves rows and columns out */
    const int first = first_row(p), left = first_column(p);
    int from = 0, end = c->copy_columns;
    while (from < end && left + from * jump < 0)
        from++;
    while (end > from && left + (end - 1) * jump >= p->x_w)
        end--;
    for (int i = 0; i < c->copy_rows; i++, to += (ptrdiff_t)c->copy_columns * LS_LANES) {
        const int y = row * p->step + first + i * jump;
        if (y < 0 || y >= p->x_h || from == end) {
            lanes_clear(to, c->copy_columns);
            continue;
        }
        lanes_clear(to, from);
        lanes_copy(to + from * LS_LANES, x + ((ptrdiff_t)y * p->x_w + left + from * jump) * LS_LANES, end - from, jump);
        lanes_clear(to + end * LS_LANES, c->copy_columns - end);
    }
}

static void list_taps(const problem *p, const cut *c, int channels, tile_tap *tap)
{
    const int top = p->turn > 0 ? 0 : p->tap_rows - 1, left = p->turn > 0 ? 0 : p->tap_columns - 1;
    for (int k = 0; k < channels; k++)
        for (int a = 0; a < p->tap_rows; a++)
            for (int b = 0; b < p->tap_columns; b++, tap++) {
                const int row = top + a * p->turn, column = left + b * p->turn;
                tap->x = (int32_t)(k * c->plane + ((ptrdiff_t)row * c->copy_columns + column) * LS_LANES);
                tap->w = (int32_t)(((k * p->w_rows + p->w_row + a) * p->w_columns + p->w_column + b) * p->w_step);
            }
}

/* The places of groups [group, group + groups) and rows [row, row + rows), each as LS_NV vectors. */
static int list_places(const problem *p, const cut *c, int group, int groups, int row, int rows, int channels,
                       workspace *space)
{
    int n = 0;
    for (int g = 0; g < groups; g++)
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < p->columns; j++)
                for (int v = 0; v < LS_NV; v++, n++) {
                    space->x_at[n] =
                        (int32_t)(g * channels * c->plane +
                                  ((ptrdiff_t)i * c->copy_step * c->copy_columns + j * c->copy_step) * LS_LANES +
                                  v * LS_VL);
                    const ptrdiff_t place =
                        (ptrdiff_t)(p->row0 + (row + i) * p->spread) * p->y_w + p->column0 + j * p->spread;
                    space->y_at[n] =
                        ((ptrdiff_t)(group + g) * p->outputs * p->y_h * p->y_w + place) * LS_LANES + v * LS_VL;
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
    const int taps = p->tap_rows * p->tap_columns;
    const ptrdiff_t plane = (ptrdiff_t)p->y_h * p->y_w * LS_LANES;
    tile_job job = {.tap = space->tap, .taps = channels * taps, .x = x, .y_step = plane};
    job.end = (channel > 0 ? TILE_GO_ON : 0) | (channel + channels == p->channels ? p->end : 0);
    for (int place = 0; place < places; place += LS_PB) {
        const int pb = places - place < LS_PB ? places - place : LS_PB;
        job.x_at = space->x_at + place;
        job.y_at = space->y_at + place;
        for (int o = output; o < output + outputs; o += LS_OB) {
            const int ob = p->outputs - o < LS_OB ? p->outputs - o : LS_OB;
            job.w = p->w + o / LS_OB * p->panel_step + (ptrdiff_t)channel * p->w_rows * p->w_columns * p->w_step;
            job.y = p->y + o * plane;
            job.bias = p->bias ? p->bias + o : NULL;
            tile[ob - 1](pb, &job);
        }
    }
}

static void run_block(const problem *p, const cut *c, workspace *space, int group, int row)
{
    const int groups = p->groups - group < c->groups ? p->groups - group : c->groups;
    const int rows = p->rows - row < c->rows ? p->rows - row : c->rows;
    const ptrdiff_t plane = (ptrdiff_t)p->x_h * p->x_w * LS_LANES;
    const int places = list_places(p, c, group, groups, row, rows, c->in_place ? p->channels : c->channels, space);
    const float *x = p->x + (ptrdiff_t)group * p->channels * plane;
    if (c->in_place)
        x += ((ptrdiff_t)(first_row(p) + row * p->step) * p->x_w + first_column(p)) * LS_LANES;
    for (int o = p->mine.from; o < p->mine.to; o += c->outputs) {
        const int outputs = p->mine.to - o < c->outputs ? p->mine.to - o : c->outputs;
        for (int k = 0; k < p->channels; k += c->channels) {
            const int channels = p->channels - k < c->channels ? p->channels - k : c->channels;
            const int copies = !c->in_place && (o == p->mine.from || channels < p->channels);
            for (int g = 0; g < groups && copies; g++)
                for (int i = 0; i < channels; i++)
                    copy_plane(p, c, x + ((ptrdiff_t)g * p->channels + k + i) * plane, row,
                               space->x + (g * c->channels + i) * c->plane);
            run_chunk(p, space, c->in_place ? x + k * plane : space->x, places, o, outputs, k, channels);
        }
    }
}

/* A problem without taps: places that no window reaches. */
static void clear_places(const problem *p)
{
    for (int group = 0; group < p->groups; group++)
        for (int o = p->mine.from; o < p->mine.to; o++)
            for (int i = 0; i < p->rows; i++)
                for (int j = 0; j < p->columns; j++) {
                    const ptrdiff_t plane = (ptrdiff_t)group * p->outputs + o;
                    const ptrdiff_t row = plane * p->y_h + p->row0 + i * p->spread;
                    lanes_clear(p->y + (row * p->y_w + p->column0 + j * p->spread) * LS_LANES, 1);
                }
}

static void solve(const problem *p, const cut *c, workspace *space)
{
    list_taps(p, c, c->channels, space->tap);
    for (int g = 0; g < p->groups; g += c->groups)
        for (int row = 0; row < p->rows; row += c->rows)
            run_block(p, c, space, g, row);
}

static problem forward_problem(const ls_op_call *call)
{
    const ls_attributes *a = call->attributes;
    const ls_operand *x = &call->in[0], *y = &call->out[0];
    return (problem){.x = x->data,
                     .y = y->data,
                     .groups = call->groups,
                     .channels = x->c,
                     .outputs = y->c,
                     .mine = range_by(call, y->c, LS_OB),
                     .x_h = x->h,
                     .x_w = x->w,
                     .y_h = y->h,
                     .y_w = y->w,
                     .spread = 1,
                     .rows = y->h,
                     .columns = y->w,
                     .step = a->stride,
                     .tap_row = -a->padding,
                     .tap_column = -a->padding,
                     .turn = 1,
                     .tap_rows = a->kernel,
                     .tap_columns = a->kernel,
                     .w_rows = a->kernel,
                     .w_columns = a->kernel,
                     .bias = call->in[2].data,
                     .end = a->fused_relu ? TILE_RELU : 0};
}

/* The taps of a row (or column) that is `place` modulo the stride: how many, the first, and where in dy it reads. */
static int data_taps(const ls_attributes *a, int place, int *first, int *at)
{
    *first = (place + a->padding) % a->stride;
    *at = (place + a->padding - *first) / a->stride;
    return *first < a->kernel ? (a->kernel - *first + a->stride - 1) / a->stride : 0;
}

static problem data_problem(const ls_op_call *call, int row0, int column0, int *ky, int *kx)
{
    const ls_attributes *a = call->attributes;
    const ls_operand *dy = &call->in[0], *dx = &call->out[0];
    problem p = {.x = dy->data,
                 .y = dx->data,
                 .groups = call->groups,
                 .channels = dy->c,
                 .outputs = dx->c,
                 .mine = range_by(call, dx->c, LS_OB),
                 .x_h = dy->h,
                 .x_w = dy->w,
                 .y_h = dx->h,
                 .y_w = dx->w,
                 .row0 = row0,
                 .column0 = column0,
                 .spread = a->stride,
                 .rows = (dx->h - row0 + a->stride - 1) / a->stride,
                 .columns = (dx->w - column0 + a->stride - 1) / a->stride,
                 .step = 1,
                 .turn = -1,
                 .end = TILE_ADD_ZERO};
    p.w_rows = p.tap_rows = data_taps(a, row0, ky, &p.tap_row);
    p.w_columns = p.tap_columns = data_taps(a, column0, kx, &p.tap_column);
    return p;
}

/* The taps [first, first + taps) of place number `place` lie inside a map of `size` rows (or columns). */
typedef struct inside {
    int first, taps;
} inside;

static inside taps_inside(int place, int at, int taps, int size)
{
    const int first = place + at - (size - 1) > 0 ? place + at - (size - 1) : 0;
    const int end = place + at + 1 < taps ? place + at + 1 : taps;
    return end > first ? (inside){first, end - first} : (inside){0, 0};
}

/* How many places from `place` on have the same taps. */
static int places_alike(int place, int places, int at, int taps, int size)
{
    const inside a = taps_inside(place, at, taps, size);
    int n = 1;
    for (; place + n < places; n++) {
        const inside b = taps_inside(place + n, at, taps, size);
        if (a.first != b.first || a.taps != b.taps)
            break;
    }
    return n;
}

/* The part of a data problem that begins at a row and a column of its places. */
static problem part_of(const problem *p, int row, int column)
{
    const inside rows = taps_inside(row, p->tap_row, p->tap_rows, p->x_h);
    const inside columns = taps_inside(column, p->tap_column, p->tap_columns, p->x_w);
    problem part = *p;
    part.row0 += row * p->spread;
    part.column0 += column * p->spread;
    part.rows = places_alike(row, p->rows, p->tap_row, p->tap_rows, p->x_h);
    part.columns = places_alike(column, p->columns, p->tap_column, p->tap_columns, p->x_w);
    part.tap_row += row - rows.first;
    part.tap_column += column - columns.first;
    part.w_row = rows.first;
    part.tap_rows = rows.taps;
    part.w_column = columns.first;
    part.tap_columns = columns.taps;
    return part;
}

static void forward(const ls_op_call *call)
{
    problem p = forward_problem(call);
    const cut c = cut_problem(&p);
    workspace space;
    lay_out(&space, call->scratch, &p, &c);
    const float *w = call->in[1].data;
    if (call->attributes->weight_in_out) {
        p.w = w;
        p.w_step = p.outputs;
        p.panel_step = LS_OB;
    } else {
        const ptrdiff_t row = (ptrdiff_t)p.channels * p.tap_rows * p.tap_columns;
        p.w = space.weights;
        p.w_step = LS_OB;
        p.panel_step = row * LS_OB;
        for (int o = p.mine.from; o < p.mine.to; o += LS_OB)
            lanes_turn(w + o * row, row, p.outputs - o < LS_OB ? p.outputs - o : LS_OB, (int)row,
                       space.weights + o * row, LS_OB);
    }
    solve(&p, &c, &space);
}

/* Panels of w[o][c][ky][kx] over input channels, of the taps ky0, ky0 + stride, ... and kx0, ... */
static void pack_data(const problem *p, const float *w, int kernel, int stride, int ky0, int kx0, float *to)
{
    const ptrdiff_t window = (ptrdiff_t)kernel * kernel;
    to += p->mine.from / LS_OB * p->panel_step;
    for (int c = p->mine.from; c < p->mine.to; c += LS_OB) {
        const int ob = p->outputs - c < LS_OB ? p->outputs - c : LS_OB;
        for (int o = 0; o < p->channels; o++) {
            const float *from = w + ((ptrdiff_t)o * p->outputs + c) * window;
            if (stride == 1 && ob == LS_OB) {
                lanes_turn(from, window, LS_OB, (int)window, to, LS_OB);
                to += window * LS_OB;
                continue;
            }
            for (int ky = ky0; ky < kernel; ky += stride)
                for (int kx = kx0; kx < kernel; kx += stride, to += LS_OB)
                    for (int i = 0; i < ob; i++)
                        to[i] = from[i * window + ky * kernel + kx];
        }
    }
}

/* Packed weights lie at the beginning of the scratch, whatever the part. */
static void data_weights(const ls_op_call *call, problem *p, int ky, int kx)
{
    const ls_attributes *a = call->attributes;
    const float *w = call->in[1].data;
    float *packed = call->scratch;
    p->w = packed;
    p->w_step = LS_OB;
    p->panel_step = (ptrdiff_t)p->channels * p->tap_rows * p->tap_columns * LS_OB;
    if (a->weight_in_out) {
        for (int c = p->mine.from; c < p->mine.to; c += LS_OB)
            lanes_turn(w + (ptrdiff_t)c * p->channels, p->channels, p->outputs - c < LS_OB ? p->outputs - c : LS_OB,
                       p->channels, packed + (ptrdiff_t)c * p->channels, LS_OB);
    } else if (a->kernel == 1) {
        p->w = w;
        p->w_step = p->outputs;
        p->panel_step = LS_OB;
    } else {
        pack_data(p, w, a->kernel, a->stride, ky, kx, packed);
    }
}

/* Solves a data problem, its weights packed, part by part; without a scratch it only says how much of it is needed. */
static size_t solve_parts(const problem *p, char *scratch)
{
    size_t most = 0;
    problem part;
    for (int row = 0; row < p->rows; row += part.rows)
        for (int column = 0; column < p->columns; column += part.columns) {
            part = part_of(p, row, column);
            if (!part.tap_rows || !part.tap_columns) {
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
    return most;
}

static void data(const ls_op_call *call)
{
    const int stride = call->attributes->stride;
    for (int row = 0; row < stride && row < call->out[0].h; row++)
        for (int column = 0; column < stride && column < call->out[0].w; column++) {
            int ky, kx;
            problem p = data_problem(call, row, column, &ky, &kx);
            data_weights(call, &p, ky, kx);
            solve_parts(&p, call->scratch);
        }
}

size_t LANES(ls_lanes_conv_scratch)(const ls_op_call *call)
{
    size_t most = 0;
    if (call->attributes->op == LS_OP_CONV) {
        const problem p = forward_problem(call);
        const cut c = cut_problem(&p);
        return lay_out(NULL, NULL, &p, &c);
    }
    for (int row = 0; row < call->attributes->stride && row < call->out[0].h; row++)
        for (int column = 0; column < call->attributes->stride && column < call->out[0].w; column++) {
            int ky, kx;
            const problem p = data_problem(call, row, column, &ky, &kx);
            const size_t bytes = solve_parts(&p, NULL);
            most = bytes > most ? bytes : most;
        }
    return most;
}

int LANES(ls_lanes_conv_units)(const ls_op_call *call)
{
    return (call->out[0].c + LS_OB - 1) / LS_OB;
}

void LANES(ls_lanes_add_conv)(ls_backend *backend)
{
    backend->kernel[LS_OP_CONV] = forward;
    backend->kernel[LS_OP_CONV_DATA] = data;
}
