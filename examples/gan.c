/* A GAN on Fashion-MNIST: two networks, two trainers, one session, on two devices. gan.py beside it is the same in
 * PyTorch. gan [EPOCHS [IMAGES [FILE]]] */
#include "arguments.h"
#include <lockstep.h>
#include <lockstep_nn.h>
#include <lockstep_train.h>
#include <stdio.h>

enum { NOISE = 32, BATCH = 128, SIDE = 28 };

static ls_tensor *to_maps(ls_tensor *x)
{
    return ls_reshape(x, 16, SIDE / 4, SIDE / 4);
}

static const ls_conv twice = {.stride = 2, .padding = 1}; /* as large, or half as large */

static ls_module *generator(ls_session *s)
{
    return ls_sequential(s, LS_LIST(ls_nn_linear(s, 16 * SIDE / 4 * SIDE / 4), ls_nn_fn(s, to_maps),
                                    ls_nn_fn(s, ls_relu), ls_nn_conv_transpose2d(s, 8, 4, &twice), ls_nn_fn(s, ls_relu),
                                    ls_nn_conv_transpose2d(s, 1, 4, &twice), ls_nn_fn(s, ls_sigmoid)));
}

static ls_module *discriminator(ls_session *s)
{
    return ls_sequential(s, LS_LIST(ls_nn_conv2d(s, 8, 4, &twice), ls_nn_fn_with(s, ls_leaky_relu, 0.2),
                                    ls_nn_conv2d(s, 16, 4, &twice), ls_nn_fn_with(s, ls_leaky_relu, 0.2),
                                    ls_nn_fn(s, ls_flatten), ls_nn_linear(s, 1)));
}

/* The losses of images that D is to take for real, 1, or for made, 0. */
static ls_tensor *judged(ls_module *D, ls_tensor *images, double real)
{
    ls_tensor *logits = ls_module_forward(D, images);
    return ls_bce(logits, ls_full(ls_session_of(images), real, LS_SHAPE(ls_rows(images), 1)), NULL);
}

/* By its step and place alone: the same in each run, on whatever devices. */
static ls_tensor *noise(ls_session *s, int step, int64_t rows)
{
    char key[32];
    snprintf(key, sizeof key, "noise of step %d", step);
    return ls_randn(s, key, 1, LS_SHAPE(rows, NOISE));
}

static void take_step(ls_module *G, ls_module *D, ls_trainer *g, ls_trainer *d, ls_tensor *images, ls_tensor *z)
{
    ls_tensor *made = ls_module_forward(G, z);
    ls_backward(judged(D, images, 1));
    ls_backward(judged(D, ls_detach(made), 0)); /* nothing of this is G's */
    ls_trainer_step(d);
    ls_backward_for(judged(D, made, 1), &G, 1); /* through the D of now, whose gradient is dropped */
    ls_trainer_step(g);
}

static double mean_loss(ls_trainer *trainer) /* of the steps since the last call */
{
    double sum = 0;
    int n = 0;
    for (ls_report r; ls_trainer_next_report(trainer, &r); n++)
        sum += r.loss;
    return n ? sum / n : 0;
}

static void draw(ls_tensor *image)
{
    float pixels[SIDE * SIDE] = {0};
    ls_read(image, pixels, SIDE * SIDE);
    for (int y = 0; y < SIDE; y += 2, putchar('\n'))
        for (int x = 0; x < SIDE; x++)
            putchar(" .:-=+*#%@"[(int)(pixels[y * SIDE + x] * 9.99F)]);
}

int main(int argc, char **argv)
{
    int epochs = 3, images = 20000, step = 0;
    const char *path = "gan.safetensors";
    const argument list[] = {{"EPOCHS", .count = &epochs}, {"IMAGES", .count = &images}, {"FILE", .text = &path}};
    read_arguments(argc, argv,
                   "A GAN on Fashion-MNIST: EPOCHS (3) over the first IMAGES (20000). It writes the generator's "
                   "weights to FILE (gan.safetensors).",
                   list, 3);
    ls_session *s = ls_open(NULL);
    ls_data *data = ls_data_fashion_mnist(s, LS_TRAIN, &(ls_loader){.batch = BATCH, .shuffle = true, .limit = images});
    ls_module *G = generator(s), *D = discriminator(s);
    const ls_init start = {.kind = LS_NORMAL, .scale = 0.02};
    const ls_optim adam = {.lr = 0.001, .beta1 = 0.5};
    ls_module_initialize(G, ls_try_devices(s, 2), &start);
    ls_module_initialize(D, ls_try_devices(s, 2), &start);
    ls_trainer *g = ls_trainer_new(G, LS_ADAM, &adam), *d = ls_trainer_new(D, LS_ADAM, &adam);
    for (int epoch = 0; epoch < epochs && !ls_failed(s); epoch++) {
        for (ls_batch b; ls_data_next(data, &b); step++)
            take_step(G, D, g, d, b.X, noise(s, step, ls_rows(b.X)));
        ls_wait(s);
        const double of_d = mean_loss(d), of_g = mean_loss(g);
        printf("epoch %d: loss of D %.3f, of G %.3f\n", epoch + 1, of_d, of_g);
    }
    draw(ls_row(ls_clone(ls_module_infer(G, noise(s, 0, 1)), ls_host()), 0));
    if (ls_module_save(G, path) == LS_OK)
        fprintf(stderr, "wrote %s: the generator's weights\n", path);
    if (ls_failed(s))
        fprintf(stderr, "gan: %s\n", ls_message(s));
    return ls_close(s) == LS_OK ? 0 : 1;
}
