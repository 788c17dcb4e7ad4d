/* The moving average of weights: against PyTorch's figures in float64 (tests/reference/make_averages.py), against its
 * formula to the bit, on any number of devices and ranks; in place of the network's values and back; in checkpoints;
 * what is refused meanwhile. */
#include "files.h"
#include "reference_network.h"
#include "thread_wire.h"

#include <lockstep_checkpoint.h>
#include <lockstep_train.h>
#include <lockstep_weights.h>
#include <string.h>

#include "model/network.h"

enum { LONGEST = 32, STEPS = 5, ALL = NAMES * LONGEST };

/* All tensors of the network, one after another by name. */
static void take(ls_module *net, float values[ALL])
{
    memset(values, 0, ALL * sizeof *values);
    for (int i = 0; i < NAMES; i++) {
        ls_parameter_info info;
        for (int k = 0; k < NAMES; k++)
            if (ls_module_parameter_at(net, k, &info) == LS_OK && strcmp(info.name, names[i]) == 0)
                break;
        assert_true(info.numbers <= LONGEST);
        assert_int_equal(ls_module_read_parameter(net, names[i], values + i * LONGEST, info.numbers), LS_OK);
    }
}

static bool is_statistics(int name)
{
    return strstr(names[name], "running") != NULL;
}

/* ---- PyTorch's figures ---- */

static void assert_near(ls_module *net, const json_t *one, bool averages)
{
    for (int i = 0; i < NAMES; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s%s", averages && !is_statistics(i) ? "average:" : "", names[i]);
        const double off = off_by_recorded(ls_module_param(net, names[i], ls_host()), one, key);
        if (off > 2e-6)
            fail_msg("%s: %s is off by %.2g", recorded_name(one), key, off);
    }
}

static void run_figures(ls_session *s, const json_t *one)
{
    const int scope = ls_enter(s);
    ls_data *data;
    ls_module *net;
    ls_trainer *trainer = begin_recorded(s, one, &net, &data);
    int done = 0;
    test_train(s, net, trainer, data, &done, (int)json_array_size(json_object_get(one, "losses")));
    assert_done(s);
    for (int on = 1; on >= 0; on--) {
        assert_int_equal(ls_trainer_use_average(trainer, on), LS_OK);
        assert_near(net, one, on);
    }
    ls_leave(s, scope);
}

static void as_in_pytorch(void **state)
{
    (void)state;
    run_reference_cases("averages", 9, &(ls_options){.shard = BATCH}, run_figures);
}

/* ---- Runs ---- */

typedef struct way {
    ls_optimizer optimizer;
    double momentum, clip, ema;
    bool warmup, group, buffers;
    const char *frozen;
    int microbatches; /* of a step; 0: one */
    int devices;
    int looks; /* after every so many steps the averages are looked at; 0: never */
    ls_cluster *cluster;
} way;

static const way ways[] = {{.momentum = 0, .ema = 0.75},
                           {.momentum = 0.9, .ema = 0.9, .warmup = true, .microbatches = 2},
                           {.optimizer = LS_ADAMW, .ema = 0.5, .frozen = "[01].*"},
                           {.optimizer = LS_ADAM, .ema = 0.75, .clip = 0.25, .microbatches = 2},
                           {.momentum = 0.9, .ema = 0.75, .group = true, .frozen = "4.bias"},
                           {.momentum = 0.9, .ema = 0.75, .buffers = true, .microbatches = 2},
                           {.optimizer = LS_ADAM, .ema = 0.9, .warmup = true, .buffers = true, .clip = 0.25},
                           {.ema = 0.75, .buffers = true, .frozen = "[01].*"}};
enum { WAYS = sizeof ways / sizeof *ways };

typedef struct begun {
    ls_session *s;
    ls_data *data;
    ls_module *net;
    ls_trainer *trainer;
} begun;

