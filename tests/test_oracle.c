/* The reference against oneDNN, which knows nothing of our layouts and orders: equal to rounding. */
#include "support.h"
#include "device/winograd.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 20 };
/* Length of the difference over the length of the result. Winograd's is what test_precision.c allows in its place. */
#define TOLERANCE          5e-6
#define WINOGRAD_TOLERANCE 2e-5

#define CHECK(call) assert_int_equal(call, dnnl_success)
#include "onednn.h"

static dnnl_stream_t stream;

/* ---- Pools and normalisation of both versions ---- */

#if DNNL_VERSION_MAJOR >= 3

static dnnl_primitive_desc_t pool_forward(dnnl_alg_kind_t how, described x, described y, const geometry *g)
{
    dnnl_primitive_desc_t made;
    CHECK(dnnl_pooling_forward_primitive_desc_create(&made, engine, dnnl_forward_training, how, x, y, g->stride,
                                                     g->kernel, g->dilation, g->padding, g->padding, NULL));
    return made;
}

static dnnl_primitive_desc_t pool_backward(dnnl_alg_kind_t how, described dx, described dy, const geometry *g,
                                           dnnl_primitive_desc_t hint)
{
    dnnl_primitive_desc_t made;
    CHECK(dnnl_pooling_backward_primitive_desc_create(&made, engine, how, dx, dy, g->stride, g->kernel, g->dilation,
                                                      g->padding, g->padding, hint, NULL));
    return made;
}

static dnnl_primitive_desc_t norm_forward(described x, float eps, unsigned flags)
{
    dnnl_primitive_desc_t made;
    CHECK(dnnl_batch_normalization_forward_primitive_desc_create(&made, engine, dnnl_forward_training, x, x, eps, flags,
                                                                 NULL));
    return made;
}

static dnnl_primitive_desc_t norm_backward(described x, float eps, unsigned flags, dnnl_primitive_desc_t hint)
{
    dnnl_primitive_desc_t made;
    CHECK(dnnl_batch_normalization_backward_primitive_desc_create(&made, engine, dnnl_backward, x, x, x, eps, flags,
                                                                  hint, NULL));
    return made;
}

#else

static dnnl_primitive_desc_t pool_forward(dnnl_alg_kind_t how, described x, described y, const geometry *g)
{
    dnnl_pooling_desc_t operation;
    CHECK(dnnl_pooling_forward_desc_init(&operation, dnnl_forward_training, how, x, y, g->stride, g->kernel, g->padding,
                                         g->padding));
    return prepared(&operation, NULL);
}

static dnnl_primitive_desc_t pool_backward(dnnl_alg_kind_t how, described dx, described dy, const geometry *g,
                                           dnnl_primitive_desc_t hint)
{
    dnnl_pooling_desc_t operation;
    CHECK(dnnl_pooling_backward_desc_init(&operation, how, dx, dy, g->stride, g->kernel, g->padding, g->padding));
    return prepared(&operation, hint);
}

static dnnl_primitive_desc_t norm_forward(described x, float eps, unsigned flags)
{
    dnnl_batch_normalization_desc_t operation;
    CHECK(dnnl_batch_normalization_forward_desc_init(&operation, dnnl_forward_training, x, eps, flags));
    return prepared(&operation, NULL);
}

static dnnl_primitive_desc_t norm_backward(described x, float eps, unsigned flags, dnnl_primitive_desc_t hint)
{
    dnnl_batch_normalization_desc_t operation;
    CHECK(dnnl_batch_normalization_backward_desc_init(&operation, dnnl_backward, x, x, eps, flags));
    return prepared(&operation, hint);
}

#endif

/* ---- Tensors of oneDNN: NCHW, OIHW or plain vectors ---- */

typedef struct tensor {
    float *data; /* NULL in a workspace, whose content is oneDNN's */
    size_t n;
    description how;
    dnnl_memory_t memory;
} tensor;

static tensor tensor_new(int ndims, const dnnl_dims_t dims, dnnl_format_tag_t tag)
{
    tensor made = {.n = 1};
    for (int i = 0; i < ndims; i++) {
        made.n *= (size_t)dims[i];
    }
    made.data = test_floats(made.n);
    made.how = describe(ndims, dims, tag);
    CHECK(dnnl_memory_create(&made.memory, of(&made.how), engine, made.data));
    return made;
}

static tensor map_new(const ls_operand *shape)
{
    return tensor_new(4, (dnnl_dims_t){COUNT, shape->c, shape->h, shape->w}, dnnl_nchw);
}

