#include "device/cpu/speed.h"

#include <math.h>
#include <string.h>

#include "base/timer.h"

enum { PEAK_RUNS = 9, BANDWIDTH_RUNS = 5 };

double ls_cpu_peak(const ls_backend *backend)
{
    if (!backend->chains)
        return 0.0;
    const long rounds = backend->lanes > 1 ? 4000000 : 400000;
    volatile float keep = 0.0f; /* the chains are for nothing else */
    double best = INFINITY;
    for (int run = 0; run < PEAK_RUNS; run++) {
        const double begin = ls_thread_seconds();
        keep = keep + backend->chains(rounds);
        best = fmin(best, ls_thread_seconds() - begin);
    }
    return (double)rounds * LS_CHAINS * 2.0 * backend->lanes / best;
}

double ls_cpu_bandwidth(const ls_backend *backend, float *memory, size_t n)
{
    double best = INFINITY;
    memset(memory, 0, 3 * n * sizeof *memory); /* no page comes for the first time */
    for (int run = 0; run < BANDWIDTH_RUNS; run++) {
        const double begin = ls_thread_seconds();
        backend->add(memory + 2 * n, memory, memory + n, n);
        best = fmin(best, ls_thread_seconds() - begin);
    }
    return 3.0 * (double)n * sizeof *memory / best;
}
