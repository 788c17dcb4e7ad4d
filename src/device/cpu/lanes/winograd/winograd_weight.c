/* WINOGRAD_WEIGHT: a matrix product a place, of E from dy and V from x, whose sums run over tiles and images. A strided
 * convolution's taps come phase by phase.
 *
 * The images are turned out of the lanes and channels of x into them: a product then broadcasts a number of E to a
 * vector of channels, and no lanes need adding at the end. Runs of tiles are transformed one after another, and their
 * products join M; a chunk of M is as large as the second cache likes. */
#include "device/cpu/lanes/cut.h"
#include "device/cpu/lanes/winograd/winograd.h"

/* A tile of accumulators is OUTPUTS x VECTORS; a panel's channels, at most PANEL, lie side by side in V. */
#if LS_VL == 16
enum { OUTPUTS = 6, VECTORS = 4, PANEL = 64 };
#elif LS_VL == 8
enum { OUTPUTS = 6, VECTORS = 2, PANEL = 16 };
#else
enum { OUTPUTS = 6, VECTORS = 4, PANEL = 16 };
#endif

enum {
    FEW = PANEL / 2 < LS_LANES ? LS_LANES : PANEL / 2, /* channels that are given a narrow panel */
    CHUNK = 66,                                        /* outputs whose M is worked on at a time */
    AHEAD = 2,                                         /* channels of x that are asked for in advance */
    TURN = 17 * LS_LANES,                              /* floats of a place's 16 channels, before they are turned */
};

typedef struct sums {
    const ls_operand *x, *dy;
    float *dw;
    int kernel;
    tiling map;
    int tiles, run, runs, depth; /* run: tiles of one; depth: its products */
    int panel, panels, chunk, chunks;
    range mine;                                            /* outputs that are wanted */
    ptrdiff_t e_place, v_place, v_panel, m_place, m_chunk; /* floats from one to the next */
    float *e, *v, *m, *turn;
} sums;

/* Returns the bytes of scratch. A line between the places keeps them out of each other's way in the caches. */
static size_t lay_out(sums *s, const ls_op_call *call, int phase)
{
    *s = (sums){.x = &call->in[0], .dy = &call->in[1], .dw = call->out[0].data};
    s->kernel = call->attributes->kernel;
    s->map = tiling_of(call->attributes, s->dy, s->dy, 0, phase);
    s->mine = range_by(call, s->dy->c, OUTPUTS);
    s->tiles = call->groups * s->map.rows * s->map.columns;
    s->run = ls_winograd_run(s->map.tile);
    s->runs = (s->tiles + s->run - 1) / s->run;
    s->depth = (s->tiles < s->run ? s->tiles : s->run) * LS_LANES;
    s->panels = (s->x->c + PANEL - 1) / PANEL;
    s->panel = s->x->c > FEW ? PANEL : FEW;
    s->chunk = even_part(s->dy->c, CHUNK);
    s->chunks = (s->dy->c + s->chunk - 1) / s->chunk;
    s->e_place = (ptrdiff_t)s->dy->c * s->depth + LS_LANES;
    s->v_place = (ptrdiff_t)s->depth * s->panel + LS_LANES;
    s->v_panel = s->map.places * s->v_place;
    s->m_place = (ptrdiff_t)s->chunk * s->panel + LS_LANES;
    s->m_chunk = s->map.distinct * s->m_place;
    const ptrdiff_t alive = s->runs > 1 ? (ptrdiff_t)s->panels * s->chunks : 1;
    const ptrdiff_t e = s->map.places * s->e_place, v = s->panels * s->v_panel, m = alive * s->m_chunk;
    s->e = call->scratch;
    if (s->e) {
        s->v = s->e + e;
        s->m = s->v + v;
        s->turn = s->m + m;
    }
    return (size_t)(e + v + m + s->map.places * TURN) * sizeof(float);
}

/* E of a run: [place][output][tile][image]. */
static void make_e(const sums *s, int first, int tiles)
{
    const ptrdiff_t plane = (ptrdiff_t)s->dy->h * s->dy->w * LS_LANES;
    tile a[LS_WINOGRAD_RUN];
    for (int t = 0; t < tiles; t++)
        a[t] = tile_of(&s->map, s->dy, first + t);
    for (int o = s->mine.from; o < s->mine.to; o++) {
        float *e = s->e + (ptrdiff_t)o * s->depth;
        const int ahead = o + AHEAD < s->mine.to ? o + AHEAD : o;
        for (int t = 0; t < tiles; t++, e += LS_LANES) {
            fetch_tile(&a[t], ahead * plane);
            transform_slopes(&s->map, &a[t], a[t].at + o * plane, e, s->e_place);
        }
    }
}

