/* An autoencoder: it learns to draw pictures anew from a few numbers of each. What decodes has the weights of what
 * encodes, transposed. Of the loss 0.021 is the pictures' noise, which no code holds. autoencoder.py beside it is the
 * same in PyTorch.
 * autoencoder [EPOCHS [IMAGES [FILE]]] */
#include "../arguments.h"
#include "synthetic.h"
#include <lockstep.h>
#include <lockstep_data.h>
#include <lockstep_nn.h>
#include <stdio.h>

enum { SIDE = 24, PLACES = SIDE * SIDE, MIDDLE = 128, CODE = 16, TEST = 400 };

static ls_tensor *forward(ls_module *self, ls_tensor *x)
{
    ls_tensor *outer = ls_module_parameter(self, "outer", LS_SHAPE(MIDDLE, PLACES));
    ls_tensor *inner = ls_module_parameter(self, "inner", LS_SHAPE(CODE, MIDDLE));
    ls_tensor *bias1 = ls_module_parameter(self, "bias1", LS_SHAPE(MIDDLE));
    ls_tensor *bias2 = ls_module_parameter(self, "bias2", LS_SHAPE(CODE));
    ls_tensor *bias3 = ls_module_parameter(self, "bias3", LS_SHAPE(MIDDLE));
    ls_tensor *bias4 = ls_module_parameter(self, "bias4", LS_SHAPE(PLACES));
    ls_tensor *code = ls_linear(ls_relu(ls_linear(x, outer, bias1)), inner, bias2); /* (images, code) */
    ls_tensor *y = ls_relu(ls_add(ls_matmul(code, inner), bias3));
    return ls_sigmoid(ls_add(ls_matmul(y, outer), bias4)); /* (images, places) */
}

static ls_module *network(ls_session *s)
{
    return ls_block(s, forward, NULL);
}

/* Pictures first, first + 1, ... with one mark each, as numbers from 0 to 1; the targets are the pictures. */
static ls_data *pictures(ls_session *s, int first, int rows, const ls_loader *loader)
{
    float *images = malloc((size_t)rows * PLACES * sizeof *images);
    for (int i = 0; images && i < rows; i++) {
        uint8_t bytes[PLACES];
        paint(first + i, 1U << i % KINDS, 1, SIDE, bytes, NULL);
        for (int p = 0; p < PLACES; p++)
            images[(size_t)i * PLACES + (size_t)p] = (float)bytes[p] / 255;
    }
    ls_data *data = ls_data_from_floats(s, images, LS_SHAPE(rows, PLACES), loader);
    ls_data_set_targets(data, images, LS_SHAPE(rows, PLACES));
    free(images);
    return data;
}

static ls_tensor *of_outputs(ls_tensor *outputs, ls_tensor *y, void *user)
{
    (void)user;
    return ls_mse(outputs, y);
}

static ls_tensor *loss(ls_module *net, const ls_batch *b)
{
    return of_outputs(ls_module_forward(net, b->X), b->y, NULL);
}

int main(int argc, char **argv)
{
    int epochs = 20, rows = 2000;
    const char *path = "autoencoder.safetensors";
    read_arguments(argc, argv,
                   "An autoencoder: EPOCHS (20) over IMAGES (2000). It writes the weights to FILE "
                   "(autoencoder.safetensors).",
                   (argument[]){{"EPOCHS", .count = &epochs}, {"IMAGES", .count = &rows}, {"FILE", .text = &path}}, 3);
    ls_session *s = ls_open(NULL);
    ls_data *train = pictures(s, 0, rows, &(ls_loader){.batch = 64, .shuffle = true});
    ls_data *test = pictures(s, rows, TEST, NULL);
    ls_module *net = network(s);
    ls_module_initialize(net, ls_all_devices(s), &(ls_init){.kind = LS_XAVIER, .like = train});
    ls_trainer *trainer = ls_trainer_new(net, LS_ADAM, &(ls_optim){.lr = 0.001});
    for (int epoch = 0; epoch < epochs && !ls_failed(s); epoch++) {
        for (ls_batch b; ls_data_next(train, &b);) {
            ls_backward(loss(net, &b));
            ls_trainer_step(trainer);
        }
        ls_metrics metrics = {0};
        ls_module_evaluate_with(net, test, of_outputs, NULL, &metrics);
        printf("epoch %d: test loss %.5f\n", epoch + 1, metrics.loss);
    }
    ls_module_save(net, path); /* the names are those of autoencoder.py */
    if (ls_failed(s))          /* the first failure, wherever it was */
        fprintf(stderr, "autoencoder: %s\n", ls_message(s));
    return ls_close(s) == LS_OK ? 0 : 1;
}
