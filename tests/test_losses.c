/* The losses against PyTorch's in float64 (tests/reference/make_losses.py), and what they refuse. */
#include "recorded.h"

#include <lockstep_nn.h>

static ls_tensor *record(const char *name, ls_tensor *x, ls_tensor *y, const ls_loss *options)
{
    if (strcmp(name, "mse") == 0)
        return ls_mse(x, y);
    if (strcmp(name, "l1") == 0)
        return ls_l1(x, y);
    if (strcmp(name, "huber") == 0)
        return ls_huber(x, y, options);
    assert_string_equal(name, "bce");
    return ls_bce(x, y, options);
}

/* A case of the file. */
typedef struct figures {
    const char *name;
    ls_shape shape;
    ls_loss options;
    double *x, *y, *each, *dx, *dy; /* of these `own` is to be freed */
    double *own[8];
    int n_x, n_y, n_each;
} figures;

static figures figures_of(const json_t *one)
{
    int n[8];
    static const char *const keys[8] = {"x", "y", "each", "dx", "dy", "class_weights", "positive_weights", "shape"};
    figures f = {.name = json_string_value(json_object_get(one, "loss"))};
    for (int k = 0; k < 8; k++)
        f.own[k] = recorded_numbers(one, keys[k], &n[k]);
    f.x = f.own[0], f.y = f.own[1], f.each = f.own[2], f.dx = f.own[3], f.dy = f.own[4];
    f.n_x = n[0], f.n_y = n[1], f.n_each = n[2];
    f.options.class_weights = f.own[5];
    f.options.positive_weights = f.own[6];
    f.options.delta = json_number_value(json_object_get(one, "delta"));
    f.shape.rank = n[7];
    for (int i = 0; i < n[7]; i++)
        f.shape.dim[i] = (int64_t)f.own[7][i];
    return f;
}

static void free_figures(figures *f)
{
    for (int k = 0; k < 8; k++)
        free(f->own[k]);
}

/* The gradient of the loss of image i counts i % 3 + 1 times. */
static ls_tensor *turns(ls_session *s, int images)
{
    float values[64];
    for (int i = 0; i < images; i++)
        values[i] = (float)(i % 3 + 1);
    return ls_clone(ls_values(s, values, LS_SHAPE(images)), ls_cpu(0));
}

static void run_figures(const json_t *one)
{
    figures f = figures_of(one);
    ls_session *s = ls_open(&(ls_options){.shard = 20});
    ls_tensor *x = tracked_numbers(s, f.x, f.shape), *y = tracked_numbers(s, f.y, f.shape);
    ls_tensor *loss = record(f.name, x, y, &f.options);
    const double forward = off_by(loss, f.each, f.n_each);
    assert_int_equal(ls_backward_from(loss, turns(s, f.n_each)), LS_OK);
    const double dx = off_by(ls_grad(x), f.dx, f.n_x), dy = off_by(ls_grad(y), f.dy, f.n_y);
    print_message("%-6s off by %.1e of the largest, the gradients by %.1e and %.1e\n", f.name, forward, dx, dy);
    assert_true(forward < 1e-6 && dx < 1e-6 && dy < 1e-6);
    assert_int_equal(ls_close(s), LS_OK);
    free_figures(&f);
}

static void as_in_pytorch(void **state)
{
    (void)state;
    json_t *whole;
    size_t i;
    const json_t *one, *all = recorded_list(REFERENCE "/losses.json", "losses", &whole);
    json_array_foreach(all, i, one) run_figures(one);
    json_decref(whole);
}

/* What a float holds of the loss does not drown beside a large logit, and nothing overflows on the way. */
static void bce_is_stable(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    const float logits[] = {100, -100, 3e38f, -3e38f, 30, 0}, targets[] = {1, 1, 1, 0, 0, 0.5f};
    const float losses[] = {(float)exp(-100), 100, 0, 0, 30, 0x1.62e43p-1f}, slopes[] = {0, -1, 0, 0, 1, 0};
    ls_tensor *x = ls_track(ls_clone(ls_values(s, logits, LS_SHAPE(6)), ls_cpu(0)));
    ls_tensor *loss = ls_bce(x, ls_clone(ls_values(s, targets, LS_SHAPE(6)), ls_cpu(0)), NULL);
    assert_int_equal(ls_backward(loss), LS_OK);
    float *got = test_read(loss), *slope = test_read(ls_grad(x));
    for (int i = 0; i < 6; i++) {
        assert_true(fabs(got[i] - losses[i]) <= 1e-6 * losses[i]);
        assert_true(fabs(slope[i] - slopes[i]) <= 1e-7);
    }
    free(got);
    free(slope);
    assert_int_equal(ls_close(s), LS_OK);
}

static void others_are_refused(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_tensor *x = ls_zeros(s, LS_SHAPE(2, 3)), *y = ls_zeros(s, LS_SHAPE(2, 3)), *z = ls_zeros(s, LS_SHAPE(2));
    const double weights[] = {1, -1, 1}, endless[] = {1, 1, INFINITY};
    assert_null(ls_l1(x, z));
    assert_caught(s, LS_BAD_SHAPE, "ls_l1: both operands must be (images, ...) of one shape");
    assert_null(ls_huber(x, z, NULL));
    assert_caught(s, LS_BAD_SHAPE, "ls_huber: both operands must");
    assert_null(ls_bce(x, z, NULL));
    assert_caught(s, LS_BAD_SHAPE, "ls_bce: both operands must");
    assert_null(ls_bce(NULL, y, NULL));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_bce: a tensor is NULL");
    for (int k = 0; k < 3; k++) {
        const double deltas[] = {-1, NAN, 1e39};
        assert_null(ls_huber(x, y, &(ls_loss){.delta = deltas[k]}));
        assert_caught(s, LS_BAD_ARGUMENT, "ls_huber: delta must be above 0 and finite");
    }
    assert_null(ls_huber(x, y, &(ls_loss){.smoothing = 0.1}));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_huber: this loss has no option `smoothing`");
    assert_null(ls_huber(x, y, &(ls_loss){.has_ignore = true}));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_huber: this loss has no option `ignore`");
    assert_null(ls_huber(x, y, &(ls_loss){.class_weights = weights}));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_huber: this loss has no option `class_weights`");
    assert_null(ls_huber(x, y, &(ls_loss){.positive_weights = weights}));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_huber: this loss has no option `positive_weights`");
    assert_null(ls_bce(x, y, &(ls_loss){.smoothing = 0.1}));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_bce: this loss has no option `smoothing`");
    assert_null(ls_bce(x, y, &(ls_loss){.delta = 1}));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_bce: this loss has no option `delta`");
    assert_null(ls_bce(x, y, &(ls_loss){.ignore = 1}));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_bce: this loss has no option `ignore`");
    assert_null(ls_bce(x, y, &(ls_loss){.class_weights = weights}));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_bce: the weight of class 1 must be finite and not below 0");
    assert_null(ls_bce(x, y, &(ls_loss){.positive_weights = endless}));
    assert_caught(s, LS_BAD_ARGUMENT, "ls_bce: the weight of class 2 must be finite");
    assert_null(ls_bce(z, z, &(ls_loss){.class_weights = weights}));
    assert_caught(s, LS_BAD_SHAPE, "ls_bce: weights of classes need (images, classes, ...)");
    assert_int_equal(ls_close(s), LS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_in_pytorch),
        cmocka_unit_test(bce_is_stable),
        cmocka_unit_test(others_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
