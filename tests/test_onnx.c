/* ONNX models: the two networks' and one of every operation, read again with the format's own messages and compared
 * with what they were written from; what is refused; failures that leave nothing. `test_onnx FOLDER` writes the network
 * of every operation there with images and what it makes of them, for the programs that run such models. */
#include "files.h"
#include "tensors.h"

#include <string.h>
#include <lockstep_data.h>
#include <lockstep_nn.h>

enum { ROWS = 5, CHANNELS = 3, SIZE = 6, FEATURES = 4, CLASSES = 7 };

/* ---- A network of every operation ---- */

static float turning[FEATURES * FEATURES];

/* Of x from 0 to 1. */
static ls_tensor *functions(ls_module *self, ls_tensor *x)
{
    ls_tensor *centred = ls_subtract(x, ls_module_parameter(self, "centre", LS_SHAPE(SIZE, 1)));
    ls_tensor *sum = ls_add(ls_gelu(centred), ls_gelu_tanh(ls_scale(centred, 3)));
    sum = ls_subtract(sum, ls_silu(ls_leaky_relu(ls_log_sigmoid(centred), 0.25)));
    ls_tensor *root = ls_sqrt(ls_add(ls_abs(sum), ls_module_parameter(self, "least", LS_SHAPE(CHANNELS))));
    ls_tensor *share = ls_divide(ls_exp(sum), ls_power(ls_clamp(root, 0.5, 2), 1.5));
    return ls_multiply(ls_global_avg_pool2d(ls_log(share)), root);
}

static ls_tensor *maps(ls_module *self, ls_tensor *x)
{
    ls_tensor *kernel = ls_module_parameter(self, "input", LS_SHAPE(FEATURES, CHANNELS, 3, 3));
    ls_tensor *y = ls_conv2d(x, kernel, NULL, &(ls_conv){.padding = 1});
    y = ls_relu(ls_module_call(self, "norm", ls_add(y, ls_module_parameter(self, "bias", LS_SHAPE(FEATURES)))));
    ls_tensor *gate = ls_sigmoid(ls_scale(y, -1.5));
    ls_tensor *bent = ls_multiply(ls_tanh(y), gate);
    ls_tensor *turned = ls_reshape(ls_tanh(ls_reshape(gate, SIZE, FEATURES, SIZE)), FEATURES, SIZE, SIZE);
    y = ls_concat((ls_tensor *[]){bent, ls_subtract(bent, turned), ls_add(x, functions(self, x))}, 3);
    y = ls_module_call(self, "depthwise", y);
    y = ls_module_call(self, "up", ls_module_call(self, "oblong", y));
    ls_tensor *least = ls_max_pool2d(y, &(ls_pool){.kernel = 3, .stride = 2, .padding = 1});
    ls_tensor *middle = ls_avg_pool2d(y, &(ls_pool){.kernel = 2, .stride = 2});
    ls_tensor *edged = ls_avg_pool2d(y, &(ls_pool){.kernel = 3, .stride = 2, .padding = 1});
    return ls_concat((ls_tensor *[]){least, middle, edged}, 3);
}

/* A token for each channel, by whether its first number is above a half, in its place. */
static ls_tensor *embedded(ls_module *self, ls_tensor *x)
{
    ls_tensor *first = ls_flatten(ls_slice(ls_slice(x, 2, 0, 1), 3, 0, 1)),
              *half = ls_full(ls_session_of(self), 0.5, LS_SHAPE(1));
    ls_tensor *ids = ls_clamp(ls_scale(ls_subtract(first, half), 1e9), 0, 1);
    ls_tensor *rows = ls_embedding(ids, ls_module_parameter(self, "table", LS_SHAPE(2, CHANNELS)));
    return ls_add(rows, ls_module_parameter(self, "places", LS_SHAPE(CHANNELS, CHANNELS)));
}

/* y = w * leaky(x) + 1/2, by features. */
static void lean(const ls_custom_call *call, const float *const in[], float *out)
{
    const int n = call->out[0];
    for (int i = 0; i < call->rows * n; i++)
        out[i] = in[1][i % n] * (in[0][i] > 0 ? in[0][i] : 0.25f * in[0][i]) + 0.5f;
}

