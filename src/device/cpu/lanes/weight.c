/* CONV_WEIGHT: a tile of outputs x taps is summed over all places of a group, or of all groups, each lane on its own,
 * and the lanes last. Accumulators of a few outputs and channels wait in the second cache while rows of x and dy stream
 * by. */
#include "device/cpu/lanes/cut.h"

enum {
    RUN = 48, /* taps whose lanes are added together; a multiple of 16 and of every tile's width */
    BLOCK_PLACES = 128,
    BLOCK_LINES = 704, /* of x and dy under a row of tiles, which the first cache holds */
    FETCHED = 1,       /* channels of x that a row of tiles asks for */
    CHUNK = 64 * 144,  /* accumulators alive at a time */
    FEW_CHANNELS = 16, /* of x, which are not cut into parts */
    FEW_OUTPUTS = 64,
    MANY_OUTPUTS = 128,
};

typedef struct sums {
    const ls_op_call *call;
    const ls_operand *x, *dy; /* all channels of the maps */
    int in, out;              /* channels of the group that is summed, and where it begins: */
    const float *x_data, *dy_data;
    float *dw;
    ls_windows windows;
    int row_step, column_step;                       /* of places in the copy */
    int taps;                                        /* of one channel */
    int block_groups, block_rows, channels, outputs; /* the parts it is cut into */
    int copy_rows, copy_columns, blocks;
    ptrdiff_t plane;         /* floats of one channel's copy */
    float *acc, *copy;       /* acc: [outputs / LS_OB][run][LS_OB][RUN][16] */
    int by_group;            /* each group has sums of its own, which join acc at its end */
    ptrdiff_t own;           /* floats from acc to those of a group of several blocks */
    ptrdiff_t *x_at, *dy_at; /* of each place */
    int32_t *tap;
} sums;

typedef struct sums_job {
    const float *x, *dy;
    const int32_t *tap; /* [rb] floats from a place's x to the tap's */
    const ptrdiff_t *x_at, *dy_at;
    int places;
    ptrdiff_t dy_step;  /* floats from an output channel to the next */
    const float *from;  /* [ob][RUN][16], what the sums begin with; NULL: zeros */
    float *to;          /* where they go, the same way */
    int add;            /* to what is there */
    const float *fetch; /* lines wanted soon, as far apart as dy's: one is asked for at each place */
} sums_job;

LS_INLINE void sums_run(const int ob, const int rb, const sums_job *job)
{
    for (int v = 0; v < LS_LANES; v += LS_VL) {
        vf acc[LS_OB][LS_PB];
        const float *x[LS_PB], *dy[LS_OB];
        float *to = job->to + v;
        const ptrdiff_t *x_at = job->x_at, *dy_at = job->dy_at, *last = x_at + job->places;
        LS_UNROLL
        for (int i = 0; i < ob; i++)
            dy[i] = job->dy + i * job->dy_step + v;
        LS_UNROLL
        for (int j = 0; j < rb; j++) {
            x[j] = job->x + job->tap[j] + v;
            LS_UNROLL
            for (int i = 0; i < ob; i++)
                acc[i][j] = job->from ? vf_load(job->from + v + (i * RUN + j) * LS_LANES) : vf_zero();
        }
        for (; x_at < last; x_at++, dy_at++) {
            vf at[LS_PB];
            __builtin_prefetch(job->fetch + *dy_at);
            LS_UNROLL
            for (int j = 0; j < rb; j++)
                at[j] = vf_load(x[j] + *x_at);
            LS_UNROLL
            for (int i = 0; i < ob; i++) {
                const vf slope = vf_load(dy[i] + *dy_at);
                LS_UNROLL
                for (int j = 0; j < rb; j++)
                    acc[i][j] = vf_fma(slope, at[j], acc[i][j]);
            }
        }
        LS_UNROLL
        for (int j = 0; j < rb; j++)
            LS_UNROLL
        for (int i = 0; i < ob; i++) {
            float *at = to + (i * RUN + j) * LS_LANES;
            vf_store(at, job->add ? vf_load(at) + acc[i][j] : acc[i][j]);
        }
    }
}