static tensor vector_new(int n)
{
    return tensor_new(1, (dnnl_dims_t){n}, dnnl_a);
}

static void tensor_free(tensor *t)
{
    CHECK(dnnl_memory_destroy(t->memory));
    forget(&t->how);
    free(t->data);
}

/* Runs and frees a primitive (not its description). */
static void execute(dnnl_primitive_desc_t how, int n, const dnnl_exec_arg_t *arguments)
{
    dnnl_primitive_t primitive;
    CHECK(dnnl_primitive_create(&primitive, how));
    CHECK(dnnl_primitive_execute(primitive, stream, n, arguments));
    CHECK(dnnl_stream_wait(stream));
    CHECK(dnnl_primitive_destroy(primitive));
}

#define EXECUTE(how, ...)                                                                                              \
    execute(how, (int)(sizeof((dnnl_exec_arg_t[]){__VA_ARGS__}) / sizeof(dnnl_exec_arg_t)),                            \
            (dnnl_exec_arg_t[]){__VA_ARGS__})

/* ---- Ours ---- */

static test_random source = {.state = 1};
static test_batch batch;

static ls_operand activation(int c, int h, int w)
{
    return test_activation(&source, c, h, w, COUNT);
}

/* A copy of an activation or a vector for oneDNN. */
static tensor map_of(const ls_operand *x)
{
    tensor made = map_new(x);
    test_unpack(made.data, x->data, x, COUNT);
    return made;
}

static tensor vector_of(const ls_operand *x)
{
    tensor made = vector_new(x->c);
    memcpy(made.data, x->data, made.n * sizeof(float));
    return made;
}

static void run(const ls_attributes *how, ls_op op, const ls_operand in[LS_MAX_IN], const ls_operand out[LS_MAX_OUT])
{
    ls_attributes own = *how;
    own.op = op;
    ls_op_call call = {.attributes = &own, .samples = &batch.samples};
    memcpy(call.in, in, sizeof call.in);
    memcpy(call.out, out, sizeof call.out);
    test_run(ls_backend_ref(), &call);
}

#define IN(...)  ((ls_operand[LS_MAX_IN]){__VA_ARGS__})
#define OUT(...) ((ls_operand[LS_MAX_OUT]){__VA_ARGS__})

static void compare_within(double tolerance, const char *what, const float *ours, const tensor *theirs)
{
    double *truth = test_doubles(theirs->n);
    for (size_t i = 0; i < theirs->n; i++) {
        truth[i] = theirs->data[i];
    }
    double distance = test_distance_float(ours, truth, theirs->n);
    print_message("%-28s %.1e\n", what, distance);
    free(truth);
    if (!(distance <= tolerance)) {
        fail_msg("%s: off by %g of its length, %g allowed", what, distance, tolerance);
    }
}

static void compare(const char *what, const float *ours, const tensor *theirs)
{
    compare_within(TOLERANCE, what, ours, theirs);
}

static void compare_map_within(double tolerance, const char *what, const ls_operand *ours, const tensor *theirs)
{
    float *images = test_floats(theirs->n);
    test_unpack(images, ours->data, ours, COUNT);
    compare_within(tolerance, what, images, theirs);
    free(images);
}

static void compare_map(const char *what, const ls_operand *ours, const tensor *theirs)
{
    compare_map_within(TOLERANCE, what, ours, theirs);
}

/* ---- Convolutions ---- */

typedef struct window {
    int c, h, w, o, kernel, stride, padding;
} window;

static geometry geometry_of(const window *l)
{
    return (geometry){
        .stride = {l->stride, l->stride}, .kernel = {l->kernel, l->kernel}, .padding = {l->padding, l->padding}};
}

static ls_operand output_of(const window *l)
{
    return activation(l->o, test_windows(l->h, l->kernel, l->stride, l->padding),
                      test_windows(l->w, l->kernel, l->stride, l->padding));
}

static void free_operands(ls_operand *all, int n)
{
    for (int i = 0; i < n; i++) {
        free(all[i].data);
    }
}

static void free_tensors(tensor *all, int n)
{
    for (int i = 0; i < n; i++) {
        tensor_free(&all[i]);
    }
}

enum { CONV_X, CONV_W, CONV_B, CONV_Y, CONV_DY, CONV_DX, CONV_DW, CONV_DB, CONV_ALL };

