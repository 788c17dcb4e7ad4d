/* The settings that a checkpoint compares: each by its name in the header, with its value in words, and none left out.
 * The data's hash is by Python: the first digits of SHA-256 over "6 1 28 28 3", the images and the labels. */
#include "tensors.h"

#include <stdio.h>
#include <lockstep_train.h>

#include "data/data.h"
#include "checkpoint/settings.h"
#include "training.h"

enum { ROWS = 6, SIDE = 28, CLASSES = 3 };

typedef struct plan {
    ls_options session;
    ls_dtype dtype; /* put into the open session, as a CPU refuses others */
    ls_loader loader;
    ls_init init;
    ls_optimizer kind;
    ls_optim optim;
    const char *model; /* NULL: one of the caller's own */
    const char *frozen[2], *group;
    int changed_label;
    const char *const *classes; /* their names */
    const ls_note *own;
    const char *const *allow;
} plan;

typedef struct taken {
    ls_session *s;
    ls_settings settings;
    ls_status status;
} taken;

static taken take(const plan *p)
{
    uint8_t images[ROWS * SIDE * SIDE], labels[ROWS];
    taken t = {.s = ls_open(&p->session)};
    test_make_images(images, sizeof images, labels, ROWS, CLASSES);
    labels[0] = (uint8_t)(labels[0] + p->changed_label);
    ls_data *data = ls_data_from_memory(t.s, images, labels, ROWS, 1, SIDE, SIDE, CLASSES, &p->loader);
    if (p->classes)
        ls_images_name(&t.s->context, &data->of, p->classes);
    ls_module *net = p->model ? ls_model_for(t.s, p->model, CLASSES)
                              : ls_sequential(t.s, LS_LIST(ls_nn_fn(t.s, ls_flatten), ls_nn_linear(t.s, CLASSES)));
    ls_init init = p->init;
    init.like = data;
    ls_module_initialize(net, ls_parse_devices(t.s, "cpu:0"), &init);
    for (int i = 0; i < 2 && p->frozen[i]; i++)
        ls_module_freeze(net, p->frozen[i], i == 0);
    ls_trainer *trainer = ls_trainer_new(net, p->kind, &p->optim);
    if (p->group) {
        ls_trainer_set_group(trainer, p->group, &(ls_param_group){.lr = 0.1});
        ls_trainer_set_group(trainer, "*", &(ls_param_group){.no_decay = true, .vectors = true});
    }
    assert_string_equal(ls_message(t.s), "");
    t.s->options.dtype = p->dtype;
    t.status = ls_settings_take(&t.settings, trainer, data, p->own, p->allow);
    return t;
}

static const char *const animals[] = {"ant", "bee", "cat"}, *const other_order[] = {"bee", "ant", "cat"};

static const plan sgd = {.loader = {.batch = 2}, .model = "lenet", .optim = {.lr = 0.1, .momentum = 0.9}},
                  adam = {.session = {.batch_norm = 128},
                          .loader = {.batch = 2,
                                     .drop_last = true,
                                     .augment = {.flip = true, .crop = 2, .erase = 0.25},
                                     .edge_target = 3},
                          .model = "lenet",
                          .classes = animals,
                          .frozen = {"?1"},
                          .group = "W*",
                          .kind = LS_ADAMW,
                          .optim = {.lr = 0.1,
                                    .schedule = LS_COSINE,
                                    .total = 9,
                                    .clip_norm = 2,
                                    .full_batch = 4,
                                    .ema = 0.5,
                                    .ema_warmup = true,
                                    .ema_buffers = true}};

/* The lists of the header, in order. */
static const char *const of_sgd[] = {"numerics", "model",     "init", "seed",     "shard",    "conv",
                                     "dtype",    "optimizer", "lr",   "momentum", "nesterov", "weight_decay",
                                     "schedule", "warmup",    "data", "batch",    "shuffle",  NULL},
                         *const of_adam[] = {
                             "numerics",   "model",       "init",       "seed",         "shard",     "batch_norm",
                             "conv",       "dtype",       "optimizer",  "lr",           "momentum",  "nesterov",
                             "beta1",      "beta2",       "eps",        "weight_decay", "clip_norm", "ema",
                             "ema_warmup", "ema_buffers", "full_batch", "schedule",     "warmup",    "total",
                             "frozen",     "groups",      "data",       "classes",      "batch",     "shuffle",
                             "drop_last",  "flip",        "crop",       "edge_target",  "erase",     NULL};

