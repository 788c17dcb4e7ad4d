/* A U-Net (Ronneberger and others, arXiv 1505.04597), small: it says for each place of a picture which mark is there.
 * unet.py beside it is the same in PyTorch.
 * unet [EPOCHS [IMAGES [FILE]]] */
#include "../arguments.h"
#include "synthetic.h"
#include <lockstep.h>
#include <lockstep_data.h>
#include <lockstep_nn.h>
#include <stdio.h>

enum { SIDE = 32, PLACES = SIDE * SIDE, CLASSES = KINDS + 1, TEST = 200 };

static ls_module *two_convolutions(ls_session *s, int channels)
{
    const ls_conv same = {.padding = 1, .no_bias = true};
    return ls_sequential(s, LS_LIST(ls_nn_conv2d(s, channels, 3, &same), ls_nn_batch_norm(s), ls_nn_fn(s, ls_relu),
                                    ls_nn_conv2d(s, channels, 3, &same), ls_nn_batch_norm(s), ls_nn_fn(s, ls_relu)));
}

static ls_tensor *up(ls_module *self, const char *name, ls_tensor *x, ls_tensor *beside)
{
    return ls_concat((ls_tensor *[]){beside, ls_module_call(self, name, x)}, 2); /* channel after channel */
}

static ls_tensor *forward(ls_module *self, ls_tensor *x)
{
    const ls_pool halve = {.kernel = 2};
    ls_tensor *large = ls_module_call(self, "down1", x);
    ls_tensor *middle = ls_module_call(self, "down2", ls_max_pool2d(large, &halve));
    ls_tensor *small = ls_module_call(self, "bottom", ls_max_pool2d(middle, &halve));
    ls_tensor *y = ls_module_call(self, "right2", up(self, "up2", small, middle));
    y = ls_module_call(self, "right1", up(self, "up1", y, large));
    return ls_module_call(self, "out", y); /* (images, classes, height, width) */
}

static ls_module *unet(ls_session *s, int channels) /* of the largest maps */
{
    const ls_conv twice = {.stride = 2};
    ls_module *net = ls_block(s, forward, NULL);
    ls_module_append(net, "down1", two_convolutions(s, channels));
    ls_module_append(net, "down2", two_convolutions(s, 2 * channels));
    ls_module_append(net, "bottom", two_convolutions(s, 4 * channels));
    ls_module_append(net, "up2", ls_nn_conv_transpose2d(s, 2 * channels, 2, &twice));
    ls_module_append(net, "right2", two_convolutions(s, 2 * channels));
    ls_module_append(net, "up1", ls_nn_conv_transpose2d(s, channels, 2, &twice));
    ls_module_append(net, "right1", two_convolutions(s, channels));
    ls_module_append(net, "out", ls_nn_conv2d(s, CLASSES, 1, NULL));
    return net;
}

static ls_module *network(ls_session *s)
{
    return unet(s, 8);
}

/* Pictures first, first + 1, ... with some marks each; the targets are a label for each place. */
static ls_data *pictures(ls_session *s, int first, int rows, const ls_loader *loader)
{
    uint8_t *images = malloc((size_t)rows * PLACES);
    float *places = malloc((size_t)rows * PLACES * sizeof *places);
    for (int i = 0; images && places && i < rows; i++)
        paint(first + i, 1U + (unsigned)i % 15, 1, SIDE, images + (size_t)i * PLACES, places + (size_t)i * PLACES);
    ls_data *data = ls_data_from_memory(s, images, NULL, rows, 1, SIDE, SIDE, 0, loader);
    ls_data_set_targets(data, places, LS_SHAPE(rows, SIDE, SIDE));
    free(images);
    free(places);
    return data;
}

static ls_tensor *loss(ls_module *net, const ls_batch *b)
{
    return ls_cross_entropy(ls_module_forward(net, b->X), b->y);
}

int main(int argc, char **argv)
{
    int epochs = 10, rows = 1000;
    const char *path = "unet.safetensors";
    read_arguments(argc, argv,
                   "A U-Net: EPOCHS (10) over IMAGES (1000). It writes the weights to FILE (unet.safetensors).",
                   (argument[]){{"EPOCHS", .count = &epochs}, {"IMAGES", .count = &rows}, {"FILE", .text = &path}}, 3);
    ls_session *s = ls_open(NULL);
    ls_data *train = pictures(s, 0, rows, &(ls_loader){.batch = 32, .shuffle = true});
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
        ls_metrics metrics = {0};
        ls_module_evaluate(net, test, &metrics);
        printf("epoch %d: test loss %.4f a place\n", epoch + 1, metrics.loss);
    }
    ls_module_save(net, path); /* the names are those of unet.py */
    if (ls_failed(s))          /* the first failure, wherever it was */
        fprintf(stderr, "unet: %s\n", ls_message(s));
    return ls_close(s) == LS_OK ? 0 : 1;
}
