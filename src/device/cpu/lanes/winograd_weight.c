/* WINOGRAD_WEIGHT: 36 matrix products, of E from dy and V from x, whose sums run over tiles and images.
 *
 * The images are turned out of the lanes and channels of x into them: a product then broadcasts a number of E to a vector
 * of channels, and no lanes need adding at the end. Runs of tiles are transformed one after another, and their products
 * join M; a chunk of M is as large as the second cache likes. */
#include "device/cpu/lanes/cut.h"
#include "device/cpu/lanes/winograd.h"

/* A tile of accumulators is OUTPUTS x VECTORS; a panel's channels lie side by side in V. */
#if LS_VL == 16
enum { OUTPUTS = 6, VECTORS = 4, PANEL = 64 };
#elif LS_VL == 8
enum { OUTPUTS = 6, VECTORS = 2, PANEL = 16 };
#else
enum { OUTPUTS = 6, VECTORS = 4, PANEL = 16 };
#endif

enum {
    PLACES = 36,
    CHUNK = 66,           /* outputs whose M is worked on at a time */
    AHEAD = 2,            /* channels of x that are asked for in advance */
    TURN = 17 * LS_LANES, /* floats of a place's 16 channels, before they are turned */
};

typedef struct sums {
    const ls_operand *x, *dy;
    float *dw;
    tiling map;
    int tiles, runs, depth; /* depth: products of a run */
    int panels, chunk, chunks;
    ptrdiff_t e_place, v_place, v_panel, m_place, m_chunk; /* floats from one to the next */
    float *e, *v, *m, *turn;
} sums;

/* Returns the bytes of scratch. A line between the places keeps them out of each other's way in the caches. */
static size_t lay_out(sums *s, const ls_op_call *call)
{
    *s = (sums){.x = &call->in[0], .dy = &call->in[1], .dw = call->out[0].data};
    s->map = tiling_of(s->dy);
    s->tiles = call->groups * s->map.rows * s->map.columns;
    s->runs = (s->tiles + LS_WINOGRAD_RUN - 1) / LS_WINOGRAD_RUN;
    s->depth = (s->tiles < LS_WINOGRAD_RUN ? s->tiles : LS_WINOGRAD_RUN) * LS_LANES;
    s->panels = (s->x->c + PANEL - 1) / PANEL;
    s->chunk = even_part(s->dy->c, CHUNK);
    s->chunks = (s->dy->c + s->chunk - 1) / s->chunk;
    s->e_place = (ptrdiff_t)s->dy->c * s->depth + LS_LANES;
    s->v_place = (ptrdiff_t)s->depth * PANEL + LS_LANES;
    s->v_panel = PLACES * s->v_place;
    s->m_place = (ptrdiff_t)s->chunk * PANEL + LS_LANES;
    s->m_chunk = PLACES * s->m_place;
    const ptrdiff_t alive = s->runs > 1 ? (ptrdiff_t)s->panels * s->chunks : 1;
    const ptrdiff_t e = PLACES * s->e_place, v = s->panels * s->v_panel, m = alive * s->m_chunk;
    s->e = call->scratch;
    if (s->e) {
        s->v = s->e + e;
        s->m = s->v + v;
        s->turn = s->m + m;
    }
    return (size_t)(e + v + m + PLACES * TURN) * sizeof(float);
}

/* One output's tile of dy; rows and columns from `rows` and `columns` on lie outside the map. */
LS_INLINE void transform_slopes(const float *dy, ptrdiff_t row, const int rows, const int columns, float *e,
                                ptrdiff_t e_place)
{
    for (int v = 0; v < LS_LANES; v += LS_VL, dy += LS_VL, e += LS_VL) {
        vf half[4][6];
        LS_UNROLL
        for (int c = 0; c < 4; c++) {
            vf s[4];
            LS_UNROLL
            for (int i = 0; i < 4; i++)
                s[i] = i < rows && c < columns ? vf_load(dy + i * row + c * LS_LANES) : vf_zero();
            winograd_slopes(s[0], s[1], s[2], s[3], half[c]);
        }
        LS_UNROLL
        for (int i = 0; i < 6; i++) {
            vf out[6];
            winograd_slopes(half[0][i], half[1][i], half[2][i], half[3][i], out);
            LS_UNROLL
            for (int c = 0; c < 6; c++)
                vf_store(e + (i * 6 + c) * e_place, out[c]);
        }
    }
}

