/* The example's network, with four layers of 256 features, over 256 tokens. */
#define main transformer_main
int transformer_main(int argc, char **argv);
#include "../../examples/networks/transformer.c"
#undef main

#include "network.h"

enum { LONG = 256 };

static ls_module *deep(ls_session *s)
{
    static transformer_size size = {.tokens = LONG, .features = 256, .heads = 4, .layers = 4};
    return transformer(s, &size);
}

const bench_network bench_transformer_256 = {.name = "transformer-256",
                                             .build = deep,
                                             .loss = loss,
                                             .row = {1, {LONG}},
                                             .symbols = SYMBOLS,
                                             .target = {1, {LONG}},
                                             .classes = SYMBOLS,
                                             .batch = 32,
                                             .shard = 16,
                                             .init = {.scale = 0.05},
                                             .trains = true};
