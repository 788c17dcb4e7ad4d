#include "verify_run.h"

#include <string.h>
#include <lockstep_cluster.h>

#include "model/network.h"
#include "model/program.h"
#include "training.h"

enum { IMAGES = 24, SIDE = 6, CLASSES = 3 };

const verify_member verify_members[VERIFY_MEMBERS] = {
    {"0.weight", 0, "the gradient of 0.weight"},
    {"0.bias", 0, "the gradient of 0.bias"},
    {"2.weight", 0, "the gradient of 2.weight"},
    {"2.bias", 0, "the gradient of 2.bias"},
    {"2.running_mean", 0, "the statistics 2.running_mean"},
    {"2.running_var", 0, "the statistics 2.running_var"},
    {"last.weight", 0, "the gradient of last.weight"},
    {"last.bias", 0, "the gradient of last.bias"},
    {NULL, LS_METRIC_LOSS, "the loss"},
    {NULL, LS_METRIC_CORRECT, "the loss"},
};

static struct {
    verify_wrong *wrong;
    void *user;
} fault;

void verify_make_wrong(verify_wrong *wrong, void *user)
{
    fault.wrong = wrong;
    fault.user = user;
}

void verify_flip(float *value)
{
    uint32_t bits;
    memcpy(&bits, value, sizeof bits);
    bits ^= 1u << 3;
    memcpy(value, &bits, sizeof bits);
}

/* A tensor's last number. */
static float *number_of(const verify_member *m, const ls_flat *flat, const ls_bindings *bindings)
{
    if (!m->tensor)
        return (float *)bindings->base[LS_IN_METRICS] + m->metric;
    const ls_view *view = &flat->views[ls_flat_find(flat, m->tensor)];
    float *base = bindings->base[view->trainable ? LS_IN_GRADIENTS : LS_IN_STATISTICS];
    return base + view->offset + view->numbers - 1;
}

/* In place of the library's. What is compared is computed by a call that does not tell when a bucket is whole. */
bool __real_ls_feed_run(const ls_feed *feed, int j, ls_turn *core, ls_bindings *bindings, uint64_t step,
                        void (*whole)(void *user, int bucket), void *user);
bool __wrap_ls_feed_run(const ls_feed *feed, int j, ls_turn *core, ls_bindings *bindings, uint64_t step,
                        void (*whole)(void *user, int bucket), void *user);
bool __wrap_ls_feed_run(const ls_feed *feed, int j, ls_turn *core, ls_bindings *bindings, uint64_t step,
                        void (*whole)(void *user, int bucket), void *user)
{
    bool good = __real_ls_feed_run(feed, j, core, bindings, step, whole, user);
    const int member =
        !whole && fault.wrong ? fault.wrong(ls_cluster_rank(feed->program->session->options.cluster), fault.user) : -1;
    if (member >= 0)
        verify_flip(number_of(&verify_members[member], &feed->program->network->flat, bindings));
    return good;
}

verify_run verify_begin(const char *devices, ls_cluster *cluster)
{
    uint8_t images[IMAGES * SIDE * SIDE], labels[IMAGES];
    test_make_images(images, sizeof images, labels, IMAGES, CLASSES);
    verify_run r = {.s = ls_open(&(ls_options){.shard = 4, .cluster = cluster})};
    r.data = ls_data_from_memory(r.s, images, labels, IMAGES, 1, SIDE, SIDE, CLASSES, &(ls_loader){.batch = 10});
    r.net = ls_sequential(r.s, NULL);
    ls_module_append(r.net, NULL, ls_nn_conv2d(r.s, 4, 3, NULL));
    ls_module_append(r.net, NULL,
                     ls_nn_fn(r.s, ls_relu)); /* else the bias in front of the norm would have no gradient */
    ls_module_append(r.net, NULL, ls_nn_batch_norm(r.s));
    ls_module_append(r.net, NULL, ls_nn_dropout(r.s, 0.2));
    ls_module_append(r.net, NULL, ls_nn_fn(r.s, ls_flatten));
    ls_module_append(r.net, "last", ls_nn_linear(r.s, CLASSES));
    ls_module_initialize(r.net, ls_parse_devices(r.s, devices), &(ls_init){.like = r.data});
    r.trainer = ls_trainer_new(r.net, LS_SGD, &(ls_optim){.lr = 0.1, .momentum = 0.9});
    return r;
}
