/* Pictures with several labels at once: which marks are on a picture, each with a probability of its own.
 * multilabel.py beside it is the same in PyTorch.
 * multilabel [EPOCHS [IMAGES [FILE]]] */
#include "../arguments.h"
#include "synthetic.h"
#include <lockstep.h>
#include <lockstep_data.h>
#include <lockstep_nn.h>
#include <stdio.h>

enum { SIDE = 24, CHANNELS = 3, TEST = 400 };

static ls_module *stage(ls_session *s, int channels)
{
    return ls_sequential(s, LS_LIST(ls_nn_conv2d(s, channels, 3, &(ls_conv){.padding = 1, .no_bias = true}),
                                    ls_nn_batch_norm(s), ls_nn_fn(s, ls_relu),
                                    ls_nn_max_pool2d(s, &(ls_pool){.kernel = 2})));
}

static ls_module *network(ls_session *s)
{
    return ls_sequential(s, LS_LIST(stage(s, 16), stage(s, 32), stage(s, 64), ls_nn_fn(s, ls_global_avg_pool2d),
                                    ls_nn_fn(s, ls_flatten), ls_nn_linear(s, KINDS)));
}

/* Pictures first, first + 1, ...; the targets are 1 for each kind of mark that is there, else 0. */
static ls_data *pictures(ls_session *s, int first, int rows, const ls_loader *loader)
{
    uint8_t *images = malloc((size_t)rows * CHANNELS * SIDE * SIDE);
    float *there = malloc((size_t)rows * KINDS * sizeof *there);
    for (int i = 0; images && there && i < rows; i++) {
        paint(first + i, (unsigned)i % 16, CHANNELS, SIDE, images + (size_t)i * CHANNELS * SIDE * SIDE, NULL);
        for (int k = 0; k < KINDS; k++)
            there[i * KINDS + k] = (float)(i >> k & 1);
    }
    ls_data *data = ls_data_from_memory(s, images, NULL, rows, CHANNELS, SIDE, SIDE, 0, loader);
    ls_data_set_targets(data, there, LS_SHAPE(rows, KINDS));
    free(images);
    free(there);
    return data;
}

static ls_tensor *loss(ls_module *net, const ls_batch *b)
{
    const double more[] = {1, 1, 2, 2}; /* a cross or a ring that is not seen counts twice */
    return ls_bce(ls_module_forward(net, b->X), b->y, &(ls_loss){.positive_weights = more});
}

/* 1 for each kind that is wrongly said to be there or not, else 0: a logit above 0 says that it is. */
static ls_tensor *wrong(ls_tensor *logits, ls_tensor *y, void *user)
{
    (void)user;
    return ls_abs(ls_subtract(ls_clamp(ls_scale(logits, 1e9), 0, 1), y));
}

int main(int argc, char **argv)
{
    int epochs = 15, rows = 2000;
    const char *path = "multilabel.safetensors";
    read_arguments(argc, argv,
                   "Several labels at once: EPOCHS (15) over IMAGES (2000). It writes the weights to FILE "
                   "(multilabel.safetensors).",
                   (argument[]){{"EPOCHS", .count = &epochs}, {"IMAGES", .count = &rows}, {"FILE", .text = &path}}, 3);
    ls_session *s = ls_open(NULL);
    ls_data *train = pictures(s, 0, rows, &(ls_loader){.batch = 64, .shuffle = true});
    ls_data *test = pictures(s, rows, TEST, NULL);
    ls_module *net = network(s);
    ls_module_initialize(net, ls_all_devices(s), &(ls_init){.kind = LS_HE, .like = train});
    const ls_optim how = {
        .lr = 0.005, .weight_decay = 0.01, .schedule = LS_COSINE, .total = (int64_t)epochs * ls_data_batches(train)};
    ls_trainer *trainer = ls_trainer_new(net, LS_ADAMW, &how);
    for (int epoch = 0; epoch < epochs && !ls_failed(s); epoch++) {
        for (ls_batch b; ls_data_next(train, &b);) {
            ls_backward(loss(net, &b));
            ls_trainer_step(trainer);
        }
        double of[KINDS] = {0};
        ls_module_measure(net, test, wrong, NULL, of, KINDS);
        printf("epoch %d: test acc %.3f %.3f %.3f %.3f\n", epoch + 1, 1 - of[0], 1 - of[1], 1 - of[2], 1 - of[3]);
    }
    ls_module_save(net, path); /* the names are those of multilabel.py */
    if (ls_failed(s))          /* the first failure, wherever it was */
        fprintf(stderr, "multilabel: %s\n", ls_message(s));
    return ls_close(s) == LS_OK ? 0 : 1;
}
