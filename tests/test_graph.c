/* The backward operations of each rule for every choice of operands that need a gradient, what is refused, and where
 * numbers move. */
#include "built.h"

#include <string.h>

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

static void attention_derives(void **state)
{
    (void)state;
    for (int which = 0; which < 8; which++) {
        built *b = begin(true);
        ls_value *x[3];
        for (int k = 0; k < 3; k++)
            x[k] = input(b, 2, 4, 3, which >> k & 1);
        ls_value *y = NODE(b, 2, 4, 3, ATTENTION, x[0], x[1], x[2]);
        b->graph->nodes[3].out[1] = ls_graph_value(b->graph, LS_IN_ARENA, 6, 4, 1, true);
        char text[128] = "f=ones() | -,-,-";
        if (which)
            snprintf(text, sizeof text, "f=ones() g,h,i=attention_backward(f,a,b,c,d,e) | %c,%c,%c",
                     which & 1 ? 'g' : '-', which & 2 ? 'h' : '-', which & 4 ? 'i' : '-');
        assert_derived(b, y, x, 3, text);
    }
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

/* The last use writes the gradient; those before it are added to it. */
static void uses_of_a_parameter_add_up(void **state)
{
    (void)state;
    built *b = begin(true);
    ls_value *x = input(b, 3, 4, 4, true), *w = weight(b, 3), *y = x;
    for (int i = 0; i < 3; i++)
        y = NODE(b, 3, 4, 4, ADD_BIAS, y, w);
    assert_derived(b, y, &x, 1,
                   "f=ones() db=channel_sum(f) h=channel_sum(f) db=add_scaled(db,h) i=channel_sum(f) "
                   "db=add_scaled(db,i) | f");
    b = begin(true); /* both by one operation */
    static const ls_custom own = {.name = "own", .inputs = 3, .forward = nothing, .backward = no_gradient};
    x = input(b, 3, 4, 4, false);
    w = weight(b, 3);
    y = node(b, 3, 4, 4, (ls_attributes){.op = LS_OP_CUSTOM, .custom = &own}, (ls_value *[LS_MAX_IN]){x, w, w});
    assert_derived(b, y, &x, 1, "d=ones() -,db,f=custom_backward(a,b,b,c,d) db=add_scaled(db,f) | -");
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
    static const char *const lines[] = {"own has no backward pass", "rows has no backward pass"};
    for (int i = 0; i < 2; i++) {
        built *b = begin(true);
        ls_value *x = input(b, 3, 4, 4, true), *dx[1], *y;
        if (i == 0)
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
        cmocka_unit_test(each_operand_has_its_gradient_or_none),
        cmocka_unit_test(convolutions_derive),
        cmocka_unit_test(a_first_layers_pool_keeps_its_signs),
        cmocka_unit_test(norms_derive),
        cmocka_unit_test(others_derive),
        cmocka_unit_test(uses_of_a_parameter_add_up),
        cmocka_unit_test(attention_derives),
        cmocka_unit_test(own_operations_derive),
        cmocka_unit_test(what_has_no_gradient_is_named),
        cmocka_unit_test(reshaping_moves_numbers_where_it_must),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
