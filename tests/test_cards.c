/* What of GPUs can be tested without one: how work is cut, plans and their memory as a card would run them, lists of
 * devices, and what is said where there is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "comm/link.h"
#include "device/cards.h"
#include "device/cuda/kernels/geometry.h"
#include "device/open.h"
#include "graph/lower.h"
#include "not_run.h"
#include "model/network.h"
#include "tensors.h"
#include "training.h"

enum { SIZE = 28, ROWS = 48, CLASSES = 10 };

/* ---- Geometry ---- */

static void sums_cover_all_rows_once(void **state)
{
    (void)state;
    static const size_t rows[] = {1, 2, 63, 64, 65, 1000, 8192, 8193, 4096, 200704, 1048576};
    static const int channels[] = {1, 3, 32, 33, 64, 512, 2048};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < 4 * sizeof channels / sizeof *channels; k++) {
            const int c = channels[k / 4], vector = 1 << k % 4;
            if (c % vector != 0)
                continue;
            ls_cuda_sums cut = ls_cuda_sums_of(rows[i], c, vector);
            const int wide = cut.lanes * vector;
            assert_true(cut.columns * wide >= c && (cut.columns - 1) * wide < c);
            assert_true(wide <= LS_CUDA_THREADS);
            assert_true(cut.chunks >= 1 && cut.chunks <= LS_CUDA_MOST_CHUNKS);
            assert_true((size_t)cut.chunks * cut.rows >= rows[i]);
            assert_true((size_t)(cut.chunks - 1) * cut.rows < rows[i]); /* none is empty */
        }
}

/* Scratch is measured for the largest shard, and has to do for every smaller one. */
static void smaller_shards_need_no_more_chunks(void **state)
{
    (void)state;
    int most = 0;
    for (size_t rows = 1; rows < 20000; rows++) {
        int chunks = ls_cuda_sums_of(rows, 64, 4).chunks;
        most = chunks > most ? chunks : most;
        assert_true((size_t)most <= ls_cuda_chunks_of(rows));
        assert_true(ls_cuda_weight_chunks(rows) <= ls_cuda_weight_chunks(rows + 1));
    }
}

static void blocks_are_never_none_or_too_many(void **state)
{
    (void)state;
    assert_int_equal(ls_cuda_blocks(0), 1);
    assert_int_equal(ls_cuda_blocks(1), 1);
    assert_int_equal(ls_cuda_blocks(LS_CUDA_THREADS + 1), 2);
    assert_int_equal(ls_cuda_blocks((size_t)1 << 40), LS_CUDA_MOST_BLOCKS);
    assert_int_equal(ls_cuda_aligned(1), LS_CUDA_ALIGNMENT);
    assert_int_equal(ls_cuda_aligned(LS_CUDA_ALIGNMENT), LS_CUDA_ALIGNMENT);
}

/* cuDNN has (input + before + after - span) / stride + 1 windows, rounded down, and reads nothing that is not there. */
static void check_axis(int input, const ls_windows_axis *of)
{
    const int span = (int)ls_windows_span(of), windows = (int)ls_windows_along(of, input);
    for (int output = 1; output <= windows; output++) { /* fewer: the last ones are left out */
        ls_cuda_axis axis = ls_cuda_axis_of(input, output, of);
        assert_true(axis.input >= 1 && axis.input <= input && axis.before == of->padding && axis.after >= 0);
        assert_true(axis.after <= of->padding);
        assert_int_equal((axis.input + axis.before + axis.after - span) / of->stride + 1, output);
    }
}

static void an_axis_has_as_many_windows_as_asked(void **state)
{
    (void)state;
    for (int input = 1; input <= 14; input++)
        for (int kernel = 1; kernel <= 5; kernel++)
            for (int stride = 1; stride <= 3; stride++)
                for (int dilation = 1; dilation <= 3; dilation++)
                    for (int padding = 0; padding <= dilation * (kernel - 1); padding++)
                        check_axis(input, &(ls_windows_axis){kernel, stride, padding, dilation});
}

/* ---- Plans ---- */

static ls_data *images(ls_session *s, int batch)
{
    static uint8_t pixels[ROWS * SIZE * SIZE], labels[ROWS];
    test_make_images(pixels, sizeof pixels, labels, ROWS, CLASSES);
    return ls_data_from_memory(s, pixels, labels, ROWS, 1, SIZE, SIZE, CLASSES, &(ls_loader){.batch = batch});
}