LS_INLINE void sums_by_width(const int ob, int rb, const sums_job *job)
{
    switch (rb) {
    case 1:
        sums_run(ob, 1, job);
        break;
    case 2:
        sums_run(ob, 2, job);
        break;
#if LS_PB >= 3
    case 3:
        sums_run(ob, 3, job);
        break;
#endif
#if LS_PB >= 6
    case 4:
        sums_run(ob, 4, job);
        break;
    case 5:
        sums_run(ob, 5, job);
        break;
    case 6:
        sums_run(ob, 6, job);
        break;
#endif
    }
}

static __attribute__((noinline)) void sums_1(int rb, const sums_job *job)
{
    sums_by_width(1, rb, job);
}
static __attribute__((noinline)) void sums_2(int rb, const sums_job *job)
{
    sums_by_width(2, rb, job);
}
static __attribute__((noinline)) void sums_3(int rb, const sums_job *job)
{
    sums_by_width(3, rb, job);
}
static __attribute__((noinline)) void sums_4(int rb, const sums_job *job)
{
    sums_by_width(4, rb, job);
}

static void set_rows(sums *s, int rows)
{
    s->block_rows = rows;
    s->copy_rows = (rows - 1) * s->row_step + (int)ls_windows_span(&s->windows.rows);
    s->copy_columns = (s->dy->w - 1) * s->column_step + (int)ls_windows_span(&s->windows.columns);
}

/* The lines that a tile's LS_OB outputs and its taps' channels keep in use while its places go by. */
static int lines_in_use(const sums *s)
{
    const int channels = 1 + (5 + s->taps) / s->taps;
    return LS_OB * s->block_rows * s->dy->w + channels * s->copy_rows * s->copy_columns;
}

/* Blocks of whole maps where they are small, else of rows of one map. */
static void cut_places(sums *s)
{
    const int h = s->dy->h, w = s->dy->w > 0 ? s->dy->w : 1;
    int rows = h < BLOCK_PLACES / w ? h : BLOCK_PLACES / w;
    set_rows(s, rows < 1 ? 1 : rows);
    while (s->block_rows > 1 && lines_in_use(s) > BLOCK_LINES)
        set_rows(s, s->block_rows - 1);
    set_rows(s, even_part(h, s->block_rows));
    s->by_group = h * w >= LS_OWN_SUM_PLACES;
    s->block_groups = 1;
    if (s->block_rows == h && !s->by_group) {
        const int by_places = BLOCK_PLACES / (h * w), by_lines = BLOCK_LINES / lines_in_use(s);
        s->block_groups = even_part(s->call->groups, by_lines < by_places ? by_lines : by_places);
    }
    s->blocks = ((s->call->groups + s->block_groups - 1) / s->block_groups) * ((h + s->block_rows - 1) / s->block_rows);
}

/* Where a single tap leaves rows or columns out, they are not copied. */
static int copy_step(const ls_windows_axis *a)
{
    return a->kernel == 1 ? 1 : a->stride;
}

/* Of group number `part` of the channels. Returns the bytes of scratch; the pointers into it are right where the call's
 * scratch is. */
