/* What one task has taught serves another: a network learns which mark is on a picture, and its stem is the beginning
 * of a second one, which learns from few pictures which two marks are there: it gets 0.82 of them right, and 0.34 where
 * it begins anew. The stem rests while the new head learns, then everything learns, the head ten times as fast.
 * transfer.py beside it is the same in PyTorch.
 * transfer [EPOCHS [IMAGES [FIRST [FILE]]]] */
#include "../arguments.h"
#include "synthetic.h"
#include <lockstep.h>
#include <lockstep_data.h>
#include <lockstep_nn.h>
#include <lockstep_train.h>
#include <lockstep_weights.h>
#include <stdio.h>

enum { SIDE = 24, CHANNELS = 3, PAIRS = 6, FEWER = 10, TEST = 600 };

static const unsigned alone[KINDS] = {1, 2, 4, 8}, pairs[PAIRS] = {3, 5, 6, 9, 10, 12}; /* a bit for each mark */

static ls_module *stage(ls_session *s, int channels)
{
    return ls_sequential(s, LS_LIST(ls_nn_conv2d(s, channels, 3, &(ls_conv){.padding = 1, .no_bias = true}),
                                    ls_nn_batch_norm(s), ls_nn_fn(s, ls_relu),
                                    ls_nn_max_pool2d(s, &(ls_pool){.kernel = 2})));
}

static ls_module *network(ls_session *s, const char *head, int classes)
{
    ls_module *net = ls_sequential(s, NULL);
    ls_module_append(net, "stem",
                     ls_sequential(s, LS_LIST(stage(s, 16), stage(s, 32), stage(s, 64),
                                              ls_nn_fn(s, ls_global_avg_pool2d), ls_nn_fn(s, ls_flatten))));
    ls_module_append(net, head, ls_nn_linear(s, classes));
    return net;
}

/* Pictures first, first + 1, ..., each with the marks of its label. */
static ls_data *pictures(ls_session *s, int first, int rows, const unsigned *marks, int classes,
                         const ls_loader *loader)
{
    uint8_t *images = malloc((size_t)rows * CHANNELS * SIDE * SIDE), *labels = malloc((size_t)rows);
    for (int i = 0; images && labels && i < rows; i++) {
        labels[i] = (uint8_t)(i % classes);
        paint(first + i, marks[labels[i]], CHANNELS, SIDE, images + (size_t)i * CHANNELS * SIDE * SIDE, NULL);
    }
    ls_data *data = ls_data_from_memory(s, images, labels, rows, CHANNELS, SIDE, SIDE, classes, loader);
    free(images);
    free(labels);
    return data;
}

static ls_tensor *loss(ls_module *net, const ls_batch *b)
{
    return ls_cross_entropy(ls_module_forward(net, b->X), b->y);
}

/* The stem's BatchNorms rest too. */
static void freeze(ls_module *net, bool frozen)
{
    ls_module_freeze(net, "stem.*", frozen);
}

static void rates(ls_trainer *trainer)
{
    ls_trainer_set_group(trainer, "pair.*", &(ls_param_group){.lr = 10});
}

/* Its trainer ends with it, so that more or less of the network may be frozen afterwards. */
static void train(ls_module *net, ls_data *data, ls_data *test, int epochs, double lr, void (*groups)(ls_trainer *))
{
    ls_session *s = ls_session_of(net);
    const int scope = ls_enter(s);
    ls_trainer *trainer = ls_trainer_new(net, LS_ADAMW, &(ls_optim){.lr = lr, .weight_decay = 0.01});
    if (groups)
        groups(trainer);
    for (int epoch = 0; epoch < epochs && !ls_failed(s); epoch++) {
        for (ls_batch b; ls_data_next(data, &b);) {
            ls_backward(loss(net, &b));
            ls_trainer_step(trainer);
        }
        printf("epoch %d: test acc %.3f\n", epoch + 1, ls_module_accuracy(net, test));
    }
    ls_leave(s, scope);
}

int main(int argc, char **argv)
{
    int epochs = 8, rows = 2000;
    const char *first_path = "marks.safetensors", *path = "transfer.safetensors", *report = NULL;
    const argument list[] = {{"EPOCHS", .count = &epochs},
                             {"IMAGES", .count = &rows},
                             {"FIRST", .text = &first_path},
                             {"FILE", .text = &path}};
    read_arguments(argc, argv,
                   "Transfer: EPOCHS (8) over IMAGES (2000) with a mark each, then twice as many over a tenth of them "
                   "with two.\nIt writes the weights to FIRST (marks.safetensors) and FILE (transfer.safetensors).",
                   list, 4);
    ls_session *s = ls_open(NULL);
    const ls_loader how = {.batch = 32, .shuffle = true};
    ls_data *many = pictures(s, 0, rows, alone, KINDS, &how), *test = pictures(s, rows, TEST, alone, KINDS, NULL);
    ls_module *net = network(s, "mark", KINDS);
    ls_module_initialize(net, ls_all_devices(s), &(ls_init){.kind = LS_HE, .like = many});
    puts("one mark");
    train(net, many, test, epochs, 0.005, NULL);
    ls_module_save(net, first_path);

    const int fewer = (rows + FEWER - 1) / FEWER, from = rows + TEST;
    ls_data *few = pictures(s, from, fewer, pairs, PAIRS, &how);
    test = pictures(s, from + fewer, TEST, pairs, PAIRS, NULL);
    net = network(s, "pair", PAIRS);
    ls_module_initialize(net, ls_all_devices(s), &(ls_init){.like = few}); /* the head; the stem is read */
    if (ls_module_load_with(net, first_path, &(ls_load_options){.partial = true}, &report) == LS_OK)
        puts(report);
    puts("two marks, by the head");
    freeze(net, true);
    train(net, few, test, epochs, 0.005, NULL);
    puts("two marks, by everything");
    freeze(net, false);
    train(net, few, test, epochs, 0.0005, rates);
    ls_module_save(net, path); /* the names are those of transfer.py */
    if (ls_failed(s))          /* the first failure, wherever it was */
        fprintf(stderr, "transfer: %s\n", ls_message(s));
    return ls_close(s) == LS_OK ? 0 : 1;
}