static void assert_names(const plan *p, const char *const names[])
{
    taken t = take(p);
    int n = 0;
    assert_int_equal(t.status, LS_OK);
    for (; names[n]; n++)
        assert_string_equal(t.settings.list[n].name, names[n]);
    assert_null(t.settings.list[n].name);
    assert_int_equal(ls_close(t.s), LS_OK);
}

static void none_is_left_out(void **state)
{
    (void)state;
    assert_names(&sgd, of_sgd);
    assert_names(&adam, of_adam);
}

/* What is said of a run by `changed` whose checkpoint is of `was`: this one difference. */
static void assert_changed(const plan *was, const plan *changed, const char *words)
{
    char whole[512];
    taken before = take(was), now = take(changed);
    snprintf(whole, sizeof whole, "%s%s", "m.json: of a run with other settings: ", words);
    assert_int_equal(ls_settings_compare(&now.settings, before.settings.list, &now.s->context, "m.json", NULL),
                     LS_CHANGED);
    assert_string_equal(ls_message(now.s), whole);
    assert_int_equal(ls_close(now.s), LS_CHANGED);
    assert_int_equal(ls_close(before.s), LS_OK);
}

static void assert_not_changed(const plan *was, const plan *is)
{
    taken before = take(was), now = take(is);
    assert_int_equal(ls_settings_compare(&now.settings, before.settings.list, &now.s->context, "m.json", NULL), LS_OK);
    assert_int_equal(ls_close(now.s), LS_OK);
    assert_int_equal(ls_close(before.s), LS_OK);
}

