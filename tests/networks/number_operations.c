/* Functions of each number, and of two. */
#include "networks/operation.h"

#include <math.h>

static bool same(recipe *r, step *p)
{
    p->to = *from_sizes(r, p);
    p->large = recipe_large(r, p->from[0]);
    return true;
}

static bool below_one(recipe *r, step *p)
{
    same(r, p);
    p->large = 1;
    return true;
}

static bool log_sigmoid(recipe *r, step *p)
{
    same(r, p);
    p->large += 0.7;
    return true;
}

static bool leaky(recipe *r, step *p)
{
    recipe_say(p, "argument", ONE_OF(r, 0.01, 0.1, 0.3, -0.2, 1.5));
    same(r, p);
    p->large *= 1.5;
    return true;
}

static bool scaled(recipe *r, step *p)
{
    if (!recipe_says(p, "argument"))
        recipe_say(p, "argument", ONE_OF(r, 0.5, -1.5, 2, 0.3, -0.7));
    same(r, p);
    p->large *= fabs(recipe_told(p, "argument"));
    return true;
}

/* From 1/4 to 5/4, or from exp(-1) to exp(1): cards have no numbers of a program's own. */
static int above_zero(recipe *r, int value)
{
    step more = {.n_details = 0};
    if (recipe_chance(r, 0.7))
        return recipe_add(r, "exp", value, NULL);
    recipe_say(&more, "constant", 0.25);
    value = recipe_add(r, "sigmoid", value, NULL);
    return value < 0 ? -1 : recipe_add(r, "add", value, &more);
}

/* As large as what it is made of, where that is there. */
static bool sized(recipe *r, step *p, double large)
{
    if (p->from[0] < 0)
        return false;
    p->to = *from_sizes(r, p);
    p->large = large;
    return true;
}

static bool of_positive(recipe *r, step *p)
{
    p->from[0] = above_zero(r, p->from[0]);
    return sized(r, p, 1.6);
}

static bool exponential(recipe *r, step *p)
{
    p->from[0] = recipe_add(r, "tanh", p->from[0], NULL);
    return sized(r, p, 2);
}

static bool power(recipe *r, step *p)
{
    if (recipe_chance(r, 0.5)) {
        recipe_say(p, "argument", ONE_OF(r, 2, 3, 1));
        p->from[0] = recipe_tame(r, p->from[0], 1.5);
    } else {
        recipe_say(p, "argument", ONE_OF(r, -1, 0.5, 1.75, -0.75));
        p->from[0] = above_zero(r, p->from[0]);
    }
    return sized(r, p, 3);
}

static bool clamp(recipe *r, step *p)
{
    recipe_say(p, "low", ONE_OF(r, -1, -0.4, 0, -INFINITY));
    recipe_say(p, "high", ONE_OF(r, 0.5, 1, 2));
    return same(r, p);
}

static ls_tensor *record_clamp(const forward *f)
{
    return ls_clamp(operand(f, 0), recipe_told(f->step, "low"), recipe_told(f->step, "high"));
}

/* ---- Two operands ---- */

static bool broadcasts(const sizes *a, const sizes *b, sizes *to)
{
    if (a->rank != b->rank)
        return false;
    *to = *a;
    for (int i = 0; i < a->rank; i++) {
        if (a->at[i] != b->at[i] && a->at[i] != 1 && b->at[i] != 1)
            return false;
        to->at[i] = a->at[i] > b->at[i] ? a->at[i] : b->at[i];
    }
    return recipe_numbers(to) <= MOST_NUMBERS;
}

/* Another value that meets the first; the newest or any of them. */
static int partner(recipe *r, const step *p)
{
    sizes to;
    int found = -1;
    for (int v = 0; v < recipe_values(r); v++)
        if (v != p->from[0] && recipe_is_number(r, v) && broadcasts(from_sizes(r, p), recipe_sizes(r, v), &to) &&
            (found < 0 || recipe_chance(r, 0.5)))
            found = v;
    if (from_sizes(r, p)->rank == 3 && recipe_chance(r, 0.2))
        return recipe_add(r, "global_avg_pool2d", p->from[0], NULL);
    return found < 0 || recipe_chance(r, 0.1) ? recipe_add(r, "tanh", p->from[0], NULL) : found;
}

