/* How a recorded graph is rewritten, node by node: what is fused and what each of its conditions leaves alone, the
 * backward operations of each rule for every choice of operands that need a gradient, and what is refused.
 *
 * A graph is spelled as its nodes: `c=conv+relu(a,b)` makes value c. Values are letters in the order they were made,
 * `-` an operand or output that is not there, `db` the gradient of parameter b in the shard's partial gradient, and
 * a'c the numbers of a under the shape of c. */
#include "support.h"

#include <lockstep.h>
#include <string.h>

#include "graph/graph.h"

typedef struct built {
    ls_session *session;
    ls_flat flat;
    ls_backend backend;
    ls_graph *graph;
    char text[2048];
} built;

static built *begin(bool training)
{
    static built b;
    b = (built){.session = ls_open(NULL), .backend = *ls_backend_ref()};
    b.backend.shifts = b.backend.accumulates = 1;
    ls_flat_init(&b.flat, &b.session->context);
    b.graph = ls_graph_new(b.session, &b.backend, &b.flat, training);
    assert_non_null(b.graph);
    return &b;
}

static void end(built *b)
{
    ls_graph_free(b->graph);
    ls_flat_destroy(&b->flat);
    ls_close(b->session);
}

#define NODE(b, c, h, w, how, ...)                                                                                     \
    node(b, c, h, w, (ls_attributes){.op = LS_OP_##how}, (ls_value *[LS_MAX_IN]){__VA_ARGS__})

/* The same of a window: its kernel, stride and padding follow the operation. */
#define WINDOW(b, c, h, w, how, k, s, p, ...)                                                                          \
    node(b, c, h, w, (ls_attributes){.op = LS_OP_##how, .kernel = k, .stride = s, .padding = p},                       \
         (ls_value *[LS_MAX_IN]){__VA_ARGS__})

static ls_value *node(built *b, int c, int h, int w, ls_attributes how, ls_value *const in[LS_MAX_IN])
{
    ls_value *y = ls_graph_value(b->graph, LS_IN_ARENA, c, h, w, true);
    ls_node *made = ls_graph_node(b->graph, how.op, "layer");
    made->attributes = how;
    made->out[0] = y;
    for (int k = 0; k < LS_MAX_IN; k++) {
        made->in[k] = in[k];
        y->needs_gradient |= in[k] && in[k]->needs_gradient;
    }
    return y;
}

static ls_value *input(built *b, int c, int h, int w, bool tracked)
{
    ls_value *x = NODE(b, c, h, w, INPUT);
    x->needs_gradient = tracked;
    return x;
}

static ls_value *weight(built *b, int numbers)
{
    char name[16];
    snprintf(name, sizeof name, "%d", b->flat.n_views);
    return ls_graph_view(b->graph, ls_flat_add(&b->flat, name, 1, (int64_t[]){numbers}, true, false));
}

/* ---- Spelling ---------------------------------------------------------------------------------------------------- */

static void put(built *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(built *b, const char *format, ...)
{
    va_list arguments;
    const size_t at = strlen(b->text);
    va_start(arguments, format);
    vsnprintf(b->text + at, sizeof b->text - at, format, arguments);
    va_end(arguments);
}

static char letter(const ls_value *value)
{
    return (char)(value->id < 26 ? 'a' + value->id : 'A' + value->id - 26);
}

static void put_value(built *b, const ls_value *value)
{
    if (!value)
        put(b, "-");
    else if (value->base)
        put(b, "%c'%c", letter(value->base), letter(value));
    else if (value->place != LS_IN_GRADIENTS)
        put(b, "%c", letter(value));
    else
        for (int i = 0; i < value->id; i++)
            if (b->graph->values[i]->place == LS_IN_WEIGHTS && b->graph->values[i]->offset == value->offset)
                put(b, "d%c", letter(b->graph->values[i]));
}

static void put_values(built *b, ls_value *const values[], int most)
{
    int n = most;
    while (n > 0 && !values[n - 1])
        n--;
    for (int k = 0; k < n; k++) {
        put(b, k ? "," : "");
        put_value(b, values[k]);
    }
}

/* The nodes from `first` on. */
static const char *spelled(built *b, int first)
{
    *b->text = '\0';
    for (int i = first; i < b->graph->n_nodes; i++) {
        const ls_node *n = &b->graph->nodes[i];
        const ls_attributes *a = &n->attributes;
        put(b, i > first ? " " : "");
        put_values(b, n->out, LS_MAX_OUT);
        put(b, "=%s%s%s", ls_op_name(a->op), a->fused_add ? "+add" : "", a->fused_relu ? "+relu" : "");
        if (a->op == LS_OP_SCALE)
            put(b, "*%g", a->factor);
        if (a->op == LS_OP_VIEW)
            put(b, "@%d", -a->shift[0]);
        put(b, "(");
        put_values(b, n->in, LS_MAX_IN);
        put(b, ")");
    }
    return b->text;
}

/* Inputs are not of interest: they stand first, and stay. */
static int behind_inputs(const ls_graph *graph)
{
    int i = 0;
    while (i < graph->n_nodes && graph->nodes[i].attributes.op == LS_OP_INPUT)
        i++;
    return i;
}

static void assert_fused(built *b, const char *expected)
{
    ls_graph_fuse(b->graph);
    assert_string_equal(spelled(b, behind_inputs(b->graph)), expected);
    end(b);
}

/* ---- Fusion ------------------------------------------------------------------------------------------------------ */

/* x of 3 x 9 x 9, its weight and bias, and the convolution of 3 x 3 without padding that reads them. */
typedef struct convolved {
    ls_value *x, *w, *bias, *y;
} convolved;

static convolved convolve(built *b)
{
    convolved c = {.x = input(b, 3, 9, 9, false), .w = weight(b, 4 * 27), .bias = weight(b, 4)};
    c.y = WINDOW(b, 4, 7, 7, CONV, 3, 1, 0, c.x, c.w);
    return c;
}

static void a_bias_starts_the_sums(void **state)
{
    (void)state;
    built *b = begin(true);
    convolved c = convolve(b);
    NODE(b, 4, 7, 7, ADD_BIAS, c.y, c.bias);
    assert_fused(b, "e=conv(a,b,c)");

    b = begin(true); /* somebody else reads the sums, before and behind */
    c = convolve(b);
    NODE(b, 4, 7, 7, ADD_BIAS, c.y, c.bias);
    NODE(b, 4, 7, 7, TANH, c.y);
    assert_fused(b, "d=conv(a,b) e=add_bias(d,c) f=tanh(d)");

    b = begin(true); /* or under another shape */
    c = convolve(b);
    ls_value *flat = ls_graph_reshaped(b->graph, c.y, 1, 196, 1, 1);
    NODE(b, 4, 7, 7, ADD_BIAS, c.y, c.bias);
    NODE(b, 196, 1, 1, TANH, flat);
    assert_fused(b, "d=conv(a,b) f=add_bias(d,c) g=tanh(d'e)");

    b = begin(true); /* a second bias, and one behind a relu */
    c = convolve(b);
    ls_value *once = NODE(b, 4, 7, 7, ADD_BIAS, c.y, c.bias);
    ls_value *twice = NODE(b, 4, 7, 7, ADD_BIAS, once, weight(b, 4));
    NODE(b, 4, 7, 7, ADD_BIAS, NODE(b, 4, 7, 7, RELU, twice), c.bias);
    assert_fused(b, "e=conv(a,b,c) g=add_bias(e,f) h=relu(g) i=add_bias(h,c)");

    b = begin(true);
    c = convolve(b);
    NODE(b, 4, 7, 7, ADD_BIAS, NODE(b, 4, 7, 7, RELU, c.y), c.bias);
    assert_fused(b, "e=conv+relu(a,b) f=add_bias(e,c)");

    b = begin(true); /* no product makes this one */
    c.x = input(b, 4, 7, 7, false);
    NODE(b, 4, 7, 7, ADD_BIAS, c.x, weight(b, 4));
    assert_fused(b, "c=add_bias(a,b)");
}

static ls_value *norm(built *b, ls_value *x, ls_op op)
{
    ls_value *gamma = weight(b, x->c), *beta = weight(b, x->c);
    return node(b, x->c, x->h, x->w, (ls_attributes){.op = op}, (ls_value *[LS_MAX_IN]){x, gamma, beta});
}

static void a_relu_joins_what_is_in_front(void **state)
{
    (void)state;
    built *b = begin(true);
    convolved c = convolve(b);
    NODE(b, 4, 7, 7, RELU, NODE(b, 4, 7, 7, RELU, c.y)); /* one of two */
    assert_fused(b, "e=conv+relu(a,b) f=relu(e)");

    b = begin(true);
    c = convolve(b);
    NODE(b, 4, 7, 7, RELU, c.y);
    NODE(b, 4, 7, 7, RELU, c.y);
    assert_fused(b, "d=conv(a,b) e=relu(d) f=relu(d)");

    static const struct of {
        bool training;
        ls_op op;
        const char *text;
    } all[] = {
        {true, LS_OP_BATCH_NORM, "e=batch_norm+relu(a,b,c)"},
        {false, LS_OP_BATCH_NORM_INFER, "e=batch_norm_infer+relu(a,b,c)"},
        {true, LS_OP_BATCH_NORM_INFER, "e=batch_norm_infer+relu(a,b,c)"}, /* a frozen one */
        {true, LS_OP_ADD, "d=add(a,b,c) e=relu(d)"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        b = begin(all[i].training);
        NODE(b, 4, 7, 7, RELU, norm(b, input(b, 4, 7, 7, false), all[i].op));
        assert_fused(b, all[i].text);
    }
}

static void an_addition_takes_the_norm_in(void **state)
{
    (void)state;
    for (int side = 0; side < 2; side++) {
        built *b = begin(true);
        ls_value *x = input(b, 4, 7, 7, false), *r = input(b, 4, 7, 7, false);
        ls_value *made = norm(b, x, LS_OP_BATCH_NORM), *late = NODE(b, 4, 7, 7, TANH, r);
        NODE(b, 4, 7, 7, RELU, NODE(b, 4, 7, 7, ADD, side ? late : made, side ? made : late));
        assert_fused(b, "f=tanh(b) h=batch_norm+add+relu(a,c,d,f)");
    }
    built *b = begin(true); /* both sides are norms: the first takes the second */
    ls_value *x = input(b, 4, 7, 7, false);
    ls_value *one = norm(b, x, LS_OP_BATCH_NORM), *two = norm(b, x, LS_OP_BATCH_NORM);
    ls_value *sum = NODE(b, 4, 7, 7, ADD, one, two);
    NODE(b, 4, 7, 7, ADD, sum, x); /* a norm takes one addition */
    assert_fused(b, "g=batch_norm(a,e,f) h=batch_norm+add(a,b,c,g) i=add(h,a)");

    b = begin(true); /* added to itself, read twice, with a relu between; frozen, which joins; or subtracted from */
    x = input(b, 4, 7, 7, false);
    one = norm(b, x, LS_OP_BATCH_NORM), two = norm(b, x, LS_OP_BATCH_NORM);
    ls_value *three = norm(b, x, LS_OP_BATCH_NORM), *four = norm(b, x, LS_OP_BATCH_NORM_INFER);
    NODE(b, 4, 7, 7, ADD, one, one);
    NODE(b, 4, 7, 7, ADD, two, x);
    NODE(b, 4, 7, 7, TANH, two);
    NODE(b, 4, 7, 7, ADD, NODE(b, 4, 7, 7, RELU, three), x);
    NODE(b, 4, 7, 7, ADD, four, x);
    NODE(b, 4, 7, 7, SUBTRACT, norm(b, x, LS_OP_BATCH_NORM), x);
    assert_fused(b, "d=batch_norm(a,b,c) g=batch_norm(a,e,f) q=batch_norm+relu(a,h,i) n=add(d,d) o=add(g,a) p=tanh(g) "
                    "r=add(q,a) s=batch_norm_infer+add(a,k,l,a) v=batch_norm(a,t,u) w=subtract(v,a)");
}

static void a_bias_in_front_of_a_norm_is_its_shift(void **state)
{
    (void)state;
    static const struct of {
        bool training, shifts, read, relu;
        ls_op op;
        const char *text;
    } all[] = {
        {true, true, false, false, LS_OP_BATCH_NORM, "e=conv(a,b) h=batch_norm(e,f,g,-,-,c)"},
        {false, true, false, false, LS_OP_BATCH_NORM_INFER, "e=conv(a,b) h=batch_norm_infer(e,f,g,-,-,c)"},
        {true, false, false, false, LS_OP_BATCH_NORM, "e=conv(a,b,c) h=batch_norm(e,f,g)"},
        {true, true, true, false, LS_OP_BATCH_NORM, "e=conv(a,b,c) h=batch_norm(e,f,g) i=tanh(e)"},
        {true, true, false, true, LS_OP_BATCH_NORM, "f=conv+relu(a,b,c) i=batch_norm(f,g,h)"},
        {true, true, false, false, LS_OP_BATCH_NORM_INFER, "e=conv(a,b,c) h=batch_norm_infer(e,f,g)"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        built *b = begin(all[i].training);
        b->backend.shifts = all[i].shifts;
        const convolved c = convolve(b);
        ls_value *biased = NODE(b, 4, 7, 7, ADD_BIAS, c.y, c.bias);
        norm(b, all[i].relu ? NODE(b, 4, 7, 7, RELU, biased) : biased, all[i].op);
        if (all[i].read)
            NODE(b, 4, 7, 7, TANH, biased);
        assert_fused(b, all[i].text);
    }
    built *b = begin(true); /* there is no bias, and no convolution */
    norm(b, convolve(b).y, LS_OP_BATCH_NORM);
    norm(b, input(b, 4, 7, 7, false), LS_OP_BATCH_NORM);
    assert_fused(b, "d=conv(a,b) g=batch_norm(d,e,f) h=input() k=batch_norm(h,i,j)");
}

static void rows_that_no_window_reads_are_left_out(void **state)
{
    (void)state;
    static const struct of {
        ls_op op;
        int kernel, stride, padding, h, w, relu, read, by; /* by: 0 the convolution's own map, 1 a tanh of it */
        int rows, columns;                                 /* of the map that is made */
    } all[] = {
        {LS_OP_AVG_POOL, 2, 2, 0, 9, 7, 0, 0, 0, 8, 6},   {LS_OP_MAX_POOL, 2, 2, 0, 9, 7, 1, 0, 0, 8, 6},
        {LS_OP_MAX_POOL, 3, 3, 0, 11, 10, 0, 0, 0, 9, 9}, {LS_OP_MAX_POOL, 2, 3, 0, 10, 7, 0, 0, 0, 8, 5},
        {LS_OP_MAX_POOL, 3, 2, 1, 9, 10, 0, 0, 0, 9, 10}, {LS_OP_AVG_POOL, 2, 3, 1, 9, 11, 0, 0, 0, 9, 10},
        {LS_OP_AVG_POOL, 2, 2, 0, 8, 6, 0, 0, 0, 8, 6},   {LS_OP_AVG_POOL, 2, 2, 0, 9, 7, 0, 1, 0, 9, 7},
        {LS_OP_AVG_POOL, 2, 2, 0, 9, 7, 0, 0, 1, 9, 7},   {LS_OP_TANH, 2, 2, 0, 9, 7, 0, 0, 0, 9, 7},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const struct of *p = &all[i];
        built *b = begin(true);
        b->backend.kernel[LS_OP_CONV_POOL] = NULL;
        ls_value *x = input(b, 3, p->h, p->w, false), *w = weight(b, 27);
        ls_value *y = WINDOW(b, 4, p->h, p->w, CONV, 3, 1, 1, x, w), *made = y;
        if (p->relu)
            made = NODE(b, 4, p->h, p->w, RELU, y);
        if (p->read)
            NODE(b, 4, p->h, p->w, TANH, y);
        if (p->by)
            made = NODE(b, 4, p->h, p->w, TANH, y);
        node(b, 4, test_windows(p->h, p->kernel, p->stride, p->padding),
             test_windows(p->w, p->kernel, p->stride, p->padding),
             (ls_attributes){.op = p->op, .kernel = p->kernel, .stride = p->stride, .padding = p->padding},
             (ls_value *[LS_MAX_IN]){made});
        ls_graph_fuse(b->graph);
        if (made->h != p->rows || made->w != p->columns)
            fail_msg("pool %d makes a map of %d x %d", (int)i, made->h, made->w);
        end(b);
    }
}

/* The layer that is fused: each other row differs in one condition. */
typedef struct first_layer {
    int channels, kernel, stride, padding;
    bool relu, tracked, read, lacking;
    ls_op pool;
    int pool_kernel, pool_stride, pool_padding;
    const char *text;
} first_layer;

static void a_first_layer_takes_its_pool_in(void **state)
{
    (void)state;
    static const first_layer layers[] = {
        {15, 3, 1, 0, true, false, false, false, LS_OP_AVG_POOL, 2, 2, 0, "f=conv_pool(a,b,c)"},
        {16, 3, 1, 0, true, false, false, false, LS_OP_AVG_POOL, 2, 2, 0, "e=conv+relu(a,b,c) f=avg_pool(e)"},
        {15, 5, 1, 0, true, false, false, false, LS_OP_AVG_POOL, 2, 2, 0, "e=conv+relu(a,b,c) f=avg_pool(e)"},
        {15, 2, 1, 0, true, false, false, false, LS_OP_AVG_POOL, 2, 2, 0, "e=conv+relu(a,b,c) f=avg_pool(e)"},
        {15, 3, 2, 0, true, false, false, false, LS_OP_AVG_POOL, 2, 2, 0, "e=conv+relu(a,b,c) f=avg_pool(e)"},
        {15, 3, 1, 1, true, false, false, false, LS_OP_AVG_POOL, 2, 2, 0, "e=conv+relu(a,b,c) f=avg_pool(e)"},
        {15, 3, 1, 0, false, false, false, false, LS_OP_AVG_POOL, 2, 2, 0, "d=conv(a,b,c) e=avg_pool(d)"},
        {15, 3, 1, 0, true, true, false, false, LS_OP_AVG_POOL, 2, 2, 0, "e=conv+relu(a,b,c) f=avg_pool(e)"},
        {15, 3, 1, 0, true, false, true, false, LS_OP_AVG_POOL, 2, 2, 0, "e=conv+relu(a,b,c) f=avg_pool(e) g=tanh(e)"},
        {15, 3, 1, 0, true, false, false, true, LS_OP_AVG_POOL, 2, 2, 0, "e=conv+relu(a,b,c) f=avg_pool(e)"},
        {15, 3, 1, 0, true, false, false, false, LS_OP_MAX_POOL, 2, 2, 0, "e=conv+relu(a,b,c) f=max_pool(e)"},
        {15, 3, 1, 0, true, false, false, false, LS_OP_AVG_POOL, 3, 2, 0, "e=conv+relu(a,b,c) f=avg_pool(e)"},
        {15, 3, 1, 0, true, false, false, false, LS_OP_AVG_POOL, 1, 2, 0, "e=conv+relu(a,b,c) f=avg_pool(e)"},
        {15, 3, 1, 0, true, false, false, false, LS_OP_AVG_POOL, 2, 1, 0, "e=conv+relu(a,b,c) f=avg_pool(e)"},
        {15, 3, 1, 0, true, false, false, false, LS_OP_AVG_POOL, 2, 3, 0, "e=conv+relu(a,b,c) f=avg_pool(e)"},
        {15, 3, 1, 0, true, false, false, false, LS_OP_AVG_POOL, 2, 2, 1, "e=conv+relu(a,b,c) f=avg_pool(e)"},
    };
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        const first_layer *l = &layers[i];
        built *b = begin(true);
        if (l->lacking)
            b->backend.kernel[LS_OP_CONV_POOL] = NULL;
        ls_value *x = input(b, l->channels, 12, 12, l->tracked), *w = weight(b, 9), *bias = weight(b, 4);
        const int size = test_windows(12, l->kernel, l->stride, l->padding),
                  pooled = test_windows(size, l->pool_kernel, l->pool_stride, l->pool_padding);
        ls_value *y = WINDOW(b, 4, size, size, CONV, l->kernel, l->stride, l->padding, x, w, bias);
        y = l->relu ? NODE(b, 4, size, size, RELU, y) : y;
        node(b, 4, pooled, pooled,
             (ls_attributes){
                 .op = l->pool, .kernel = l->pool_kernel, .stride = l->pool_stride, .padding = l->pool_padding},
             (ls_value *[LS_MAX_IN]){y});
        if (l->read)
            NODE(b, 4, size, size, TANH, y);
        assert_fused(b, l->text);
    }
}

/* Who is Winograd's, by channels, window and map. */
static void convolutions_that_suit_it_are_winograds(void **state)
{
    (void)state;
    static const struct of {
        int from, to, kernel, stride, padding, h, w;
        bool in_out, direct, lacking, winograd;
    } all[] = {
        {16, 16, 3, 1, 1, 28, 28, false, false, false, true},
        {15, 16, 3, 1, 1, 28, 28, false, false, false, false}, /* channels */
        {16, 15, 3, 1, 1, 28, 28, false, false, false, false},
        {16, 16, 3, 1, 1, 28, 28, true, false, false, false}, /* weights in C order of inputs */
        {16, 16, 3, 1, 1, 28, 28, false, true, false, false}, /* the session says direct */
        {16, 16, 3, 1, 1, 28, 28, false, false, true, false}, /* the backend has none */
        {16, 16, 5, 1, 0, 12, 12, false, false, false, true},
        {16, 16, 3, 2, 1, 14, 14, false, false, false, true},
        {16, 16, 1, 1, 0, 28, 28, false, false, false, false}, /* windows without a form */
        {16, 16, 7, 1, 3, 28, 28, false, false, false, false},
        {16, 16, 5, 2, 2, 28, 28, false, false, false, false},
        {16, 16, 3, 3, 1, 28, 28, false, false, false, false},
        /* Maps that fill much of their tiles, and little: 4 x 4 is 36 products of 144, 7 x 7 is 81 of 441. */
        {16, 16, 3, 1, 1, 7, 7, false, false, false, true},
        {16, 16, 3, 1, 1, 4, 4, false, false, false, true},
        {16, 16, 3, 1, 1, 3, 3, false, false, false, true},
        {16, 16, 3, 1, 1, 2, 2, false, false, false, false},
        {16, 16, 3, 1, 1, 2, 3, false, false, false, false},
        {16, 16, 3, 1, 1, 2, 4, false, false, false, true},
        {16, 16, 3, 1, 1, 2, 10, false, false, false, true}, /* three fifths to the number */
        {16, 16, 3, 1, 1, 1, 4, false, false, false, false},
        {16, 16, 3, 1, 1, 4, 1, false, false, false, false},
        {16, 16, 3, 1, 1, 5, 5, false, false, false, true},
        {16, 16, 3, 1, 1, 5, 1, false, false, false, false},
        {16, 16, 5, 1, 2, 2, 2, false, false, false, false},
        {16, 16, 5, 1, 2, 2, 3, false, false, false, true},
        {16, 16, 3, 2, 1, 4, 4, false, false, false, true},
        {16, 16, 3, 2, 1, 3, 4, false, false, false, false},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        built *b = begin(true);
        b->session->options.conv = all[i].direct ? LS_CONV_DIRECT : LS_CONV_AUTO;
        if (all[i].lacking)
            b->backend.kernel[LS_OP_WINOGRAD] = NULL;
        ls_value *x = input(b, all[i].from, 28, 28, true), *w = weight(b, 9);
        ls_value *y = node(b, all[i].to, all[i].h, all[i].w,
                           (ls_attributes){.op = LS_OP_CONV,
                                           .kernel = all[i].kernel,
                                           .stride = all[i].stride,
                                           .padding = all[i].padding,
                                           .weight_in_out = all[i].in_out},
                           (ls_value *[LS_MAX_IN]){x, w});
        NODE(b, all[i].to, all[i].h, all[i].w, TANH, y);
        ls_graph_fuse(b->graph);
        const ls_node *made = &b->graph->nodes[1];
        if ((made->attributes.op == LS_OP_WINOGRAD) != all[i].winograd)
            fail_msg("row %d is %s", (int)i, ls_op_name(made->attributes.op));
        end(b);
    }
}

/* A convolution that would be Winograd's, or of 3 channels joined with its pool, were its windows not general. */
static void general_windows_stay_what_they_are(void **state)
{
    (void)state;
    static const ls_attributes all[] = {{.groups = 2},   {.dilation = 2}, {.dilation_w = 2},
                                        {.kernel_w = 5}, {.stride_w = 2}, {.padding_w = 1}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int padding = 0; padding < 2; padding++) {
            built *b = begin(true);
            ls_attributes how = all[i];
            how.op = LS_OP_CONV;
            how.kernel = 3;
            how.stride = 1;
            how.padding = padding;
            how.padding_w = padding && how.padding_w ? -1 : how.padding_w;
            ls_value *x = input(b, padding ? 16 : 3, 28, 28, false), *w = weight(b, 9);
            ls_value *y = NODE(b, 16, 28, 28, RELU, node(b, 16, 28, 28, how, (ls_value *[LS_MAX_IN]){x, w}));
            WINDOW(b, 16, 14, 14, AVG_POOL, 2, 2, 0, y);
            assert_fused(b, "d=conv+relu(a,b) e=avg_pool(d)");
        }
}

static void a_convolutions_gradient_takes_the_addition_in(void **state)
{
    (void)state;
    static const struct of {
        int side;
        bool with, read, twice, accumulates;
        const char *text;
    } all[] = {
        {0, false, false, false, true, "d=tanh(b) e=conv_data(a,b,d)"},
        {1, false, false, false, true, "d=tanh(b) e=conv_data(a,b,d)"},
        {0, false, false, false, false, "c=conv_data(a,b) d=tanh(b) e=add(c,d)"},
        {0, true, false, false, true, "c=conv_data(a,b,a) d=tanh(b) e=add(c,d)"},
        {0, false, true, false, true, "c=conv_data(a,b) d=tanh(b) e=add(c,d) f=tanh(c)"},
        {0, false, false, true, true, "c=conv_data(a,b) d=tanh(b) e=add(c,c)"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        built *b = begin(true);
        b->backend.accumulates = all[i].accumulates;
        ls_value *dy = input(b, 4, 7, 7, false), *w = input(b, 4, 7, 7, false);
        ls_value *data = WINDOW(b, 4, 7, 7, CONV_DATA, 3, 1, 1, dy, w, all[i].with ? dy : NULL);
        ls_value *other = NODE(b, 4, 7, 7, TANH, w);
        ls_value *second = all[i].twice ? data : other;
        NODE(b, 4, 7, 7, ADD, all[i].side ? second : data, all[i].side ? data : second);
        if (all[i].read)
            NODE(b, 4, 7, 7, TANH, data);
        ls_graph_accumulate(b->graph);
        assert_string_equal(spelled(b, 2), all[i].text);
        end(b);
    }
}

/* ---- The backward pass ------------------------------------------------------------------------------------------- */

/* The nodes that make the gradients of y, and what arrives at the inputs. */
static const char *derived(built *b, ls_value *y, ls_value *const x[], int n)
{
    const int forward = b->graph->n_nodes;
    ls_value *dx[4];
    assert_int_equal(ls_graph_differentiate(b->graph, y, NULL, x, dx, n), LS_OK);
    spelled(b, forward);
    for (int i = 0; i < n; i++) {
        put(b, i ? "," : " | ");
        put_value(b, dx[i]);
    }
    return b->text;
}

static void assert_derived(built *b, ls_value *y, ls_value *const x[], int n, const char *expected)
{
    assert_string_equal(derived(b, y, x, n), expected);
    end(b);
}

static void each_operand_has_its_gradient_or_none(void **state)
{
    (void)state;
    static const struct of {
        ls_op op;
        const char *texts[3]; /* the first operand needs a gradient, the second, both */
    } all[] = {
        {LS_OP_ADD, {"d=ones() | d,-", "d=ones() | -,d", "d=ones() | d,d"}},
        {LS_OP_MULTIPLY,
         {"d=ones() e=multiply(d,b) | e,-", "d=ones() e=multiply(d,a) | -,e",
          "d=ones() e=multiply(d,b) f=multiply(d,a) | e,f"}},
        {LS_OP_SUBTRACT, {"d=ones() | d,-", "d=ones() e=scale*-1(d) | -,e", "d=ones() e=scale*-1(d) | d,e"}},
        {LS_OP_SQUARED_ERROR,
         {"d=ones() e=squared_error_backward(d,a,b) | e,-", "d=ones() e=squared_error_backward(d,b,a) | -,e",
          "d=ones() e=squared_error_backward(d,a,b) f=squared_error_backward(d,b,a) | e,f"}},
        {LS_OP_CONCAT,
         {"d=ones() e=view@0(d) | e,-", "d=ones() e=view@3(d) | -,e", "d=ones() e=view@0(d) f=view@3(d) | e,f"}},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int which = 0; which < 4; which++) {
            built *b = begin(true);
            ls_value *x[] = {input(b, 3, 4, 4, which & 1), input(b, 3, 4, 4, which & 2)};
            ls_value *y = node(b, 3, 4, 4, (ls_attributes){.op = all[i].op}, (ls_value *[LS_MAX_IN]){x[0], x[1]});
            assert_derived(b, y, x, 2, which ? all[i].texts[which - 1] : "d=ones() | -,-");
        }
}

/* y = conv(x) + bias, with a relu or not, on the way to what `behind` makes of it. */
static void convolutions_derive(void **state)
{
    (void)state;
    enum { NOTHING, AVERAGE, NORM, NORM_AND_TANH };
    static const struct of {
        ls_op op;
        bool tracked, bias, relu;
        int behind;
        const char *text;
    } all[] = {
        {LS_OP_CONV, true, true, false, NOTHING, "e=ones() db=conv_weight(a,e) dc=channel_sum(e) h=conv_data(e,b) | h"},
        {LS_OP_CONV, false, true, false, NOTHING, "e=ones() db=conv_weight(a,e) dc=channel_sum(e) | -"},
        {LS_OP_CONV, true, false, false, NOTHING, "e=ones() db=conv_weight(a,e) g=conv_data(e,b) | g"},
        {LS_OP_WINOGRAD, true, true, false, NOTHING,
         "e=ones() db=winograd_weight(a,e) dc=channel_sum(e) h=winograd_data(e,b) | h"},
        {LS_OP_CONV, true, true, true, NOTHING,
         "e=ones() f=relu_backward+relu(e,d) db=conv_weight(a,f) dc=channel_sum(f) i=conv_data(f,b) | i"},
        /* A pool's backward masks on its way. */
        {LS_OP_CONV, true, true, true, AVERAGE,
         "f=ones() g=avg_pool_backward+relu(f,d) db=conv_weight(a,g) dc=channel_sum(g) j=conv_data(g,b) | j"},
        {LS_OP_CONV, true, true, false, AVERAGE,
         "f=ones() g=avg_pool_backward(f) db=conv_weight(a,g) dc=channel_sum(g) j=conv_data(g,b) | j"},
        /* A bias in front of a BatchNorm alone has no gradient. */
        {LS_OP_CONV, true, true, false, NORM,
         "h=ones() j,de=batch_norm_backward(h,d,e) db=conv_weight(a,j) l=conv_data(j,b) | l"},
        {LS_OP_CONV, true, true, true, NORM,
         "h=ones() j,de=batch_norm_backward(h,d,e) k=relu_backward+relu(j,d) db=conv_weight(a,k) dc=channel_sum(k) "
         "n=conv_data(k,b) | n"},
        {LS_OP_CONV, true, true, false, NORM_AND_TANH,
         "j=ones() l,df=batch_norm_backward(j,d,f) m=tanh_backward(j,e) n=add(l,m) db=conv_weight(a,n) "
         "dc=channel_sum(n) q=conv_data(n,b) | q"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        built *b = begin(true);
        ls_value *x = input(b, 3, 9, 9, all[i].tracked), *w = weight(b, 108), *bias = weight(b, 4);
        ls_value *y = node(b, 4, 8, 8, (ls_attributes){.op = all[i].op, .kernel = 3, .fused_relu = all[i].relu},
                           (ls_value *[LS_MAX_IN]){x, w, all[i].bias ? bias : NULL});
        ls_value *tanh = all[i].behind == NORM_AND_TANH ? NODE(b, 4, 8, 8, TANH, y) : NULL;
        if (all[i].behind == AVERAGE)
            y = WINDOW(b, 4, 4, 4, AVG_POOL, 2, 2, 0, y);
        else if (all[i].behind)
            y = norm(b, y, LS_OP_BATCH_NORM);
        if (tanh)
            y = NODE(b, 4, 8, 8, ADD, y, tanh);
        assert_derived(b, y, &x, 1, all[i].text);
    }
    built *b = begin(true); /* but not where the pool's gradient is others' too, which an addition hands on */
    ls_value *x = input(b, 3, 8, 8, true), *w = weight(b, 108), *one = NODE(b, 3, 8, 8, TANH, x);
    ls_value *y = WINDOW(b, 4, 8, 8, CONV, 3, 1, 1, one, w);
    b->graph->nodes[b->graph->n_nodes - 1].attributes.fused_relu = 1;
    ls_value *sum = NODE(b, 4, 8, 8, ADD, y, one);
    y = WINDOW(b, 4, 4, 4, MAX_POOL, 2, 2, 0, sum);
    assert_derived(b, y, &x, 1,
                   "g=ones() h=max_pool_backward(g,e) i=relu_backward+relu(h,d) db=conv_weight(c,i) k=conv_data(i,b) "
                   "l=add(h,k) m=tanh_backward(l,c) | m");
}

static void a_first_layers_pool_keeps_its_signs(void **state)
{
    (void)state;
    for (int bias = 0; bias < 2; bias++) {
        built *b = begin(true);
        ls_value *x = input(b, 3, 9, 8, false), *w = weight(b, 108), *v = weight(b, 4);
        ls_value *y = WINDOW(b, 4, 3, 2, CONV_POOL, 3, 1, 0, x, w, bias ? v : NULL);
        const int forward = behind_inputs(b->graph);
        assert_int_equal(ls_graph_differentiate(b->graph, y, NULL, &x, (ls_value *[1]){NULL}, 1), LS_OK);
        assert_string_equal(spelled(b, forward), bias ? "d,h=conv_pool(a,b,c) e=ones() db,dc=conv_pool_weight(a,e,h)"
                                                      : "d,g=conv_pool(a,b) e=ones() db=conv_pool_weight(a,e,g)");
        const ls_value *signs = b->graph->nodes[forward].out[1];
        assert_true(signs->c == 4 && signs->h == 1 && signs->w == ls_op_sign_places(6, 4) && signs->per_image);
        end(b);
    }
}

static void norms_derive(void **state)
{
    (void)state;
    static const struct of {
        bool add, relu, residual;
        const char *text;
    } all[] = {{false, false, false, "g=ones() i,dc=batch_norm_backward(g,a,c,f) | i,-"},
               {false, true, false, "g=ones() i,dc=batch_norm_backward+relu(g,a,c,f,e,d) | i,-"},
               {true, false, true, "g=ones() i,dc,j=batch_norm_backward+add(g,a,c,f) | i,j"},
               {true, true, true, "g=ones() i,dc,j=batch_norm_backward+add+relu(g,a,c,f,e) | i,j"},
               {true, true, false, "g=ones() i,dc,j=batch_norm_backward+add+relu(g,a,c,f,e) | i,-"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        built *b = begin(true);
        ls_value *x[] = {input(b, 3, 9, 8, true), input(b, 3, 9, 8, all[i].residual)};
        ls_flat_add(&b->flat, "gamma", 1, (int64_t[]){3}, true, false);
        ls_flat_add(&b->flat, "beta", 1, (int64_t[]){3}, true, true);
        ls_value *gamma = ls_graph_view(b->graph, 0), *beta = ls_graph_view(b->graph, 1);
        ls_value *y = NODE(b, 3, 9, 8, BATCH_NORM, x[0], gamma, beta, all[i].add ? x[1] : NULL);
        ls_node *made = &b->graph->nodes[b->graph->n_nodes - 1];
        made->attributes.fused_add = all[i].add;
        made->attributes.fused_relu = all[i].relu;
        made->out[1] = ls_graph_value(b->graph, LS_IN_ARENA, 6, 1, 1, false);
        assert_derived(b, y, x, 2, all[i].text);
    }
}

/* Operations of one input, and those with a parameter. */
static void others_derive(void **state)
{
    (void)state;
    static const struct of {
        ls_op op;
        bool parameter;
        const char *text;
    } all[] = {
        {LS_OP_RELU, false, "c=ones() d=relu_backward(c,b) | d"},
        {LS_OP_AVG_POOL, false, "c=ones() d=avg_pool_backward(c) | d"},
        {LS_OP_MAX_POOL, false, "c=ones() d=max_pool_backward(c,a) | d"},
        {LS_OP_GLOBAL_AVG_POOL, false, "c=ones() d=global_avg_pool_backward(c) | d"},
        {LS_OP_DROPOUT, false, "c=ones() d=dropout(c) | d"},
        {LS_OP_SCALE, false, "c=ones() d=scale*3(c) | d"},
        {LS_OP_SUM, false, "c=ones() d=sum_backward(c) | d"},
        {LS_OP_TANH, false, "c=ones() d=tanh_backward(c,b) | d"},
        {LS_OP_SIGMOID, false, "c=ones() d=sigmoid_backward(c,b) | d"},
        {LS_OP_SOFTMAX, false, "c=ones() d=softmax_backward(c,b) | d"},
        {LS_OP_ADD_BIAS, true, "d=ones() db=channel_sum(d) | d"},
        {LS_OP_CONV_DATA, true, "d=ones() db=conv_weight(d,a) f=conv(d,b) | f"}, /* a transposed convolution */
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        built *b = begin(true);
        ls_value *x = input(b, 3, 4, 4, true), *w = all[i].parameter ? weight(b, 3) : NULL;
        ls_value *y = node(b, 3, 4, 4, (ls_attributes){.op = all[i].op, .factor = 3}, (ls_value *[LS_MAX_IN]){x, w});
        assert_derived(b, y, &x, 1, all[i].text);
    }
    built *b = begin(true); /* the loss keeps the probabilities */
    ls_value *x = input(b, 10, 1, 1, true), *y = NODE(b, 1, 1, 1, CROSS_ENTROPY, x);
    b->graph->nodes[1].out[1] = ls_graph_like(b->graph, x);
    assert_derived(b, y, &x, 1, "d=ones() e=cross_entropy_backward(d,c) | e");

    b = begin(true); /* what is read twice, once under another shape, gets the sum; what nothing arrives at has none */
    x = input(b, 3, 2, 2, true);
    ls_value *flat = ls_graph_reshaped(b->graph, x, 1, 12, 1, 1);
    ls_value *sum = NODE(b, 1, 1, 1, SUM, NODE(b, 12, 1, 1, TANH, flat)), *other = NODE(b, 1, 1, 1, SUM, x);
    NODE(b, 3, 2, 2, SIGMOID, x);
    y = NODE(b, 1, 1, 1, ADD, sum, other);
    assert_derived(b, y, &x, 1, "h=ones() i=sum_backward(h) j=sum_backward(h) k=tanh_backward(j,c) m=add(i,k'l) | m");
}

static void nothing(const ls_custom_call *call, const float *const in[], float *out)
{
    (void)call, (void)in, (void)out;
}

static void no_gradient(const ls_custom_call *call, const float *const in[], const float *out, const float *dout,
                        float *const din[])
{
    (void)call, (void)in, (void)out, (void)dout, (void)din;
}

static void own_operations_derive(void **state)
{
    (void)state;
    static const ls_custom own = {.name = "own", .inputs = 3, .forward = nothing, .backward = no_gradient};
    static const char *const texts[] = {
        "e=ones() -,dc=custom_backward(a,c,b,d,e) | -,-", "e=ones() f,dc=custom_backward(a,c,b,d,e) | f,-",
        "e=ones() -,dc,g=custom_backward(a,c,b,d,e) | -,g", "e=ones() f,dc,h=custom_backward(a,c,b,d,e) | f,h"};
    for (int which = 0; which < 4; which++) {
        built *b = begin(true);
        ls_value *x[] = {input(b, 3, 4, 4, which & 1), input(b, 3, 4, 4, which & 2)}, *w = weight(b, 3);
        ls_value *y = node(b, 3, 4, 4, (ls_attributes){.op = LS_OP_CUSTOM, .custom = &own},
                           (ls_value *[LS_MAX_IN]){x[0], w, x[1]});
        assert_derived(b, y, x, 2, texts[which]);
    }
}

static void what_has_no_gradient_is_named(void **state)
{
    (void)state;
    static const ls_custom own = {.name = "own", .inputs = 1, .forward = nothing};
    static const char *const lines[] = {"parameter 0 is used by two operations of one network",
                                        "own has no backward pass", "rows has no backward pass"};
    for (int i = 0; i < 3; i++) {
        built *b = begin(true);
        ls_value *x = input(b, 3, 4, 4, true), *w = weight(b, 3), *dx[1], *y;
        if (i == 0)
            y = NODE(b, 3, 4, 4, ADD_BIAS, NODE(b, 3, 4, 4, ADD_BIAS, x, w), w);
        else if (i == 1)
            y = node(b, 3, 4, 4, (ls_attributes){.op = LS_OP_CUSTOM, .custom = &own}, (ls_value *[LS_MAX_IN]){x});
        else
            y = NODE(b, 3, 4, 4, ROWS, x);
        assert_int_equal(ls_graph_differentiate(b->graph, y, NULL, &x, dx, 1), LS_UNSUPPORTED);
        assert_string_equal(ls_message(b->session), lines[i]);
        end(b);
    }
}

/* Where an image's numbers are not in C order, a value that is read under another shape is a copy. */
static void reshaping_moves_numbers_where_it_must(void **state)
{
    (void)state;
    static const char same[] = "b=tanh(a) d=multiply(b'c,b'c) e=add(b'c,b)",
                      moved[] = "b=tanh(a) c=reshape(b) d=multiply(c,c) e=add(c,b)";
    static const struct of {
        int reorders, c, h, w, tokens, to_c, to_h, to_w;
        const char *text;
    } all[] = {
        {1, 3, 2, 2, 1, 12, 1, 1, moved}, {0, 3, 2, 2, 1, 12, 1, 1, same}, {1, 12, 1, 1, 1, 3, 2, 2, moved},
        {1, 12, 1, 1, 1, 12, 1, 1, same}, {1, 1, 3, 4, 1, 1, 4, 3, same},  {1, 3, 4, 1, 1, 12, 1, 1, moved},
        {1, 3, 2, 2, 1, 3, 2, 2, same},   {1, 1, 3, 4, 1, 2, 3, 2, moved}, {1, 4, 1, 3, 1, 2, 2, 3, moved},
        {1, 2, 1, 4, 1, 2, 4, 1, moved},  {1, 6, 2, 1, 1, 4, 3, 1, moved}, {1, 1, 3, 4, 1, 12, 1, 1, same},
        {1, 3, 4, 1, 3, 4, 1, 1, moved},  {0, 3, 4, 1, 3, 4, 1, 1, same},  {1, 1, 3, 4, 3, 4, 1, 1, same},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        built *b = begin(true);
        b->backend.reorders = all[i].reorders;
        ls_value *x = NODE(b, all[i].c, all[i].h, all[i].w, TANH, input(b, all[i].c, all[i].h, all[i].w, true));
        ls_value *viewed = ls_graph_reshaped(b->graph, x, all[i].tokens, all[i].to_c, all[i].to_h, all[i].to_w);
        NODE(b, all[i].to_c, all[i].to_h, all[i].to_w, MULTIPLY, viewed, viewed);
        NODE(b, all[i].to_c, all[i].to_h, all[i].to_w, ADD, viewed, x);
        assert_int_equal(ls_graph_reshape(b->graph), LS_OK);
        assert_string_equal(spelled(b, 1), all[i].text);
        end(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bias_starts_the_sums),
        cmocka_unit_test(a_relu_joins_what_is_in_front),
        cmocka_unit_test(an_addition_takes_the_norm_in),
        cmocka_unit_test(a_bias_in_front_of_a_norm_is_its_shift),
        cmocka_unit_test(rows_that_no_window_reads_are_left_out),
        cmocka_unit_test(a_first_layer_takes_its_pool_in),
        cmocka_unit_test(convolutions_that_suit_it_are_winograds),
        cmocka_unit_test(general_windows_stay_what_they_are),
        cmocka_unit_test(a_convolutions_gradient_takes_the_addition_in),
        cmocka_unit_test(each_operand_has_its_gradient_or_none),
        cmocka_unit_test(convolutions_derive),
        cmocka_unit_test(a_first_layers_pool_keeps_its_signs),
        cmocka_unit_test(norms_derive),
        cmocka_unit_test(others_derive),
        cmocka_unit_test(own_operations_derive),
        cmocka_unit_test(what_has_no_gradient_is_named),
        cmocka_unit_test(reshaping_moves_numbers_where_it_must),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
