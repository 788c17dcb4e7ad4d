#include "base/cores.h"

#include <string.h>

bool ls_core_set_read(ls_core_set *set)
{
    memset(set, 0, sizeof *set);
    return sched_getaffinity(0, sizeof *set, set->parts) == 0;
}

bool ls_core_set_has(const ls_core_set *set, int core)
{
    return CPU_ISSET(core % CPU_SETSIZE, &set->parts[core / CPU_SETSIZE]);
}

void ls_core_set_add(ls_core_set *set, int core)
{
    CPU_SET(core % CPU_SETSIZE, &set->parts[core / CPU_SETSIZE]);
}

int ls_core_set_count(const ls_core_set *set)
{
    return CPU_COUNT_S(sizeof *set, set->parts);
}

bool ls_core_set_keep_to(const ls_core_set *set)
{
    return sched_setaffinity(0, sizeof *set, set->parts) == 0;
}

int ls_core_count(void)
{
    ls_core_set mask;
    const int n = ls_core_set_read(&mask) ? ls_core_set_count(&mask) : 0;
    return n > 0 ? n : 1;
}

int ls_core_number(int i)
{
    ls_core_set mask;
    const int n = ls_core_set_read(&mask) ? ls_core_set_count(&mask) : 0;
    int left = n > 0 ? i % n : 0;
    for (int core = 0; core < LS_MAX_CORES && n > 0; core++)
        if (ls_core_set_has(&mask, core) && left-- == 0)
            return core;
    return 0;
}

bool ls_pin_to_core(int i)
{
    const int core = ls_core_number(i);
    ls_core_set one = {.parts = {{{0}}}};
    ls_core_set_add(&one, core);
    return ls_core_set_keep_to(&one);
}