/* E of a run: [place][output][tile][image]. */
static void make_e(const sums *s, int first, int tiles)
{
    const int h = s->map.h, w = s->map.w;
    const ptrdiff_t row = (ptrdiff_t)w * LS_LANES, plane = h * row;
    struct {
        const float *dy;
        int rows, columns;
    } at[LS_WINOGRAD_RUN];
    for (int t = 0; t < tiles; t++) {
        const spot k = spot_of(&s->map, first + t);
        at[t].dy = s->dy->data + (ptrdiff_t)k.group * s->dy->c * plane + k.top * row + k.left * LS_LANES;
        at[t].rows = h - k.top < 4 ? h - k.top : 4;
        at[t].columns = w - k.left < 4 ? w - k.left : 4;
    }
    for (int o = 0; o < s->dy->c; o++) {
        float *e = s->e + (ptrdiff_t)o * s->depth;
        const ptrdiff_t ahead = o + AHEAD < s->dy->c ? AHEAD * plane : 0;
        for (int t = 0; t < tiles; t++, e += LS_LANES) {
            const float *dy = at[t].dy + o * plane;
            for (int i = 0; i < at[t].rows; i++)
                for (int k = 0; k < at[t].columns; k++)
                    __builtin_prefetch(dy + ahead + i * row + k * LS_LANES);
            if (at[t].rows == 4 && at[t].columns == 4)
                transform_slopes(dy, row, 4, 4, e, s->e_place);
            else
                transform_slopes(dy, row, at[t].rows, at[t].columns, e, s->e_place);
        }
    }
}

/* V of one tile: [panel][place][image][channel]; channels that the last panel lacks are zeros. */
static void make_v(const sums *s, int tile, float *v)
{
    window a = window_of(&s->map, s->x->data, s->x->c, tile);
    for (int c = 0; c < s->panels * PANEL; c += LS_LANES) {
        for (int i = 0; i < LS_LANES; i++) {
            float *to = s->turn + i * LS_LANES;
            if (c + i >= s->x->c) {
                for (int place = 0; place < PLACES; place++)
                    lanes_clear(to + place * TURN, 1);
                continue;
            }
            if (c + i + AHEAD < s->x->c)
                fetch_window(&a, AHEAD);
            transform_inputs(&a, to, TURN);
            if (c + i + 1 < s->x->c)
                next_channel(&a);
        }
        float *panel = v + c / PANEL * s->v_panel + c % PANEL;
        for (int place = 0; place < PLACES; place++)
            lanes_turn16(s->turn + place * TURN, LS_LANES, panel + place * s->v_place, PANEL);
    }
}

typedef struct product_job {
    const float *e, *v, *fetch; /* of fetch, a line is asked for at each step */
    ptrdiff_t e_step;           /* floats from an output to the next */
    int depth, go_on;
    float *m;
} product_job;

/* A run's products of `outputs` outputs and VECTORS vectors of channels at one place. */
LS_INLINE void product_run(const int outputs, const product_job *job)
{
    vf acc[OUTPUTS][VECTORS];
    const float *e[OUTPUTS], *v = job->v, *fetch = job->fetch;
    LS_UNROLL
    for (int i = 0; i < outputs; i++) {
        e[i] = job->e + i * job->e_step;
        LS_UNROLL
        for (int k = 0; k < VECTORS; k++)
            acc[i][k] = vf_zero();
    }
    for (int step = 0; step < job->depth; step++, v += PANEL, fetch += LS_LANES) {
        vf at[VECTORS];
        __builtin_prefetch(fetch, 0, 2);
        LS_UNROLL
        for (int k = 0; k < VECTORS; k++)
            at[k] = vf_load(v + k * LS_VL);
        LS_UNROLL
        for (int i = 0; i < outputs; i++) {
            const vf slope = vf_set(e[i][step]);
            LS_UNROLL
            for (int k = 0; k < VECTORS; k++)
                acc[i][k] = vf_fma(slope, at[k], acc[i][k]);
        }
    }
    LS_UNROLL
    for (int i = 0; i < outputs; i++)
        LS_UNROLL
    for (int k = 0; k < VECTORS; k++) {
        float *to = job->m + i * PANEL + k * LS_VL;
        vf_store(to, job->go_on ? vf_add(vf_load(to), acc[i][k]) : acc[i][k]);
    }
}

static void product(int outputs, const product_job *job)
{
    switch (outputs) {
    case 1:
        product_run(1, job);
        break;
    case 2:
        product_run(2, job);
        break;
    case 3:
        product_run(3, job);
        break;
    case 4:
        product_run(4, job);
        break;
    case 5:
        product_run(5, job);
        break;
    default:
        product_run(OUTPUTS, job);
    }
}

/* Outputs [output, output + outputs) with one panel of channels. While one place's products are made, the next place's
 * V, E and M are asked for: all three are too much for the second cache. */
