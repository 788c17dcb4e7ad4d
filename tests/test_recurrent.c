/* LSTM and GRU against PyTorch's float64, and equal bits of every instruction set and any number of devices. */
#include "reference_cases.h"
#include "training.h"

#include <lockstep_nn.h>

/* ---- PyTorch's figures ---- */

typedef ls_tensor *layer(ls_tensor *x, ls_tensor *weight_ih, ls_tensor *weight_hh, ls_tensor *bias_ih,
                         ls_tensor *bias_hh, const ls_recurrent *options);

static ls_tensor *operand(ls_session *s, ls_shape shape, int k)
{
    return ls_track(numbers_by(s, shape, 37, 11 * k, 101, 50, 64));
}

/* (images), on the core where the others are. */
static ls_tensor *lengths_of(ls_session *s, const json_t *one)
{
    int n;
    double *numbers = recorded_numbers(one, "lengths", &n);
    float values[16] = {0};
    for (int i = 0; numbers && i < n; i++)
        values[i] = (float)numbers[i];
    free(numbers);
    return n ? ls_clone(ls_values(s, values, LS_SHAPE(n)), ls_cpu(0)) : NULL;
}

static void run_figures(ls_session *s, const json_t *one)
{
    const int lstm = strcmp(recorded_name(one), "lstm") == 0, gates = lstm ? 4 : 3;
    const int h = (int)json_integer_value(json_object_get(one, "hidden"));
    const ls_shape shape = recorded_shape(one, "x");
    ls_tensor *x[] = {operand(s, shape, 0), operand(s, LS_SHAPE(gates * h, shape.dim[2]), 1),
                      operand(s, LS_SHAPE(gates * h, h), 2), operand(s, LS_SHAPE(gates * h), 3),
                      operand(s, LS_SHAPE(gates * h), 4)};
    const ls_recurrent how = {.lengths = lengths_of(s, one),
                              .reverse = json_is_true(json_object_get(one, "reverse")),
                              .last = json_is_true(json_object_get(one, "last"))};
    layer *const made = lstm ? ls_lstm : ls_gru;
    ls_tensor *y = made(x[0], x[1], x[2], x[3], x[4], &how);
    const ls_shape to = assert_recorded_shape(s, y, one);
    const double forward = off_by_recorded(y, one, "y");
    double backward = 0;
    ls_backward_from(y, numbers_by(s, to, 7, 0, 11, 5, 4));
    for (int k = 0; k < 5; k++)
        backward = fmax(backward, off_by_recorded(ls_grad(x[k]), one, (char[]){'d', (char)('0' + k), 0}));
    print_message("%-5s%s%s%s off by %.1e of the largest, the gradients by %.1e\n", recorded_name(one),
                  how.lengths ? " of lengths" : "", how.reverse ? " in reverse" : "", how.last ? ", the last" : "",
                  forward, backward);
    assert_true(forward < 1e-6 && backward < 2e-6);
}

static void as_in_pytorch(void **state)
{
    (void)state;
    run_reference_cases("recurrent", 10, &(ls_options){.shard = 2}, run_figures);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_in_pytorch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