static ls_tensor *leant(ls_module *self, ls_tensor *x)
{
    static const ls_custom leaning = {.name = "lean",
                                      .inputs = 2,
                                      .parameters = 2,
                                      .forward = lean,
                                      .onnx = "a = LeakyRelu <alpha = 0.25> (x0)\n"
                                              "b = Transpose <perm = [1, 0]> (a); c = Transpose <perm = [1, 0]> (b)\n"
                                              "half = Constant <value_float = 0.5> ()\n"
                                              "d = Mul (c, x1)\n"
                                              "y = Add (d, half)\n"};
    return ls_custom_op(&leaning, (ls_tensor *[]){x, ls_module_parameter(self, "lean", LS_SHAPE(FEATURES))});
}

/* Sequences come out as maps of one column. */
static void doubled(const ls_custom_call *call, const float *const in[], float *out)
{
    for (int i = 0; i < call->rows * call->out[0] * call->out[1] * call->out[2]; i++)
        out[i] = 2 * in[0][i];
}

static ls_tensor *twice(ls_tensor *x)
{
    static const ls_custom doubling = {.name = "twice", .inputs = 1, .forward = doubled, .onnx = "y = Add (x0, x0)"};
    return ls_mean_over(ls_custom_op(&doubling, &x), 3);
}

/* 0 or 3 of each image. */
static ls_tensor *lengths_of(ls_module *self, ls_tensor *x)
{
    ls_tensor *least = ls_flatten(ls_slice(ls_slice(ls_slice(x, 1, 0, 1), 2, 0, 1), 3, 0, 1));
    ls_tensor *half = ls_full(ls_session_of(self), 0.5, LS_SHAPE(1));
    return ls_scale(ls_clamp(ls_scale(ls_subtract(least, half), 1e9), 0, 1), 3);
}

/* Of tokens both ways, some of fewer than there are, and what is behind the last one. */
static ls_tensor *states(ls_module *self, ls_tensor *lengths, ls_tensor *tokens)
{
    ls_tensor *two = ls_full(ls_session_of(self), 2, LS_SHAPE(1));
    ls_tensor *forth = ls_module_call_with_lengths(self, "lstm", tokens, ls_add(lengths, two));
    ls_tensor *back = ls_module_call_with_lengths(self, "gru", forth, ls_add(lengths, two));
    ls_tensor *half_bias = ls_gru(tokens, ls_module_parameter(self, "ih", LS_SHAPE(6, CHANNELS)),
                                  ls_module_parameter(self, "hh", LS_SHAPE(6, 2)),
                                  ls_module_parameter(self, "bi", LS_SHAPE(6)), NULL, NULL);
    ls_tensor *all[] = {ls_last_token(half_bias, lengths), ls_last_token(forth, NULL),
                        ls_module_call(self, "bare", back)};
    return ls_concat(all, 3);
}

/* Of (images, tokens, CHANNELS): causal, of lengths from 0 on, by other keys and by its own, and of as many heads as
 * tokens, which share keys and values. */
static ls_tensor *attended(ls_module *self, ls_tensor *rows, ls_tensor *lengths)
{
    ls_tensor *y = ls_attention(rows, ls_tanh(rows), rows, &(ls_attention_options){.causal = true});
    ls_tensor *first = ls_slice(rows, 1, 0, 1);
    y = ls_add(y, ls_attention(rows, rows, rows, &(ls_attention_options){.causal = true, .lengths = lengths}));
    y = ls_add(y, ls_attention(first, rows, rows, &(ls_attention_options){.lengths = lengths}));
    y = ls_add(y, ls_module_call_with_lengths(self, "attention", y, lengths));
    ls_tensor *heads = ls_reshape(y, (int)ls_dim(y, 1), CHANNELS, 1);
    first = ls_slice(heads, 1, 0, 1);
    y = ls_attention(heads, first, ls_concat_along((ls_tensor *[]){first, first}, 2, 3),
                     &(ls_attention_options){.scale = 0.5});
    return ls_reshape(ls_slice(y, 3, 1, 2), (int)ls_dim(rows, 1) * CHANNELS, 1, 1);
}

