#include "nn/init.h"

#include <math.h>

#include "base/random.h"

static double deviation(const ls_view *view, const ls_init *init)
{
    double in = view->fan_in ? (double)view->fan_in : 1, out = view->fan_out ? (double)view->fan_out : 1;
    switch (init->kind) {
    case LS_XAVIER:
        return sqrt(6 / (in + out)); /* Glorot, Bengio 2010: the bound of a uniform distribution */
    case LS_HE:
        return sqrt(2 / in); /* He and others 2015 */
    default:
        return init->scale;
    }
}

void ls_draw_start(const ls_view *view, const ls_init *init, uint64_t seed, size_t first, size_t n, float *values)
{
    if (!view->drawn) {
        for (size_t i = 0; i < n; i++)
            values[first + i] = view->fill;
        return;
    }
    ls_random_stream stream = {.seed = seed, .purpose = LS_FOR_WEIGHTS, .name = ls_hash_name(view->name)};
    ls_derived from = ls_random_derive(&stream);
    const bool uniform = view->bound > 0 || init->kind == LS_XAVIER;
    double scale = view->bound > 0 ? view->bound : deviation(view, init);
    for (size_t i = first; i < first + n; i++)
        values[i] = (float)(scale * (uniform ? 2 * ls_derived_uniform(&from, i) - 1 : ls_derived_normal(&from, i)));
}
