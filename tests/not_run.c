#include "not_run.h"

#include <stdarg.h>
#include <stdio.h>

__attribute__((format(printf, 2, 0))) static void say(const char *part, const char *why, va_list arguments)
{
    printf("not run: %s%s", part ? part : "", part ? ": " : "");
    vprintf(why, arguments);
    printf("\n");
    fflush(stdout);
}

void test_part_not_run(const char *part, const char *why, ...)
{
    va_list arguments;
    va_start(arguments, why);
    say(part, why, arguments);
    va_end(arguments);
}

int test_none_run(const char *why, ...)
{
    va_list arguments;
    va_start(arguments, why);
    say(NULL, why, arguments);
    va_end(arguments);
    return 77;
}
