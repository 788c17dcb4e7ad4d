#include "networks/recipe.h"

#include <string.h>

#include "networks/operation.h"
#include "support.h"

/* ---- Chance ---- */

uint64_t recipe_random(recipe *r)
{
    test_random random = {r->state};
    const uint64_t drawn = test_u64(&random);
    r->state = random.state;
    return drawn;
}

int recipe_between(recipe *r, int low, int high)
{
    return high <= low ? low : low + (int)(recipe_random(r) % (uint64_t)(high - low + 1));
}

bool recipe_chance(recipe *r, double share)
{
    return (double)(recipe_random(r) >> 11) * 0x1p-53 < share;
}

double recipe_one_of(recipe *r, const double *values, int n)
{
    return values[recipe_between(r, 0, n - 1)];
}

/* ---- What a step is told ---- */

static const detail *find(const step *p, const char *name)
{
    for (int i = 0; i < p->n_details; i++)
        if (strcmp(p->details[i].name, name) == 0)
            return &p->details[i];
    return NULL;
}

void recipe_say(step *p, const char *name, double value)
{
    assert_true(p->n_details < MOST_DETAILS && !find(p, name));
    p->details[p->n_details++] = (detail){name, value};
}

double recipe_told(const step *p, const char *name)
{
    const detail *found = find(p, name);
    return found ? found->value : 0;
}

int recipe_int(const step *p, const char *name)
{
    return (int)recipe_told(p, name);
}

bool recipe_says(const step *p, const char *name)
{
    return find(p, name);
}

/* ---- Values ---- */

int recipe_values(const recipe *r)
{
    return r->n_inputs + r->n_steps;
}

const sizes *recipe_sizes(const recipe *r, int value)
{
    return value < r->n_inputs ? &r->inputs[value].to : &r->steps[value - r->n_inputs].to;
}

double recipe_large(const recipe *r, int value)
{
    return value < r->n_inputs ? 1 : r->steps[value - r->n_inputs].large;
}

bool recipe_is_number(const recipe *r, int value)
{
    return value >= r->n_inputs || r->inputs[value].kind < IDS;
}

int recipe_numbers(const sizes *s)
{
    int n = 1;
    for (int i = 0; i < s->rank; i++)
        n *= s->at[i];
    return n;
}

int recipe_like(recipe *r, const sizes *s, int other)
{
    for (int v = recipe_values(r) - 1; v >= 0; v--) {
        const sizes *x = recipe_sizes(r, v);
        bool alike = v != other && recipe_is_number(r, v) && x->rank == s->rank;
        for (int i = 0; alike && i < s->rank; i++)
            alike = x->at[i] == s->at[i];
        if (alike && recipe_chance(r, 0.7))
            return v;
    }
    return -1;
}

int recipe_parameter(recipe *r, ls_shape shape)
{
    for (int k = 0; k < r->n_parameters; k++) {
        bool alike = r->parameters[k].rank == shape.rank;
        for (int i = 0; alike && i < shape.rank; i++)
            alike = r->parameters[k].dim[i] == shape.dim[i];
        if (alike && recipe_chance(r, 0.5))
            return k;
    }
    assert_true(r->n_parameters < MOST_PARAMETERS);
    r->parameters[r->n_parameters] = shape;
    return r->n_parameters++;
}

int recipe_lengths(recipe *r, int tokens)
{
    for (int v = 0; v < r->n_inputs; v++)
        if (r->inputs[v].kind == LENGTHS && r->inputs[v].tokens == tokens)
            return v;
    return -1;
}

/* ---- Steps ---- */

int recipe_add(recipe *r, const char *op, int value, const step *as)
{
    step p = as ? *as : (step){.n_details = 0};
    p.op = operation_named(op);
    assert_non_null(p.op);
    p.from[0] = value;
    p.n_from = p.n_from > 1 ? p.n_from : 1;
    p.lengths = p.layer = -1;
    if (value < 0 || r->n_steps > MOST_STEPS - 8 || !p.op->draw(r, &p) || r->n_steps == MOST_STEPS)
        return -1;
    if (p.op->make && p.layer < 0)
        p.layer = r->n_steps;
    r->steps[r->n_steps] = p;
    return r->n_inputs + r->n_steps++;
}

static int reshaped(recipe *r, int value, int c, int h, int w)
{
    step how = {.n_details = 0};
    recipe_say(&how, "channels", c);
    recipe_say(&how, "height", h);
    recipe_say(&how, "width", w);
    return recipe_add(r, "reshape", value, &how);
}

static int over(recipe *r, int value, int dim)
{
    step how = {.n_details = 0};
    if (dim)
        recipe_say(&how, "dim", dim);
    return recipe_add(r, recipe_chance(r, 0.7) ? "mean_over" : "max_over", value, &how);
}

/* Of fewer sizes. */
static int raised(recipe *r, int value, int rank)
{
    const sizes x = *recipe_sizes(r, value);
    const int n = recipe_numbers(&x);
    if (rank == 1)
        return recipe_add(r, "flatten", value, NULL);
    const int first = divisor_of(r, n), second = divisor_of(r, n / first);
    if (rank == 2)
        return over(r, reshaped(r, value, 1, first, n / first), 1);
    return x.rank == 2 ? reshaped(r, value, 1, x.at[0], x.at[1])
                       : reshaped(r, value, first, second, n / first / second);
}

int recipe_as_rank(recipe *r, int value, int rank)
{
    while (value >= 0 && recipe_sizes(r, value)->rank > rank)
        value = rank == 1 && recipe_chance(r, 0.6) ? recipe_add(r, "flatten", value, NULL) : over(r, value, 0);
    return value >= 0 && recipe_sizes(r, value)->rank < rank ? raised(r, value, rank) : value;
}

int recipe_tame(recipe *r, int value, double most)
{
    if (value < 0 || recipe_large(r, value) <= most)
        return value;
    step how = {.n_details = 0};
    recipe_say(&how, "argument", (float)(most / recipe_large(r, value)));
    const int tamed = recipe_chance(r, 0.5) ? recipe_add(r, "scale", value, &how) : recipe_add(r, "tanh", value, NULL);
    return tamed < 0 ? value : tamed; /* where there is no room for a step */
}

int recipe_shrunk(recipe *r, int value, int numbers)
{
    while (value >= 0 && recipe_numbers(recipe_sizes(r, value)) > numbers) {
        const sizes *x = recipe_sizes(r, value);
        int longest = 0;
        for (int i = 1; i < x->rank; i++)
            longest = x->at[i] > x->at[longest] ? i : longest;
        const int from = recipe_between(r, 0, x->at[longest] / 2);
        step how = {.n_details = 0};
        recipe_say(&how, "dim", longest + 1);
        recipe_say(&how, "from", from);
        recipe_say(&how, "to", from + x->at[longest] / 2);
        value = recipe_add(r, "slice", value, &how);
    }
    return value;
}
