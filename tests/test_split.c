/* A computation cut in two: the second half's input is tracked, and its gradient carried back to the first half gives
 * the gradients of the whole, on the same device or on another. */
#include "support.h"

#include <lockstep.h>

enum { ROWS = 37, IN = 9, HIDDEN = 7, OUT = 5 };

static ls_tensor *first_half(ls_tensor *x, ls_tensor *w)
{
    return ls_tanh(ls_linear(x, w, NULL));
}

static void halves_give_the_gradients_of_the_whole(void **state)
{
    (void)state;
    for (int d = -1; d < 2; d++) { /* where the second half is; -1: one piece */
        static float one[HIDDEN * IN], two[OUT * HIDDEN];
        float w1[HIDDEN * IN], w2[OUT * HIDDEN];
        ls_session *s = ls_open(&(ls_options){.shard = 16});
        ls_device here = ls_cpu(0), there = ls_cpu(d > 0 ? d : 0);
        ls_tensor *x = ls_clone(ls_randn(s, "x", 1, LS_SHAPE(ROWS, IN)), here);
        ls_tensor *a = ls_track(ls_clone(ls_randn(s, "a", 1, LS_SHAPE(HIDDEN, IN)), here));
        ls_tensor *b = ls_track(ls_clone(ls_randn(s, "b", 1, LS_SHAPE(OUT, HIDDEN)), there));
        ls_tensor *goal = ls_clone(ls_full(s, 0.5, LS_SHAPE(ROWS, OUT)), there);
        ls_tensor *h = first_half(x, a), *cut = d < 0 ? h : ls_track(ls_clone(h, there));
        ls_backward(ls_mse(ls_linear(cut, b, NULL), goal));
        if (d >= 0) {
            ls_backward_from(h, ls_to(ls_grad(cut), here));
        }
        ls_read(ls_grad(a), d < 0 ? one : w1, HIDDEN * IN);
        ls_read(ls_grad(b), d < 0 ? two : w2, OUT * HIDDEN);
        assert_string_equal(ls_message(s), "");
        if (d >= 0) {
            assert_memory_equal(w1, one, sizeof one);
            assert_memory_equal(w2, two, sizeof two);
        }
        ls_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(halves_give_the_gradients_of_the_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