/* Of maps, as features. */
static ls_tensor *shapes(ls_module *self, ls_tensor *x)
{
    ls_tensor *w = ls_module_parameter(self, "w", LS_SHAPE(CHANNELS)),
              *b = ls_module_parameter(self, "beta", LS_SHAPE(CHANNELS));
    ls_tensor *large =
        ls_upsample2d(ls_upsample2d(ls_pad2d(x, (const int[]){1, 0, 2, 1}, 0.5), 2, LS_NEAREST), 3, LS_BILINEAR);
    ls_tensor *small = ls_adaptive_avg_pool2d(ls_slice(large, 3, 2, 37), 5, 4);
    ls_tensor *maps = ls_group_norm(ls_layer_norm(small, w, b, 1e-5), 3, b, w, 1e-3);
    ls_tensor *rows = ls_mean_over(ls_transpose(maps, 1, 3), 2); /* (images, 4, CHANNELS) */
    rows = ls_rms_norm(ls_layer_norm(rows, w, b, 1e-5), b, 1e-6);
    ls_tensor *square = ls_module_parameter(self, "square", LS_SHAPE(CHANNELS, CHANNELS));
    rows = ls_matmul(ls_linear(rows, square, b), square);
    rows = ls_concat_along((ls_tensor *[]){rows, embedded(self, x)}, 2, 1);
    rows = ls_add(rows, ls_batch_matmul(ls_tanh(ls_batch_matmul(rows, ls_transpose(rows, 1, 2))), rows));
    ls_tensor *lengths = lengths_of(self, x);
    ls_tensor *all[] = {ls_flatten(twice(rows)), ls_flatten(ls_max_each(rows)), ls_max_over(rows, 1),
                        states(self, lengths, rows), ls_flatten(attended(self, rows, lengths))};
    return ls_concat_along(all, 5, 1);
}

static ls_tensor *everything(ls_module *self, ls_tensor *x)
{
    ls_tensor *y = ls_module_call(self, "drop", ls_module_call(self, "strided", maps(self, x)));
    ls_tensor *flat = ls_flatten(ls_global_avg_pool2d(y));
    ls_tensor *w = ls_module_parameter(self, "output", LS_SHAPE(FEATURES, FEATURES));
    ls_tensor *b = ls_module_parameter(self, "b", LS_SHAPE(FEATURES));
    ls_tensor *h = ls_module_call(self, "features", ls_add(ls_matmul(flat, w), b));
    h = leant(self, ls_linear(h, w, b)); /* the same parameters again, the weight the other way round */
    h = ls_matmul(h, ls_named(ls_values(ls_session_of(self), turning, LS_SHAPE(FEATURES, FEATURES)), "turning"));
    ls_tensor *error = ls_mse(h, ls_softmax(h));
    ls_tensor *each[] = {h, ls_flatten(error), ls_flatten(ls_sum_each(y)), ls_flatten(ls_mean_each(ls_sum_each(x))),
                         shapes(self, x)};
    return ls_module_call(self, "last", ls_concat(each, 5));
}

static ls_module *module_of_everything(ls_session *s)
{
    ls_module *net = ls_block(s, everything, NULL);
    ls_module_append(net, "norm", ls_nn_batch_norm(s));
    ls_module_append(net, "strided", ls_nn_conv2d(s, FEATURES, 2, &(ls_conv){.stride = 2}));
    const ls_conv oblong = {.kernel_w = 1,
                            .stride = 2,
                            .stride_w = 1,
                            .dilation = 2,
                            .dilation_w = 1,
                            .padding = 3,
                            .padding_w = -1,
                            .no_bias = true};
    const ls_conv up = {.kernel_w = 3, .stride_w = 2, .stride = 3, .padding = 2, .groups = 2, .output_padding = 1};
    ls_module_append(net, "depthwise", ls_nn_conv2d(s, 22, 3, &(ls_conv){.padding = 1, .groups = 11}));
    ls_module_append(net, "oblong", ls_nn_conv2d(s, FEATURES, 3, &oblong));
    ls_module_append(net, "up", ls_nn_conv_transpose2d(s, 6, 4, &up));
    ls_module_append(net, "drop", ls_nn_dropout(s, 0.5));
    ls_module_append(net, "features", ls_nn_batch_norm(s));
    ls_module_append(net, "lstm", ls_nn_lstm_with(s, 5, &(ls_recurrent_options){.bidirectional = true}));
    ls_module_append(net, "gru", ls_nn_gru_with(s, 4, &(ls_recurrent_options){.reverse = true}));
    ls_module_append(net, "bare", ls_nn_lstm_with(s, 3, &(ls_recurrent_options){.last = true, .no_bias = true}));
    ls_module_append(net, "attention", ls_nn_attention(s, 3, NULL));
    ls_module_append(net, "last", ls_nn_linear(s, CLASSES));
    return net;
}

/* Other numbers than those of the start, in BatchNorm too; all positive. */
static void unlike(const ls_parameter_info *info, float *values, void *user)
{
    (void)user;
    for (int64_t i = 0; i < info->numbers && info->rank == 1; i++)
        values[i] = 0.5f + (float)((i * 37 + info->name[0]) % 64) / 64;
}

