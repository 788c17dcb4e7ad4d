/* The example of this name, as it is. */
#define main lstm_main
int lstm_main(int argc, char **argv);
#include "../examples/networks/lstm.c"
#undef main

#include "example_network.h"

static ls_data *rows(ls_session *s, const ls_loader *loader)
{
    return series(s, 7, EXAMPLE_ROWS, loader);
}

int main(int argc, char **argv)
{
    return example_main(&(example){"lstm", network, rows, loss, NULL, NULL}, argc, argv);
}
