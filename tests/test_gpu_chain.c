/* Networks that chain on cards: in float32 a core's bits, on cards, on cores and on both; in TF32 and bf16 those of any
 * number of cards; and gradients of inputs. Exit status 77 where there is no card. */
#include "device/cards.h"
#include "gan.h"
#include "not_run.h"
#include "tensors.h"

#include <math.h>
#include <stdio.h>

enum { STEPS = 4 };

typedef struct how {
    const char *G, *D; /* devices */
    ls_dtype dtype;
} how;

typedef struct outcome {
    uint64_t G, D;
    double losses[STEPS];
    float dx[BATCH * PIXELS], there[PIXELS]; /* of images on the host, of one on D's first device */
} outcome;

/* Through inference in float32 alone: there BatchNorm has no backward pass in the other dtypes. */
static void differentiate(const gan *n, ls_tensor *images, const how *h, outcome *out)
{
    const ls_device there = ls_parse_devices(n->s, h->D).at[0];
    ls_tensor *x = ls_track(ls_clone(images, ls_host()));
    for (int training = h->dtype != LS_F32; training < 2; training++) {
        ls_tensor *y = training ? ls_module_forward(n->D, x) : ls_module_infer(n->D, x);
        ls_backward_for(ls_bce(y, ls_full(n->s, 1, LS_SHAPE(BATCH, 1)), NULL), NULL, 0);
    }
    ls_read(ls_grad(x), out->dx, BATCH * PIXELS);
    float pixels[BATCH * PIXELS];
    ls_read(x, pixels, BATCH * PIXELS);
    ls_tensor *one = ls_track(ls_clone(ls_values(n->s, pixels, LS_SHAPE(1, 1, SIDE, SIDE)), there));
    for (int time = 0; time < 2; time++)
        ls_backward(ls_sum_each(ls_module_infer(n->D, one)));
    if (h->dtype != LS_F32) {
        assert_caught(n->s, LS_UNSUPPORTED, "batch_norm_infer has no backward pass on cuda");
        return;
    }
    ls_read(ls_grad(one), out->there, PIXELS);
}

static void train(how h, outcome *out)
{
    memset(out, 0, sizeof *out);
    gan n = {.s = ls_open(&(ls_options){.seed = 7, .shard = 2, .dtype = h.dtype})};
    ls_session *s = n.s;
    n.data = images_of(s, BATCH, true);
    n.G = of_convolutions(s);
    n.D = ls_sequential(s, LS_LIST(ls_nn_conv2d(s, 3, 4, &halves), ls_nn_batch_norm(s), leaky(s),
                                   ls_nn_dropout(s, 0.25), ls_nn_fn(s, ls_flatten), ls_nn_linear(s, 1)));
    ls_module_initialize(n.G, ls_parse_devices(s, h.G), &(ls_init){.kind = LS_HE});
    ls_module_initialize(n.D, ls_parse_devices(s, h.D), &(ls_init){.kind = LS_HE, .like = n.data});
    n.g = ls_trainer_new(n.G, LS_ADAM, &(ls_optim){.lr = 0.01});
    n.d = ls_trainer_new(n.D, LS_ADAM, &(ls_optim){.lr = 0.01});
    ls_batch b;
    for (int k = 0; k < STEPS && test_next(n.data, &b); k++) {
        char key[32];
        snprintf(key, sizeof key, "z %d", k);
        gan_step(&n, b.X, ls_randn(s, key, 1, LS_SHAPE(BATCH, CODE)));
    }
    assert_true(test_next(n.data, &b));
    differentiate(&n, b.X, &h, out);
    out->G = ls_module_checksum(n.G);
    out->D = ls_module_checksum(n.D);
    ls_report report;
    while (ls_trainer_next_report(n.g, &report))
        out->losses[report.step - 1] = report.loss;
    if (ls_failed(s))
        fail_msg("%s and %s: %s", h.G, h.D, ls_message(s));
    assert_int_equal(ls_close(s), LS_OK);
}

static void assert_same(how h, const outcome *wanted)
{
    static outcome made;
    train(h, &made);
    if (memcmp(&made, wanted, sizeof made) != 0)
        fail_msg("%s and %s: other bits; losses %.9g and %.9g at the end", h.G, h.D, made.losses[STEPS - 1],
                 wanted->losses[STEPS - 1]);
}

static void cores_and_cards_have_the_same_bits(void **state)
{
    (void)state;
    static outcome cores;
    train((how){.G = "cpu:0-1", .D = "cpu:0-1"}, &cores);
    print_message("G %016llx, D %016llx\n", (unsigned long long)cores.G, (unsigned long long)cores.D);
    assert_true(isfinite(cores.losses[STEPS - 1]) && cores.dx[0] != 0 && cores.there[0] != 0);
    assert_same((how){.G = "cuda:0", .D = "cuda:0"}, &cores);
    assert_same((how){.G = "cuda:0x2", .D = "cuda:0x2"}, &cores);
    assert_same((how){.G = "cuda:0,cpu:0", .D = "cpu:0-1,cuda:0"}, &cores);
    assert_same((how){.G = "cpu:0-1", .D = "cuda:0"}, &cores);
}

static void any_number_of_cards_has_the_same_bits(void **state)
{
    (void)state;
    static outcome one;
    for (int dtype = LS_TF32; dtype <= LS_BF16; dtype++) {
        train((how){.G = "cuda:0", .D = "cuda:0", .dtype = (ls_dtype)dtype}, &one);
        assert_true(isfinite(one.losses[STEPS - 1]));
        assert_same((how){.G = "cuda:0x2", .D = "cuda:0x3", .dtype = (ls_dtype)dtype}, &one);
    }
}

int main(void)
{
    char why[256] = "";
    if (ls_card_count(why, sizeof why) == 0)
        return test_none_run("%s", why);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_and_cards_have_the_same_bits),
        cmocka_unit_test(any_number_of_cards_has_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
