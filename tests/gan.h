/* A GAN on images of 8 x 8: two networks, each with a trainer. */
#ifndef TEST_GAN_H
#define TEST_GAN_H

#include "training.h"

enum { ROWS = 12, SIDE = 8, PIXELS = SIDE * SIDE, BATCH = 6, CODE = 4, CLASSES = 3 };

typedef struct gan {
    ls_session *s;
    ls_data *data;
    ls_module *G, *D;
    ls_trainer *g, *d;
    bool flat; /* D judges images as features */
} gan;

static inline ls_tensor *to_image(ls_tensor *x)
{
    return ls_reshape(x, 1, SIDE, SIDE);
}

static inline ls_tensor *grow(ls_module *self, ls_tensor *z)
{
    ls_tensor *x = ls_reshape(ls_module_call(self, "in", z), 3, 2, 2);
    x = ls_module_call(self, "up", ls_relu(ls_module_call(self, "norm", x)));
    return ls_tanh(ls_module_call(self, "out", ls_relu(x)));
}

static const ls_conv halves = {.stride = 2, .padding = 1};

static inline ls_module *of_convolutions(ls_session *s)
{
    ls_module *G = ls_block(s, grow, NULL);
    ls_module_append(G, "in", ls_nn_linear(s, 12));
    ls_module_append(G, "norm", ls_nn_batch_norm(s));
    ls_module_append(G, "up", ls_nn_conv_transpose2d(s, 2, 4, &halves));
    ls_module_append(G, "out", ls_nn_conv_transpose2d(s, 1, 4, &halves));
    return G;
}

static inline ls_module *leaky(ls_session *s)
{
    return ls_nn_fn_with(s, ls_leaky_relu, 0.25);
}

static inline ls_data *images_of(ls_session *s, int batch, bool shuffle)
{
    uint8_t pixels[ROWS * PIXELS], labels[ROWS];
    test_make_images(pixels, sizeof pixels, labels, ROWS, CLASSES);
    return ls_data_from_memory(s, pixels, labels, ROWS, 1, SIDE, SIDE, CLASSES,
                               &(ls_loader){.batch = batch, .shuffle = shuffle});
}

/* The losses of images that D has to take for real, or for not. */
static inline ls_tensor *judged(const gan *n, ls_tensor *x, double real)
{
    ls_tensor *y = ls_module_forward(n->D, n->flat ? ls_flatten(x) : x);
    return ls_bce(y, ls_full(n->s, real, LS_SHAPE(ls_rows(y), 1)), NULL);
}

static inline void gan_step(gan *n, ls_tensor *x, ls_tensor *z)
{
    ls_tensor *fake = ls_module_forward(n->G, z);
    ls_backward(judged(n, x, 1));
    ls_backward(judged(n, ls_detach(fake), 0));
    ls_trainer_step(n->d);
    ls_backward_for(judged(n, fake, 1), &n->G, 1);
    ls_trainer_step(n->g);
}

#endif