static begun begin(const way *w)
{
    begun b = {.s = ls_open(&(ls_options){.shard = 1, .cluster = w->cluster})};
    b.data = open_images(b.s, SIDE, BATCH);
    b.net = figures_network(b.s);
    ls_module_initialize(b.net, test_cpus(w->devices ? w->devices : 1), &(ls_init){.kind = LS_XAVIER, .like = b.data});
    if (w->frozen)
        ls_module_freeze(b.net, w->frozen, true);
    b.trainer = ls_trainer_new(b.net, w->optimizer,
                               &(ls_optim){.lr = w->optimizer == LS_SGD ? 0.25 : 0.02,
                                           .momentum = w->momentum,
                                           .weight_decay = 0.125,
                                           .clip_norm = w->clip,
                                           .ema = w->ema,
                                           .ema_warmup = w->warmup,
                                           .ema_buffers = w->buffers});
    if (w->group)
        ls_trainer_set_group(b.trainer, "4.*", &(ls_param_group){.lr = 2});
    return b;
}

static void step(const begun *b, const way *w)
{
    for (int k = 0; k < (w->microbatches ? w->microbatches : 1); k++) {
        ls_batch batch;
        if (!test_next(b->data, &batch))
            return;
        ls_backward(test_losses(b->net, &batch));
    }
    ls_trainer_step(b->trainer);
}

/* The averages are these values, bit by bit; the network's own come back. */
static void assert_average(const begun *b, const float wanted[ALL])
{
    float there[ALL];
    ls_trainer_use_average(b->trainer, true);
    take(b->net, there);
    assert_memory_equal(there, wanted, sizeof there);
    ls_trainer_use_average(b->trainer, false);
}

static void end(const begun *b)
{
    assert_done(b->s);
    assert_int_equal(ls_close(b->s), LS_OK);
}

/* The formula of update.h over the values that each step left, with one thread. */
static void the_formula_holds_to_the_bit(void **state)
{
    (void)state;
    for (int k = 0; k < WAYS; k++) {
        const way *w = &ways[k];
        float values[ALL], average[ALL], own[ALL];
        const begun b = begin(w);
        for (int n = 0; n < STEPS; n++) {
            step(&b, w);
            take(b.net, values);
            const double warm = (1.0 + n) / (10.0 + n), decay = w->warmup && warm < w->ema ? warm : w->ema;
            for (int i = 0; i < ALL; i++) {
                const bool taken = n == 0 || (is_statistics(i / LONGEST) && !w->buffers);
                average[i] = taken ? values[i] : fmaf((float)(1 - decay), values[i] - average[i], average[i]);
            }
            assert_int_equal(ls_trainer_use_average(b.trainer, true), LS_OK);
            take(b.net, own);
            assert_memory_equal(own, average, sizeof own);
            assert_int_equal(memcmp(values, average, sizeof values) == 0, n == 0);
            assert_int_equal(ls_trainer_use_average(b.trainer, false), LS_OK);
            take(b.net, own);
            assert_memory_equal(own, values, sizeof own);
        }
        end(&b);
    }
}

/* The fingerprints of the averages and of the values behind them. */
typedef struct prints {
    char averages[65], values[65];
} prints;

static void look(const begun *b, prints *p)
{
    assert_int_equal(ls_trainer_use_average(b->trainer, true), LS_OK);
    assert_int_equal(ls_trainer_use_average(b->trainer, true), LS_OK);
    assert_int_equal(ls_module_fingerprint(b->net, p->averages), LS_OK);
    assert_int_equal(ls_trainer_use_average(b->trainer, false), LS_OK);
    assert_int_equal(ls_trainer_use_average(b->trainer, false), LS_OK);
    assert_int_equal(ls_module_fingerprint(b->net, p->values), LS_OK);
    assert_string_not_equal(p->averages, p->values);
}

