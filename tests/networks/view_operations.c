/* What puts numbers elsewhere or reduces them: shapes, parts, joins, sums over dimensions. */
#include "networks/operation.h"

static bool draw_flatten(recipe *r, step *p)
{
    p->to = (sizes){1, {recipe_numbers(from_sizes(r, p))}};
    p->large = recipe_large(r, p->from[0]);
    return true;
}

static bool draw_reshape(recipe *r, step *p)
{
    const int n = recipe_numbers(from_sizes(r, p));
    if (!recipe_says(p, "channels")) {
        const int c = divisor_of(r, n), h = divisor_of(r, n / c);
        recipe_say(p, "channels", c);
        recipe_say(p, "height", h);
        recipe_say(p, "width", n / c / h);
    }
    p->to = (sizes){3, {recipe_int(p, "channels"), recipe_int(p, "height"), recipe_int(p, "width")}};
    p->large = recipe_large(r, p->from[0]);
    return true;
}

static ls_tensor *record_reshape(const forward *f)
{
    return ls_reshape(operand(f, 0), recipe_int(f->step, "channels"), recipe_int(f->step, "height"),
                      recipe_int(f->step, "width"));
}

static bool draw_transpose(recipe *r, step *p)
{
    p->to = *from_sizes(r, p);
    if (!recipe_says(p, "i")) {
        recipe_say(p, "i", recipe_between(r, 1, p->to.rank));
        recipe_say(p, "j", recipe_between(r, 1, p->to.rank));
    }
    const int i = recipe_int(p, "i") - 1, j = recipe_int(p, "j") - 1, size = p->to.at[i];
    p->to.at[i] = p->to.at[j];
    p->to.at[j] = size;
    p->large = recipe_large(r, p->from[0]);
    return true;
}

static ls_tensor *record_transpose(const forward *f)
{
    return ls_transpose(operand(f, 0), recipe_int(f->step, "i"), recipe_int(f->step, "j"));
}

static bool draw_slice(recipe *r, step *p)
{
    p->to = *from_sizes(r, p);
    if (!recipe_says(p, "dim")) {
        const int dim = recipe_between(r, 1, p->to.rank), from = recipe_between(r, 0, p->to.at[dim - 1] - 1);
        recipe_say(p, "dim", dim);
        recipe_say(p, "from", from);
        recipe_say(p, "to", recipe_between(r, from + 1, p->to.at[dim - 1]));
    }
    p->to.at[recipe_int(p, "dim") - 1] = recipe_int(p, "to") - recipe_int(p, "from");
    p->large = recipe_large(r, p->from[0]);
    return true;
}

static ls_tensor *record_slice(const forward *f)
{
    return ls_slice(operand(f, 0), recipe_int(f->step, "dim"), recipe_int(f->step, "from"), recipe_int(f->step, "to"));
}

/* ---- Joins ---- */

static bool join(recipe *r, step *p, int dim)
{
    const sizes x = *from_sizes(r, p);
    const int parts = recipe_between(r, 2, MOST_FROM);
    p->to = x;
    p->large = recipe_large(r, p->from[0]);
    for (p->n_from = 1; p->n_from < parts; p->n_from++) {
        int other = -1;
        for (int v = 0; v < recipe_values(r); v++) {
            sizes rest = *recipe_sizes(r, v);
            if (!recipe_is_number(r, v) || rest.rank != x.rank)
                continue;
            rest.at[dim - 1] = x.at[dim - 1];
            bool fits = recipe_numbers(&rest) == recipe_numbers(&x);
            for (int i = 0; i < x.rank; i++)
                fits = fits && rest.at[i] == x.at[i];
            if (fits && (other < 0 || recipe_chance(r, 0.4)))
                other = v;
        }
        p->from[p->n_from] = other < 0 ? p->from[0] : other;
        p->to.at[dim - 1] += recipe_sizes(r, p->from[p->n_from])->at[dim - 1];
        const double large = recipe_large(r, p->from[p->n_from]);
        p->large = large > p->large ? large : p->large;
    }
    return recipe_numbers(&p->to) <= MOST_NUMBERS;
}