static size_t cut_sums(sums *s, const ls_op_call *call, int part)
{
    const ls_windows w = ls_windows_of(call->attributes);
    const ls_operand *x = &call->in[0], *dy = &call->in[1];
    *s = (sums){.call = call,
                .x = x,
                .dy = dy,
                .in = x->c / w.groups,
                .out = dy->c / w.groups,
                .windows = w,
                .row_step = copy_step(&w.rows),
                .column_step = copy_step(&w.columns),
                .taps = w.rows.kernel * w.columns.kernel};
    if (call->scratch) {
        s->x_data = x->data + (ptrdiff_t)part * s->in * x->h * x->w * LS_LANES;
        s->dy_data = dy->data + (ptrdiff_t)part * s->out * dy->h * dy->w * LS_LANES;
        s->dw = call->out[0].data + (ptrdiff_t)part * s->out * s->in * s->taps;
    }
    cut_places(s);
    /* An odd number of lines spreads the channels over the sets of the caches. */
    s->plane = ((ptrdiff_t)s->copy_rows * s->copy_columns | 1) * LS_LANES;
    /* The fewer products a copied number has, the more outputs must share the copy. */
    const int products = s->block_rows * s->dy->w * s->taps, copied = s->copy_rows * s->copy_columns;
    int outputs = products ? (int)((ptrdiff_t)2 * MANY_OUTPUTS * copied / products) : FEW_OUTPUTS;
    outputs = outputs < FEW_OUTPUTS ? FEW_OUTPUTS : outputs > MANY_OUTPUTS ? MANY_OUTPUTS : outputs;
    s->outputs = (even_part(s->out, outputs) + LS_OB - 1) / LS_OB * LS_OB;
    s->channels = even_part(s->in, CHUNK / (s->outputs < FEW_OUTPUTS ? FEW_OUTPUTS : s->outputs) / s->taps);

    const size_t runs = ((size_t)s->channels * s->taps + RUN - 1) / RUN,
                 all = (size_t)s->block_groups * s->block_rows * s->dy->w;
    const size_t alive = (s->blocks > 1 ? (size_t)s->outputs * runs : LS_OB) * RUN * LS_LANES;
    s->own = s->by_group && s->block_rows < s->dy->h && call->groups > 1 ? (ptrdiff_t)alive : 0;
    const size_t acc = (alive + (size_t)s->own) * sizeof(float);
    const size_t copy = lines((size_t)s->block_groups * s->channels * s->plane * sizeof(float));
    char *at = call->scratch;
    if (at) {
        s->acc = (float *)at;
        s->copy = (float *)(at + acc);
        s->x_at = (ptrdiff_t *)(at + acc + copy);
        s->dy_at = (ptrdiff_t *)(at + acc + copy + lines(all * sizeof(ptrdiff_t)));
        s->tap = (int32_t *)(at + acc + copy + 2 * lines(all * sizeof(ptrdiff_t)));
    }
    return acc + copy + 2 * lines(all * sizeof(ptrdiff_t)) + lines((size_t)s->channels * s->taps * sizeof(int32_t));
}

/* The rows of one channel that the block's places read, zeros outside the map. */
static void copy_plane(const sums *s, const float *x, int row, float *to)
{
    const ls_windows_axis *down = &s->windows.rows, *right = &s->windows.columns;
    const int jump = right->stride / s->column_step, row_jump = down->stride / s->row_step;
    int from = 0, end = s->copy_columns;
    while (from < end && from * jump < right->padding)
        from++;
    while (end > from && (end - 1) * jump - right->padding >= s->x->w)
        end--;
    for (int i = 0; i < s->copy_rows; i++, to += (ptrdiff_t)s->copy_columns * LS_LANES) {
        const int y = row * down->stride - down->padding + i * row_jump;
        if (y < 0 || y >= s->x->h || from == end) {
            lanes_clear(to, s->copy_columns);
            continue;
        }
        lanes_clear(to, from);
        lanes_copy(to + from * LS_LANES, x + ((ptrdiff_t)y * s->x->w + from * jump - right->padding) * LS_LANES,
                   end - from, jump);
        lanes_clear(to + end * LS_LANES, s->copy_columns - end);
    }
}

static int list_places(const sums *s, int groups, int rows)
{
    const ptrdiff_t group = (ptrdiff_t)s->dy->c * s->dy->h * s->dy->w * LS_LANES;
    int n = 0;
    for (int g = 0; g < groups; g++)
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < s->dy->w; j++, n++) {
                s->x_at[n] = g * s->channels * s->plane +
                             ((ptrdiff_t)i * s->row_step * s->copy_columns + j * s->column_step) * LS_LANES;
                s->dy_at[n] = g * group + ((ptrdiff_t)i * s->dy->w + j) * LS_LANES;
            }
    return n;
}

/* Adds the lanes of a run's accumulators. A zero's sign depends on the lanes without an image, so that 0 is added
 * last. */
static void finish_run(const sums *s, const float *acc, int output, int ob, int tap, int taps)
{
    for (int i = 0; i < ob; i++) {
        float *dw = s->dw + (ptrdiff_t)(output + i) * s->in * s->taps + tap;
        for (int t = 0; t < taps; t += 16) {
            float sum[16];
            lanes_sum16(acc + (i * RUN + t) * LS_LANES, sum);
            const int n = taps - t < 16 ? taps - t : 16;
            for (int k = 0; k < n; k++)
                dw[t + k] = sum[k] + 0.0f;
        }
    }
}