static prints go(const way *w)
{
    prints p;
    const begun b = begin(w);
    for (int n = 0; n < STEPS; n++) {
        ls_metrics metrics;
        step(&b, w);
        if (!w->looks || n % w->looks)
            continue;
        ls_trainer_use_average(b.trainer, true);
        assert_int_equal(ls_module_evaluate(b.net, b.data, &metrics), LS_OK);
        ls_trainer_use_average(b.trainer, false);
    }
    look(&b, &p);
    end(&b);
    return p;
}

static void assert_same(const prints *a, const prints *b)
{
    assert_string_equal(a->averages, b->averages);
    assert_string_equal(a->values, b->values);
}

static void bits_do_not_depend_on_devices(void **state)
{
    (void)state;
    static const int devices[] = {2, 3, 16};
    for (int k = 0; k < WAYS; k++) {
        const prints alone = go(&ways[k]);
        for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
            way w = ways[k];
            w.devices = devices[d];
            w.looks = (int)d;
            const prints p = go(&w);
            assert_same(&p, &alone);
        }
        way without = ways[k];
        without.ema = without.warmup = without.buffers = 0;
        const begun b = begin(&without);
        char digits[65];
        for (int n = 0; n < STEPS; n++)
            step(&b, &without);
        ls_module_fingerprint(b.net, digits);
        assert_string_equal(digits, alone.values);
        end(&b);
    }
}

typedef struct over {
    way w;
    prints p[WIRE_RANKS];
} over;

static void run_rank(ls_cluster *cluster, int rank, void *user)
{
    over *o = user;
    way w = o->w;
    w.cluster = cluster;
    w.devices = 1 + rank % 2;
    o->p[rank] = go(&w);
}

static void bits_do_not_depend_on_ranks(void **state)
{
    (void)state;
    for (int k = 0; k < WAYS; k++) {
        const prints alone = go(&ways[k]);
        for (int ranks = 2; ranks <= 3; ranks++) {
            over o = {.w = ways[k]};
            o.w.looks = ranks - 1;
            wire_run(ranks, run_rank, &o);
            for (int r = 0; r < ranks; r++)
                assert_same(&o.p[r], &alone);
        }
    }
}

/* Rank 1 has a gradient that no update has used: no rank looks at averages, and none waits for the others'. */
static void refused_rank(ls_cluster *cluster, int rank, void *user)
{
    atomic_int *told = user;
    way w = ways[0];
    w.cluster = cluster;
    const begun b = begin(&w);
    step(&b, &w);
    ls_batch batch;
    if (rank == 1 && test_next(b.data, &batch))
        ls_backward(test_losses(b.net, &batch));
    const ls_status status = ls_trainer_use_average(b.trainer, true);
    atomic_fetch_add(told, 1);
    for (int i = 0; rank == 1 && i < 2000 && atomic_load(told) < 3; i++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    if (atomic_load(told) < 3 && rank == 1)
        wire_break(cluster); /* so that those who wait come to an end */
    assert_int_equal(status, LS_STALE);
    assert_non_null(strstr(ls_message(b.s), "ls_trainer_use_average: the network has gradients that no update has"));
    assert_int_equal(ls_close(b.s), LS_STALE);
}

static void what_one_rank_is_refused_all_are(void **state)
{
    (void)state;
    atomic_int told = 0;
    wire_run(3, refused_rank, &told);
}

/* ---- In place of the values ---- */

/* The values before the last update are there again when the averages have gone. */
static void one_step_back_is_still_there(void **state)
{
    (void)state;
    begun b = begin(&ways[1]);
    float then[ALL], now[ALL];
    step(&b, &ways[1]);
    step(&b, &ways[1]);
    take(b.net, then);
    step(&b, &ways[1]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ls_trainer_use_average(b.trainer, true), LS_OK);
        assert_int_equal(ls_trainer_use_average(b.trainer, false), LS_OK);
    }
    int64_t at;
    assert_int_equal(ls_trainer_step_back(b.trainer, &at), LS_OK);
    assert_int_equal(at, 2);
    take(b.net, now);
    assert_memory_equal(now, then, sizeof then);
    end(&b);
}