typedef struct setup {
    ls_session *s;
    ls_module *net;
    ls_tensor *x;
} setup;

static setup open_setup(const ls_allocator *allocator)
{
    setup t = {.s = ls_open(&(ls_options){.seed = 3, .allocator = allocator})};
    for (int i = 0; i < FEATURES * FEATURES; i++)
        turning[i] = (float)(i % 5) - 2;
    t.net = module_of_everything(t.s);
    ls_module_initialize(t.net, ls_parse_devices(t.s, "cpu:0"), &(ls_init){.scale = 0.5});
    t.x = ls_uniform(t.s, "images", LS_SHAPE(ROWS, CHANNELS, SIZE, SIZE));
    ls_module_infer(t.net, t.x);
    ls_module_apply(t.net, unlike, NULL);
    return t;
}

static int write_for_others(const char *folder)
{
    char path[3][512];
    static const char *const names[] = {"everything.onnx", "everything_in.npy", "everything_out.npy"};
    float in[ROWS * CHANNELS * SIZE * SIZE], out[ROWS * CLASSES];
    for (int i = 0; i < 3; i++)
        snprintf(path[i], sizeof path[i], "%s/%s", folder, names[i]);
    setup t = open_setup(NULL);
    ls_module_export_onnx(t.net, path[0]);
    ls_read(t.x, in, sizeof in / sizeof *in);
    ls_read(ls_module_infer(t.net, t.x), out, sizeof out / sizeof *out);
    ls_save_npy(t.s, path[1], in, ROWS, CHANNELS * SIZE * SIZE);
    ls_save_npy(t.s, path[2], out, ROWS, CLASSES);
    if (ls_failed(t.s))
        fprintf(stderr, "%s\n", ls_message(t.s));
    return ls_close(t.s) != LS_OK;
}

/* ---- What is refused ---- */

#if LOCKSTEP_HAVE_PROTOBUF_C

#include "onnx.pb-c.h"

static void same(const ls_custom_call *call, const float *const in[], float *out)
{
    memcpy(out, in[0], (size_t)call->rows * (size_t)(call->out[0] * call->out[1] * call->out[2]) * sizeof *out);
}

static ls_tensor *with_own(ls_module *self, ls_tensor *x)
{
    static const ls_custom own = {.name = "swish", .inputs = 1, .forward = same};
    (void)self;
    return ls_relu(ls_custom_op(&own, &x));
}

static void an_own_operation_is_refused_by_name(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_module *inner = ls_block(s, with_own, NULL), *net = ls_sequential(s, LS_LIST(ls_nn_fn(s, ls_relu), inner));
    assert_int_equal(ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), NULL), LS_OK);
    test_write_file("kept.onnx", "before", 6);
    ls_module_export_onnx(net, test_path("kept.onnx"));
    assert_caught(s, LS_SHAPE_UNKNOWN, "ls_module_export_onnx: ");
    ls_module_infer(net, ls_zeros(s, LS_SHAPE(1, 4)));
    ls_module_export_onnx(net, test_path("kept.onnx"));
    assert_caught(
        s, LS_UNSUPPORTED,
        "the own operation swish at \"1\" has no operator in ONNX; its definition can give one as text (onnx)");
    size_t n;
    unsigned char *file = test_read_file("kept.onnx", &n);
    assert_int_equal(n, 6);
    assert_memory_equal(file, "before", 6);
    free(file);
    assert_int_equal(test_files_in_folder(), 1);
    ls_module_export_onnx(net, NULL);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_module_export_onnx: path is NULL");
    assert_int_equal(ls_module_export_onnx(NULL, "x"), LS_BAD_ARGUMENT);
    assert_int_equal(ls_close(s), LS_OK);
}

static ls_tensor *with_wrong_lines(ls_module *self, ls_tensor *x)
{
    static const ls_custom own = {
        .name = "swish", .inputs = 1, .forward = same, .onnx = "a = Sigmoid (x0)\ny = Mul (x0, b)"};
    (void)self;
    return ls_custom_op(&own, &x);
}

static void lines_that_cannot_be_read_are_refused(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_module *net = ls_sequential(s, LS_LIST(ls_block(s, with_wrong_lines, NULL)));
    assert_int_equal(ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), NULL), LS_OK);
    ls_module_infer(net, ls_zeros(s, LS_SHAPE(1, 4)));
    ls_module_export_onnx(net, test_path("kept.onnx"));
    assert_caught(s, LS_BAD_ARGUMENT,
                  "the own operation swish at \"0\": line 2 of its onnx: an operand must be x0, x1, ... or the name");
    assert_int_equal(test_files_in_folder(), 0);
    assert_int_equal(ls_close(s), LS_OK);
}