static void each_is_compared(void **state)
{
    (void)state;
    static const ls_note red[] = {{"colour", "red"}, {NULL, NULL}}, blue[] = {{"colour", "blue"}, {NULL, NULL}};
    plan p;
#define CHANGE(base, change, words)                                                                                    \
    p = base;                                                                                                          \
    p.change;                                                                                                          \
    assert_changed(&base, &p, words)
    CHANGE(sgd, model = NULL, "model was lenet and is own now");
    CHANGE(sgd, init.scale = 0.25, "init was normal:0.01 and is normal:0.25 now");
    CHANGE(sgd, init.kind = LS_XAVIER, "init was normal:0.01 and is xavier now");
    CHANGE(sgd, init.kind = LS_HE, "init was normal:0.01 and is he now");
    CHANGE(sgd, session.seed = 18446744073709551615u, "seed was 0 and is 18446744073709551615 now");
    CHANGE(sgd, session.shard = 3, "shard was 64 and is 3 now");
    CHANGE(sgd, session.conv = LS_CONV_DIRECT, "conv was auto and is direct now");
    CHANGE(sgd, dtype = LS_TF32, "dtype was f32 and is tf32 now");
    CHANGE(sgd, dtype = LS_BF16, "dtype was f32 and is bf16 now");
    CHANGE(sgd, optim.lr = 0.1000000001, "lr was 0.1 and is 0.1000000001 now");
    CHANGE(sgd, optim.momentum = 0, "momentum was 0.9 and is 0 now");
    CHANGE(sgd, optim.nesterov = true, "nesterov was no and is yes now");
    CHANGE(sgd, optim.weight_decay = 1e-5, "weight_decay was 0 and is 1e-05 now");
    CHANGE(sgd, optim.clip_norm = 0.5, "clip_norm was not set and is 0.5 now");
    CHANGE(sgd, optim.ema = 0.75, "ema was not set and is 0.75 now");
    CHANGE(adam, optim.ema = 0.75, "ema was 0.5 and is 0.75 now");
    CHANGE(adam, optim.ema_buffers = false, "ema_buffers was yes and is not set now");
    CHANGE(sgd, session.batch_norm = -1, "batch_norm was not set and is -1 now");
    CHANGE(adam, session.batch_norm = 192, "batch_norm was 128 and is 192 now");
    CHANGE(adam, loader.drop_last = false, "drop_last was yes and is not set now");
    CHANGE(adam, loader.edge_target = -1, "edge_target was 3 and is -1 now");
    CHANGE(adam, optim.ema_warmup = false, "ema_warmup was yes and is not set now");
    CHANGE(sgd, optim.full_batch = 3, "full_batch was not set and is 3 now");
    CHANGE(sgd, optim.warmup = 4, "warmup was 0 and is 4 now");
    CHANGE(sgd, loader.batch = 3, "batch was 2 and is 3 now");
    CHANGE(sgd, loader.shuffle = true, "shuffle was no and is yes now");
    CHANGE(sgd, loader.augment.flip = true, "flip was not set and is yes now");
    CHANGE(sgd, loader.augment.crop = 1, "crop was not set and is 1 now");
    CHANGE(sgd, loader.augment.erase = 0.125, "erase was not set and is 0.125 now");
    CHANGE(sgd, own = red, "colour was not set and is red now");
    CHANGE(adam, kind = LS_ADAM, "optimizer was adamw and is adam now");
    CHANGE(adam, optim.beta1 = 0.8, "beta1 was 0.9 and is 0.8 now");
    CHANGE(adam, optim.beta2 = 0.99, "beta2 was 0.999 and is 0.99 now");
    CHANGE(adam, optim.eps = 1e-7, "eps was 1e-08 and is 1e-07 now");
    CHANGE(adam, optim.clip_norm = 0, "clip_norm was 2 and is not set now");
    CHANGE(adam, optim.full_batch = 0, "full_batch was 4 and is not set now");
    CHANGE(adam, optim.schedule = LS_STEP_SCHEDULE, "schedule was cosine and is step now");
    CHANGE(adam, optim.total = 8, "total was 9 and is 8 now");
    CHANGE(adam, optim.end_factor = 0.5, "end_factor was not set and is 0.5 now");
    plan warm = adam;
    warm.optim.warmup = 3;
    CHANGE(warm, optim.after_warmup = true, "after_warmup was not set and is yes now");
    plan linear = adam, cycle = adam, exponential = adam, restarts = adam;
    linear.optim.schedule = LS_LINEAR;
    CHANGE(linear, optim.total = 8, "total was 9 and is 8 now");
    CHANGE(linear, optim.start_factor = 0.5, "start_factor was 1 and is 0.5 now");
    CHANGE(linear, optim.end_factor = 0.5, "end_factor was not set and is 0.5 now");
    cycle.optim.schedule = LS_ONE_CYCLE;
    CHANGE(cycle, optim.warmup = 3, "warmup was 0 and is 3 now");
    CHANGE(cycle, optim.end_factor = 0.5, "end_factor was 4e-06 and is 0.5 now");
    exponential.optim.schedule = LS_EXPONENTIAL;
    exponential.optim.gamma = 0.5;
    CHANGE(exponential, optim.gamma = 0.25, "gamma was 0.5 and is 0.25 now");
    CHANGE(exponential, optim.period = 5, "period was 1 and is 5 now");
    restarts.optim.schedule = LS_WARM_RESTARTS;
    restarts.optim.period = 3;
    CHANGE(restarts, optim.period = 5, "period was 3 and is 5 now");
    CHANGE(restarts, optim.period_factor = 2, "period_factor was 1 and is 2 now");
    static const char *const of_schedules[] = {"start_factor",  "end_factor",   "gamma", "period",
                                               "period_factor", "after_warmup", NULL};
    p = sgd;
    p.allow = of_schedules;
    assert_int_equal(ls_close(take(&p).s), LS_OK);
    CHANGE(sgd, frozen[0] = "*1", "frozen was not set and is *1 now");
    CHANGE(adam, frozen[0] = "*1", "frozen was ?1 and is *1 now");
    CHANGE(adam, frozen[1] = "b1", "frozen was ?1 and is ?1, not b1 now");
    CHANGE(adam, frozen[1] = "?1", "frozen was ?1 and is not set now");
    CHANGE(sgd, group = "W?",
           "groups was not set and is W?: lr 0.1, weight_decay 1; vectors of *: lr 1, weight_decay 0 now");
    CHANGE(adam, group = "b1",
           "groups was W*: lr 0.1, weight_decay 1; vectors of *: lr 1, weight_decay 0 and is b1: lr 0.1, weight_decay "
           "1; vectors of *: lr 1, weight_decay 0 now");
    CHANGE(adam, group = NULL,
           "groups was W*: lr 0.1, weight_decay 1; vectors of *: lr 1, weight_decay 0 and is not set now");
    CHANGE(adam, loader.augment.flip = false, "flip was yes and is not set now");
    CHANGE(adam, loader.augment.crop = 3, "crop was 2 and is 3 now");
    CHANGE(adam, loader.augment.erase = 0, "erase was 0.25 and is not set now");
    plan first = sgd;
    first.own = red;
    CHANGE(first, own = blue, "colour was red and is blue now");
    CHANGE(first, own = NULL, "colour was red and is not set now");
    CHANGE(sgd, loader.limit = 5, "data was 6 images 34714d285c003752 and is 5 images 1e01b780047c2d99 now");
    CHANGE(adam, classes = other_order, "classes was ant, bee, cat and is bee, ant, cat now");
    /* Data or a checkpoint without names have nothing to be compared. */
    p = sgd;
    p.classes = animals;
    assert_not_changed(&sgd, &p);
    assert_not_changed(&p, &sgd);
    CHANGE(sgd, changed_label = 1, "data was 6 images 34714d285c003752 and is 6 images 49df82929bdc75f5 now");
}

