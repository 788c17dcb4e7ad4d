#include "base/environment.h"

/* The C library has one C locale, so that neither making nor freeing it costs anything. */
ls_environment ls_environment_enter(void)
{
    ls_environment callers = {.ours = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    callers.locale = callers.ours ? uselocale(callers.ours) : (locale_t)0;
    fegetenv(&callers.arithmetic);
    fesetenv(FE_DFL_ENV);
    return callers;
}

void ls_environment_leave(const ls_environment *callers)
{
    fesetenv(&callers->arithmetic);
    if (callers->ours) {
        uselocale(callers->locale);
        freelocale(callers->ours);
    }
}

void ls_environment_renew(void)
{
    fesetenv(FE_DFL_ENV);
}