static void conv_theirs(const window *l, const tensor *t)
{
    geometry g = geometry_of(l);
    described x = of(&t[CONV_X].how), w = of(&t[CONV_W].how), b = of(&t[CONV_B].how), y = of(&t[CONV_Y].how);
    dnnl_primitive_desc_t forward = conv_forward(x, w, b, y, &g, dnnl_convolution_direct);
    dnnl_primitive_desc_t data = conv_data(x, w, y, &g, dnnl_convolution_direct, forward),
                          weights = conv_weights(x, w, b, y, &g, dnnl_convolution_direct, forward);
    EXECUTE(forward, {DNNL_ARG_SRC, t[CONV_X].memory}, {DNNL_ARG_WEIGHTS, t[CONV_W].memory},
            {DNNL_ARG_BIAS, t[CONV_B].memory}, {DNNL_ARG_DST, t[CONV_Y].memory});
    EXECUTE(data, {DNNL_ARG_DIFF_DST, t[CONV_DY].memory}, {DNNL_ARG_WEIGHTS, t[CONV_W].memory},
            {DNNL_ARG_DIFF_SRC, t[CONV_DX].memory});
    EXECUTE(weights, {DNNL_ARG_SRC, t[CONV_X].memory}, {DNNL_ARG_DIFF_DST, t[CONV_DY].memory},
            {DNNL_ARG_DIFF_WEIGHTS, t[CONV_DW].memory}, {DNNL_ARG_DIFF_BIAS, t[CONV_DB].memory});
    CHECK(dnnl_primitive_desc_destroy(weights));
    CHECK(dnnl_primitive_desc_destroy(data));
    CHECK(dnnl_primitive_desc_destroy(forward));
}

static void conv_ours(const window *l, const ls_operand *t)
{
    ls_attributes how = {.kernel = l->kernel, .stride = l->stride, .padding = l->padding};
    run(&how, LS_OP_CONV, IN(t[CONV_X], t[CONV_W], t[CONV_B]), OUT(t[CONV_Y]));
    run(&how, LS_OP_CONV_DATA, IN(t[CONV_DY], t[CONV_W]), OUT(t[CONV_DX]));
    run(&how, LS_OP_CONV_WEIGHT, IN(t[CONV_X], t[CONV_DY]), OUT(t[CONV_DW]));
    run(&how, LS_OP_CHANNEL_SUM, IN(t[CONV_DY]), OUT(t[CONV_DB]));
}

static void check_conv(const window *l)
{
    size_t weights = (size_t)l->o * l->c * l->kernel * l->kernel;
    const dnnl_dims_t oihw = {l->o, l->c, l->kernel, l->kernel};
    ls_operand ours[CONV_ALL] = {activation(l->c, l->h, l->w),
                                 test_vector(&source, weights),
                                 test_vector(&source, (size_t)l->o),
                                 output_of(l),
                                 output_of(l),
                                 activation(l->c, l->h, l->w),
                                 test_vector(&source, weights),
                                 test_vector(&source, (size_t)l->o)};
    tensor theirs[CONV_ALL] = {
        map_of(&ours[CONV_X]),  tensor_new(4, oihw, dnnl_oihw), vector_of(&ours[CONV_B]),       map_new(&ours[CONV_Y]),
        map_of(&ours[CONV_DY]), map_new(&ours[CONV_DX]),        tensor_new(4, oihw, dnnl_oihw), vector_new(l->o)};
    memcpy(theirs[CONV_W].data, ours[CONV_W].data, weights * sizeof(float));
    print_message("%dx%dx%d to %d, kernel %d stride %d padding %d\n", l->c, l->h, l->w, l->o, l->kernel, l->stride,
                  l->padding);
    conv_theirs(l, theirs);
    conv_ours(l, ours);
    compare_map("conv", &ours[CONV_Y], &theirs[CONV_Y]);
    compare_map("conv_data", &ours[CONV_DX], &theirs[CONV_DX]);
    compare("conv_weight", ours[CONV_DW].data, &theirs[CONV_DW]);
    compare("channel_sum", ours[CONV_DB].data, &theirs[CONV_DB]);
    if (ls_winograd_defined(l->kernel, l->stride, l->padding)) {
        ls_attributes how = {.kernel = l->kernel, .stride = l->stride, .padding = l->padding};
        run(&how, LS_OP_WINOGRAD, IN(ours[CONV_X], ours[CONV_W], ours[CONV_B]), OUT(ours[CONV_Y]));
        run(&how, LS_OP_WINOGRAD_DATA, IN(ours[CONV_DY], ours[CONV_W]), OUT(ours[CONV_DX]));
        compare_map_within(WINOGRAD_TOLERANCE, "winograd", &ours[CONV_Y], &theirs[CONV_Y]);
        run(&how, LS_OP_WINOGRAD_WEIGHT, IN(ours[CONV_X], ours[CONV_DY]), OUT(ours[CONV_DW]));
        compare_map_within(WINOGRAD_TOLERANCE, "winograd_data", &ours[CONV_DX], &theirs[CONV_DX]);
        compare_within(WINOGRAD_TOLERANCE, "winograd_weight", ours[CONV_DW].data, &theirs[CONV_DW]);
    }
    free_operands(ours, CONV_ALL);
    free_tensors(theirs, CONV_ALL);
}