/* V of one tile: [panel][place][image][channel]; channels that the last panel lacks are zeros. */
static void make_v(const sums *s, int number, float *v)
{
    window a = window_of(&s->map, s->x, number);
    for (int c = 0; c < s->panels * s->panel; c += LS_LANES) {
        for (int i = 0; i < LS_LANES; i++) {
            float *to = s->turn + i * LS_LANES;
            if (c + i >= s->x->c) {
                for (int place = 0; place < s->map.places; place++)
                    lanes_clear(to + place * TURN, 1);
                continue;
            }
            if (c + i + AHEAD < s->x->c)
                fetch_window(&a, AHEAD);
            transform_inputs(&s->map, &a, to, TURN);
            if (c + i + 1 < s->x->c)
                next_channel(&a);
        }
        float *panel = v + c / s->panel * s->v_panel + c % s->panel;
        for (int place = 0; place < s->map.places; place++)
            lanes_turn16(s->turn + place * TURN, LS_LANES, panel + place * s->v_place, s->panel);
    }
}

typedef struct product_job {
    const float *e, *v, *fetch; /* of fetch, a line is asked for at each step */
    ptrdiff_t e_step;           /* floats from an output to the next */
    int panel, depth, go_on;
    float *m;
} product_job;

/* A run's products of some outputs and vectors of channels at one place. */
LS_INLINE void product_run(const int outputs, const int vectors, const product_job *job)
{
    vf acc[OUTPUTS][VECTORS];
    const float *e[OUTPUTS], *v = job->v, *fetch = job->fetch;
    LS_UNROLL
    for (int i = 0; i < outputs; i++) {
        e[i] = job->e + i * job->e_step;
        LS_UNROLL
        for (int k = 0; k < vectors; k++)
            acc[i][k] = vf_zero();
    }
    for (int step = 0; step < job->depth; step++, v += job->panel, fetch += LS_LANES) {
        vf at[VECTORS];
        __builtin_prefetch(fetch, 0, 2);
        LS_UNROLL
        for (int k = 0; k < vectors; k++)
            at[k] = vf_load(v + k * LS_VL);
        LS_UNROLL
        for (int i = 0; i < outputs; i++) {
            const vf slope = vf_set(e[i][step]);
            LS_UNROLL
            for (int k = 0; k < vectors; k++)
                acc[i][k] = vf_fma(slope, at[k], acc[i][k]);
        }
    }
    LS_UNROLL
    for (int i = 0; i < outputs; i++)
        LS_UNROLL
    for (int k = 0; k < vectors; k++) {
        float *to = job->m + (ptrdiff_t)i * job->panel + k * LS_VL;
        vf_store(to, job->go_on ? vf_load(to) + acc[i][k] : acc[i][k]);
    }
}

LS_INLINE void product_by_outputs(int outputs, const int vectors, const product_job *job)
{
    switch (outputs) {
    case 1:
        product_run(1, vectors, job);
        break;
    case 2:
        product_run(2, vectors, job);
        break;
    case 3:
        product_run(3, vectors, job);
        break;
    case 4:
        product_run(4, vectors, job);
        break;
    case 5:
        product_run(5, vectors, job);
        break;
    default:
        product_run(OUTPUTS, vectors, job);
    }
}

/* Few channels fill half the vectors. */
static void product(int outputs, int channels, const product_job *job)
{
    enum { HALF = VECTORS / 2 };
    if (channels > HALF * LS_VL)
        product_by_outputs(outputs, VECTORS, job);
    else
        product_by_outputs(outputs, HALF, job);
}

/* Outputs [output, output + outputs) with the channels of one panel. While one place's products are made, the next
 * place's V, E and M are asked for: all three are too much for the second cache. */
static void multiply(const sums *s, int output, int outputs, int channels, const float *v, int depth, float *m,
                     int go_on)
{
    const float *e = s->e + (ptrdiff_t)output * s->depth;
    int summed = 0; /* places with a U of their own that have a sum */
    for (int place = 0; place < s->map.places; place++, e += s->e_place, v += s->v_place) {
        const int more = place + 1 < s->map.places, sum = distinct_of(&s->map, place);
        const float *next_m = m + distinct_of(&s->map, place + more) * s->m_place;
        const float *fetch[3] = {v + more * s->v_place, e + more * s->e_place, next_m};
        const ptrdiff_t length[3] = {(ptrdiff_t)depth * s->panel, outputs * (ptrdiff_t)s->depth,
                                     (ptrdiff_t)outputs * s->panel};
        product_job job = {.e_step = s->depth, .panel = s->panel, .depth = depth, .go_on = go_on || sum < summed};
        summed = sum < summed ? summed : sum + 1;
        ptrdiff_t fetched = 0;
        int part = 0;
        for (int o = 0; o < outputs; o += OUTPUTS)
            for (int k = 0; k < channels; k += VECTORS * LS_VL) {
                job.e = e + (ptrdiff_t)o * s->depth;
                job.v = v + k;
                job.m = m + sum * s->m_place + (ptrdiff_t)o * s->panel + k;
                job.fetch = fetch[part] + fetched;
                fetched += (ptrdiff_t)depth * LS_LANES;
                if (fetched >= length[part] && part < 2) {
                    fetched = 0;
                    part++;
                } else if (fetched >= length[part]) {
                    fetched = 0;
                }
                product(outputs - o < OUTPUTS ? outputs - o : OUTPUTS, channels - k, &job);
            }
    }
}

