/* The small network of the tests of several cards, and its images. */
#ifndef TEST_GPU_NETWORK_H
#define TEST_GPU_NETWORK_H

#include "training.h"

#include <lockstep_nn.h>

enum { SIZE = 8, ROWS = 60, BATCH = 24, CLASSES = 5, SHARD = 4 };

static inline ls_module *network_of(ls_session *s)
{
    ls_module *net = ls_sequential(
        s, LS_LIST(ls_nn_conv2d(s, 4, 3, &(ls_conv){.padding = 1}), ls_nn_batch_norm(s), ls_nn_fn(s, ls_relu)));
    ls_module_append(net, "pool", ls_nn_max_pool2d(s, &(ls_pool){.kernel = 2}));
    ls_module_append(net, "drop", ls_nn_dropout(s, 0.25));
    ls_module_append(net, "fc", ls_sequential(s, LS_LIST(ls_nn_fn(s, ls_flatten), ls_nn_linear(s, CLASSES))));
    return net;
}

static inline ls_data *images_by(ls_session *s, int batch)
{
    uint8_t pixels[ROWS * SIZE * SIZE], labels[ROWS];
    test_make_images(pixels, sizeof pixels, labels, ROWS, CLASSES);
    return ls_data_from_memory(s, pixels, labels, ROWS, 1, SIZE, SIZE, CLASSES,
                               &(ls_loader){.batch = batch, .shuffle = true});
}

static inline ls_data *images(ls_session *s)
{
    return images_by(s, BATCH);
}

#endif
