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

void ls_draw_start(const ls_view *view, const ls_init *init, uint64_t seed, float *values)
{
    if (!view->drawn) {
        for (size_t i = 0; i < view->numbers; i++)
            values[i] = view->fill;
        return;
    }
    ls_random_stream stream = {.seed = seed, .purpose = LS_FOR_WEIGHTS, .name = ls_hash_name(view->name)};
    double scale = deviation(view, init);
    for (size_t i = 0; i < view->numbers; i++)
        values[i] = (float)(scale * (init->kind == LS_XAVIER ? 2 * ls_random_uniform(&stream, i) - 1
                                                             : ls_random_normal(&stream, i)));
}
