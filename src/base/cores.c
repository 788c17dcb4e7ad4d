#include "base/cores.h"

#include <pthread.h>
#include <sched.h>

static int list_cores(int *numbers)
{
    cpu_set_t mask;
    int n = 0;
    if (sched_getaffinity(0, sizeof mask, &mask) == 0)
        for (int i = 0; i < CPU_SETSIZE && n < LS_MAX_CORES; i++)
            if (CPU_ISSET(i, &mask))
                numbers[n++] = i;
    if (n == 0)
        numbers[n++] = 0;
    return n;
}

int ls_core_count(void)
{
    int numbers[LS_MAX_CORES];
    return list_cores(numbers);
}

int ls_core_number(int i)
{
    int numbers[LS_MAX_CORES], n = list_cores(numbers);
    return numbers[i % n];
}

bool ls_pin_to_core(int i)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(ls_core_number(i), &one);
    return pthread_setaffinity_np(pthread_self(), sizeof one, &one) == 0;
}