typedef struct chunk {
    int output, outputs, channel, channels;
} chunk;

/* Places of groups [group, group + groups) and rows [row, row + rows). */
typedef struct block {
    int group, groups, row, rows;
} block;

static block block_at(const sums *s, int number)
{
    const int in_group = (s->dy->h + s->block_rows - 1) / s->block_rows;
    block b = {.group = number / in_group * s->block_groups, .row = number % in_group * s->block_rows};
    b.groups = s->call->groups - b.group < s->block_groups ? s->call->groups - b.group : s->block_groups;
    b.rows = s->dy->h - b.row < s->block_rows ? s->dy->h - b.row : s->block_rows;
    return b;
}

static const float *dy_of(const sums *s, const block *b, int output)
{
    return s->dy_data + (((ptrdiff_t)b->group * s->dy->c + output) * s->dy->h + b->row) * s->dy->w * LS_LANES;
}

static void copy_block(const sums *s, const block *b, const chunk *k)
{
    const ptrdiff_t plane = (ptrdiff_t)s->x->h * s->x->w * LS_LANES;
    for (int g = 0; g < b->groups; g++)
        for (int c = 0; c < k->channels; c++)
            copy_plane(s, s->x_data + ((ptrdiff_t)(b->group + g) * s->x->c + k->channel + c) * plane, b->row,
                       s->copy + (g * s->channels + c) * s->plane);
}

/* What tile number `tile` of a row of tiles asks for: dy of the next outputs, then x of the next block. */
static const float *fetch_of(const sums *s, const chunk *k, const block *b, const block *next, int o, int tile)
{
    if (tile < LS_OB && o + LS_OB + tile < k->outputs)
        return dy_of(s, b, k->output + o + LS_OB + tile);
    if (tile < LS_OB)
        return dy_of(s, next, k->output + (tile < k->outputs ? tile : 0));
    /* A channel's rows are asked for in parts of a block's places. */
    const int places = b->rows * s->dy->w, lines = s->copy_rows * s->x->w, parts = (lines + places - 1) / places;
    const int part = tile - LS_OB, channel = o / LS_OB * FETCHED + part / parts;
    const int y = next->row * s->windows.rows.stride - s->windows.rows.padding;
    if (part >= parts * FETCHED || channel >= k->channels)
        return dy_of(s, b, k->output + o);
    return s->x_data +
           ((((ptrdiff_t)next->group * s->x->c + k->channel + channel) * s->x->h + (y < 0 ? 0 : y)) * s->x->w +
            (ptrdiff_t)part % parts * places) *
               LS_LANES;
}

/* The tiles of one block of places. */
static void run_block(const sums *s, const chunk *k, int number)
{
    static void (*const run[LS_OB])(int, const sums_job *) = {sums_1, sums_2, sums_3, sums_4};
    const int taps = k->channels * s->taps, runs = (taps + RUN - 1) / RUN, last = number + 1 == s->blocks;
    const block b = block_at(s, number), next = block_at(s, last ? 0 : number + 1);
    const int goes_on = s->by_group ? b.row > 0 : number > 0, ends = !s->by_group || b.row + b.rows == s->dy->h;
    sums_job job = {.x = s->copy,
                    .x_at = s->x_at,
                    .dy_at = s->dy_at,
                    .add = s->by_group && ends && b.group > 0,
                    .dy_step = (ptrdiff_t)s->dy->h * s->dy->w * LS_LANES,
                    .places = list_places(s, b.groups, b.rows)};
    for (int o = 0; o < k->outputs; o += LS_OB) {
        const int ob = k->outputs - o < LS_OB ? k->outputs - o : LS_OB;
        job.dy = dy_of(s, &b, k->output + o);
        for (int r = 0; r < runs; r++) {
            float *acc = s->acc + (s->blocks > 1 ? o * runs + r * LS_OB : 0) * (ptrdiff_t)(RUN * LS_LANES);
            const int end = taps - r * RUN < RUN ? taps - r * RUN : RUN;
            for (int t = 0; t < end; t += LS_PB) {
                job.tap = s->tap + r * RUN + t;
                job.from = goes_on ? acc + s->own + t * LS_LANES : NULL;
                job.to = acc + (ends ? 0 : s->own) + t * LS_LANES;
                job.fetch = fetch_of(s, k, &b, &next, o, (r * RUN + t) / LS_PB);
                run[ob - 1](end - t < LS_PB ? end - t : LS_PB, &job);
            }
            if (last)
                finish_run(s, acc, k->output + o, ob, k->channel * s->taps + r * RUN, end);
        }
    }
}