/* The plan of a training step as a card of that dtype would run it; the network itself is a CPU's. */
static ls_plan *plan_for(ls_session *s, const char *model, const ls_backend *backend, int count)
{
    ls_data *data = images(s, count);
    ls_module *net = ls_model(s, model);
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.like = data});
    ls_batch b;
    assert_true(ls_data_next(data, &b));
    ls_tensor *loss = test_losses(net, &b);
    ls_trace *trace = ls_session_trace(s);
    assert_int_equal(ls_trace_run(trace, loss, true), LS_OK);
    ls_request request = {
        .backend = backend, .wanted = LS_WANT_GRADIENT, .flat = &net->network->flat, .training = true};
    unsigned flowing;
    ls_graph *graph = ls_lower(trace, &request, &flowing);
    ls_plan *plan = graph ? ls_plan_new(graph, count) : NULL;
    ls_graph_free(graph);
    assert_string_equal(ls_message(s), "");
    assert_non_null(plan);
    return plan;
}

static size_t made(const ls_backend *backend, ls_op op, int k)
{
    return backend->made ? backend->made(op, k) : sizeof(float);
}

static size_t floats_of(const ls_backend *backend, const ls_argument *a, int count, size_t bytes)
{
    const size_t numbers = (size_t)a->c * (size_t)a->h * (size_t)a->w, group = (size_t)backend->group;
    const size_t images = ((size_t)count + group - 1) / group * group;
    return a->per_image ? (numbers * images * bytes + 3) / 4 : numbers;
}

/* Goes through the plan's steps and notes who wrote each float of the arena last: what a step reads must be whole, from
 * one writer, and of the width that it takes it for. */
static void check_memory(const ls_plan *plan, int count)
{
    const ls_backend *backend = plan->backend;
    int *writer = calloc(plan->arena_floats + 1, sizeof *writer);
    assert_non_null(writer);
    for (int i = 0; i < plan->n_steps; i++) {
        const ls_plan_step *step = &plan->steps[i];
        const ls_op op = step->attributes.op;
        for (int k = 0; k < LS_MAX_IN; k++) {
            const ls_argument *a = &step->in[k];
            if (!a->c || a->place != LS_IN_ARENA)
                continue;
            const int from = writer[a->offset];
            if (from == 0)
                fail_msg("step %d, %s of %s: operand %d was never written", i, ls_op_name(op), step->layer, k);
            const ls_plan_step *maker = &plan->steps[(from - 1) / LS_MAX_OUT];
            const size_t bytes =
                a->per_image ? made(backend, maker->attributes.op, (from - 1) % LS_MAX_OUT) : sizeof(float);
            if (a->per_image && backend->read)
                assert_int_equal(bytes, backend->read(op, k));
            for (size_t at = a->offset; at < a->offset + floats_of(backend, a, count, bytes); at++)
                if (at >= plan->arena_floats || writer[at] != from)
                    fail_msg("step %d, %s of %s: operand %d is overwritten", i, ls_op_name(op), step->layer, k);
        }
        for (int k = 0; k < LS_MAX_OUT; k++) {
            const ls_argument *a = &step->out[k];
            if (!a->c || a->place != LS_IN_ARENA)
                continue;
            assert_int_equal(a->offset * sizeof(float) % LS_CUDA_ALIGNMENT, 0);
            const size_t n = floats_of(backend, a, count, made(backend, op, k));
            assert_true(a->offset + n <= plan->arena_floats);
            for (size_t at = a->offset; at < a->offset + n; at++)
                writer[at] = 1 + i * LS_MAX_OUT + k;
        }
    }
    free(writer);
}

static int steps_of(const ls_plan *plan, ls_op op)
{
    int n = 0;
    for (int i = 0; i < plan->n_steps; i++)
        n += plan->steps[i].attributes.op == op;
    return n;
}