static void before_the_first_update_they_are_the_values(void **state)
{
    (void)state;
    float before[ALL], there[ALL];
    const begun b = begin(&ways[0]);
    take(b.net, before);
    assert_int_equal(ls_trainer_use_average(b.trainer, true), LS_OK);
    take(b.net, there);
    assert_memory_equal(there, before, sizeof there);
    assert_int_equal(ls_trainer_use_average(b.trainer, false), LS_OK);
    end(&b);
}

/* Prediction, saving and what is remembered are of the averages; what was recorded before is not computed by others. */
static void all_uses_are_of_the_averages(void **state)
{
    (void)state;
    float values[ALL], averages[ALL], there[ALL], logits[2][ROWS * CLASSES];
    prints p;
    char saved[65];
    const begun b = begin(&ways[1]);
    for (int n = 0; n < STEPS; n++)
        step(&b, &ways[1]);
    look(&b, &p);
    take(b.net, values);
    assert_int_equal(ls_module_predict(b.net, b.data, logits[0], CLASSES), LS_OK);
    ls_trainer_use_average(b.trainer, true);
    take(b.net, averages);
    assert_int_equal(ls_module_predict(b.net, b.data, logits[1], CLASSES), LS_OK);
    assert_memory_not_equal(logits[0], logits[1], sizeof logits[0]);
    const char *path = test_path("averages.safetensors");
    assert_int_equal(ls_module_save(b.net, path), LS_OK);
    assert_int_equal(ls_file_fingerprint(b.s, path, saved), LS_OK);
    assert_string_equal(saved, p.averages);
    assert_int_equal(ls_trainer_remember(b.trainer), LS_OK);
    ls_trainer_use_average(b.trainer, false);
    assert_int_equal(ls_module_predict(b.net, b.data, logits[1], CLASSES), LS_OK);
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
    assert_int_equal(ls_trainer_recall(b.trainer), LS_OK);
    take(b.net, there);
    assert_memory_equal(there, averages, sizeof there);
    /* Other values do not change the averages, until the next update. */
    ls_trainer_use_average(b.trainer, true);
    take(b.net, there);
    assert_memory_equal(there, averages, sizeof there);
    end(&b);
}

static void a_trainer_that_ends_gives_the_values_back(void **state)
{
    (void)state;
    float values[ALL], there[ALL];
    begun b = {.s = ls_open(&(ls_options){.shard = 1})};
    b.data = open_images(b.s, SIDE, BATCH);
    b.net = figures_network(b.s);
    ls_module_initialize(b.net, test_cpus(2), &(ls_init){.kind = LS_XAVIER, .like = b.data});
    const int scope = ls_enter(b.s);
    b.trainer = ls_trainer_new(b.net, LS_SGD, &(ls_optim){.lr = 0.25, .ema = 0.5});
    for (int n = 0; n < 3; n++)
        step(&b, &ways[0]);
    take(b.net, values);
    ls_trainer_use_average(b.trainer, true);
    ls_batch batch;
    assert_true(test_next(b.data, &batch));
    ls_backward(test_losses(b.net, &batch)); /* which is dropped */
    ls_leave(b.s, scope);
    take(b.net, there);
    assert_memory_equal(there, values, sizeof there);
    b.trainer = ls_trainer_new(b.net, LS_SGD, &(ls_optim){.lr = 0.25});
    ls_trainer_step(b.trainer);
    assert_caught(b.s, LS_STALE, "ls_trainer_step: there is no fresh gradient");
    step(&b, &ways[0]);
    end(&b);
}

/* ---- What is refused ---- */

static void keep_value(const ls_parameter_info *info, float *values, void *user)
{
    (void)info, (void)values, (void)user;
}

