/* WINOGRAD and WINOGRAD_DATA: blocks of tiles, taken across rows and groups of images, go through 36 matrix products.
 *
 * V of a block is transformed once; a chunk of outputs' M lives in the second cache until its tiles are written to y. U
 * is transformed once where it is small beside the tiles, else chunk by chunk just before its use, so that it never
 * travels to memory and back. */
#include "device/cpu/lanes/winograd.h"

enum {
    PLACES = 36,
    TILES = 4,         /* of a block */
    PANEL = 16,        /* outputs that lie side by side in U */
    CHUNK_PANELS = 2,  /* whose M is alive at once */
    AHEAD = 2,         /* channels of x that are asked for in advance */
    DEPTH = 64,        /* channels whose V of one place stays in the first cache */
    SMALL_U = 4 << 20, /* bytes */
    MANY_V = 8 << 20,  /* bytes */
};

typedef struct winograd {
    const ls_operand *x, *y;
    const float *w, *bias;
    int turned, relu, groups, channels, outputs, panels;
    tiling map;
    int tiles;
    int blocks, alive;          /* blocks of tiles, and how many have their V at a time */
    int ahead;                  /* all of U is made in advance */
    ptrdiff_t u_place, u_panel; /* floats from place to place, and from panel to panel */
    ptrdiff_t v_place, v_block, m_place;
    float *u, *v, *m;
} winograd;

/* Returns the bytes of scratch. A line between the places keeps them out of each other's way in the caches. */
static size_t lay_out(winograd *j, const ls_op_call *call)
{
    *j = (winograd){.x = &call->in[0], .y = &call->out[0], .w = call->in[1].data, .groups = call->groups};
    j->turned = call->attributes->op == LS_OP_WINOGRAD_DATA;
    j->relu = !j->turned && call->attributes->fused_relu;
    j->bias = j->turned ? NULL : call->in[2].data;
    j->channels = j->x->c;
    j->outputs = j->y->c;
    j->panels = (j->outputs + PANEL - 1) / PANEL;
    j->map = tiling_of(j->y);
    j->tiles = j->groups * j->map.rows * j->map.columns;
    j->blocks = (j->tiles + TILES - 1) / TILES;

    j->u_place = (ptrdiff_t)j->channels * PANEL + LS_LANES;
    j->u_panel = PLACES * j->u_place;
    j->v_place = ((ptrdiff_t)j->channels * TILES + 1) * LS_LANES;
    j->v_block = PLACES * j->v_place;
    j->m_place = (CHUNK_PANELS * PANEL * TILES + 1) * LS_LANES;

    const size_t all_u = (size_t)j->panels * j->u_panel * sizeof(float), block = (size_t)j->v_block * sizeof(float);
    j->ahead = j->blocks > 1 && all_u <= SMALL_U;
    j->alive = j->ahead || block >= MANY_V ? 1 : (int)(MANY_V / block);
    j->alive = j->alive < j->blocks ? j->alive : j->blocks;
    const size_t u = j->ahead ? all_u : CHUNK_PANELS * (size_t)j->u_panel * sizeof(float);
    j->u = call->scratch;
    j->v = j->u ? j->u + u / sizeof(float) : NULL;
    j->m = j->u ? j->v + (ptrdiff_t)j->alive * j->v_block : NULL;
    return u + j->alive * block + (size_t)PLACES * j->m_place * sizeof(float);
}

/* U of 16 outputs at one channel, from g[9][16]; `turned` takes the weights back to front. */
static void transform_weights(const float *g, int turned, float *u, ptrdiff_t u_place)
{
    for (int v = 0; v < PANEL; v += LS_VL, g += LS_VL, u += LS_VL) {
        vf half[3][6];
        LS_UNROLL
        for (int k = 0; k < 3; k++)
            winograd_weights(vf_load(g + (turned ? 8 - k : k) * PANEL), vf_load(g + (turned ? 5 - k : 3 + k) * PANEL),
                             vf_load(g + (turned ? 2 - k : 6 + k) * PANEL), half[k]);
        LS_UNROLL
        for (int i = 0; i < 6; i++) {
            vf row[6];
            winograd_weights(half[0][i], half[1][i], half[2][i], row);
            LS_UNROLL
            for (int k = 0; k < 6; k++)
                vf_store(u + (i * 6 + k) * u_place, row[k]);
        }
    }
}