static void a_folder_that_is_not_there(void **state)
{
    (void)state;
    setup t = open_setup(NULL);
    ls_module_export_onnx(t.net, test_path("nowhere/x.onnx"));
    assert_caught(t.s, LS_IO, "nowhere/x.onnx: cannot be written: No such file or directory");
    assert_int_equal(ls_module_export_onnx(t.net, "/dev/full"), LS_BAD_FILE); /* what is there must be a file */
    assert_true(ls_catch(t.s, LS_BAD_FILE));
    assert_int_equal(ls_close(t.s), LS_OK);
}

/* ---- What is written ---- */

static Ls__ModelProto *read_model(const char *name)
{
    size_t n;
    unsigned char *file = test_read_file(name, &n);
    Ls__ModelProto *model = ls__model_proto__unpack(NULL, n, file);
    free(file);
    assert_non_null(model);
    return model;
}

static const Ls__TensorProto *find_initializer(const Ls__GraphProto *g, const char *name)
{
    for (size_t i = 0; i < g->n_initializer; i++)
        if (strcmp(g->initializer[i]->name, name) == 0)
            return g->initializer[i];
    return NULL;
}

/* Whether the value is there for node `before`: the graph's input, an initializer, or the output of an earlier node. */
static int times_named(const Ls__GraphProto *g, const char *name, size_t before)
{
    int found = find_initializer(g, name) != NULL;
    for (size_t i = 0; i < g->n_input; i++)
        found += strcmp(g->input[i]->name, name) == 0;
    for (size_t i = 0; i < before; i++)
        found += strcmp(g->node[i]->output[0], name) == 0;
    return found;
}

static void check_names(const Ls__GraphProto *g)
{
    for (size_t i = 0; i < g->n_node; i++) {
        assert_int_equal(g->node[i]->n_output, 1);
        assert_int_equal(times_named(g, g->node[i]->output[0], i), 0);
        for (size_t k = 0; k < g->node[i]->n_input; k++)
            assert_int_equal(times_named(g, g->node[i]->input[k], i), 1);
    }
    assert_int_equal(g->n_output, 1);
    assert_string_equal(g->node[g->n_node - 1]->output[0], g->output[0]->name);
    for (size_t i = 0; i < g->n_initializer; i++)
        assert_ptr_equal(find_initializer(g, g->initializer[i]->name), g->initializer[i]);
}

static void check_shape(const Ls__ValueInfoProto *value, const char *batch, int rank, const int64_t dims[])
{
    const Ls__TypeProto__Tensor *tensor = value->type->tensor_type;
    assert_int_equal(value->type->value_case, LS__TYPE_PROTO__VALUE_TENSOR_TYPE);
    assert_int_equal(tensor->elem_type, LS__TENSOR_PROTO__DATA_TYPE__FLOAT);
    assert_int_equal(tensor->shape->n_dim, rank);
    assert_int_equal(tensor->shape->dim[0]->value_case, LS__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM);
    assert_string_equal(tensor->shape->dim[0]->dim_param, batch);
    for (int i = 1; i < rank; i++) {
        assert_int_equal(tensor->shape->dim[i]->value_case, LS__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE);
        assert_int_equal(tensor->shape->dim[i]->dim_value, dims[i]);
    }
}

/* Every parameter of the network is in the model, bit for bit. */
static void check_parameters(const Ls__GraphProto *g, ls_module *net)
{
    for (int i = 0; i < ls_module_parameter_count(net); i++) {
        ls_parameter_info info;
        ls_module_parameter_at(net, i, &info);
        const Ls__TensorProto *tensor = find_initializer(g, info.name);
        assert_non_null(tensor);
        assert_int_equal(tensor->data_type, LS__TENSOR_PROTO__DATA_TYPE__FLOAT);
        assert_int_equal(tensor->n_dims, info.rank);
        assert_memory_equal(tensor->dims, info.shape, (size_t)info.rank * sizeof *info.shape);
        assert_int_equal(tensor->raw_data.len, (size_t)info.numbers * sizeof(float));
        float *values = calloc((size_t)info.numbers, sizeof *values);
        assert_int_equal(ls_module_read_parameter(net, info.name, values, info.numbers), LS_OK);
        assert_memory_equal(tensor->raw_data.data, values, tensor->raw_data.len);
        free(values);
    }
}

