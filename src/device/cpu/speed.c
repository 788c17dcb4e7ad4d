#include "device/cpu/speed.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum { PEAK_RUNS = 9, BANDWIDTH_RUNS = 5 };

double ls_cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double ls_cpu_peak(const ls_backend *backend)
{
    if (!backend->chains)
        return 0.0;
    const long rounds = backend->lanes > 1 ? 4000000 : 400000;
    volatile float keep = 0.0f; /* the chains are for nothing else */
    double best = INFINITY;
    for (int run = 0; run < PEAK_RUNS; run++) {
        const double begin = ls_cpu_seconds();
        keep = keep + backend->chains(rounds);
        best = fmin(best, ls_cpu_seconds() - begin);
    }
    return (double)rounds * LS_CHAINS * 2.0 * backend->lanes / best;
}

double ls_cpu_bandwidth(const ls_backend *backend, float *memory, size_t n)
{
    double best = INFINITY;
    memset(memory, 0, 3 * n * sizeof *memory); /* no page comes for the first time */
    for (int run = 0; run < BANDWIDTH_RUNS; run++) {
        const double begin = ls_cpu_seconds();
        backend->add(memory + 2 * n, memory, memory + n, n);
        best = fmin(best, ls_cpu_seconds() - begin);
    }
    return 3.0 * (double)n * sizeof *memory / best;
}
