/* The example of this name, as it is. */
#define main siamese_main
int siamese_main(int argc, char **argv);
#include "../examples/networks/siamese.c"
#undef main

#include "example_network.h"

static ls_data *rows(ls_session *s, const ls_loader *loader)
{
    return pairs(s, 7, EXAMPLE_ROWS, loader);
}

int main(int argc, char **argv)
{
    return example_main(&(example){"siamese", network, rows, loss, NULL, NULL}, argc, argv);
}
