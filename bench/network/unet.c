/* The example's network, with 32 to 128 channels. */
#define main unet_main
int unet_main(int argc, char **argv);
#include "../../examples/networks/unet.c"
#undef main

#include "network.h"

static ls_module *wide(ls_session *s)
{
    return unet(s, 32);
}

const bench_network bench_unet_128 = {.name = "unet-128",
                                      .build = wide,
                                      .loss = loss,
                                      .row = {3, {1, 128, 128}},
                                      .target = {2, {128, 128}},
                                      .classes = CLASSES,
                                      .batch = 32,
                                      .shard = 16,
                                      .init = {.kind = LS_HE},
                                      .trains = true};