static void multiply(const sums *s, int output, int outputs, const float *v, int depth, float *m, int go_on)
{
    const float *e = s->e + (ptrdiff_t)output * s->depth;
    for (int place = 0; place < PLACES; place++, e += s->e_place, v += s->v_place, m += s->m_place) {
        const int more = place + 1 < PLACES;
        const float *fetch[3] = {v + more * s->v_place, e + more * s->e_place, m + more * s->m_place};
        const ptrdiff_t length[3] = {(ptrdiff_t)depth * PANEL, outputs * (ptrdiff_t)s->depth, outputs * PANEL};
        product_job job = {.e_step = s->depth, .depth = depth, .go_on = go_on};
        ptrdiff_t fetched = 0;
        int part = 0;
        for (int o = 0; o < outputs; o += OUTPUTS)
            for (int k = 0; k < PANEL; k += VECTORS * LS_VL) {
                job.e = e + (ptrdiff_t)o * s->depth;
                job.v = v + k;
                job.m = m + o * PANEL + k;
                job.fetch = fetch[part] + fetched;
                fetched += (ptrdiff_t)depth * LS_LANES;
                if (fetched >= length[part] && part < 2) {
                    fetched = 0;
                    part++;
                } else if (fetched >= length[part]) {
                    fetched = 0;
                }
                product(outputs - o < OUTPUTS ? outputs - o : OUTPUTS, &job);
            }
    }
}

/* The nine weights of one output and a vector of channels. A zero's sign depends on the lanes without an image, so that
 * 0 is added last. */
LS_INLINE void transform_sums(const float *m, ptrdiff_t m_place, float *g)
{
    vf half[6][3];
    LS_UNROLL
    for (int c = 0; c < 6; c++) {
        const float *at = m + c * m_place;
        const ptrdiff_t row = 6 * m_place;
        winograd_sums(vf_load(at), vf_load(at + row), vf_load(at + 2 * row), vf_load(at + 3 * row),
                      vf_load(at + 4 * row), vf_load(at + 5 * row), half[c]);
    }
    LS_UNROLL
    for (int i = 0; i < 3; i++) {
        vf out[3];
        winograd_sums(half[0][i], half[1][i], half[2][i], half[3][i], half[4][i], half[5][i], out);
        LS_UNROLL
        for (int k = 0; k < 3; k++)
            vf_store(g + (i * 3 + k) * PANEL, vf_add(out[k], vf_zero()));
    }
}

static void finish(const sums *s, int output, int outputs, int channel, const float *m)
{
    float g[9 * PANEL];
    const int channels = s->x->c - channel < PANEL ? s->x->c - channel : PANEL;
    for (int o = 0; o < outputs; o++, m += PANEL) {
        for (int k = 0; k < PANEL; k += LS_VL)
            transform_sums(m + k, s->m_place, g + k);
        lanes_turn(g, PANEL, 9, channels, s->dw + ((ptrdiff_t)(output + o) * s->x->c + channel) * 9, 9);
    }
}

static void weight(const ls_op_call *call)
{
    sums s;
    lay_out(&s, call);
    for (int run = 0; run < s.runs; run++) {
        const int first = run * LS_WINOGRAD_RUN;
        const int tiles = s.tiles - first < LS_WINOGRAD_RUN ? s.tiles - first : LS_WINOGRAD_RUN;
        make_e(&s, first, tiles);
        for (int t = 0; t < tiles; t++)
            make_v(&s, first + t, s.v + t * LS_LANES * PANEL);
        for (int panel = 0; panel < s.panels; panel++)
            for (int chunk = 0; chunk < s.chunks; chunk++) {
                const int output = chunk * s.chunk;
                const int outputs = s.dy->c - output < s.chunk ? s.dy->c - output : s.chunk;
                float *m = s.m + (s.runs > 1 ? (ptrdiff_t)panel * s.chunks + chunk : 0) * s.m_chunk;
                multiply(&s, output, outputs, s.v + panel * s.v_panel, tiles * LS_LANES, m, run > 0);
                if (run + 1 == s.runs)
                    finish(&s, output, outputs, panel * PANEL, m);
            }
    }
}

size_t LANES(ls_lanes_winograd_weight_scratch)(const ls_op_call *call)
{
    sums s;
    ls_op_call no_data = *call;
    no_data.scratch = NULL;
    return lay_out(&s, &no_data);
}

void LANES(ls_lanes_add_winograd_weight)(ls_backend *backend)
{
    backend->kernel[LS_OP_WINOGRAD_WEIGHT] = weight;
}
