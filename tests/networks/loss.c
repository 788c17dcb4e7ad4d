/* The losses of random networks. */
#include "networks/recipe.h"

#include <string.h>

const loss_kind loss_kinds[] = {
    {"cross_entropy", 1, .y = 'l'},
    {"cross_entropy_smooth", 1, .y = 'l', .smooth = true},
    {"cross_entropy_weighted", 1, .y = 'l', .weighs = true},
    {"cross_entropy_ignored", 1, .y = 'l', .ignores = true},
    {"cross_entropy_all", 1, .y = 'l', .smooth = true, .weighs = true, .ignores = true},
    {"cross_entropy_targets", 0, .y = 't', .smooth = true},
    {"cross_entropy_weighted_targets", 0, .y = 't', .weighs = true, .smooth = true},
    {"cross_entropy_places", 3, .y = 'p'},
    {"cross_entropy_places_all", 3, .y = 'p', .smooth = true, .weighs = true, .ignores = true},
    {"cross_entropy_tokens", 2, .y = 'p', .ignores = true},
    {"mse", 0, .y = 'n'},
    {"l1", 0, .y = 'n'},
    {"huber", 0, .y = 'n'},
    {"bce", 0, .y = 't'},
    {"bce_weighted", 0, .y = 't', .weighs = true, .positive = true},
    {"two", 0, .y = 'n'}};
const int n_loss_kinds = sizeof loss_kinds / sizeof *loss_kinds;

static bool is(const recipe *r, const char *name)
{
    return strcmp(r->loss->name, name) == 0;
}

ls_tensor *loss_record(const recipe *r, ls_tensor *outputs, ls_tensor *y)
{
    if (is(r, "mse"))
        return ls_mse(outputs, y);
    if (is(r, "l1"))
        return ls_l1(outputs, y);
    if (is(r, "huber"))
        return ls_huber(outputs, y, &r->options);
    if (r->loss->y == 't' && strncmp(r->loss->name, "bce", 3) == 0)
        return ls_bce(outputs, y, &r->options);
    if (is(r, "two"))
        return ls_add(ls_scale(ls_mse(outputs, y), 0.5), ls_huber(outputs, y, &r->options));
    if (is(r, "cross_entropy"))
        return ls_cross_entropy(outputs, y);
    if (is(r, "cross_entropy_smooth"))
        return ls_cross_entropy_smooth(outputs, y, r->options.smoothing);
    return ls_cross_entropy_with(outputs, y, &r->options);
}
