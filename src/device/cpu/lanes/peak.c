/* The rate of fused multiply-adds of one core: independent chains in registers, nothing else. */
#include "device/cpu/lanes/lanes.h"
#include "device/cpu/lanes/table.h"

static float chains(long rounds)
{
    vf acc[LS_CHAINS];
    const vf a = vf_set(0.999f), b = vf_set(0.001f);
    float sum = 0.0f, lane[LS_VL];
    LS_UNROLL
    for (int i = 0; i < LS_CHAINS; i++)
        acc[i] = vf_set((float)i);
    for (long k = 0; k < rounds; k++) {
        LS_UNROLL
        for (int i = 0; i < LS_CHAINS; i++)
            acc[i] = vf_fma(acc[i], a, b);
    }
    LS_UNROLL
    for (int i = 0; i < LS_CHAINS; i++) {
        vf_store(lane, acc[i]);
        sum += lane[0];
    }
    return sum;
}

void LANES(ls_lanes_add_peak)(ls_backend *backend)
{
    backend->chains = chains;
    backend->lanes = LS_VL;
}