static bool draw_concat(recipe *r, step *p)
{
    return join(r, p, 1);
}

/* Parts that are told in advance are joined along the first dimension. */
static bool draw_concat_along(recipe *r, step *p)
{
    if (p->n_from > 1) {
        recipe_say(p, "dim", 1);
        p->to = (sizes){1, {0}};
        p->large = 1;
        for (int k = 0; k < p->n_from; k++)
            p->to.at[0] += recipe_sizes(r, p->from[k])->at[0];
        return true;
    }
    recipe_say(p, "dim", recipe_between(r, 1, from_sizes(r, p)->rank));
    return join(r, p, recipe_int(p, "dim"));
}

static int parts_of(const forward *f, ls_tensor *parts[MOST_FROM])
{
    for (int k = 0; k < f->step->n_from; k++)
        parts[k] = operand(f, k);
    return f->step->n_from;
}

static ls_tensor *record_concat(const forward *f)
{
    ls_tensor *parts[MOST_FROM];
    const int n = parts_of(f, parts);
    return ls_concat(parts, n);
}

static ls_tensor *record_concat_along(const forward *f)
{
    ls_tensor *parts[MOST_FROM];
    const int n = parts_of(f, parts);
    return ls_concat_along(parts, n, recipe_int(f->step, "dim"));
}

/* ---- Fewer dimensions ---- */

static bool draw_over(recipe *r, step *p)
{
    const sizes x = *from_sizes(r, p);
    if (!recipe_says(p, "dim"))
        recipe_say(p, "dim", recipe_between(r, 1, x.rank));
    const int dim = recipe_int(p, "dim");
    p->to.rank = x.rank - 1;
    for (int i = 0; i < p->to.rank; i++)
        p->to.at[i] = x.at[i < dim - 1 ? i : i + 1];
    p->large = recipe_large(r, p->from[0]);
    return true;
}

static ls_tensor *record_mean_over(const forward *f)
{
    return ls_mean_over(operand(f, 0), recipe_int(f->step, "dim"));
}

static ls_tensor *record_max_over(const forward *f)
{
    return ls_max_over(operand(f, 0), recipe_int(f->step, "dim"));
}

static bool draw_each(recipe *r, step *p)
{
    p->to = (sizes){.rank = 0};
    p->large = recipe_large(r, p->from[0]);
    return true;
}

/* The sum of many is large. */
static bool draw_sum_each(recipe *r, step *p)
{
    step less = {.n_details = 0};
    const int n = recipe_numbers(from_sizes(r, p));
    recipe_say(&less, "argument", 1.0 / (n > 16 ? 16 : 1));
    p->from[0] = recipe_add(r, "scale", p->from[0], &less);
    if (p->from[0] < 0)
        return false;
    draw_each(r, p);
    p->large *= n > 16 ? n / 4.0 : n;
    return true;
}

const operation view_operations[] = {{"flatten", "0123", draw_flatten, .function = ls_flatten},
                                     {"reshape", "0123", draw_reshape, .record = record_reshape},
                                     {"transpose", "23", draw_transpose, .record = record_transpose},
                                     {"slice", "123", draw_slice, .record = record_slice},
                                     {"concat", "123", draw_concat, .record = record_concat},
                                     {"concat_along", "123", draw_concat_along, .record = record_concat_along},
                                     {"mean_over", "123", draw_over, .record = record_mean_over},
                                     {"max_over", "123", draw_over, .record = record_max_over},
                                     {"sum_each", "123", draw_sum_each, .function = ls_sum_each},
                                     {"mean_each", "123", draw_each, .function = ls_mean_each},
                                     {"max_each", "123", draw_each, .function = ls_max_each},
                                     {0}};