static void plans_fit_a_card(void **state)
{
    (void)state;
    static const char *const models[] = {"lenet", "resnet18"};
    static const int counts[] = {16, 5};
    char why[256] = "";
    const ls_cards *cards = ls_cards_plugin(why, sizeof why);
    if (!cards)
        test_not_run("%s", why);
    for (size_t m = 0; m < 2; m++)
        for (size_t c = 0; c < 2; c++) {
            size_t arena[3] = {0};
            for (int dtype = LS_F32; dtype <= LS_BF16; dtype++) {
                ls_session *s = ls_open(&(ls_options){.shard = counts[c]});
                ls_plan *plan = plan_for(s, models[m], cards->backend((ls_dtype)dtype), counts[c]);
                check_memory(plan, counts[c]);
                arena[dtype] = plan->arena_floats;
                for (int i = 0; i < plan->n_steps; i++)
                    assert_non_null(plan->steps[i].kernel);
                const bool exact = plan->backend->exact; /* the plan is a core's */
                assert_true(exact == (dtype == LS_F32) && (steps_of(plan, LS_OP_WINOGRAD) > 0) == exact);
                /* LeNet's maps are flattened in front of a linear layer, and its gradient back; ResNet's are single
                 * places. */
                assert_int_equal(steps_of(plan, LS_OP_RESHAPE), m == 0 && !exact ? 2 : 0);
                for (int i = 0; i < plan->n_steps && !exact;
                     i++) { /* a bias in front of a BatchNorm is no pass over the maps */
                    const ls_plan_step *step = &plan->steps[i];
                    assert_true(step->attributes.op != LS_OP_BATCH_NORM || step->in[5].c > 0);
                    if (m == 1 && step->attributes.op == LS_OP_CONV && step->attributes.kernel == 3)
                        assert_int_equal(step->in[2].c, 0);
                }
                ls_plan_free(plan);
                assert_int_equal(ls_close(s), LS_OK);
            }
            print_message("%s, %d images: arena of %.1f MB in f32, %.1f MB in TF32, %.1f MB in bf16\n", models[m],
                          counts[c], (double)arena[LS_F32] * 4e-6, (double)arena[LS_TF32] * 4e-6,
                          (double)arena[LS_BF16] * 4e-6);
            assert_true((double)arena[LS_BF16] < 0.6 * (double)arena[LS_TF32]);
        }
}

static void twice(const ls_custom_call *call, const float *const in[], float *out)
{
    for (int i = 0; i < call->rows * call->in[0][0] * call->in[0][1] * call->in[0][2]; i++)
        out[i] = 2 * in[0][i];
}

static void twice_backward(const ls_custom_call *call, const float *const in[], const float *out, const float *dout,
                           float *const din[])
{
    (void)out;
    (void)in;
    twice(call, &dout, din[0]);
}

static ls_tensor *own(ls_tensor *x)
{
    return ls_custom_op(&(ls_custom){.name = "twice", .inputs = 1, .forward = twice, .backward = twice_backward}, &x);
}

/* What a card has no kernel for is refused by name when the plan is made, before anything runs. */
static void what_a_card_lacks_is_refused(void **state)
{
    (void)state;
    char why[256] = "";
    const ls_cards *cards = ls_cards_plugin(why, sizeof why);
    if (!cards)
        test_not_run("%s", why);
    ls_session *s = ls_open(&(ls_options){.shard = 16});
    ls_data *data = images(s, 16);
    ls_module *net = ls_sequential(s, NULL);
    ls_module_append(net, "conv", ls_nn_conv2d(s, 4, 3, NULL));
    ls_module_append(net, "flat", ls_nn_fn(s, ls_flatten));
    ls_module_append(net, "own", ls_nn_fn(s, own));
    ls_module_append(net, "linear", ls_nn_linear(s, CLASSES));
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), &(ls_init){.like = data});
    ls_batch b;
    assert_true(ls_data_next(data, &b));
    ls_trace *trace = ls_session_trace(s);
    assert_int_equal(ls_trace_run(trace, test_losses(net, &b), true), LS_OK);
    ls_request request = {
        .backend = cards->backend(LS_F32), .wanted = LS_WANT_GRADIENT, .flat = &net->network->flat, .training = true};
    unsigned flowing;
    ls_graph *graph = ls_lower(trace, &request, &flowing);
    assert_non_null(graph);
    assert_null(ls_plan_new(graph, 16));
    ls_graph_free(graph);
    assert_caught(s, LS_UNSUPPORTED, "the own operation twice at \"own\" has no cuda_forward, which cuda f32 needs");
    assert_int_equal(ls_close(s), LS_OK);
}

/* ---- Devices ---- */

static void parts_of_a_card_have_names(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    assert_string_equal(ls_device_str(s, ls_gpu(3)), "gpu(3)");
    assert_int_equal(ls_gpu(LS_MOST_CARDS).index, -1); /* and not part 1 of the first */
    assert_string_equal(ls_device_str(s, ls_card_device(0, 1, 2)), "gpu(0.1)");
    ls_devices two = {.n = 2, .at = {ls_card_device(0, 0, 2), ls_card_device(0, 1, 2)}};
    assert_string_equal(ls_devices_str(s, two), "[gpu(0.0), gpu(0.1)]");
    for (int card = 0; card < LS_MOST_CARDS; card += 21)
        for (int parts = 1; parts <= LS_MOST_PARTS; parts++)
            for (int part = 0; part < parts; part++) {
                ls_device d = ls_card_device(card, part, parts);
                assert_true(d.index >= 0 && ls_card_number(d) == card && ls_card_part(d) == part &&
                            ls_card_parts(d) == parts);
                assert_int_equal(ls_executor_number(d), ls_executor_number(ls_gpu(card)));
                assert_int_not_equal(ls_executor_number(d), ls_executor_number(ls_cpu(card)));
            }
    assert_int_equal(ls_close(s), LS_OK);
}