/* Behind the images: as many sizes or fewer, some of them 1; one alone is the channels'. */
static ls_shape repeated(recipe *r, const sizes *x)
{
    ls_shape shape = {.rank = recipe_between(r, 1, x->rank)};
    for (int i = 0; i < shape.rank; i++)
        shape.dim[i] = recipe_chance(r, 0.3) ? 1 : x->at[x->rank - shape.rank + i];
    if (shape.rank == 1)
        shape.dim[0] = recipe_chance(r, 0.2) ? 1 : x->at[0];
    return shape;
}

static bool with_other(recipe *r, step *p, double by)
{
    if (p->n_from < 2)
        p->from[1] = partner(r, p);
    if (p->from[1] >= 0 && by < 0) /* a divisor */
        p->from[1] = above_zero(r, p->from[1]);
    p->n_from = 2;
    return p->from[1] >= 0 && broadcasts(from_sizes(r, p), recipe_sizes(r, p->from[1]), &p->to);
}

/* `by`: 0 of sums, 1 of products, -1 of quotients. */
static bool two(recipe *r, step *p, double by)
{
    if (by != 0)
        p->from[0] = recipe_tame(r, p->from[0], 2);
    const bool given = p->n_from == 2;
    const double large = recipe_large(r, p->from[0]);
    p->to = *from_sizes(r, p);
    if (!given && (recipe_says(p, "constant") || recipe_chance(r, 0.1))) {
        if (!recipe_says(p, "constant"))
            recipe_say(p, "constant", ONE_OF(r, 0.5, 2, -0.75));
        p->large = large * 2;
        return true;
    }
    if (!given && by >= 0 && recipe_chance(r, 0.35)) {
        takes_parameter(r, p, repeated(r, from_sizes(r, p)));
        p->large = large + 0.5;
        return true;
    }
    if (!with_other(r, p, by))
        return false;
    const double other = recipe_large(r, p->from[1]);
    p->large = by == 0 ? large + other : by > 0 ? large * other : 2 * large;
    if (by >= 0 && recipe_chance(r, 0.5)) {
        const int first = p->from[0];
        p->from[0] = p->from[1];
        p->from[1] = first;
    }
    return true;
}

static bool sum(recipe *r, step *p)
{
    return two(r, p, 0);
}

static bool product(recipe *r, step *p)
{
    return two(r, p, 1);
}

static bool quotient(recipe *r, step *p)
{
    return two(r, p, -1);
}

static ls_tensor *second(const forward *f)
{
    if (f->step->n_parameters)
        return parameter(f, 0);
    if (recipe_says(f->step, "constant"))
        return ls_full(ls_session_of(f->self), recipe_told(f->step, "constant"), LS_SHAPE(1));
    return operand(f, 1);
}

static ls_tensor *record_add(const forward *f)
{
    return ls_add(operand(f, 0), second(f));
}

static ls_tensor *record_subtract(const forward *f)
{
    return ls_subtract(operand(f, 0), second(f));
}

static ls_tensor *record_multiply(const forward *f)
{
    return ls_multiply(operand(f, 0), second(f));
}

static ls_tensor *record_divide(const forward *f)
{
    return ls_divide(operand(f, 0), second(f));
}

const operation number_operations[] = {{"relu", "123", same, .function = ls_relu},
                                       {"tanh", "0123", below_one, .function = ls_tanh},
                                       {"sigmoid", "123", below_one, .function = ls_sigmoid},
                                       {"silu", "123", same, .function = ls_silu},
                                       {"gelu", "123", same, .function = ls_gelu},
                                       {"gelu_tanh", "123", same, .function = ls_gelu_tanh},
                                       {"log_sigmoid", "123", log_sigmoid, .function = ls_log_sigmoid},
                                       {"abs", "123", same, .function = ls_abs},
                                       {"exp", "123", exponential, .function = ls_exp},
                                       {"log", "123", of_positive, .function = ls_log},
                                       {"sqrt", "123", of_positive, .function = ls_sqrt},
                                       {"leaky_relu", "123", leaky, .with = ls_leaky_relu},
                                       {"scale", "0123", scaled, .with = ls_scale},
                                       {"power", "123", power, .with = ls_power},
                                       {"clamp", "123", clamp, .record = record_clamp},
                                       {"add", "123", sum, .record = record_add},
                                       {"subtract", "123", sum, .record = record_subtract},
                                       {"multiply", "123", product, .record = record_multiply},
                                       {"divide", "123", quotient, .record = record_divide},
                                       {0}};