static int count(const Ls__GraphProto *g, const char *op_type)
{
    int n = 0;
    for (size_t i = 0; i < g->n_node; i++)
        n += strcmp(g->node[i]->op_type, op_type) == 0;
    return n;
}

static const Ls__NodeProto *node_of_layer(const Ls__GraphProto *g, const char *begin)
{
    for (size_t i = 0; i < g->n_node; i++)
        if (strncmp(g->node[i]->name, begin, strlen(begin)) == 0)
            return g->node[i];
    fail_msg("no node %s...", begin);
    return NULL;
}

static const Ls__AttributeProto *attribute(const Ls__NodeProto *node, const char *name)
{
    for (size_t i = 0; i < node->n_attribute; i++)
        if (strcmp(node->attribute[i]->name, name) == 0)
            return node->attribute[i];
    return NULL;
}

static void check_ints(const Ls__NodeProto *node, const char *name, size_t n, int64_t each)
{
    const Ls__AttributeProto *a = attribute(node, name);
    assert_non_null(a);
    assert_int_equal(a->type, LS__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    assert_int_equal(a->n_ints, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(a->ints[i], each);
}

static void check_list(const Ls__NodeProto *node, const char *name, size_t n, const int64_t *wanted)
{
    const Ls__AttributeProto *a = attribute(node, name);
    assert_non_null(a);
    assert_int_equal(a->n_ints, n);
    assert_memory_equal(a->ints, wanted, n * sizeof *wanted);
}

static ls_module *defined(ls_session *s, ls_module *net, int channels)
{
    assert_int_equal(ls_module_initialize(net, ls_parse_devices(s, "cpu:0-1"), NULL), LS_OK);
    ls_module_infer(net, ls_zeros(s, LS_SHAPE(1, channels, 28, 28)));
    return net;
}

static void lenet(void **state)
{
    (void)state;
    static const char *const operators[] = {"Conv",    "Relu", "AveragePool", "Conv", "Relu", "AveragePool",
                                            "Flatten", "Gemm", "Add",         "Relu", "Gemm", "Add"};
    ls_session *s = ls_open(NULL);
    ls_module *net = defined(s, ls_model(s, "lenet"), 1);
    assert_int_equal(ls_module_export_onnx(net, test_path("x.onnx")), LS_OK);
    Ls__ModelProto *model = read_model("x.onnx");
    const Ls__GraphProto *g = model->graph;
    assert_int_equal(model->ir_version, 7);
    assert_string_equal(model->producer_name, "lockstep");
    assert_int_equal(model->n_opset_import, 1);
    assert_int_equal(model->opset_import[0]->version, 13);
    assert_string_equal(g->name, "lenet");
    assert_int_equal(g->n_node, sizeof operators / sizeof *operators);
    for (size_t i = 0; i < g->n_node; i++)
        assert_string_equal(g->node[i]->op_type, operators[i]);
    assert_string_equal(g->input[0]->name, "input");
    assert_string_equal(g->output[0]->name, "output");
    check_shape(g->input[0], "batch", 4, (int64_t[]){0, 1, 28, 28});
    check_shape(g->output[0], "batch", 2, (int64_t[]){0, 10});
    check_names(g);
    check_parameters(g, net);
    assert_int_equal(g->n_initializer, 8);
    assert_null(attribute(g->node[7], "transB")); /* W3 is (inputs, outputs), as the operator has it */
    assert_int_equal(attribute(g->node[2], "count_include_pad")->i, 1);
    ls__model_proto__free_unpacked(model, NULL);
    assert_int_equal(ls_close(s), LS_OK);
}

static void resnet18(void **state)
{
    (void)state;
    static const struct {
        const char *op_type;
        int times;
    } counts[] = {{"Conv", 20}, {"BatchNormalization", 17}, {"Relu", 17},
                  {"Add", 8},   {"GlobalAveragePool", 1},   {"Flatten", 1},
                  {"Gemm", 1}};
    ls_session *s = ls_open(NULL);
    ls_module *net = defined(s, ls_resnet18(s, 10), 3);
    assert_int_equal(ls_module_export_onnx(net, test_path("x.onnx")), LS_OK);
    Ls__ModelProto *model = read_model("x.onnx");
    const Ls__GraphProto *g = model->graph;
    size_t all = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        assert_int_equal(count(g, counts[i].op_type), counts[i].times);
        all += (size_t)counts[i].times;
    }
    assert_int_equal(g->n_node, all);
    check_shape(g->input[0], "batch", 4, (int64_t[]){0, 3, 28, 28});
    check_names(g);
    check_parameters(g, net);
    const Ls__NodeProto *halving = node_of_layer(g, "/resnet_block2.0.conv3/Conv_");
    check_ints(halving, "strides", 2, 2);
    check_ints(halving, "pads", 4, 0);
    check_ints(halving, "kernel_shape", 2, 1);
    const Ls__NodeProto *norm = node_of_layer(g, "/resnet_block4.1.bn2/BatchNormalization_");
    static const char *const operands[] = {"weight", "bias", "running_mean", "running_var"};
    for (int i = 0; i < 4; i++)
        assert_string_equal(norm->input[i + 1] + strlen("resnet_block4.1.bn2."), operands[i]);
    assert_true(attribute(norm, "epsilon")->f == 1e-5f);
    assert_int_equal(attribute(g->node[g->n_node - 1], "transB")->i, 1);
    ls__model_proto__free_unpacked(model, NULL);
    assert_int_equal(ls_close(s), LS_OK);
}

static void every_operation(void **state)
{
    (void)state;
    setup t = open_setup(NULL);
    assert_int_equal(ls_module_export_onnx(t.net, test_path("x.onnx")), LS_OK);
    Ls__ModelProto *model = read_model("x.onnx");
    check_names(model->graph);
    check_parameters(model->graph, t.net);
    /* Parameters have these names. */
    assert_string_equal(model->graph->input[0]->name, "input_");
    assert_string_equal(model->graph->output[0]->name, "output_");
    check_shape(model->graph->output[0], "batch", 2, (int64_t[]){0, CLASSES});
    assert_int_equal(count(model->graph, "Gemm"), 4);
    assert_int_equal(count(model->graph, "ReduceSum"), 6);
    check_ints(node_of_layer(model->graph, "/MaxPool_"), "pads", 4, 1);
    assert_int_equal(count(model->graph, "LSTM"), 3);
    assert_int_equal(count(model->graph, "GRU"), 2);
    const Ls__NodeProto *back = node_of_layer(model->graph, "/gru/GRU_");
    assert_int_equal(attribute(back, "hidden_size")->i, 4);
    assert_int_equal(attribute(back, "linear_before_reset")->i, 1);
    assert_int_equal(attribute(back, "direction")->s.len, strlen("reverse"));
    assert_int_equal(back->n_input, 5);
    assert_int_equal(node_of_layer(model->graph, "/bare/LSTM_")->n_input, 4);
    assert_null(attribute(node_of_layer(model->graph, "/bare/LSTM_"), "direction"));
    assert_true(attribute(node_of_layer(model->graph, "/LeakyRelu_"), "alpha")->f == 0.25f);
    assert_int_equal(count(model->graph, "Constant"), 1);
    const Ls__NodeProto *depthwise = node_of_layer(model->graph, "/depthwise/Conv_");
    assert_int_equal(attribute(depthwise, "group")->i, 11);
    assert_null(attribute(depthwise, "dilations"));
    const Ls__NodeProto *oblong = node_of_layer(model->graph, "/oblong/Conv_");
    check_list(oblong, "kernel_shape", 2, (int64_t[]){3, 1});
    check_list(oblong, "strides", 2, (int64_t[]){2, 1});
    check_list(oblong, "pads", 4, (int64_t[]){3, 0, 3, 0});
    check_list(oblong, "dilations", 2, (int64_t[]){2, 1});
    assert_null(attribute(oblong, "group"));
    const Ls__NodeProto *up = node_of_layer(model->graph, "/up/ConvTranspose_");
    check_list(up, "strides", 2, (int64_t[]){3, 2});
    check_list(up, "output_padding", 2, (int64_t[]){1, 1});
    assert_int_equal(attribute(up, "group")->i, 2);
    ls__model_proto__free_unpacked(model, NULL);
    assert_int_equal(ls_close(t.s), LS_OK);
}

/* ---- Sizes of 1, sequences' channels, and borders beyond the windows ---- */

static ls_tensor *edges(ls_module *self, ls_tensor *x)
{
    ls_tensor *column = ls_slice(x, 3, 0, 1), *rows = ls_add(ls_max_over(column, 3), ls_mean_over(column, 3));
    rows = ls_module_call(self, "norm", rows);
    ls_tensor *up = ls_module_call(self, "up", x), *more = ls_module_call(self, "more", x);
    ls_tensor *all[] = {ls_flatten(rows), ls_flatten(up), ls_flatten(more)};
    return ls_concat(all, 3);
}

static const int64_t *list_of(const Ls__GraphProto *g, const char *name, size_t n)
{
    const Ls__TensorProto *list = find_initializer(g, name);
    assert_non_null(list);
    assert_int_equal(list->raw_data.len, n * sizeof(int64_t));
    return (const int64_t *)list->raw_data.data;
}

/* The bias of a norm of sequences' channels is (channels, 1); onnxruntime takes an output padding below the stride
 * only.
 */
static void edges_of_shapes(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_module *net = ls_block(s, edges, NULL);
    ls_module_append(net, "norm", ls_nn_group_norm(s, 1, NULL));
    ls_module_append(net, "up",
                     ls_nn_conv_transpose2d(s, 2, 3, &(ls_conv){.dilation = 2, .padding = 2, .output_padding = 1}));
    ls_module_append(
        net, "more",
        ls_nn_conv_transpose2d(s, 2, 2, &(ls_conv){.dilation = 3, .stride_w = 2, .padding = 1, .output_padding = 2}));
    assert_int_equal(ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), NULL), LS_OK);
    ls_module_infer(net, ls_zeros(s, LS_SHAPE(1, 3, 6, 5)));
    if (ls_module_export_onnx(net, test_path("x.onnx")) != LS_OK)
        fail_msg("%s", ls_message(s));
    Ls__ModelProto *model = read_model("x.onnx");
    const Ls__GraphProto *g = model->graph;
    check_ints(node_of_layer(g, "/ReduceMax_"), "axes", 1, 3);
    assert_int_equal(*list_of(g, node_of_layer(g, "/ReduceSum_")->input[1], 1), 3);
    const Ls__NodeProto *turned = node_of_layer(g, "/norm/Add_"), *bias = NULL;
    for (size_t i = 0; i < g->n_node; i++) /* the last one adds the bias */
        turned = strncmp(g->node[i]->name, "/norm/Add_", 10) == 0 ? g->node[i] : turned;
    for (size_t i = 0; i < g->n_node; i++)
        bias = strcmp(g->node[i]->output[0], turned->input[1]) == 0 ? g->node[i] : bias;
    assert_non_null(bias);
    assert_memory_equal(list_of(g, bias->input[1], 2), ((int64_t[]){3, 1}), 2 * sizeof(int64_t));
    const Ls__NodeProto *up = node_of_layer(g, "/up/ConvTranspose_"), *more = node_of_layer(g, "/more/ConvTranspose_");
    assert_null(attribute(up, "output_padding"));
    check_list(up, "pads", 4, (int64_t[]){2, 2, 1, 1});
    assert_null(attribute(more, "output_padding"));
    check_list(more, "pads", 4, (int64_t[]){1, 1, 0, 0});
    const Ls__NodeProto *border = node_of_layer(g, "/more/Pad_");
    assert_memory_equal(list_of(g, border->input[1], 8), ((int64_t[]){0, 0, 0, 0, 0, 0, 1, 1}), 8 * sizeof(int64_t));
    node_of_layer(g, "/more/Add_");
    ls__model_proto__free_unpacked(model, NULL);
    assert_int_equal(ls_close(s), LS_OK);
}