static void meanwhile_nothing_else_changes_the_values(void **state)
{
    (void)state;
    static const char in_place[] = "the network has averages in place of its values; call "
                                   "ls_trainer_use_average(trainer, false) first";
    float values[ALL], averages[ALL], there[ALL];
    const begun b = begin(&ways[1]);
    ls_checkpoints *kept =
        ls_checkpoints_open(b.trainer, b.data, test_path("refused"), &(ls_checkpoint_options){.keep = 1});
    assert_int_equal(ls_trainer_set_group(b.trainer, "*", &(ls_param_group){.lr = 2}), LS_BAD_ARGUMENT);
    assert_caught(b.s, LS_BAD_ARGUMENT, "groups are set before the first step, and before ls_checkpoints_open");
    step(&b, &ways[1]);
    step(&b, &ways[1]);
    assert_int_equal(ls_checkpoint_save(kept, NULL), LS_OK);
    assert_int_equal(ls_trainer_remember(b.trainer), LS_OK);
    const char *path = test_path("refused.safetensors");
    assert_int_equal(ls_module_save(b.net, path), LS_OK);
    take(b.net, values);
    ls_trainer_use_average(b.trainer, true);
    take(b.net, averages);
    assert_int_equal(ls_checkpoint_save(kept, NULL), LS_STALE);
    assert_caught(b.s, LS_STALE, "ls_checkpoint_save: the network has averages in place of its values");
    assert_false(ls_checkpoint_load(kept, NULL));
    assert_caught(b.s, LS_STALE, in_place);
    assert_int_equal(ls_trainer_recall(b.trainer), LS_STALE);
    assert_caught(b.s, LS_STALE, in_place);
    assert_int_equal(ls_module_load(b.net, path), LS_STALE);
    assert_caught(b.s, LS_STALE, in_place);
    assert_int_equal(ls_module_write_parameter(b.net, "4.bias", (const float[CLASSES]){1}, CLASSES), LS_STALE);
    assert_caught(b.s, LS_STALE, in_place);
    assert_int_equal(ls_module_apply(b.net, keep_value, NULL), LS_STALE);
    assert_caught(b.s, LS_STALE, in_place);
    int64_t at;
    assert_int_equal(ls_trainer_step_back(b.trainer, &at), LS_STALE);
    assert_caught(b.s, LS_STALE, "ls_trainer_step_back");
    ls_batch batch;
    assert_true(test_next(b.data, &batch));
    ls_backward(test_losses(b.net, &batch));
    float gradient[CLASSES];
    assert_int_equal(test_read_gradient(b.net, "4.bias", gradient, CLASSES), LS_STALE);
    assert_caught(b.s, LS_STALE, "ls_grad: the network has averages in place of its values");
    assert_int_equal(ls_trainer_step(b.trainer), LS_STALE);
    assert_caught(b.s, LS_STALE, "ls_trainer_step: the network has averages in place of its values");
    assert_int_equal(ls_trainer_use_average(b.trainer, false), LS_STALE);
    assert_caught(b.s, LS_STALE, "ls_trainer_use_average: the network has gradients that no update has used");
    ls_clear_grad(ls_module_param(b.net, "4.bias", ls_host()));
    take(b.net, there);
    assert_memory_equal(there, averages, sizeof there);
    ls_trainer_use_average(b.trainer, false);
    take(b.net, there);
    assert_memory_equal(there, values, sizeof there);
    step(&b, &ways[1]);
    assert_true(test_next(b.data, &batch));
    ls_backward(test_losses(b.net, &batch));
    assert_int_equal(ls_trainer_use_average(b.trainer, true), LS_STALE);
    assert_caught(b.s, LS_STALE, "ls_trainer_use_average: the network has gradients that no update has used");
    end(&b);
}

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    static const struct {
        ls_optim optim;
        const char *words;
    } wrong[] = {{{.lr = 1, .ema = 1}, "ls_trainer_new: ema must be at least 0 and below 1"},
                 {{.lr = 1, .ema = -0.5}, "ls_trainer_new: ema must be at least 0 and below 1"},
                 {{.lr = 1, .ema = NAN}, "ls_trainer_new: ema must be at least 0 and below 1"},
                 {{.lr = 1, .ema_warmup = true}, "ls_trainer_new: ema_warmup needs an ema"},
                 {{.lr = 1, .ema_buffers = true}, "ls_trainer_new: ema_buffers needs an ema"}};
    ls_session *s = ls_open(&(ls_options){.shard = 2});
    ls_module *net = figures_network(s);
    ls_module_initialize(net, test_cpus(1), NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_null(ls_trainer_new(net, LS_SGD, &wrong[i].optim));
        assert_caught(s, LS_BAD_ARGUMENT, wrong[i].words);
    }
    assert_int_equal(ls_trainer_use_average(NULL, true), LS_BAD_ARGUMENT);
    const int scope = ls_enter(s);
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 1});
    for (int on = 0; on < 2; on++) {
        assert_int_equal(ls_trainer_use_average(trainer, on), LS_BAD_ARGUMENT);
        assert_caught(s, LS_BAD_ARGUMENT,
                      "ls_trainer_use_average: the trainer keeps no averages; set ema in its options");
    }
    ls_leave(s, scope);
    trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 1, .ema = 0.5});
    assert_int_equal(ls_trainer_use_average(trainer, true), LS_SHAPE_UNKNOWN);
    assert_caught(s, LS_SHAPE_UNKNOWN, "ls_trainer_use_average: the shapes of the network's parameters");
    assert_int_equal(ls_close(s), LS_OK);
}

