/* The generator: Random123's known answers, the mapping of streams (whose bits are a promise: a seed means the same run
 * in every version), and the shapes of the distributions. And what is drawn from it: a network's first weights, and
 * dropout. */
#include "support.h"

#include <lockstep.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

/* kat_vectors of Random123, lines "philox4x32 10": counter, key, answer. */
static void known_answers(void **state)
{
    (void)state;
    static const uint32_t vectors[3][10] = {{0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
                                            {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff,
                                             0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
                                            {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0,
                                             0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        ls_philox(vectors[i], vectors[i] + 4, out);
        assert_memory_equal(out, vectors[i] + 6, sizeof out);
    }
}

static void name_hashes(void **state)
{
    (void)state; /* FNV-1a's own test values */
    assert_true(ls_hash_name("") == 0xcbf29ce484222325u);
    assert_true(ls_hash_name("a") == 0xaf63dc4c8601ec8cu);
    assert_true(ls_hash_name("foobar") == 0x85944171f73967e8u);
}

/* The mapping as random.c describes it, done again by hand. */
static void stream_mapping(void **state)
{
    (void)state;
    ls_random_stream stream = {0x0123456789abcdefu, LS_FOR_DROPOUT, 0xfedcba9876543210u, 0x100000002u};
    uint32_t d[4], out[4];
    ls_philox((uint32_t[]){0x76543210, 0xfedcba98, 2, 1}, (uint32_t[]){0x89abcdef, 0x01234567}, d);
    ls_philox((uint32_t[]){7, 5, d[2] ^ LS_FOR_DROPOUT, d[3]}, d, out);
    assert_true(ls_random_u32(&stream, 0x500000007u) == out[0]);
    uint64_t wide = (uint64_t)out[1] << 32 | out[0];
    assert_true(ls_random_uniform(&stream, 0x500000007u) == (double)(wide >> 11) / 9007199254740992.0);
}

/* Frozen: a change here would change every run of every seed. */
static void frozen(void **state)
{
    (void)state;
    ls_random_stream weights = {0, LS_FOR_WEIGHTS, ls_hash_name("W1"), 0}, order = {1, LS_FOR_ORDER, 0, 3};
    uint32_t permutation[8];
    ls_random_permutation(&order, permutation, 8);
    double normal = ls_random_normal(&weights, 0), uniform = ls_random_uniform(&weights, 1);
    printf("u32 0x%08x, uniform %a, normal %a, order", ls_random_u32(&weights, 0), uniform, normal);
    for (int i = 0; i < 8; i++) {
        printf(" %u", permutation[i]);
    }
    printf("\n");
    static const uint32_t expected[8] = {5, 1, 0, 6, 4, 7, 3, 2};
    assert_true(ls_random_u32(&weights, 0) == 0x81d54f5d);
    assert_true(uniform == 0x1.dc509827da075p-1);
    assert_true(normal == 0x1.f98bb05240d92p-2);
    assert_memory_equal(permutation, expected, sizeof expected);
}

static void every_part_of_a_name_counts(void **state)
{
    (void)state;
    ls_random_stream base = {5, 1, 7, 9};
    ls_random_stream others[] = {
        {6, 1, 7, 9},  {5ull << 32 | 5, 1, 7, 9}, {5, 2, 7, 9}, {5, 1, 8, 9}, {5, 1, 7ull << 32 | 7, 9},
        {5, 1, 7, 10}, {5, 1, 7, 9ull << 32 | 9}, {5, 1, 9, 7}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        int same = 0;
        for (uint64_t k = 0; k < 100; k++) {
            same += ls_random_u32(&base, k) == ls_random_u32(&others[i], k);
        }
        assert_int_equal(same, 0);
    }
    assert_true(ls_random_u32(&base, 1) != ls_random_u32(&base, 1ull << 32 | 1));
}

static void uniform_is_uniform(void **state)
{
    (void)state;
    enum { N = 100000, BINS = 50 };
    ls_random_stream stream = {3, LS_FOR_WEIGHTS, 1, 0};
    int bins[BINS] = {0};
    for (int i = 0; i < N; i++) {
        double u = ls_random_uniform(&stream, (uint64_t)i);
        assert_true(u >= 0 && u < 1);
        bins[(int)(u * BINS)]++;
    }
    double chi = 0;
    for (int i = 0; i < BINS; i++) {
        chi += (bins[i] - N / BINS) * (double)(bins[i] - N / BINS) / (N / BINS);
    }
    assert_true(chi > 20 && chi < 90); /* 49 degrees of freedom: outside once in some thousand seeds */
}

/* The number that was drawn, put through the distribution function, is the uniform number behind it again. */
static void normal_inverts_the_distribution(void **state)
{
    (void)state;
    enum { N = 100000 };
    ls_random_stream stream = {4, LS_FOR_WEIGHTS, 2, 0};
    double sum = 0, squares = 0, fourth = 0, worst = 0;
    for (int i = 0; i < N; i++) {
        double x = ls_random_normal(&stream, (uint64_t)i);
        double p = floor(ls_random_uniform(&stream, (uint64_t)i) * 0x1p52) * 0x1p-52 + 0x1p-53;
        double lower = x < 0 ? 0.5 * erfc(-x / sqrt(2)) / p : 0.5 * erfc(x / sqrt(2)) / (1 - p);
        worst = fmax(worst, fabs(lower - 1) / (1 + x * x));
        sum += x, squares += x * x, fourth += x * x * x * x;
    }
    assert_true(worst < 1e-15);
    assert_true(fabs(sum / N) < 0.015);
    assert_true(fabs(squares / N - 1) < 0.02);
    assert_true(fabs(fourth / N - 3) < 0.15);
    /* Tails that are drawn once in 10^11 times and less. */
    for (double p = 0.25; p >= 0x1p-53; p /= 2) {
        double x = ls_normal_quantile(p);
        assert_true(fabs(0.5 * erfc(-x / sqrt(2)) / p - 1) < 1e-14 * (1 + x * x));
        assert_true(ls_normal_quantile(1 - p) == -x);
    }
}

static void permutations(void **state)
{
    (void)state;
    enum { N = 60000 };
    uint32_t *order = malloc(N * sizeof *order);
    uint8_t *seen = calloc(N, 1);
    ls_random_stream stream = {0, LS_FOR_ORDER, 0, 0};
    ls_random_permutation(&stream, order, N);
    int fixed = 0;
    for (uint32_t i = 0; i < N; i++) {
        assert_true(order[i] < N);
        assert_false(seen[order[i]]);
        seen[order[i]] = 1;
        fixed += order[i] == i;
    }
    assert_true(fixed < 10); /* one is expected */
    ls_random_permutation(&stream, order, 1);
    assert_int_equal(order[0], 0);
    ls_random_permutation(&stream, order, 0);
    free(order);
    free(seen);
}

/* Each of the 24 orders of four as often as the others. */
static void permutations_are_fair(void **state)
{
    (void)state;
    enum { N = 48000 };
    int count[256] = {0}, kinds = 0;
    for (uint64_t epoch = 0; epoch < N; epoch++) {
        uint32_t order[4];
        ls_random_stream stream = {9, LS_FOR_ORDER, 0, epoch};
        ls_random_permutation(&stream, order, 4);
        count[order[0] << 6 | order[1] << 4 | order[2] << 2 | order[3]]++;
    }
    double chi = 0;
    for (int i = 0; i < 256; i++) {
        kinds += count[i] > 0;
        chi += count[i] > 0 ? (count[i] - N / 24.0) * (count[i] - N / 24.0) / (N / 24.0) : 0;
    }
    assert_int_equal(kinds, 24);
    assert_true(chi < 55); /* 23 degrees of freedom */
}

/* ---- First weights ---- */

static ls_tensor *product(ls_module *self, ls_tensor *x)
{
    return ls_matmul(x, ls_module_parameter(self, "weight", LS_SHAPE(11, 6)));
}

/* What a network starts with: its own products too, whose weights lie the other way. */
static const struct start {
    const char *name;
    int numbers, in, out; /* drawn by these fans; 0: not drawn */
    float fill;
} starts[] = {{"0.weight", 7 * 2 * 9, 2 * 9, 7 * 9, 0},
              {"0.bias", 7, 0, 0, 0},
              {"1.weight", 7, 0, 0, 1},
              {"1.bias", 7, 0, 0, 0},
              {"1.running_mean", 7, 0, 0, 0},
              {"1.running_var", 7, 0, 0, 1},
              {"3.weight", 11 * 28, 28, 11, 0},
              {"3.bias", 11, 0, 0, 0},
              {"4.weight", 11 * 6, 11, 6, 0}};
enum { STARTS = sizeof starts / sizeof *starts };

static ls_module *start_network(ls_session *s, const ls_init *how)
{
    static const uint8_t image[2 * 4 * 4], label[1];
    ls_init init = *how;
    init.like = ls_data_from_memory(s, image, label, 1, 2, 4, 4, 2, NULL);
    ls_module *net = ls_sequential(s, LS_LIST(ls_nn_conv2d(s, 7, 3, NULL), ls_nn_batch_norm(s), ls_nn_fn(s, ls_flatten),
                                              ls_nn_linear(s, 11), ls_block(s, product, NULL)));
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &init);
    return net;
}

/* The header's formulas, with the generator's numbers: uniform(+-sqrt(6/(fan_in+fan_out))), normal(sqrt(2/fan_in)),
 * normal(scale). */
static double drawn(const ls_init *how, const struct start *p, const ls_random_stream *stream, uint64_t i)
{
    if (how->kind == LS_XAVIER)
        return sqrt(6.0 / (p->in + p->out)) * (2 * ls_random_uniform(stream, i) - 1);
    double deviation = how->kind == LS_HE ? sqrt(2.0 / p->in) : how->scale > 0 ? how->scale : 0.01;
    return deviation * ls_random_normal(stream, i);
}

static void first_weights_are_as_said(void **state)
{
    (void)state;
    static const ls_init kinds[] = {{.kind = LS_XAVIER}, {.kind = LS_HE}, {.kind = LS_NORMAL}, {.scale = 0.3}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        ls_session *s = ls_open(&(ls_options){.seed = k});
        ls_module *net = start_network(s, &kinds[k]);
        assert_string_equal(ls_message(s), "");
        assert_int_equal(ls_module_parameter_count(net), STARTS);
        for (const struct start *p = starts; p < starts + STARTS; p++) {
            float values[11 * 28];
            const ls_random_stream stream = {k, LS_FOR_WEIGHTS, ls_hash_name(p->name), 0};
            assert_int_equal(ls_module_read_parameter(net, p->name, values, p->numbers), LS_OK);
            for (int i = 0; i < p->numbers; i++) {
                double wanted = p->in ? drawn(&kinds[k], p, &stream, (uint64_t)i) : p->fill;
                if (fabs(values[i] - wanted) > 1e-7 * fabs(wanted))
                    fail_msg("%s, number %d: %.9g, wanted %.9g", p->name, i, values[i], wanted);
            }
        }
        assert_int_equal(ls_close(s), LS_OK);
    }
}

/* ---- Dropout ---- */

/* Of ones so many become 0 as the rate says, and the others what keeps the mean; each image, and each layer, has draws
 * of its own. */
static void dropout_keeps_the_mean(void **state)
{
    (void)state;
    static const double rates[] = {0.25, 0.4, 0.9};
    enum { IMAGES = 40, NUMBERS = 1024, ALL = IMAGES * NUMBERS };
    float *kept = malloc(2 * ALL * sizeof *kept);
    for (int k = 0; k < 3; k++) {
        ls_session *s = ls_open(&(ls_options){.seed = 3, .shard = 16});
        ls_module *first = ls_nn_dropout(s, rates[k]), *second = ls_nn_dropout(s, rates[k]);
        ls_tensor *X = ls_full(s, 1, LS_SHAPE(IMAGES, 4, 16, 16));
        ls_module *nets[] = {ls_sequential(s, LS_LIST(first, ls_nn_fn(s, ls_relu))),
                             ls_sequential(s, LS_LIST(ls_nn_fn(s, ls_relu), second))};
        for (int i = 0; i < 2; i++) {
            ls_module_initialize(nets[i], ls_parse_devices(s, "cpu:0-1"), NULL);
            ls_read(ls_module_infer(nets[i], X), kept + i * ALL, ALL);
            assert_string_equal(ls_message(s), "");
            for (int j = 0; j < ALL; j++)
                assert_true(kept[i * ALL + j] == 1);
            assert_int_equal(ls_read(ls_module_forward(nets[i], X), kept + i * ALL, ALL), LS_OK);
        }
        int dropped = 0, as_before = 0, as_below = 0;
        for (int j = 0; j < ALL; j++) {
            assert_true(kept[j] == 0 || fabs(kept[j] * (1 - rates[k]) - 1) < 1e-6);
            dropped += kept[j] == 0;
            as_before += j >= NUMBERS && kept[j] == kept[j - NUMBERS];
            as_below += kept[j] == kept[ALL + j];
        }
        const double alike = rates[k] * rates[k] + (1 - rates[k]) * (1 - rates[k]); /* of two draws */
        assert_true(fabs((double)dropped / ALL - rates[k]) < 0.012);                /* five deviations */
        assert_true(fabs((double)as_before / (ALL - NUMBERS) - alike) < 0.015);
        assert_true(fabs((double)as_below / ALL - alike) < 0.015);
        assert_int_equal(ls_close(s), LS_OK);
    }
    free(kept);
}

/* They are part of every stream, and so of all results: one that had another's number would pass for equal between
 * backends. */
static void purposes_are_numbered_once_and_for_all(void **state)
{
    (void)state;
    static const int purposes[] = {LS_FOR_WEIGHTS,   LS_FOR_ORDER,   LS_FOR_DROPOUT,   LS_FOR_PULLS,
                                   LS_FOR_SELF_TEST, LS_FOR_AUGMENT, LS_FOR_VALIDATION};
    for (int i = 0; i < (int)(sizeof purposes / sizeof *purposes); i++)
        assert_int_equal(purposes[i], i + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(purposes_are_numbered_once_and_for_all),
        cmocka_unit_test(known_answers),
        cmocka_unit_test(name_hashes),
        cmocka_unit_test(stream_mapping),
        cmocka_unit_test(frozen),
        cmocka_unit_test(every_part_of_a_name_counts),
        cmocka_unit_test(uniform_is_uniform),
        cmocka_unit_test(normal_inverts_the_distribution),
        cmocka_unit_test(permutations),
        cmocka_unit_test(permutations_are_fair),
        cmocka_unit_test(first_weights_are_as_said),
        cmocka_unit_test(dropout_keeps_the_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
