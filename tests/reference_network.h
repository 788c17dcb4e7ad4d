/* The network whose figures tests/reference/make_freezing.py and make_averages.py record, and trainers for it. */
#ifndef TEST_REFERENCE_NETWORK_H
#define TEST_REFERENCE_NETWORK_H

#include "reference_cases.h"
#include "training.h"

#include <lockstep_nn.h>
#include <lockstep_train.h>

enum { ROWS = 12, SIDE = 4, CLASSES = 3, BATCH = 6 };

static inline ls_data *open_images(ls_session *s, int side, int batch)
{
    uint8_t pixels[ROWS * 12 * 12], labels[ROWS];
    test_make_images(pixels, sizeof pixels, labels, ROWS, CLASSES);
    return ls_data_from_memory(s, pixels, labels, ROWS, 1, side, side, CLASSES, &(ls_loader){.batch = batch});
}

static inline void assert_done(ls_session *s)
{
    if (ls_wait(s) != LS_OK)
        fail_msg("%s", ls_message(s));
}

static const char *const names[] = {"0.weight",       "0.bias",        "1.weight", "1.bias",
                                    "1.running_mean", "1.running_var", "4.weight", "4.bias"};
enum { NAMES = sizeof names / sizeof *names };

static inline ls_module *figures_network(ls_session *s)
{
    return ls_sequential(s, LS_LIST(ls_nn_conv2d(s, 2, 3, NULL), ls_nn_batch_norm(s), ls_nn_fn(s, ls_relu),
                                    ls_nn_fn(s, ls_flatten), ls_nn_linear(s, CLASSES)));
}

static inline ls_trainer *trainer_of(ls_module *net, const json_t *one)
{
    const char *kind = json_string_value(json_object_get(one, "optimizer"));
    const ls_optim optim = {.lr = json_number_value(json_object_get(one, "lr")),
                            .momentum = json_number_value(json_object_get(one, "momentum")),
                            .eps = json_number_value(json_object_get(one, "eps")),
                            .weight_decay = json_number_value(json_object_get(one, "weight_decay")),
                            .clip_norm = json_number_value(json_object_get(one, "clip_norm")),
                            .ema = json_number_value(json_object_get(one, "ema")),
                            .ema_warmup = json_is_true(json_object_get(one, "ema_warmup"))};
    ls_trainer *trainer = ls_trainer_new(net,
                                         strcmp(kind, "SGD") == 0    ? LS_SGD
                                         : strcmp(kind, "Adam") == 0 ? LS_ADAM
                                                                     : LS_ADAMW,
                                         &optim);
    size_t i, k;
    const json_t *group, *name;
    json_array_foreach(json_object_get(one, "groups"), i, group)
    {
        const double decay = json_number_value(json_object_get(group, "weight_decay"));
        const ls_param_group how = {
            .lr = json_number_value(json_object_get(group, "lr")), .weight_decay = decay, .no_decay = decay == 0};
        json_array_foreach(json_object_get(group, "names"), k, name)
        {
            char pattern[32]; /* not that of the group before, whose place it would take */
            snprintf(pattern, sizeof pattern, "%s%s", i ? "*" : "", json_string_value(name));
            ls_trainer_set_group(trainer, pattern, &how);
        }
    }
    return trainer;
}

/* The network of a case at its start, with what it freezes, and its trainer. */
static inline ls_trainer *begin_recorded(ls_session *s, const json_t *one, ls_module **net, ls_data **data)
{
    *data = open_images(s, SIDE, BATCH);
    *net = figures_network(s);
    ls_module_initialize(*net, ls_parse_devices(s, "cpu:0-1"), &(ls_init){.like = *data});
    write_recorded(*net, json_object_get(one, "start"), names, NAMES);
    size_t i;
    const json_t *name;
    json_array_foreach(json_object_get(one, "frozen"), i, name)
        assert_int_equal(ls_module_freeze(*net, json_string_value(name), true), LS_OK);
    return trainer_of(*net, one);
}

#endif
