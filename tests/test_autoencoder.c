/* The example of this name, as it is. */
#define main autoencoder_main
int autoencoder_main(int argc, char **argv);
#include "../examples/networks/autoencoder.c"
#undef main

#include "example_network.h"

static ls_data *rows(ls_session *s, const ls_loader *loader)
{
    return pictures(s, 7, EXAMPLE_ROWS, loader);
}

int main(int argc, char **argv)
{
    return example_main(&(example){"autoencoder", network, rows, loss, NULL, NULL}, argc, argv);
}
