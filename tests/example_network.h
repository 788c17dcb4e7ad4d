/* What a network of examples/networks is held to: PyTorch's steps, one fingerprint, a model for onnxruntime. */
#ifndef TEST_EXAMPLE_NETWORK_H
#define TEST_EXAMPLE_NETWORK_H

#include <lockstep_nn.h>

enum { EXAMPLE_ROWS = 40 };

/* An example's functions, which are those of its program. */
typedef struct example {
    const char *name;
    ls_module *(*network)(ls_session *s);
    ls_data *(*rows)(ls_session *s,
                     const ls_loader *loader); /* EXAMPLE_ROWS, as tests/reference/make_networks.py has them */
    ls_tensor *(*loss)(ls_module *net, const ls_batch *b);
    void (*groups)(ls_trainer *trainer); /* of parameters with other rates; may be NULL */
    const char *refused;                 /* on cards, in a message with these words; NULL: nothing */
} example;

/* Runs its cases, with "cards" as the first argument those on a card; with a folder it writes there the example's
 * model, weights, inputs and outputs instead. */
int example_main(const example *e, int argc, char **argv);

#endif