static void test_convolutions(void **state)
{
    (void)state;
    static const window shapes[] = {{1, 28, 28, 20, 3, 1, 0}, {20, 13, 13, 50, 5, 1, 0}, {64, 7, 7, 64, 3, 1, 1},
                                    {64, 8, 8, 32, 3, 2, 1},  {64, 8, 8, 32, 1, 2, 0},   {3, 5, 7, 17, 3, 3, 1},
                                    {17, 6, 7, 3, 2, 1, 0},   {3, 5, 7, 4, 5, 1, 2},     {800, 1, 1, 128, 1, 1, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_conv(&shapes[i]);
    }
}

/* ---- Pools ---- */

static void pool_theirs(dnnl_alg_kind_t kind, const window *l, const tensor *x, const tensor *y, const tensor *dy,
                        const tensor *dx)
{
    geometry g = geometry_of(l);
    dnnl_primitive_desc_t forward = pool_forward(kind, of(&x->how), of(&y->how), &g);
    dnnl_primitive_desc_t backward = pool_backward(kind, of(&x->how), of(&y->how), &g, forward);
    dnnl_memory_t workspace = NULL;
    if (kind == dnnl_pooling_max) {
        CHECK(dnnl_memory_create(&workspace, dnnl_primitive_desc_query_md(forward, dnnl_query_workspace_md, 0), engine,
                                 DNNL_MEMORY_ALLOCATE));
        EXECUTE(forward, {DNNL_ARG_SRC, x->memory}, {DNNL_ARG_DST, y->memory}, {DNNL_ARG_WORKSPACE, workspace});
        EXECUTE(backward, {DNNL_ARG_DIFF_DST, dy->memory}, {DNNL_ARG_DIFF_SRC, dx->memory},
                {DNNL_ARG_WORKSPACE, workspace});
        CHECK(dnnl_memory_destroy(workspace));
    } else {
        EXECUTE(forward, {DNNL_ARG_SRC, x->memory}, {DNNL_ARG_DST, y->memory});
        EXECUTE(backward, {DNNL_ARG_DIFF_DST, dy->memory}, {DNNL_ARG_DIFF_SRC, dx->memory});
    }
    CHECK(dnnl_primitive_desc_destroy(backward));
    CHECK(dnnl_primitive_desc_destroy(forward));
}

static void check_pool(const window *l, int largest)
{
    ls_attributes how = {.kernel = l->kernel, .stride = l->stride, .padding = l->padding};
    ls_operand ours[] = {activation(l->c, l->h, l->w), output_of(l), output_of(l), activation(l->c, l->h, l->w)};
    tensor theirs[] = {map_of(&ours[0]), map_new(&ours[1]), map_of(&ours[2]), map_new(&ours[3])};
    pool_theirs(largest ? dnnl_pooling_max : dnnl_pooling_avg_include_padding, l, &theirs[0], &theirs[1], &theirs[2],
                &theirs[3]);
    run(&how, largest ? LS_OP_MAX_POOL : LS_OP_AVG_POOL, IN(ours[0]), OUT(ours[1]));
    run(&how, largest ? LS_OP_MAX_POOL_BACKWARD : LS_OP_AVG_POOL_BACKWARD, IN(ours[2], ours[0]), OUT(ours[3]));
    compare_map(largest ? "max_pool" : "avg_pool", &ours[1], &theirs[1]);
    compare_map(largest ? "max_pool_backward" : "avg_pool_backward", &ours[3], &theirs[3]);
    free_operands(ours, 4);
    free_tensors(theirs, 4);
}

static void test_pools(void **state)
{
    (void)state;
    static const window shapes[] = {{20, 26, 26, 20, 2, 2, 0},
                                    {50, 9, 9, 50, 2, 2, 0},
                                    {3, 5, 7, 3, 3, 2, 1},
                                    {17, 6, 7, 17, 3, 1, 1},
                                    {2, 8, 8, 2, 4, 4, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_pool(&shapes[i], 0);
        check_pool(&shapes[i], 1);
    }
}

/* ---- BatchNorm ---- */

enum {
    NORM_X,
    NORM_Y,
    NORM_DY,
    NORM_DX,
    NORM_GAMMA,
    NORM_BETA,
    NORM_MEAN,
    NORM_VARIANCE,
    NORM_DGAMMA,
    NORM_DBETA,
    NORM_ALL
};

static void norm_theirs(const tensor *t, float eps)
{
    unsigned flags = dnnl_use_scale | dnnl_use_shift;
    dnnl_primitive_desc_t forward = norm_forward(of(&t[NORM_X].how), eps, flags);
    dnnl_primitive_desc_t backward = norm_backward(of(&t[NORM_X].how), eps, flags, forward);
    EXECUTE(forward, {DNNL_ARG_SRC, t[NORM_X].memory}, {DNNL_ARG_DST, t[NORM_Y].memory},
            {DNNL_ARG_SCALE, t[NORM_GAMMA].memory}, {DNNL_ARG_SHIFT, t[NORM_BETA].memory},
            {DNNL_ARG_MEAN, t[NORM_MEAN].memory}, {DNNL_ARG_VARIANCE, t[NORM_VARIANCE].memory});
    EXECUTE(backward, {DNNL_ARG_SRC, t[NORM_X].memory}, {DNNL_ARG_DIFF_DST, t[NORM_DY].memory},
            {DNNL_ARG_DIFF_SRC, t[NORM_DX].memory}, {DNNL_ARG_SCALE, t[NORM_GAMMA].memory},
            {DNNL_ARG_SHIFT, t[NORM_BETA].memory}, {DNNL_ARG_MEAN, t[NORM_MEAN].memory},
            {DNNL_ARG_VARIANCE, t[NORM_VARIANCE].memory}, {DNNL_ARG_DIFF_SCALE, t[NORM_DGAMMA].memory},
            {DNNL_ARG_DIFF_SHIFT, t[NORM_DBETA].memory});
    CHECK(dnnl_primitive_desc_destroy(backward));
    CHECK(dnnl_primitive_desc_destroy(forward));
}

static void check_norm(int c, int h, int w)
{
    ls_attributes how = {.eps = 1e-5f};
    ls_operand x = activation(c, h, w), y = activation(c, h, w), dy = activation(c, h, w), dx = activation(c, h, w);
    ls_operand gamma = test_vector(&source, (size_t)c), beta = test_vector(&source, (size_t)c);
    ls_operand saved = test_vector(&source, 2 * (size_t)c), statistics = test_vector(&source, 2 * (size_t)c);
    ls_operand dgb = test_vector(&source, 2 * (size_t)c);
    tensor theirs[NORM_ALL] = {map_of(&x),       map_new(&y),   map_of(&dy),   map_new(&dx),  vector_of(&gamma),
                               vector_of(&beta), vector_new(c), vector_new(c), vector_new(c), vector_new(c)};
    float n = (float)(COUNT * h * w);
    norm_theirs(theirs, how.eps);
    run(&how, LS_OP_BATCH_NORM, IN(x, gamma, beta), OUT(y, saved, statistics));
    run(&how, LS_OP_BATCH_NORM_BACKWARD, IN(dy, x, gamma, saved), OUT(dx, dgb));
    for (int i = 0; i < c; i++) {
        theirs[NORM_VARIANCE].data[i] *= n / (n - 1); /* ours is the unbiased one */
    }
    compare_map("batch_norm", &y, &theirs[NORM_Y]);
    compare("mean", statistics.data, &theirs[NORM_MEAN]);
    compare("unbiased variance", statistics.data + c, &theirs[NORM_VARIANCE]);
    compare_map("batch_norm_backward", &dx, &theirs[NORM_DX]);
    compare("dgamma", dgb.data, &theirs[NORM_DGAMMA]);
    compare("dbeta", dgb.data + c, &theirs[NORM_DBETA]);
    free_operands((ls_operand[]){x, y, dy, dx, gamma, beta, saved, statistics, dgb}, 9);
    free_tensors(theirs, NORM_ALL);
}

static void test_batch_norm(void **state)
{
    (void)state;
    check_norm(64, 28, 28);
    check_norm(128, 4, 4);
    check_norm(17, 5, 7);
    check_norm(3, 1, 1);
}

int main(void)
{
    CHECK(dnnl_engine_create(&engine, dnnl_cpu, 0));
    CHECK(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    batch = test_batch_new(COUNT, 1, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convolutions),
        cmocka_unit_test(test_pools),
        cmocka_unit_test(test_batch_norm),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_batch_free(&batch);
    dnnl_stream_destroy(stream);
    dnnl_engine_destroy(engine);
    return failed;
}
