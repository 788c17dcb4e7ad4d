/* Linear layers, modules of modules, an operation of one's own, and layers that are called once more. */
#include "networks/operation.h"

#include <math.h>

/* ---- Linear layers ---- */

static bool draw_linear(recipe *r, step *p)
{
    p->to = *from_sizes(r, p);
    if (!recipe_says(p, "features"))
        recipe_say(p, "features", recipe_between(r, 1, 24));
    p->to.at[p->to.rank - 1] = recipe_int(p, "features");
    p->large = 1.5 * recipe_large(r, p->from[0]);
    return recipe_numbers(&p->to) <= MOST_NUMBERS;
}

static bool draw_linear_with(recipe *r, step *p)
{
    if (recipe_chance(r, 0.5))
        recipe_say(p, "no_bias", 1);
    return draw_linear(r, p);
}

static ls_module *make_linear(ls_session *s, const step *p)
{
    return ls_nn_linear(s, recipe_int(p, "features"));
}

static ls_module *make_linear_with(ls_session *s, const step *p)
{
    return ls_nn_linear_with(s, recipe_int(p, "features"), &(ls_linear_options){.no_bias = recipe_says(p, "no_bias")});
}

/* By a parameter that was told in advance, or one that is drawn. */
static bool draw_by(recipe *r, step *p, int inner)
{
    const sizes x = *from_sizes(r, p);
    const int inputs = x.at[x.rank - 1];
    if (!p->n_parameters)
        takes_parameter(
            r, p, inner ? LS_SHAPE(recipe_between(r, 1, 20), inputs) : LS_SHAPE(inputs, recipe_between(r, 1, 20)));
    p->to = x;
    p->to.at[x.rank - 1] = (int)r->parameters[p->parameters[0]].dim[!inner];
    p->large = 1.5 * recipe_large(r, p->from[0]);
    return recipe_numbers(&p->to) <= MOST_NUMBERS;
}

static bool draw_linear_by(recipe *r, step *p)
{
    if (!draw_by(r, p, 1))
        return false;
    if (recipe_chance(r, 0.5))
        takes_parameter(r, p, LS_SHAPE(p->to.at[p->to.rank - 1]));
    return true;
}

static bool draw_matmul(recipe *r, step *p)
{
    return draw_by(r, p, 0);
}

static ls_tensor *record_linear(const forward *f)
{
    return ls_linear(operand(f, 0), parameter(f, 0), parameter(f, 1));
}

static ls_tensor *record_matmul(const forward *f)
{
    return ls_matmul(operand(f, 0), parameter(f, 0));
}

/* ---- Modules of modules ---- */

/* Linear, tanh, linear, leaky; with `twice` the second layer and its function once more. */
static bool draw_sequential(recipe *r, step *p)
{
    p->to = *from_sizes(r, p);
    const int middle = recipe_between(r, 1, 17);
    recipe_say(p, "middle", middle);
    recipe_say(p, "twice", recipe_between(r, 0, 1));
    recipe_say(p, "features", recipe_int(p, "twice") ? middle : recipe_between(r, 1, 17));
    p->to.at[p->to.rank - 1] = recipe_int(p, "features");
    p->large = 1.5;
    return recipe_numbers(&p->to) <= MOST_NUMBERS;
}

static ls_module *make_sequential(ls_session *s, const step *p)
{
    ls_module *second = ls_nn_linear(s, recipe_int(p, "features")), *leaky = ls_nn_fn_with(s, ls_leaky_relu, 0.1);
    ls_module *front[] = {ls_nn_linear(s, recipe_int(p, "middle")), ls_nn_fn(s, ls_tanh), second, leaky, NULL};
    ls_module *both = ls_sequential(s, front);
    for (int k = 0; k < 2 * recipe_int(p, "twice"); k++)
        ls_module_append(both, NULL, k ? leaky : second);
    return both;
}

