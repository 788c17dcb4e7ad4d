/* The example of this name, as it is. */
#define main multilabel_main
int multilabel_main(int argc, char **argv);
#include "../examples/networks/multilabel.c"
#undef main

#include "example_network.h"

static ls_data *rows(ls_session *s, const ls_loader *loader)
{
    return pictures(s, 7, EXAMPLE_ROWS, loader);
}

int main(int argc, char **argv)
{
    return example_main(&(example){"multilabel", network, rows, loss, NULL, "not with class_weights, positive_weights"},
                        argc, argv);
}