/* How many cards there are, where that is at least 0: the plugin is not asked then. */
static int cards_here = -1;
int __real_ls_card_count(char *why, size_t size);
int __wrap_ls_card_count(char *why, size_t size);
int __wrap_ls_card_count(char *why, size_t size)
{
    if (cards_here < 0)
        return __real_ls_card_count(why, size);
    snprintf(why, size, "%s", cards_here ? "" : "no card");
    return cards_here;
}

/* The ranks of a host deal its cards out, and share them where they are too few. */
static void ranks_deal_cards_out(void **state)
{
    (void)state;
    static const int deals[][6] = {
        /* cards, ranks, this one's place, its first card, how many, its last as a list says it */
        {8, 3, 0, 0, 2, 1}, {8, 3, 1, 2, 3, 2}, {8, 3, 2, 5, 3, 2}, {8, 1, 0, 0, 8, 7},
        {3, 3, 2, 2, 1, 0}, {2, 3, 0, 0, 1, 0}, {2, 3, 1, 1, 1, 0}, {2, 3, 2, 0, 1, 0}};
    ls_session *s = ls_open(NULL);
    for (size_t i = 0; i < sizeof deals / sizeof *deals; i++) {
        const int *deal = deals[i];
        char last[32];
        cards_here = deal[0];
        s->sharers = deal[1];
        s->place = deal[2];
        const ls_devices mine = ls_all_devices(s);
        assert_int_equal(mine.n, deal[4]);
        for (int k = 0; k < mine.n; k++)
            assert_true(mine.at[k].type == LS_CUDA && ls_card_number(mine.at[k]) == deal[3] + k);
        snprintf(last, sizeof last, "cuda:%d", deal[5]);
        assert_int_equal(ls_card_number(ls_parse_devices(s, last).at[0]), deal[3] + deal[4] - 1);
        assert_int_equal(ls_card_number(ls_try_gpu(s, deal[5])), deal[3] + deal[4] - 1);
        assert_int_equal(ls_try_all_gpus(s).n, deal[4]);
    }
    cards_here = -1;
    assert_int_equal(ls_close(s), LS_OK);
}

static void lists_of_cards(void **state)
{
    (void)state;
    static const struct {
        const char *list, *shown; /* or what is said */
        ls_status status;
    } lists[] = {
        {"cuda:0-1", "[gpu(0), gpu(1)]", LS_OK},
        {"gpu:1,cpu:1", "[gpu(1), cpu(1)]", LS_OK},
        {"cuda:0-1x2", "[gpu(0.0), gpu(0.1), gpu(1.0), gpu(1.1)]", LS_OK},
        {"cuda:1x4", "[gpu(1.0), gpu(1.1), gpu(1.2), gpu(1.3)]", LS_OK},
        {"cuda:2", "devices \"cuda:2\": there is no cuda:2; the last is cuda:1", LS_NO_DEVICE},
        {"cuda:0-2", "devices \"cuda:0-2\": there is no cuda:2; the last is cuda:1", LS_NO_DEVICE},
        {"cuda:0x17", "devices \"cuda:0x17\": a card can be at most 16 devices", LS_NO_DEVICE},
        {"cuda:1,cuda:0-1x2", "devices \"cuda:1,cuda:0-1x2\": cuda:1 is named twice", LS_BAD_ARGUMENT},
        {"cpu:0-255,cuda:0", "devices \"cpu:0-255,cuda:0\": there are more than 256", LS_BAD_ARGUMENT},
    };
    cards_here = 2;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        ls_session *s = ls_open(NULL);
        const ls_devices found = ls_parse_devices(s, lists[i].list);
        assert_string_equal(lists[i].status ? ls_message(s) : ls_devices_str(s, found), lists[i].shown);
        assert_int_equal(ls_close(s), lists[i].status);
    }
    cards_here = -1;
}

