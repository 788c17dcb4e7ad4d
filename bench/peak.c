/* The rate of fused multiply-adds of one core: independent chains in registers, nothing else. */
#include "device/cpu/lanes/lanes.h"

/* Returns a number that depends on all chains; `count` rounds of 8 of them, LS_VL lanes each. */
float LANES(bench_chains)(long count);
int LANES(bench_lanes)(void);

float LANES(bench_chains)(long count)
{
    vf acc[8];
    const vf a = vf_set(0.999f), b = vf_set(0.001f);
    float sum = 0.0f, lane[LS_VL];
    LS_UNROLL
    for (int i = 0; i < 8; i++)
        acc[i] = vf_set((float)i);
    for (long k = 0; k < count; k++) {
        LS_UNROLL
        for (int i = 0; i < 8; i++)
            acc[i] = vf_fma(acc[i], a, b);
    }
    LS_UNROLL
    for (int i = 0; i < 8; i++) {
        vf_store(lane, acc[i]);
        sum += lane[0];
    }
    return sum;
}

int LANES(bench_lanes)(void)
{
    return LS_VL;
}
