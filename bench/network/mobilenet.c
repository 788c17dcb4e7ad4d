/* The example's network in the size of the paper and of torchvision, but without dropout. */
#define main mobilenet_main
int mobilenet_main(int argc, char **argv);
#include "../../examples/networks/mobilenet.c"
#undef main

#include "network.h"

static ls_module *paper_size(ls_session *s)
{
    return mobilenet(s, &(mobilenet_size){.stem = 32,
                                          .stem_stride = 2,
                                          .stages = {{1, 16, 1, 1},
                                                     {6, 24, 2, 2},
                                                     {6, 32, 3, 2},
                                                     {6, 64, 4, 2},
                                                     {6, 96, 3, 1},
                                                     {6, 160, 3, 2},
                                                     {6, 320, 1, 1}},
                                          .last = 1280,
                                          .classes = 1000});
}

const bench_network bench_mobilenet_96 = {.name = "mobilenet-96",
                                          .build = paper_size,
                                          .loss = loss,
                                          .row = {3, {CHANNELS, 96, 96}},
                                          .classes = 1000,
                                          .batch = 64,
                                          .shard = 32,
                                          .init = {.kind = LS_HE},
                                          .trains = true,
                                          .infers = true};
