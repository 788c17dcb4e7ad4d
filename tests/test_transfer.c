/* The example of this name, as it is: with its groups, and with its frozen stem. */
#define main transfer_main
int transfer_main(int argc, char **argv);
#include "../examples/networks/transfer.c"
#undef main

#include "example_network.h"

static ls_data *rows(ls_session *s, const ls_loader *loader)
{
    return pictures(s, 7, EXAMPLE_ROWS, pairs, PAIRS, loader);
}

static ls_module *second(ls_session *s)
{
    return network(s, "pair", PAIRS);
}

static ls_module *resting(ls_session *s)
{
    ls_module *net = second(s);
    freeze(net, true);
    return net;
}

int main(int argc, char **argv)
{
    const example frozen = {"transfer_frozen", resting, rows, loss, NULL, NULL};
    const int failed = example_main(&(example){"transfer", second, rows, loss, rates, NULL}, argc, argv);
    const bool writes = argc > 1 && strcmp(argv[1], "cards") != 0;
    return failed || writes ? failed : example_main(&frozen, argc, argv);
}