static void make_panel(const winograd *j, int panel, float *u)
{
    enum { AT_ONCE = 4 };
    float g[AT_ONCE * 9 * PANEL];
    const int first = panel * PANEL, outputs = j->outputs - first < PANEL ? j->outputs - first : PANEL;
    lanes_clear(g, AT_ONCE * 9);
    for (int c = 0; c < j->channels; c += AT_ONCE) {
        const int some = j->channels - c < AT_ONCE ? j->channels - c : AT_ONCE;
        if (j->turned)
            for (int k = 0; k < some; k++)
                lanes_turn(j->w + ((ptrdiff_t)(c + k) * j->outputs + first) * 9, 9, outputs, 9, g + k * 9 * PANEL,
                           PANEL);
        else
            lanes_turn(j->w + ((ptrdiff_t)first * j->channels + c) * 9, (ptrdiff_t)j->channels * 9, outputs, some * 9,
                       g, PANEL);
        for (int k = 0; k < some; k++)
            transform_weights(g + k * 9 * PANEL, j->turned, u + (ptrdiff_t)(c + k) * PANEL, j->u_place);
    }
}

/* V of a block. Tiles that the last block lacks are zeros, so that the products need no second shape. */
static void make_block(const winograd *j, int block, float *v)
{
    const int tiles = j->tiles - block * TILES < TILES ? j->tiles - block * TILES : TILES;
    window a[TILES];
    for (int t = 0; t < tiles; t++)
        a[t] = window_of(&j->map, j->x->data, j->channels, block * TILES + t);
    for (int c = 0; c < j->channels; c++, v += TILES * LS_LANES)
        for (int t = 0; t < TILES; t++) {
            float *to = v + t * LS_LANES;
            if (t >= tiles) {
                for (int k = 0; k < PLACES; k++)
                    lanes_clear(to + k * j->v_place, 1);
                continue;
            }
            if (c + AHEAD < j->channels)
                fetch_window(&a[t], AHEAD);
            transform_inputs(&a[t], to, j->v_place);
            if (c + 1 < j->channels)
                next_channel(&a[t]);
        }
}

/* LS_OB outputs of pb vectors of a block at one place. */
LS_INLINE void product_run(const int pb, const float *u, const float *v, int depth, float *m, int go_on)
{
    vf acc[LS_OB][LS_PB];
    LS_UNROLL
    for (int i = 0; i < LS_OB; i++)
        LS_UNROLL
    for (int k = 0; k < pb; k++)
        acc[i][k] = go_on ? vf_load(m + i * TILES * LS_LANES + k * LS_VL) : vf_zero();
    for (const float *last = u + (ptrdiff_t)depth * PANEL; u < last; u += PANEL, v += TILES * LS_LANES) {
        vf at[LS_PB];
        LS_UNROLL
        for (int k = 0; k < pb; k++)
            at[k] = vf_load(v + k * LS_VL);
        LS_UNROLL
        for (int i = 0; i < LS_OB; i++) {
            const vf weight = vf_set(u[i]);
            LS_UNROLL
            for (int k = 0; k < pb; k++)
                acc[i][k] = vf_fma(weight, at[k], acc[i][k]);
        }
    }
    LS_UNROLL
    for (int i = 0; i < LS_OB; i++)
        LS_UNROLL
    for (int k = 0; k < pb; k++)
        vf_store(m + i * TILES * LS_LANES + k * LS_VL, acc[i][k]);
}

static void product(const float *u, const float *v, int depth, float *m, int go_on)
{
    enum { VECTORS = TILES * LS_NV, WHOLE = VECTORS / LS_PB * LS_PB, REST = VECTORS % LS_PB };
    for (int k = 0; k < WHOLE; k += LS_PB)
        product_run(LS_PB, u, v + k * LS_VL, depth, m + k * LS_VL, go_on);
    if (REST)
        product_run(REST, u, v + WHOLE * LS_VL, depth, m + WHOLE * LS_VL, go_on);
}

/* M of some panels and one block of tiles. */
static void multiply(const winograd *j, const float *u, int panels, const float *v)
{
    for (int place = 0; place < PLACES; place++, u += j->u_place, v += j->v_place) {
        float *m = j->m + place * j->m_place;
        for (int c = 0; c < j->channels; c += DEPTH) {
            const int depth = j->channels - c < DEPTH ? j->channels - c : DEPTH;
            for (int o = 0; o < panels * PANEL; o += LS_OB)
                product(u + o / PANEL * j->u_panel + (ptrdiff_t)c * PANEL + o % PANEL,
                        v + (ptrdiff_t)c * TILES * LS_LANES, depth, m + o * TILES * LS_LANES, c > 0);
        }
    }
}

