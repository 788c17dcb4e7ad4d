/* What normalises, and dropout. */
#include "networks/operation.h"

static bool normal(recipe *r, step *p, double eps)
{
    p->to = *from_sizes(r, p);
    if (eps > 0)
        recipe_say(p, "eps", eps);
    p->large = 1;
    return true;
}

/* Which size weights have. */
static int64_t width(const sizes *x, bool channels)
{
    return x->at[x->rank == 2 && !channels ? 1 : 0];
}

static double eps_of(recipe *r)
{
    return ONE_OF(r, 1e-3, 1e-2, 0.1);
}

static ls_norm norm_of(const step *p)
{
    return (ls_norm){.eps = recipe_told(p, "eps"),
                     .momentum = recipe_told(p, "momentum"),
                     .no_affine = recipe_says(p, "no_affine"),
                     .frozen = recipe_says(p, "frozen")};
}

static bool draw_batch_norm(recipe *r, step *p)
{
    return normal(r, p, 0);
}

static bool draw_batch_norm_with(recipe *r, step *p)
{
    normal(r, p, eps_of(r));
    if (recipe_chance(r, 0.5))
        recipe_say(p, "momentum", ONE_OF(r, 0.25, 0.5, 1));
    if (recipe_chance(r, 0.3)) {
        recipe_say(p, "frozen", 1);
        p->large = 1.5 * recipe_large(r, p->from[0]);
    }
    return true;
}

static ls_module *make_batch_norm(ls_session *s, const step *p)
{
    (void)p;
    return ls_nn_batch_norm(s);
}

static ls_module *make_batch_norm_with(ls_session *s, const step *p)
{
    const ls_norm norm = norm_of(p);
    return ls_nn_batch_norm_with(s, &norm);
}

static bool draw_layer(recipe *r, step *p)
{
    normal(r, p, recipe_chance(r, 0.8) ? eps_of(r) : 0);
    if (recipe_chance(r, 0.2))
        recipe_say(p, "no_affine", 1);
    return true;
}

static bool draw_groups(recipe *r, step *p)
{
    recipe_say(p, "groups", divisor_of(r, from_sizes(r, p)->at[0]));
    return true;
}

static bool draw_group_layer(recipe *r, step *p)
{
    return draw_groups(r, p) && draw_layer(r, p);
}

static ls_module *make_layer_norm(ls_session *s, const step *p)
{
    const ls_norm norm = norm_of(p);
    return ls_nn_layer_norm(s, &norm);
}

static ls_module *make_group_norm(ls_session *s, const step *p)
{
    const ls_norm norm = norm_of(p);
    return ls_nn_group_norm(s, recipe_int(p, "groups"), &norm);
}

static ls_module *make_rms_norm(ls_session *s, const step *p)
{
    const ls_norm norm = norm_of(p);
    return ls_nn_rms_norm(s, &norm);
}

/* Weight and bias, the weight alone, or none. */
static bool draw_by(recipe *r, step *p, bool channels, int most)
{
    normal(r, p, eps_of(r));
    for (int k = recipe_between(r, 0, most); k > 0; k--)
        takes_parameter(r, p, LS_SHAPE(width(from_sizes(r, p), channels)));
    return true;
}

static bool draw_layer_by(recipe *r, step *p)
{
    return draw_by(r, p, false, 2);
}

static bool draw_group_by(recipe *r, step *p)
{
    return draw_groups(r, p) && draw_by(r, p, true, 2);
}

static bool draw_rms_by(recipe *r, step *p)
{
    return draw_by(r, p, false, 1);
}

static ls_tensor *record_layer_norm(const forward *f)
{
    return ls_layer_norm(operand(f, 0), parameter(f, 0), parameter(f, 1), recipe_told(f->step, "eps"));
}

static ls_tensor *record_group_norm(const forward *f)
{
    return ls_group_norm(operand(f, 0), recipe_int(f->step, "groups"), parameter(f, 0), parameter(f, 1),
                         recipe_told(f->step, "eps"));
}

static ls_tensor *record_rms_norm(const forward *f)
{
    return ls_rms_norm(operand(f, 0), parameter(f, 0), recipe_told(f->step, "eps"));
}

static bool draw_dropout(recipe *r, step *p)
{
    normal(r, p, 0);
    recipe_say(p, "rate", ONE_OF(r, 0.1, 0.25, 0.5) * !r->still);
    p->large = 1.5 * recipe_large(r, p->from[0]);
    return true;
}

static ls_module *make_dropout(ls_session *s, const step *p)
{
    return ls_nn_dropout(s, recipe_told(p, "rate"));
}

static bool draw_softmax(recipe *r, step *p)
{
    return normal(r, p, 0);
}

const operation norm_operations[] = {{"nn_batch_norm", "13", draw_batch_norm, .make = make_batch_norm},
                                     {"nn_batch_norm_with", "13", draw_batch_norm_with, .make = make_batch_norm_with},
                                     {"nn_layer_norm", "123", draw_layer, .make = make_layer_norm},
                                     {"layer_norm", "123", draw_layer_by, .record = record_layer_norm},
                                     {"nn_group_norm", "123", draw_group_layer, .make = make_group_norm},
                                     {"group_norm", "123", draw_group_by, .record = record_group_norm},
                                     {"nn_rms_norm", "123", draw_layer, .make = make_rms_norm},
                                     {"rms_norm", "123", draw_rms_by, .record = record_rms_norm},
                                     {"nn_dropout", "123", draw_dropout, .make = make_dropout, .bare = true},
                                     {"softmax", "1", draw_softmax, .function = ls_softmax},
                                     {0}};
