/* A network of one's own on data from arrays in memory, on two devices: trained, evaluated and saved.
 * memory [EPOCHS [IMAGES [FILE]]] */
#include "arguments.h"
#include <lockstep.h>
#include <lockstep_nn.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIZE = 12, CLASSES = 4, TEST = 200 };

static void draw(uint8_t *image, uint8_t *label, unsigned i) /* noise, and a bright quarter that says the class */
{
    *label = (uint8_t)(i % CLASSES);
    for (unsigned p = 0; p < SIZE * SIZE; p++) {
        unsigned quarter = (p / SIZE >= SIZE / 2) * 2U + (p % SIZE >= SIZE / 2);
        image[p] = (uint8_t)(((i + 7) * (p + 3) * 2654435761U >> 25) + (quarter == *label ? 100 : 0));
    }
}

static ls_module *network(ls_session *s)
{
    ls_module *net = ls_sequential(s, NULL);
    ls_module_append(net, "conv", ls_nn_conv2d(s, 8, 3, &(ls_conv){.padding = 1}));
    ls_module_append(net, "norm", ls_nn_batch_norm(s));
    ls_module_append(net, "relu", ls_nn_fn(s, ls_relu));
    ls_module_append(net, "pool", ls_nn_max_pool2d(s, &(ls_pool){.kernel = 3}));
    ls_module_append(net, "flat", ls_nn_fn(s, ls_flatten));
    ls_module_append(net, "out", ls_nn_linear(s, CLASSES));
    return net;
}

int main(int argc, char **argv)
{
    int epochs = 3, rows = 2000;
    const char *path = "memory.safetensors";
    read_arguments(argc, argv,
                   "A network on data from memory: EPOCHS (3) over IMAGES (2000). It writes the weights to FILE "
                   "(memory.safetensors).",
                   (argument[]){{"EPOCHS", .count = &epochs}, {"IMAGES", .count = &rows}, {"FILE", .text = &path}}, 3);
    uint8_t *images = malloc((size_t)(rows + TEST) * SIZE * SIZE), *labels = malloc((size_t)(rows + TEST));
    for (int i = 0; images && labels && i < rows + TEST; i++)
        draw(images + (size_t)i * SIZE * SIZE, labels + i, (unsigned)i);

    ls_session *s = ls_open(NULL);
    ls_data *train = ls_data_from_memory(s, images, labels, rows, 1, SIZE, SIZE, CLASSES,
                                         &(ls_loader){.batch = 100, .shuffle = true});
    ls_data *test =
        ls_data_from_memory(s, images + (size_t)rows * SIZE * SIZE, labels + rows, TEST, 1, SIZE, SIZE, CLASSES, NULL);
    ls_module *net = network(s);
    ls_module_initialize(net, ls_try_devices(s, 2), &(ls_init){.kind = LS_HE});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1, .momentum = 0.9});
    for (int epoch = 0; epoch < epochs; epoch++)
        for (ls_batch b; ls_data_next(train, &b);) {
            ls_backward(ls_cross_entropy(ls_module_forward(net, b.X), b.y));
            ls_trainer_step(trainer);
        }
    printf("test acc: %.2f\n", ls_module_accuracy(net, test));
    if (ls_module_save(net, path) == LS_OK)
        fprintf(stderr, "wrote %s: the weights\n", path);
    if (ls_failed(s)) /* the first failure, wherever it was */
        fprintf(stderr, "memory: %s\n", ls_message(s));
    free(images);
    free(labels);
    return ls_close(s) == LS_OK ? 0 : 1;
}