static ls_status export_once(const ls_allocator *allocator)
{
    setup t = open_setup(allocator);
    ls_module_export_onnx(t.net, test_path("x.onnx"));
    return ls_close(t.s);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(export_once);
    assert_int_equal(test_files_in_folder(), 1);
}

#else

static void it_is_not_built_in(void **state)
{
    (void)state;
    setup t = open_setup(NULL);
    assert_int_equal(ls_module_export_onnx(t.net, test_path("x.onnx")), LS_UNSUPPORTED);
    assert_non_null(strstr(ls_message(t.s), "built without protobuf-c"));
    assert_int_equal(test_files_in_folder(), 0);
    ls_close(t.s);
}

#endif

int main(int argc, char **argv)
{
    if (argc > 1)
        return write_for_others(argv[1]);
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, test_folder_make, test_folder_remove)
    const struct CMUnitTest tests[] = {
#if LOCKSTEP_HAVE_PROTOBUF_C
        IN_FOLDER(lenet),
        IN_FOLDER(resnet18),
        IN_FOLDER(every_operation),
        IN_FOLDER(edges_of_shapes),
        IN_FOLDER(an_own_operation_is_refused_by_name),
        IN_FOLDER(lines_that_cannot_be_read_are_refused),
        IN_FOLDER(a_folder_that_is_not_there),
        IN_FOLDER(every_allocation_may_fail),
#else
        IN_FOLDER(it_is_not_built_in),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