/* Parts of the channels need no number of x twice; where there are few, of the outputs. */
static int by_channels(const ls_op_call *call)
{
    return call->in[0].c >= FEW_CHANNELS;
}

int LANES(ls_lanes_weight_units)(const ls_op_call *call)
{
    const int groups = ls_windows_of(call->attributes).groups;
    if (LANES(ls_lanes_is_depthwise)(call))
        return LANES(ls_lanes_depthwise_units)(call);
    if (LANES(ls_lanes_is_linear)(call))
        return LANES(ls_lanes_linear_weight_units)(call);
    if (groups > 1)
        return groups;
    return by_channels(call) ? call->in[0].c : (call->in[1].c + LS_OB - 1) / LS_OB;
}

/* The sums of one group of channels. */
static void sum_group(const ls_op_call *call, int part, range channels, range outputs)
{
    sums s;
    cut_sums(&s, call, part);
    const ls_windows_axis *down = &s.windows.rows, *right = &s.windows.columns;
    int32_t *tap = s.tap;
    for (int c = 0; c < s.channels; c++)
        for (int ky = 0; ky < down->kernel; ky++)
            for (int kx = 0; kx < right->kernel; kx++)
                *tap++ = (int32_t)(c * s.plane +
                                   ((ptrdiff_t)ky * down->dilation * s.copy_columns + (ptrdiff_t)kx * right->dilation) *
                                       LS_LANES);
    for (int o = outputs.from; o < outputs.to; o += s.outputs)
        for (int c = channels.from; c < channels.to; c += s.channels) {
            const chunk k = {o, outputs.to - o < s.outputs ? outputs.to - o : s.outputs, c,
                             channels.to - c < s.channels ? channels.to - c : s.channels};
            for (int number = 0; number < s.blocks; number++) {
                const block b = block_at(&s, number);
                copy_block(&s, &b, &k);
                run_block(&s, &k, number);
            }
        }
}

static void weight(const ls_op_call *call)
{
    const int groups = ls_windows_of(call->attributes).groups;
    const range all_channels = {0, call->in[0].c / groups}, all_outputs = {0, call->in[1].c / groups};
    if (LANES(ls_lanes_is_depthwise)(call)) {
        LANES(ls_lanes_depthwise_weight)(call);
    } else if (LANES(ls_lanes_is_linear)(call)) {
        LANES(ls_lanes_linear_weight)(call);
    } else if (groups > 1) {
        const range mine = range_of(call, groups);
        for (int part = mine.from; part < mine.to; part++)
            sum_group(call, part, all_channels, all_outputs);
    } else {
        const range channels = by_channels(call) ? range_of(call, call->in[0].c) : all_channels;
        const range outputs = by_channels(call) ? all_outputs : range_by(call, call->in[1].c, LS_OB);
        sum_group(call, 0, channels, outputs);
    }
}

size_t LANES(ls_lanes_weight_scratch)(const ls_op_call *call)
{
    if (LANES(ls_lanes_is_depthwise)(call))
        return LANES(ls_lanes_depthwise_scratch)(call);
    if (LANES(ls_lanes_is_linear)(call))
        return LANES(ls_lanes_linear_weight_scratch)(call);
    sums s;
    ls_op_call no_data = *call;
    no_data.scratch = NULL;
    return cut_sums(&s, &no_data, 0);
}

void LANES(ls_lanes_add_weight)(ls_backend *backend)
{
    backend->kernel[LS_OP_CONV_WEIGHT] = weight;
}
