/* A siamese network: it says whether two pictures show the same kind of mark. One tower, with one set of weights, sees
 * each of them, and the answer comes of how far apart what it makes of them is. siamese.py beside it is the same in
 * PyTorch.
 * siamese [EPOCHS [PAIRS [FILE]]] */
#include "../arguments.h"
#include "synthetic.h"
#include <lockstep.h>
#include <lockstep_data.h>
#include <lockstep_nn.h>
#include <stdio.h>

enum { SIDE = 24, PLACES = SIDE * SIDE, TEST = 400 };

static ls_module *stage(ls_session *s, int channels)
{
    return ls_sequential(s, LS_LIST(ls_nn_conv2d(s, channels, 3, &(ls_conv){.padding = 1, .no_bias = true}),
                                    ls_nn_batch_norm(s), ls_nn_fn(s, ls_relu),
                                    ls_nn_max_pool2d(s, &(ls_pool){.kernel = 2})));
}

static ls_tensor *forward(ls_module *self, ls_tensor *left)
{
    ls_tensor *a = ls_module_call(self, "tower", left);
    ls_tensor *b = ls_module_call(self, "tower", ls_module_input(self, 1));
    return ls_module_call(self, "head", ls_power(ls_subtract(a, b), 2)); /* (images, 1) */
}

static ls_module *network(ls_session *s)
{
    ls_module *net = ls_block(s, forward, NULL);
    ls_module_append(net, "tower",
                     ls_sequential(s, LS_LIST(stage(s, 16), stage(s, 32), stage(s, 32),
                                              ls_nn_fn(s, ls_global_avg_pool2d), ls_nn_fn(s, ls_flatten))));
    ls_module_append(net, "head", ls_nn_linear(s, 1));
    return net;
}

static void picture(int i, int kind, float *to)
{
    uint8_t bytes[PLACES];
    paint(i, 1U << kind, 1, SIDE, bytes, NULL);
    for (int p = 0; p < PLACES; p++)
        to[p] = (float)bytes[p] / 255;
}

/* Pairs first, first + 1, ..., the right pictures as a second input; the target is 1 where both marks are of a kind. */
static ls_data *pairs(ls_session *s, int first, int rows, const ls_loader *loader)
{
    float *left = malloc((size_t)rows * PLACES * sizeof *left), *right = malloc((size_t)rows * PLACES * sizeof *right);
    float *same = malloc((size_t)rows * sizeof *same);
    for (int i = 0; left && right && same && i < rows; i++) {
        const int turn = i / KINDS % 6; /* three times the same kind, then once each of the others */
        same[i] = turn < 3;
        picture(2 * (first + i), i % KINDS, left + (size_t)i * PLACES);
        picture(2 * (first + i) + 1, (i + (turn < 3 ? 0 : turn - 2)) % KINDS, right + (size_t)i * PLACES);
    }
    ls_data *data = ls_data_from_floats(s, left, LS_SHAPE(rows, 1, SIDE, SIDE), loader);
    ls_data_add_input(data, right, LS_SHAPE(rows, 1, SIDE, SIDE));
    ls_data_set_targets(data, same, LS_SHAPE(rows, 1));
    free(left);
    free(right);
    free(same);
    return data;
}

static ls_tensor *loss(ls_module *net, const ls_batch *b)
{
    return ls_bce(ls_module_forward_all(net, b->inputs, b->n_inputs), b->y, NULL);
}

/* 1 where the answer is wrong, else 0: a logit above 0 says that the kinds are the same. */
static ls_tensor *wrong(ls_tensor *logits, ls_tensor *y, void *user)
{
    (void)user;
    return ls_abs(ls_subtract(ls_clamp(ls_scale(logits, 1e9), 0, 1), y));
}

int main(int argc, char **argv)
{
    int epochs = 5, rows = 8000;
    const char *path = "siamese.safetensors";
    read_arguments(argc, argv,
                   "A siamese network: EPOCHS (5) over PAIRS (8000) of pictures. It writes the weights to FILE "
                   "(siamese.safetensors).",
                   (argument[]){{"EPOCHS", .count = &epochs}, {"PAIRS", .count = &rows}, {"FILE", .text = &path}}, 3);
    ls_session *s = ls_open(NULL);
    ls_data *train = pairs(s, 0, rows, &(ls_loader){.batch = 64, .shuffle = true});
    ls_data *test = pairs(s, rows, TEST, NULL);
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
        double of = 0;
        ls_module_measure(net, test, wrong, NULL, &of, 1);
        printf("epoch %d: test acc %.3f\n", epoch + 1, 1 - of);
    }
    ls_module_save(net, path); /* the names are those of siamese.py */
    if (ls_failed(s))          /* the first failure, wherever it was */
        fprintf(stderr, "siamese: %s\n", ls_message(s));
    return ls_close(s) == LS_OK ? 0 : 1;
}
