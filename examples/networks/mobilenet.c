/* MobileNetV2 (Sandler and others, arXiv 1801.04381), small, on pictures of 32 x 32: inverted residuals and depthwise
 * convolutions, with torchvision's names. mobilenet.py beside it is the same in PyTorch.
 * mobilenet [EPOCHS [IMAGES [FILE]]] */
#include "../arguments.h"
#include "synthetic.h"
#include <lockstep.h>
#include <lockstep_nn.h>
#include <stdio.h>

enum { SIDE = 32, CHANNELS = 3, TEST = 400 };

static ls_tensor *relu6(ls_tensor *x)
{
    return ls_clamp(x, 0, 6);
}

static ls_module *conv_bn_relu6(ls_session *s, int channels, int kernel, int stride, int groups)
{
    const ls_conv how = {.padding = kernel / 2, .stride = stride, .groups = groups, .no_bias = true};
    return ls_sequential(s, LS_LIST(ls_nn_conv2d(s, channels, kernel, &how), ls_nn_batch_norm(s), ls_nn_fn(s, relu6)));
}

static ls_tensor *residual(ls_module *self, ls_tensor *x)
{
    return ls_add(x, ls_module_call(self, "conv", x));
}

static ls_tensor *plain(ls_module *self, ls_tensor *x)
{
    return ls_module_call(self, "conv", x);
}

static ls_module *inverted_residual(ls_session *s, int inputs, int channels, int stride, int expand)
{
    const int hidden = inputs * expand;
    ls_module *conv = ls_sequential(s, NULL);
    if (expand > 1)
        ls_module_append(conv, NULL, conv_bn_relu6(s, hidden, 1, 1, 1));
    ls_module_append(conv, NULL, conv_bn_relu6(s, hidden, 3, stride, hidden)); /* depthwise */
    ls_module_append(conv, NULL, ls_nn_conv2d(s, channels, 1, &(ls_conv){.no_bias = true}));
    ls_module_append(conv, NULL, ls_nn_batch_norm(s));
    ls_module *block = ls_block(s, stride == 1 && inputs == channels ? residual : plain, NULL);
    ls_module_append(block, "conv", conv);
    return block;
}

typedef struct mobilenet_size {
    int stem, stem_stride; /* channels of the first convolution, and how far its windows are apart */
    struct {
        int expand, channels, blocks, stride;
    } stages[7]; /* in the paper seven, and fewer where one has no blocks */
    int last, classes;
} mobilenet_size;

static ls_module *mobilenet(ls_session *s, const mobilenet_size *size)
{
    ls_module *features = ls_sequential(s, LS_LIST(conv_bn_relu6(s, size->stem, 3, size->stem_stride, 1)));
    for (int i = 0, inputs = size->stem; i < 7; i++)
        for (int k = 0; k < size->stages[i].blocks; k++) {
            const int channels = size->stages[i].channels, stride = k ? 1 : size->stages[i].stride;
            ls_module_append(features, NULL, inverted_residual(s, inputs, channels, stride, size->stages[i].expand));
            inputs = channels;
        }
    ls_module_append(features, NULL, conv_bn_relu6(s, size->last, 1, 1, 1));
    ls_module *net = ls_sequential(s, NULL);
    ls_module_append(net, "features", features);
    ls_module_append(net, "pool", ls_nn_fn(s, ls_global_avg_pool2d));
    ls_module_append(net, "flat", ls_nn_fn(s, ls_flatten));
    ls_module_append(net, "classifier", ls_nn_linear(s, size->classes));
    return net;
}

static ls_module *network(ls_session *s)
{
    return mobilenet(s,
                     &(mobilenet_size){16, 1, {{1, 8, 1, 1}, {6, 12, 2, 2}, {6, 16, 2, 2}, {6, 24, 1, 1}}, 64, KINDS});
}

/* Pictures first, first + 1, ... with one mark each, whose kind is the label. */
static ls_data *pictures(ls_session *s, int first, int rows, const ls_loader *loader)
{
    uint8_t *images = malloc((size_t)rows * CHANNELS * SIDE * SIDE), *labels = malloc((size_t)rows);
    for (int i = 0; images && labels && i < rows; i++) {
        labels[i] = (uint8_t)(i % KINDS);
        paint(first + i, 1U << labels[i], CHANNELS, SIDE, images + (size_t)i * CHANNELS * SIDE * SIDE, NULL);
    }
    ls_data *data = ls_data_from_memory(s, images, labels, rows, CHANNELS, SIDE, SIDE, KINDS, loader);
    free(images);
    free(labels);
    return data;
}

static ls_tensor *loss(ls_module *net, const ls_batch *b)
{
    return ls_cross_entropy(ls_module_forward(net, b->X), b->y);
}

int main(int argc, char **argv)
{
    int epochs = 8, rows = 2000;
    const char *path = "mobilenet.safetensors";
    read_arguments(argc, argv,
                   "MobileNetV2: EPOCHS (8) over IMAGES (2000). It writes the weights to FILE (mobilenet.safetensors).",
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
        printf("epoch %d: test acc %.3f\n", epoch + 1, ls_module_accuracy(net, test));
    }
    ls_module_save(net, path); /* the names are those of mobilenet.py */
    if (ls_failed(s))          /* the first failure, wherever it was */
        fprintf(stderr, "mobilenet: %s\n", ls_message(s));
    return ls_close(s) == LS_OK ? 0 : 1;
}
