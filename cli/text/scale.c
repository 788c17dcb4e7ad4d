#include "text/scale.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The least of `nice` times a power of ten that is not below range / parts; 10 ends the list. */
static double nice_step(double range, int parts, const double *nice)
{
    if (!(range > 0) || parts < 1)
        return 1;
    /* What is read from a file may be anything, and a step of nothing or without end would never fill the range. */
    range = fmin(fmax(range, 1e-300), 1e300);
    double least = range / parts, power = pow(10, floor(log10(least)));
    while (*nice < 10 && *nice * power < least * (1 - 1e-9))
        nice++;
    return *nice * power;
}

double scale_step(double range, int parts)
{
    static const double nice[] = {1, 2, 2.5, 5, 10};
    return nice_step(range, parts, nice);
}

double scale_even_step(double range, int parts)
{
    static const double nice[] = {1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 7.5, 8, 10};
    return nice_step(range, parts, nice);
}

double scale_fit(double lo, double hi, int parts, double *first)
{
    static const double little = 0.4, larger = 1.001;
    double step;
    hi = fmin(fmax(hi, 1e-300), 1e300);
    lo = lo > little * hi ? fmin(lo, hi) : 0;
    double range = fmax(hi - lo, hi / 10); /* of a single number too, which is then in the middle */
    lo -= (range - (hi - lo)) / 2;
    do {
        step = scale_even_step(range, parts);
        *first = floor(lo / step * (1 + 1e-12)) * step;
        range = larger * parts * step;
    } while (*first + parts * step < hi * (1 - 1e-12));
    return step;
}

double scale_whole_step(double range, int parts)
{
    double step = scale_step(range, parts);
    if (step < 1)
        return 1;
    return step == floor(step) ? step : 2 * step; /* 2.5 becomes 5 */
}

/* Decimals of a number, at most `most`. */
static int decimals_of(double number, int most)
{
    int decimals = 0;
    for (; decimals < most && fabs(number - round(number)) > 1e-6 * number; number *= 10)
        decimals++;
    return decimals;
}

void scale_text(char *text, size_t size, double value, double step)
{
    enum { LONG = 5 };
    const int decimals = decimals_of(step, LONG);
    const int power = value > 0 ? (int)floor(log10(value) + 1e-9) : 0;
    const double mantissa = value / pow(10, power);
    if (decimals < LONG && step < 1e5)
        snprintf(text, size, "%.*f", decimals, value);
    else if (value > 0)
        snprintf(text, size, "%.*fe%d", decimals_of(mantissa, LONG), mantissa, power);
    else
        snprintf(text, size, "0");
}

void scale_longest(char *text, size_t size, double first, double step, int parts)
{
    char label[64];
    snprintf(text, size, "%s", "");
    for (int i = 0; i <= parts; i++) {
        scale_text(label, sizeof label, first + i * step, step);
        if (strlen(label) > strlen(text))
            snprintf(text, size, "%s", label);
    }
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