/* x + gain * (x W + b), gain a parameter of the block's own. */
static ls_tensor *residual(ls_module *self, ls_tensor *x)
{
    ls_tensor *gain = ls_module_parameter(self, "gain", LS_SHAPE(1));
    return ls_add(x, ls_multiply(ls_module_call(self, "inner", x), gain));
}

static bool draw_residual(recipe *r, step *p)
{
    p->to = *from_sizes(r, p);
    recipe_say(p, "features", p->to.at[p->to.rank - 1]);
    p->large = 1.5 * recipe_large(r, p->from[0]);
    return true;
}

static ls_module *make_residual(ls_session *s, const step *p)
{
    ls_module *block = ls_block(s, residual, NULL);
    ls_module_append(block, "inner", ls_nn_linear(s, recipe_int(p, "features")));
    return block;
}

/* ---- An operation of one's own: x / (1 + |x|) * w, one w for all ---- */

static size_t numbers_in(const ls_custom_call *call)
{
    return (size_t)call->rows * (size_t)(call->out[0] * call->out[1] * call->out[2]);
}

static void soften(const ls_custom_call *call, const float *const in[], float *out)
{
    for (size_t i = 0; i < numbers_in(call); i++)
        out[i] = in[0][i] / (1 + fabsf(in[0][i])) * in[1][0];
}

static void soften_backward(const ls_custom_call *call, const float *const in[], const float *out, const float *dout,
                            float *const din[])
{
    (void)out;
    for (size_t i = 0; i < numbers_in(call); i++) {
        const float below = 1 + fabsf(in[0][i]);
        if (din[0])
            din[0][i] = dout[i] * in[1][0] / (below * below);
        if (din[1])
            din[1][0] += dout[i] * (in[0][i] / below);
    }
}

static const ls_custom softening = {
    .name = "soften",
    .inputs = 2,
    .parameters = 2,
    .forward = soften,
    .backward = soften_backward,
    .onnx = "a = Abs (x0); one = Constant <value_float = 1.0> (); b = Add (a, one); c = Div (x0, b); y = Mul (c, x1)"};

static bool draw_own(recipe *r, step *p)
{
    p->to = *from_sizes(r, p);
    takes_parameter(r, p, LS_SHAPE(1, 1));
    p->large = 1;
    return p->to.rank == 1 || p->to.at[1] * p->to.at[2] > 1; /* a result of one place has features */
}

static ls_tensor *record_own(const forward *f)
{
    return ls_custom_op(&softening, (ls_tensor *[]){operand(f, 0), parameter(f, 0)});
}

/* ---- A layer once more ---- */

/* On another value of the sizes that it had, where there is one. */
static bool draw_again(recipe *r, step *p)
{
    int found = -1;
    for (int k = 0; k < r->n_steps; k++)
        if (r->steps[k].layer == k && (found < 0 || recipe_chance(r, 0.5)))
            found = k;
    if (found < 0)
        return false;
    const step *first = &r->steps[found];
    const sizes x = *recipe_sizes(r, first->from[0]);
    const int other = recipe_is_number(r, first->from[0]) ? recipe_like(r, &x, first->from[0]) : -1;
    *p = *first;
    p->from[0] = other < 0 ? first->from[0] : recipe_tame(r, other, 2);
    return p->from[0] >= 0;
}

const operation module_operations[] = {{"nn_linear", "12", draw_linear, .make = make_linear},
                                       {"nn_linear_with", "12", draw_linear_with, .make = make_linear_with},
                                       {"linear", "12", draw_linear_by, .record = record_linear},
                                       {"matmul", "12", draw_matmul, .record = record_matmul},
                                       {"sequential", "12", draw_sequential, .make = make_sequential},
                                       {"residual", "12", draw_residual, .make = make_residual},
                                       {"own", "13", draw_own, .record = record_own},
                                       {"again", "", .draw = draw_again},
                                       {0}};