/* An update that is not finite may have half changed them, as the moments. */
static void after_a_failed_update_they_begin_anew(void **state)
{
    (void)state;
    float values[ALL], there[ALL];
    const way w = {.ema = 0.75};
    const begun b = begin(&w);
    for (int n = 0; n < 3; n++)
        step(&b, &w);
    take(b.net, values);
    ls_trainer_set_lr(b.trainer, 9e29);
    for (int n = 0; n < 3 && ls_wait(b.s) == LS_OK; n++)
        step(&b, &w);
    assert_caught(b.s, LS_NOT_FINITE, "is not finite");
    ls_trainer_set_lr(b.trainer, 0.25);
    if (ls_trainer_use_average(b.trainer, true) != LS_OK)
        fail_msg("%s", ls_message(b.s));
    take(b.net, there);
    ls_trainer_use_average(b.trainer, false);
    take(b.net, values);
    assert_memory_equal(there, values, sizeof there);
    assert_int_equal(ls_close(b.s), LS_OK);
}

/* ---- Checkpoints ---- */

static ls_checkpoints *open_kept(const begun *b, const char *folder, const char *allowed)
{
    const char *const list[] = {allowed, "ema_warmup", NULL};
    return ls_checkpoints_open(b->trainer, b->data, test_path(folder),
                               &(ls_checkpoint_options){.allow_changed = allowed ? list : NULL});
}

static void save_after(const way *w, const char *folder, int steps)
{
    const begun b = begin(w);
    ls_checkpoints *kept = open_kept(&b, folder, NULL);
    for (int n = 0; n < steps; n++)
        step(&b, w);
    assert_int_equal(ls_checkpoint_save(kept, NULL), LS_OK);
    assert_int_equal(ls_checkpoint_wait(kept), LS_OK);
    end(&b);
}

static void a_run_goes_on_with_its_averages(void **state)
{
    (void)state;
    for (int k = 0; k < WAYS; k++) {
        const prints whole = go(&ways[k]);
        for (int steps = 0; steps < 4; steps += 3) {
            char folder[32];
            prints p;
            snprintf(folder, sizeof folder, "kept%d-%d", k, steps);
            save_after(&ways[k], folder, steps);
            const begun b = begin(&ways[k]);
            assert_true(ls_checkpoint_load(open_kept(&b, folder, NULL), NULL));
            for (int n = steps; n < STEPS; n++)
                step(&b, &ways[k]);
            look(&b, &p);
            assert_same(&p, &whole);
            end(&b);
        }
    }
}

