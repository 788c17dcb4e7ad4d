#include "optim/schedule.h"

/* cos(pi * x) for x in [0, 1], by its series about the nearest of 0, 1/2 and 1: the C library's bits differ by
 * version. */
static double cos_pi(double x)
{
    const double pi = 3.14159265358979323846;
    double sign = 1, shift = x;
    if (x > 0.75) {
        shift = 1 - x;
        sign = -1;
    }
    double t = shift <= 0.25 ? pi * shift : pi * (0.5 - shift), square = t * t, term = shift <= 0.25 ? 1 : t,
           sum = term;
    for (int k = shift <= 0.25 ? 1 : 2; k < 24; k += 2) {
        term = -term * square / ((double)k * (k + 1));
        sum += term;
    }
    return sign * sum;
}

double ls_learning_rate(const ls_optim *options, int64_t step)
{
    double lr = options->lr, total = options->total > 0 ? (double)options->total : 1, at = (double)step / total;
    if (step < options->warmup)
        return lr * (double)(step + 1) / (double)options->warmup;
    switch (options->schedule) {
    case LS_STEP_SCHEDULE:
        return at < 0.5 ? lr : at < 0.75 ? 0.1 * lr : 0.01 * lr;
    case LS_COSINE:
        return at >= 1 ? 0 : lr * (1 + cos_pi(at)) / 2;
    default:
        return lr;
    }
}
