/* How a recorded graph is rewritten, node by node: what is fused and what each of its conditions leaves alone. */
#include "built.h"

#include <string.h>

static void assert_fused(built *b, const char *expected)
{
    ls_graph_fuse(b->graph);
    assert_string_equal(spelled(b, behind_inputs(b->graph)), expected);
    end(b);
}

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

/* But not a frozen one, one with an addition, by a backend that cannot, or where shards' statistics meet. */
static void a_clamp_joins_the_norm_in_front(void **state)
{
    (void)state;
    static const struct of {
        bool training, lacks, meets;
        ls_op op;
        const char *text;
    } all[] = {
        {true, false, false, LS_OP_BATCH_NORM, "e=batch_norm+clamp(a,b,c)"},
        {false, false, false, LS_OP_BATCH_NORM_INFER, "e=batch_norm_infer+clamp(a,b,c)"},
        {false, false, true, LS_OP_BATCH_NORM_INFER, "e=batch_norm_infer+clamp(a,b,c)"},
        {true, false, false, LS_OP_BATCH_NORM_INFER, "d=batch_norm_infer(a,b,c) e=clamp(d)"},
        {true, true, false, LS_OP_BATCH_NORM, "d=batch_norm(a,b,c) e=clamp(d)"},
        {true, false, true, LS_OP_BATCH_NORM, "d=batch_norm(a,b,c) e=clamp(d)"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        built *b = begin(all[i].training);
        b->backend.clamps = !all[i].lacks;
        b->session->options.batch_norm = all[i].meets ? -1 : 0;
        node(b, 4, 7, 7, (ls_attributes){.op = LS_OP_CLAMP, .low = -1, .high = 6},
             (ls_value *[LS_MAX_IN]){norm(b, input(b, 4, 7, 7, false), all[i].op)});
        ls_graph_fuse(b->graph);
        const ls_attributes *last = &b->graph->nodes[b->graph->n_nodes - 1].attributes;
        assert_true(last->low == -1 && last->high == 6);
        assert_fused(b, all[i].text);
    }
    built *b = begin(
        true); /* what is behind the clamp stays there, and so does one behind an addition, or of what others read */
    ls_value *x = input(b, 4, 7, 7, false), *first = norm(b, x, LS_OP_BATCH_NORM),
             *second = norm(b, x, LS_OP_BATCH_NORM);
    ls_value *third = norm(b, x, LS_OP_BATCH_NORM);
    NODE(b, 4, 7, 7, ADD, NODE(b, 4, 7, 7, CLAMP, first), x);
    NODE(b, 4, 7, 7, CLAMP, NODE(b, 4, 7, 7, ADD, second, x));
    NODE(b, 4, 7, 7, RELU, NODE(b, 4, 7, 7, CLAMP, third));
    NODE(b, 4, 7, 7, CLAMP, x);
    assert_fused(
        b,
        "k=batch_norm+clamp(a,b,c) o=batch_norm+clamp(a,h,i) l=add(k,a) m=batch_norm+add(a,e,f,a) n=clamp(m) p=relu(o) "
        "q=clamp(a)");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bias_starts_the_sums),
        cmocka_unit_test(a_relu_joins_what_is_in_front),
        cmocka_unit_test(a_clamp_joins_the_norm_in_front),
        cmocka_unit_test(an_addition_takes_the_norm_in),
        cmocka_unit_test(a_bias_in_front_of_a_norm_is_its_shift),
        cmocka_unit_test(rows_that_no_window_reads_are_left_out),
        cmocka_unit_test(a_first_layer_takes_its_pool_in),
        cmocka_unit_test(convolutions_that_suit_it_are_winograds),
        cmocka_unit_test(general_windows_stay_what_they_are),
        cmocka_unit_test(a_convolutions_gradient_takes_the_addition_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