/* Each by its name, and no other with it; also where the run that goes on has it not. */
static void each_may_be_allowed(void **state)
{
    (void)state;
    taken now = take(&adam);
    for (int i = 0; of_adam[i]; i++) {
        ls_note was[LS_SETTINGS + 1];
        memcpy(was, now.settings.list, sizeof was);
        was[i].value = "another";
        for (int k = 0; of_adam[k]; k++) {
            char words[64];
            now.settings.allowed[0] = of_adam[k];
            now.settings.n_allowed = 1;
            ls_status status = ls_settings_compare(&now.settings, was, &now.s->context, "m.json", NULL);
            snprintf(words, sizeof words, "settings: %s was another and is %s now", of_adam[i],
                     now.settings.list[i].value);
            assert_int_equal(status, k == i ? LS_OK : LS_CHANGED);
            if (k != i)
                assert_caught(now.s, LS_CHANGED, words);
        }
    }
    assert_int_equal(ls_close(now.s), LS_OK);
    plan p = sgd;
    p.allow = of_adam;
    taken allowing = take(&p);
    assert_int_equal(allowing.status, LS_OK);
    for (int i = 0; of_adam[i]; i++)
        assert_string_equal(allowing.settings.allowed[i], of_adam[i]);
    assert_int_equal(ls_close(allowing.s), LS_OK);
    /* What is none of them is told with all that are. */
    p.allow = (const char *const[]){"colour", NULL};
    taken refused = take(&p);
    assert_int_equal(refused.status, LS_BAD_ARGUMENT);
    assert_string_equal(
        ls_message(refused.s),
        "ls_checkpoints_open: there is no setting 'colour' that could be allowed to change; there are: "
        "numerics, model, init, seed, shard, conv, dtype, optimizer, lr, momentum, nesterov, "
        "weight_decay, schedule, warmup, data, batch, shuffle, batch_norm, total, start_factor, "
        "end_factor, gamma, period, period_factor, beta1, beta2, eps, ema, ema_warmup, ema_buffers, "
        "after_warmup, clip_norm, full_batch, drop_last, flip, crop, edge_target, erase, frozen, groups, classes");
    assert_int_equal(ls_close(refused.s), LS_BAD_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_is_left_out),
        cmocka_unit_test(each_is_compared),
        cmocka_unit_test(each_may_be_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
