/* An LSTM that says how a point moves, from series of places of different lengths: behind its last place each series is
 * filled with zeros that do not count. lstm.py beside it is the same in PyTorch.
 * lstm [EPOCHS [SERIES [FILE]]] */
#include "../arguments.h"
#include "synthetic.h"
#include <lockstep.h>
#include <lockstep_data.h>
#include <lockstep_nn.h>
#include <stdio.h>

enum { TOKENS = 32, SHORTEST = 12, FEATURES = 2, WAYS = 3, TEST = 400 };

static ls_tensor *forward(ls_module *self, ls_tensor *x)
{
    ls_tensor *lengths = ls_module_input(self, 1);
    return ls_module_call(self, "out", ls_module_call_with_lengths(self, "lstm", x, lengths));
}

static ls_module *network(ls_session *s)
{
    ls_module *net = ls_block(s, forward, NULL);
    ls_module_append(net, "lstm", ls_nn_lstm_with(s, 24, &(ls_recurrent_options){.bidirectional = true, .last = true}));
    ls_module_append(net, "out", ls_nn_linear(s, WAYS));
    return net;
}

/* Series first, first + 1, ... with their lengths as a second input. */
static ls_data *series(ls_session *s, int first, int rows, const ls_loader *loader)
{
    float *places = malloc((size_t)rows * TOKENS * FEATURES * sizeof *places);
    float *lengths = malloc((size_t)rows * sizeof *lengths);
    int32_t *ways = malloc((size_t)rows * sizeof *ways);
    for (int i = 0; places && lengths && ways && i < rows; i++) {
        const int length = SHORTEST + (int)(draw((unsigned)(first + i), 3) % (TOKENS - SHORTEST + 1));
        ways[i] = move(first + i, TOKENS, length, places + (size_t)i * TOKENS * FEATURES);
        lengths[i] = (float)length;
    }
    ls_data *data = ls_data_from_floats(s, places, LS_SHAPE(rows, TOKENS, FEATURES), loader);
    ls_data_add_input(data, lengths, LS_SHAPE(rows));
    ls_data_set_labels(data, ways, rows, WAYS);
    free(places);
    free(lengths);
    free(ways);
    return data;
}

static ls_tensor *loss(ls_module *net, const ls_batch *b)
{
    return ls_cross_entropy(ls_module_forward_all(net, b->inputs, b->n_inputs), b->y);
}

int main(int argc, char **argv)
{
    int epochs = 8, rows = 2000;
    const char *path = "lstm.safetensors";
    read_arguments(argc, argv,
                   "An LSTM: EPOCHS (8) over SERIES (2000) of different lengths. It writes the weights to FILE "
                   "(lstm.safetensors).",
                   (argument[]){{"EPOCHS", .count = &epochs}, {"SERIES", .count = &rows}, {"FILE", .text = &path}}, 3);
    ls_session *s = ls_open(NULL);
    ls_data *train = series(s, 0, rows, &(ls_loader){.batch = 64, .shuffle = true});
    ls_data *test = series(s, rows, TEST, NULL);
    ls_module *net = network(s);
    ls_module_initialize(net, ls_all_devices(s), &(ls_init){.kind = LS_XAVIER, .like = train});
    ls_trainer *trainer = ls_trainer_new(net, LS_ADAM, &(ls_optim){.lr = 0.005, .clip_norm = 1});
    for (int epoch = 0; epoch < epochs && !ls_failed(s); epoch++) {
        for (ls_batch b; ls_data_next(train, &b);) {
            ls_backward(loss(net, &b));
            ls_trainer_step(trainer);
        }
        printf("epoch %d: test acc %.3f\n", epoch + 1, ls_module_accuracy(net, test));
    }
    ls_module_save(net, path); /* the names are those of lstm.py */
    if (ls_failed(s))          /* the first failure, wherever it was */
        fprintf(stderr, "lstm: %s\n", ls_message(s));
    return ls_close(s) == LS_OK ? 0 : 1;
}