static void resume_rank(ls_cluster *cluster, int rank, void *user)
{
    over *o = user;
    way w = o->w;
    w.cluster = cluster;
    const begun b = begin(&w);
    ls_checkpoints *kept =
        ls_checkpoints_open(b.trainer, b.data, test_path("ranks"), &(ls_checkpoint_options){.keep = 2});
    const bool found = ls_checkpoint_load(kept, NULL);
    for (int n = found ? 3 : 0; n < (found ? STEPS : 3); n++)
        step(&b, &w);
    if (found)
        look(&b, &o->p[rank]);
    else
        assert_int_equal(ls_checkpoint_save(kept, NULL), LS_OK);
    assert_int_equal(ls_checkpoint_wait(kept), LS_OK);
    end(&b);
}

static void ranks_go_on_with_their_averages(void **state)
{
    (void)state;
    for (int k = 0; k < WAYS; k++) {
        const prints whole = go(&ways[k]);
        over o = {.w = ways[k]};
        wire_run(3, resume_rank, &o);
        wire_run(2, resume_rank, &o);
        for (int r = 0; r < 2; r++)
            assert_same(&o.p[r], &whole);
        test_folder_remove(NULL);
        test_folder_make(NULL);
    }
}

/* Of a run without, they begin with the values there; of one with another optimizer they are kept. */
static void averages_may_begin_late(void **state)
{
    (void)state;
    const way without = {.momentum = 0.9}, with = {.momentum = 0.9, .ema = 0.75, .warmup = true};
    float values[ALL], average[ALL], there[ALL];
    save_after(&without, "late", 2);
    begun b = begin(&with);
    assert_false(ls_checkpoint_load(open_kept(&b, "late", NULL), NULL));
    assert_caught(b.s, LS_CHANGED, "ema was not set and is 0.75 now, ema_warmup was not set and is yes now");
    ls_close(b.s);
    b = begin(&with);
    ls_checkpoints *kept = open_kept(&b, "late", "ema");
    assert_true(ls_checkpoint_load(kept, NULL));
    take(b.net, values);
    assert_average(&b, values);
    for (int n = 0; n < 3; n++) { /* the warm-up begins with them */
        step(&b, &with);
        take(b.net, values);
        const float share = (float)(1 - fmin(0.75, (1.0 + n) / (10.0 + n)));
        for (int i = 0; i < ALL; i++)
            average[i] =
                n == 0 || is_statistics(i / LONGEST) ? values[i] : fmaf(share, values[i] - average[i], average[i]);
        if (n == 1) { /* the moments are older than the average, and both stay so */
            ls_checkpoint_save(kept, NULL);
            ls_checkpoint_wait(kept);
            end(&b);
            b = begin(&with);
            kept = open_kept(&b, "late", "ema");
            assert_true(ls_checkpoint_load(kept, NULL));
        }
    }
    ls_trainer_use_average(b.trainer, true);
    take(b.net, there);
    assert_memory_equal(there, average, sizeof there);
    end(&b);
    /* The values are a run's that never had an average. */
    const begun plain = begin(&without);
    for (int n = 0; n < 5; n++)
        step(&plain, &without);
    take(plain.net, there);
    assert_memory_equal(there, values, sizeof there);
    end(&plain);
}

