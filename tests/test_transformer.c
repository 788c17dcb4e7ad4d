/* The example of this name, as it is. */
#define main transformer_main
int transformer_main(int argc, char **argv);
#include "../examples/networks/transformer.c"
#undef main

#include "example_network.h"

/* Of a text that looks like nothing. */
static ls_data *rows(ls_session *s, const ls_loader *loader)
{
    enum { LONG = TOKENS + 1 + (EXAMPLE_ROWS - 1) * STEP };
    char text[LONG];
    uint32_t x = 1;
    for (int i = 0; i < LONG; i++)
        text[i] = (char)(32 + ((x = x * 1664525u + 1013904223u) >> 24) % 90);
    return windows(s, text, LONG, loader);
}

int main(int argc, char **argv)
{
    return example_main(&(example){"transformer", network, rows, loss, NULL, NULL}, argc, argv);
}
