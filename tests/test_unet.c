/* The example of this name, as it is. */
#define main unet_main
int unet_main(int argc, char **argv);
#include "../examples/networks/unet.c"
#undef main

#include "example_network.h"

static ls_data *rows(ls_session *s, const ls_loader *loader)
{
    return pictures(s, 7, EXAMPLE_ROWS, loader);
}

int main(int argc, char **argv)
{
    return example_main(&(example){"unet", network, rows, loss, NULL, NULL}, argc, argv);
}