/* One output of one tile, its 36 products `m_place` apart. */
LS_INLINE void transform_products(const winograd *j, const float *m, const int rows, const int columns, vf bias,
                                  float *y)
{
    for (int v = 0; v < LS_LANES; v += LS_VL, m += LS_VL, y += LS_VL) {
        vf half[6][4];
        LS_UNROLL
        for (int c = 0; c < 6; c++) {
            const float *at = m + c * j->m_place;
            const ptrdiff_t row = 6 * j->m_place;
            winograd_products(vf_load(at), vf_load(at + row), vf_load(at + 2 * row), vf_load(at + 3 * row),
                              vf_load(at + 4 * row), vf_load(at + 5 * row), half[c]);
        }
        LS_UNROLL
        for (int i = 0; i < 4; i++) {
            vf out[4];
            winograd_products(half[0][i], half[1][i], half[2][i], half[3][i], half[4][i], half[5][i], out);
            LS_UNROLL
            for (int c = 0; c < 4; c++) {
                if (j->bias)
                    out[c] = vf_add(out[c], bias);
                if (j->relu)
                    out[c] = vf_relu(out[c]);
                if (i < rows && c < columns)
                    vf_store(y + ((ptrdiff_t)i * j->y->w + c) * LS_LANES, out[c]);
            }
        }
    }
}

static void write_block(const winograd *j, int block, int output, int outputs)
{
    const ptrdiff_t plane = (ptrdiff_t)j->y->h * j->y->w * LS_LANES;
    for (int t = 0; t < TILES && block * TILES + t < j->tiles; t++) {
        const spot s = spot_of(&j->map, block * TILES + t);
        const int rows = j->y->h - s.top < 4 ? j->y->h - s.top : 4,
                  columns = j->y->w - s.left < 4 ? j->y->w - s.left : 4;
        float *y = j->y->data + ((ptrdiff_t)s.group * j->outputs + output) * plane +
                   ((ptrdiff_t)s.top * j->y->w + s.left) * LS_LANES;
        for (int o = 0; o < outputs; o++, y += plane) {
            const float *m = j->m + (o * TILES + t) * LS_LANES;
            const vf bias = vf_set(j->bias ? j->bias[output + o] : 0.0f);
            if (rows == 4 && columns == 4)
                transform_products(j, m, 4, 4, bias, y);
            else
                transform_products(j, m, rows, columns, bias, y);
        }
    }
}

static void run(const ls_op_call *call)
{
    winograd j;
    lay_out(&j, call);
    for (int p = 0; j.ahead && p < j.panels; p++)
        make_panel(&j, p, j.u + p * j.u_panel);
    for (int block = 0; block < j.blocks; block += j.alive) {
        const int blocks = j.blocks - block < j.alive ? j.blocks - block : j.alive;
        for (int b = 0; b < blocks; b++)
            make_block(&j, block + b, j.v + b * j.v_block);
        for (int panel = 0; panel < j.panels; panel += CHUNK_PANELS) {
            const int panels = j.panels - panel < CHUNK_PANELS ? j.panels - panel : CHUNK_PANELS;
            const int output = panel * PANEL, left = j.outputs - output;
            for (int p = 0; !j.ahead && p < panels; p++)
                make_panel(&j, panel + p, j.u + p * j.u_panel);
            for (int b = 0; b < blocks; b++) {
                multiply(&j, j.u + (j.ahead ? panel * j.u_panel : 0), panels, j.v + b * j.v_block);
                write_block(&j, block + b, output, left < panels * PANEL ? left : panels * PANEL);
            }
        }
    }
}

size_t LANES(ls_lanes_winograd_scratch)(const ls_op_call *call)
{
    winograd j;
    ls_op_call no_data = *call;
    no_data.scratch = NULL;
    return lay_out(&j, &no_data);
}

void LANES(ls_lanes_add_winograd)(ls_backend *backend)
{
    backend->kernel[LS_OP_WINOGRAD] = run;
    backend->kernel[LS_OP_WINOGRAD_DATA] = run;
}
