#include "scale.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

double scale_step(double range, int parts)
{
    static const double nice[] = {1, 2, 2.5, 5, 10};
    if (!(range > 0) || parts < 1)
        return 1;
    double least = range / parts, power = pow(10, floor(log10(least)));
    for (int i = 0; i < 5; i++)
        if (nice[i] * power >= least * (1 - 1e-9))
            return nice[i] * power;
    return 10 * power;
}

double scale_whole_step(double range, int parts)
{
    double step = scale_step(range, parts);
    if (step < 1)
        return 1;
    return step == floor(step) ? step : 2 * step; /* 2.5 becomes 5 */
}

void scale_text(char *text, size_t size, double value, double step)
{
    int decimals = 0;
    for (double s = step; decimals < 6 && fabs(s - round(s)) > 1e-6 * s; s *= 10)
        decimals++;
    snprintf(text, size, "%.*f", decimals, value);
}

void count_text(char *text, size_t size, int64_t count)
{
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%" PRId64, count < 0 ? 0 : count);
    size_t at = 0;
    for (int i = 0; i < length && at + 2 < size; i++) {
        if (i && (length - i) % 3 == 0)
            text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
}

void time_text(char *text, size_t size, double seconds)
{
    long long left = (long long)(seconds + 0.5);
    if (left >= 3600)
        snprintf(text, size, "%lld:%02lld:%02lld", left / 3600, left / 60 % 60, left % 60);
    else
        snprintf(text, size, "%lld:%02lld", left / 60, left % 60);
}