/* What stands in for cards that are not there has their numbers, and is told. */
static void cores_stand_in_for_cards(void **state)
{
    (void)state;
    static const struct {
        int cards, asked; /* below 0: the number of one card, from -1 on */
        const char *shown, *notice;
    } cases[] = {
        {2, 2, "[gpu(0), gpu(1)]", ""},
        {2, 3, "[cpu(0), cpu(1), cpu(2)]", "there is no gpu(2) here: cpu(0) to cpu(2) in their place"},
        {0, 3, "[cpu(0), cpu(1), cpu(2)]", "there are no GPUs here: cpu(0) to cpu(2) in their place"},
        {0, 1, "[cpu(0)]", "there is no gpu(0) here: cpu(0) in its place"},
        {2, -3, "[cpu(2)]", "there is no gpu(2) here: cpu(2) in its place"},
        {2, -2, "[gpu(1)]", ""},
    };
    ls_session *s = ls_open(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cards_here = cases[i].cards;
        ls_devices found = {.n = 1};
        if (cases[i].asked > 0)
            found = ls_try_devices(s, cases[i].asked);
        else
            found.at[0] = ls_try_gpu(s, -1 - cases[i].asked);
        assert_string_equal(ls_devices_str(s, found), cases[i].shown);
        assert_string_equal(ls_notice(s), cases[i].notice);
    }
    assert_int_equal(ls_try_gpu(s, 256).type, LS_CPU);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_try_gpu: there is no device 256");
    assert_int_equal(ls_try_devices(s, 257).n, 0);
    assert_caught(s, LS_BAD_ARGUMENT, "ls_try_devices: 257 devices; 1 to 256 are possible");
    cards_here = -1;
    assert_int_equal(ls_close(s), LS_OK);
}

static void a_card_that_is_not_there_is_said_so(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    if (ls_device_count(s, LS_CUDA) > 0) {
        ls_close(s);
        test_not_run("there is a card here");
    }
    assert_string_not_equal(ls_notice(s), "");
    print_message("no GPUs: %s\n", ls_notice(s));
    ls_parse_devices(s, "cpu:0,cuda:0x2");
    assert_caught(s, LS_NO_DEVICE, "there is no cuda:0: ");
    ls_parse_devices(s, "gpu:3");
    assert_caught(s, LS_NO_DEVICE, ls_notice(s));
    ls_parse_devices(s, "cuda:0y");
    assert_caught(s, LS_BAD_ARGUMENT, "should be like");
    ls_parse_devices(s, "cuda:0x0");
    assert_caught(s, LS_BAD_ARGUMENT, "should be like");
    assert_int_equal(ls_all_devices(s).at[0].type, LS_CPU);
    assert_int_equal(ls_close(s), LS_OK);
}

/* The plugin loads without a card, and NCCL says what it lacks; nobody waits for ranks that cannot come. */
static void cards_cannot_be_connected_without_a_card(void **state)
{
    (void)state;
    char why[LS_WHY] = "";
    ls_link_name name;
    ls_session *s = ls_open(NULL);
    const bool there = ls_device_count(s, LS_CUDA) > 0;
    assert_int_equal(ls_close(s), LS_OK);
    if (there || !strstr(ls_features(), "a plugin for NCCL"))
        test_not_run("%s", there ? "there is a card here" : "NCCL is not built in");
    const ls_links *links = ls_links_load(why, sizeof why);
    if (!links)
        fail_msg("%s", why);
    assert_true(links->number >= 21800);
    assert_true(links->name(&name, why, sizeof why));
    assert_null(links->connect(&name, 0, 1, NULL, why, sizeof why));
    assert_non_null(strstr(why, "NCCL: connecting failed"));
}

/* A card's dtypes on a CPU. */
static void a_cpu_computes_in_f32(void **state)
{
    (void)state;
    ls_session *s = ls_open(&(ls_options){.dtype = LS_BF16});
    ls_module_initialize(ls_model(s, "lenet"), ls_parse_devices(s, "cpu:0"), NULL);
    assert_caught(s, LS_UNSUPPORTED, "cpu(0) computes in f32");
    assert_int_equal(ls_close(s), LS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_cover_all_rows_once),
        cmocka_unit_test(smaller_shards_need_no_more_chunks),
        cmocka_unit_test(blocks_are_never_none_or_too_many),
        cmocka_unit_test(an_axis_has_as_many_windows_as_asked),
        cmocka_unit_test(plans_fit_a_card),
        cmocka_unit_test(what_a_card_lacks_is_refused),
        cmocka_unit_test(parts_of_a_card_have_names),
        cmocka_unit_test(ranks_deal_cards_out),
        cmocka_unit_test(lists_of_cards),
        cmocka_unit_test(cores_stand_in_for_cards),
        cmocka_unit_test(a_card_that_is_not_there_is_said_so),
        cmocka_unit_test(cards_cannot_be_connected_without_a_card),
        cmocka_unit_test(a_cpu_computes_in_f32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