static void averages_outlive_another_optimizer(void **state)
{
    (void)state;
    const way before = {.momentum = 0.9, .ema = 0.75}, after = {.optimizer = LS_ADAM, .ema = 0.75};
    static const char *const changed[] = {"optimizer", "lr", "momentum", "beta1", "beta2", "eps", NULL};
    float averages[ALL];
    begun b = begin(&before);
    ls_checkpoints *kept = open_kept(&b, "other", NULL);
    for (int n = 0; n < 3; n++)
        step(&b, &before);
    ls_checkpoint_save(kept, NULL);
    ls_checkpoint_wait(kept);
    ls_trainer_use_average(b.trainer, true);
    take(b.net, averages);
    end(&b);
    for (int saved = 0; saved < 2; saved++) {
        b = begin(&after);
        kept = ls_checkpoints_open(b.trainer, b.data, test_path("other"),
                                   &(ls_checkpoint_options){.allow_changed = changed});
        assert_true(ls_checkpoint_load(kept, NULL));
        assert_average(&b, averages);
        ls_checkpoint_save(kept, NULL); /* with moments that are to begin */
        ls_checkpoint_wait(kept);
        end(&b);
    }
    /* Adam's moments, and its corrections, then begin as in a run that begins at these values. */
    float values[2][ALL];
    for (int anew = 0; anew < 2; anew++) {
        b = begin(&after);
        kept = ls_checkpoints_open(b.trainer, b.data, test_path("other"),
                                   &(ls_checkpoint_options){.allow_changed = changed});
        assert_true(ls_checkpoint_load(kept, NULL));
        if (anew) {
            ls_module_save(b.net, test_path("other.safetensors"));
            end(&b);
            b = begin(&after);
            for (int n = 0; n < 3; n++) { /* the same batches come next */
                ls_batch batch;
                assert_true(test_next(b.data, &batch));
            }
            ls_module_load(b.net, test_path("other.safetensors"));
        }
        step(&b, &after);
        step(&b, &after);
        take(b.net, values[anew]);
        end(&b);
    }
    assert_memory_equal(values[0], values[1], sizeof values[0]);
}

/* Averages of a run that kept none of the statistics are none to go on with: both begin anew, once that is allowed. */
static void statistics_may_join_them_late(void **state)
{
    (void)state;
    const way before = {.ema = 0.75}, after = {.ema = 0.75, .buffers = true};
    float values[ALL];
    save_after(&before, "joined", 3);
    begun b = begin(&after);
    assert_false(ls_checkpoint_load(open_kept(&b, "joined", NULL), NULL));
    assert_caught(b.s, LS_CHANGED, "ema_buffers was not set and is yes now");
    ls_close(b.s);
    b = begin(&after);
    assert_true(ls_checkpoint_load(open_kept(&b, "joined", "ema_buffers"), NULL));
    take(b.net, values);
    assert_average(&b, values);
    end(&b);
    b = begin(&before);
    assert_int_equal(ls_trainer_set_options(b.trainer, &(ls_optim){.lr = 1, .ema = 0.75, .ema_buffers = true}),
                     LS_BAD_ARGUMENT);
    assert_caught(b.s, LS_BAD_ARGUMENT, "ls_trainer_set_options: ema_buffers can neither begin nor end");
    ls_close(b.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_in_pytorch),
        cmocka_unit_test(the_formula_holds_to_the_bit),
        cmocka_unit_test(bits_do_not_depend_on_devices),
        cmocka_unit_test(bits_do_not_depend_on_ranks),
        cmocka_unit_test(what_one_rank_is_refused_all_are),
        cmocka_unit_test(one_step_back_is_still_there),
        cmocka_unit_test(before_the_first_update_they_are_the_values),
        cmocka_unit_test_setup_teardown(all_uses_are_of_the_averages, test_folder_make, test_folder_remove),
        cmocka_unit_test(a_trainer_that_ends_gives_the_values_back),
        cmocka_unit_test_setup_teardown(meanwhile_nothing_else_changes_the_values, test_folder_make,
                                        test_folder_remove),
        cmocka_unit_test(wrong_calls_are_refused),
        cmocka_unit_test(after_a_failed_update_they_begin_anew),
        cmocka_unit_test_setup_teardown(a_run_goes_on_with_its_averages, test_folder_make, test_folder_remove),
        cmocka_unit_test_setup_teardown(ranks_go_on_with_their_averages, test_folder_make, test_folder_remove),
        cmocka_unit_test_setup_teardown(averages_may_begin_late, test_folder_make, test_folder_remove),
        cmocka_unit_test_setup_teardown(statistics_may_join_them_late, test_folder_make, test_folder_remove),
        cmocka_unit_test_setup_teardown(averages_outlive_another_optimizer, test_folder_make, test_folder_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