/* The weights of one output and a vector of channels, from the first of its taps, which lie `row` and `column` floats
 * apart. A zero's sign depends on the lanes without an image, so that 0 is added last. */
LS_INLINE void transform_sums(const form down, const form along, const float *m, ptrdiff_t m_place, float *g,
                              ptrdiff_t row, ptrdiff_t column)
{
    const int n = form_distinct(down), k = form_distinct(along);
    square half;
    LS_ROLL
    for (int c = 0; c < k; c++) {
        const line products = line_load(n, m + c * m_place, k * m_place);
        vf out[WINDOW];
        winograd_steps[down].sums(products.at, out);
        square_put(half, c, out, form_taps(down));
    }
    LS_ROLL
    for (int i = 0; i < form_taps(down); i++) {
        const line products = square_row(half[i], k);
        vf out[WINDOW];
        winograd_steps[along].sums(products.at, out);
        LS_UNROLL
        for (int c = 0; c < form_taps(along); c++)
            vf_store(g + i * row + c * column, out[c] + vf_zero());
    }
}

/* The phase's taps of g[kernel * kernel][PANEL]. */
static void make_weights(const sums *s, const float *m, float *g)
{
    const ls_winograd_axis *r = &s->map.row, *c = &s->map.column;
    const ptrdiff_t row = (ptrdiff_t)r->tap_step * s->kernel * PANEL, column = (ptrdiff_t)c->tap_step * PANEL;
    g += ((ptrdiff_t)r->tap * s->kernel + c->tap) * PANEL;
#define SUMS(down, along) transform_sums(down, along, m, s->m_place, g, row, column)
    switch (pair_of(&s->map)) {
        EACH_PAIR(SUMS)
    }
#undef SUMS
}

/* All taps at once, or those of a phase among the others'. */
static void put_weights(const sums *s, const float *g, int channels, float *dw)
{
    const int taps = s->kernel * s->kernel;
    const ls_winograd_axis *r = &s->map.row, *c = &s->map.column;
    if (r->taps == s->kernel) {
        lanes_turn(g, PANEL, taps, channels, dw, taps);
        return;
    }
    for (int i = 0; i < r->taps; i++)
        for (int k = 0; k < c->taps; k++) {
            const int tap = (r->tap + i * r->tap_step) * s->kernel + c->tap + k * c->tap_step;
            for (int channel = 0; channel < channels; channel++)
                dw[channel * taps + tap] = g[tap * PANEL + channel];
        }
}

static void finish(const sums *s, int output, int outputs, int channel, int channels, const float *m)
{
    float g[25 * PANEL];
    const int taps = s->kernel * s->kernel;
    for (int o = output; o < output + outputs; o++, m += s->panel) {
        for (int k = 0; k < channels; k += LS_VL)
            make_weights(s, m + k, g + k);
        put_weights(s, g, channels, s->dw + ((ptrdiff_t)o * s->x->c + channel) * taps);
    }
}

static void weigh(const ls_op_call *call, int phase)
{
    sums s;
    lay_out(&s, call, phase);
    for (int run = 0; run < s.runs; run++) {
        const int first = run * s.run;
        const int tiles = s.tiles - first < s.run ? s.tiles - first : s.run;
        make_e(&s, first, tiles);
        for (int t = 0; t < tiles; t++)
            make_v(&s, first + t, s.v + t * LS_LANES * s.panel);
        for (int panel = 0; panel < s.panels; panel++) {
            const int channel = panel * s.panel, channels = s.x->c - channel < s.panel ? s.x->c - channel : s.panel;
            for (int output = s.mine.from, chunk = 0; output < s.mine.to; output += s.chunk, chunk++) {
                const int outputs = s.mine.to - output < s.chunk ? s.mine.to - output : s.chunk;
                float *m = s.m + (s.runs > 1 ? (ptrdiff_t)panel * s.chunks + chunk : 0) * s.m_chunk;
                multiply(&s, output, outputs, channels, s.v + panel * s.v_panel, tiles * LS_LANES, m, run > 0);
                if (run + 1 == s.runs)
                    finish(&s, output, outputs, channel, channels, m);
            }
        }
    }
}

static void weight(const ls_op_call *call)
{
    for (int phase = 0; phase < phases_of(call->attributes); phase++)
        weigh(call, phase);
}

int LANES(ls_lanes_winograd_weight_units)(const ls_op_call *call)
{
    return (call->in[1].c + OUTPUTS - 1) / OUTPUTS;
}

size_t LANES(ls_lanes_winograd_weight_scratch)(const ls_op_call *call)
{
    sums s;
    ls_op_call no_data = *call;
    no_data.scratch = NULL;
    return lay_out(&s, &no_data, 0); /* the first phase has the most places */
}

void LANES(ls_lanes_add_winograd_weight)(ls_backend *backend)
{
    backend->kernel[LS_OP_WINOGRAD_WEIGHT] = weight;
}
