/* What takes maps: convolutions, pools, maps of another size. */
#include "networks/operation.h"

enum { WIDEST = 20, LARGEST = 12 }; /* channels; rows and columns */

/* ---- Convolutions ---- */

static ls_conv conv_of(const step *p)
{
    return (ls_conv){.stride = recipe_int(p, "stride"),
                     .padding = recipe_int(p, "padding"),
                     .groups = recipe_int(p, "groups"),
                     .dilation = recipe_int(p, "dilation"),
                     .output_padding = recipe_int(p, "output_padding"),
                     .kernel_w = recipe_int(p, "kernel_w"),
                     .stride_w = recipe_int(p, "stride_w"),
                     .padding_w = recipe_int(p, "padding_w"),
                     .dilation_w = recipe_int(p, "dilation_w"),
                     .no_bias = recipe_says(p, "no_bias")};
}

static int or_else(int value, int usual)
{
    return value ? value : usual;
}

/* Rows of the result from `size` rows. */
static int along(const step *p, int size, bool wide, bool transposed)
{
    const ls_conv c = conv_of(p);
    const int stride = or_else(wide ? or_else(c.stride_w, c.stride) : c.stride, 1);
    const int dilation = or_else(wide ? or_else(c.dilation_w, c.dilation) : c.dilation, 1);
    const int padding = wide && c.padding_w ? (c.padding_w > 0 ? c.padding_w : 0) : c.padding;
    const int kernel = wide && c.kernel_w ? c.kernel_w : recipe_int(p, "kernel");
    const int span = dilation * (kernel - 1) + 1;
    if (transposed)
        return (size - 1) * stride - 2 * padding + span + c.output_padding;
    return size + 2 * padding < span ? 0 : (size + 2 * padding - span) / stride + 1;
}

static void say_unless(step *p, const char *name, int value)
{
    if (value)
        recipe_say(p, name, value);
}

static void say_windows(recipe *r, step *p, bool transposed)
{
    const int kernel = recipe_between(r, 1, 3), stride = recipe_between(r, 0, 2), dilation = recipe_between(r, 0, 2);
    recipe_say(p, "kernel", kernel);
    say_unless(p, "stride", stride);
    say_unless(p, "padding", recipe_between(r, 0, 2));
    say_unless(p, "dilation", dilation);
    if (recipe_chance(r, 0.4)) {
        say_unless(p, "kernel_w", recipe_between(r, 0, 4));
        say_unless(p, "stride_w", recipe_between(r, 0, 2));
        say_unless(p, "padding_w", recipe_between(r, -1, 2));
        say_unless(p, "dilation_w", recipe_between(r, 0, 2));
    }
    const ls_conv c = conv_of(p);
    const int most = or_else(stride, 1) > or_else(dilation, 1) ? or_else(stride, 1) : or_else(dilation, 1);
    const int wide = or_else(c.stride_w, or_else(stride, 1)), spread = or_else(c.dilation_w, or_else(dilation, 1));
    const int of_width = wide > spread ? wide : spread;
    if (transposed)
        say_unless(p, "output_padding", recipe_between(r, 0, (most < of_width ? most : of_width) - 1));
}

static bool convolution(recipe *r, step *p, bool transposed)
{
    const sizes *x = from_sizes(r, p);
    if (recipe_says(p, "kernel")) {
        ;                                /* as it was told */
    } else if (recipe_chance(r, 0.35)) { /* which Winograd may take */
        recipe_say(p, "kernel", ONE_OF(r, 3, 3, 5));
        recipe_say(p, "padding", recipe_int(p, "kernel") / 2);
        say_unless(p, "stride", recipe_between(r, 0, 2));
    } else {
        say_windows(r, p, transposed);
    }
    if (!recipe_says(p, "channels")) {
        const int groups = recipe_chance(r, 0.4) ? divisor_of(r, x->at[0]) : 1;
        say_unless(p, "groups", groups > 1 ? groups : 0);
        recipe_say(p, "channels", groups * recipe_between(r, 1, groups < WIDEST ? WIDEST / groups : 1));
    }
    if (recipe_chance(r, 0.25))
        recipe_say(p, "no_bias", 1);
    p->to = (sizes){
        3, {recipe_int(p, "channels"), along(p, x->at[1], false, transposed), along(p, x->at[2], true, transposed)}};
    p->large = 1.5 * recipe_large(r, p->from[0]);
    return p->to.at[1] >= 1 && p->to.at[2] >= 1 && p->to.at[1] <= LARGEST && p->to.at[2] <= LARGEST &&
           recipe_numbers(&p->to) <= MOST_NUMBERS;
}

static bool draw_conv2d(recipe *r, step *p)
{
    return convolution(r, p, false);
}

static bool draw_conv_transpose2d(recipe *r, step *p)
{
    return convolution(r, p, true);
}

static ls_module *make_conv2d(ls_session *s, const step *p)
{
    const ls_conv c = conv_of(p);
    return ls_nn_conv2d(s, recipe_int(p, "channels"), recipe_int(p, "kernel"), &c);
}

static ls_module *make_conv_transpose2d(ls_session *s, const step *p)
{
    const ls_conv c = conv_of(p);
    return ls_nn_conv_transpose2d(s, recipe_int(p, "channels"), recipe_int(p, "kernel"), &c);
}

static void take_weights(recipe *r, step *p, bool transposed)
{
    const int groups = or_else(recipe_int(p, "groups"), 1), inputs = from_sizes(r, p)->at[0], outputs = p->to.at[0];
    const int kernel = recipe_int(p, "kernel");
    takes_parameter(r, p,
                    LS_SHAPE(transposed ? inputs : outputs, (transposed ? outputs : inputs) / groups, kernel,
                             or_else(recipe_int(p, "kernel_w"), kernel)));
    if (!recipe_says(p, "no_bias"))
        takes_parameter(r, p, LS_SHAPE(outputs));
}

static bool draw_conv2d_by(recipe *r, step *p)
{
    if (!convolution(r, p, false))
        return false;
    take_weights(r, p, false);
    return true;
}

static bool draw_conv_transpose2d_by(recipe *r, step *p)
{
    if (!convolution(r, p, true))
        return false;
    take_weights(r, p, true);
    return true;
}

static ls_tensor *record_conv2d(const forward *f)
{
    const ls_conv c = conv_of(f->step);
    return ls_conv2d(operand(f, 0), parameter(f, 0), parameter(f, 1), &c);
}

static ls_tensor *record_conv_transpose2d(const forward *f)
{
    const ls_conv c = conv_of(f->step);
    return ls_conv_transpose2d(operand(f, 0), parameter(f, 0), parameter(f, 1), &c);
}

/* ---- Pools ---- */

static ls_pool pool_of(const step *p)
{
    return (ls_pool){recipe_int(p, "kernel"), recipe_int(p, "stride"), recipe_int(p, "padding")};
}

static bool draw_pool(recipe *r, step *p)
{
    const sizes *x = from_sizes(r, p);
    recipe_say(p, "kernel", recipe_between(r, 1, 3));
    say_unless(p, "stride", recipe_between(r, 0, 3));
    say_unless(p, "padding", recipe_between(r, 0, recipe_int(p, "kernel") / 2));
    const ls_pool pool = pool_of(p);
    const int stride = or_else(pool.stride, pool.kernel);
    p->to = *x;
    for (int i = 1; i < 3; i++) {
        const int more = x->at[i] + 2 * pool.padding - pool.kernel;
        p->to.at[i] = more < 0 ? 0 : more / stride + 1;
    }
    p->large = recipe_large(r, p->from[0]);
    return p->to.at[1] >= 1 && p->to.at[2] >= 1 && recipe_numbers(&p->to) <= MOST_NUMBERS;
}

static ls_module *make_avg_pool2d(ls_session *s, const step *p)
{
    const ls_pool pool = pool_of(p);
    return ls_nn_avg_pool2d(s, &pool);
}

static ls_module *make_max_pool2d(ls_session *s, const step *p)
{
    const ls_pool pool = pool_of(p);
    return ls_nn_max_pool2d(s, &pool);
}

static ls_tensor *record_avg_pool2d(const forward *f)
{
    const ls_pool pool = pool_of(f->step);
    return ls_avg_pool2d(operand(f, 0), &pool);
}

static ls_tensor *record_max_pool2d(const forward *f)
{
    const ls_pool pool = pool_of(f->step);
    return ls_max_pool2d(operand(f, 0), &pool);
}

static bool draw_global(recipe *r, step *p)
{
    p->to = (sizes){3, {from_sizes(r, p)->at[0], 1, 1}};
    p->large = recipe_large(r, p->from[0]);
    return true;
}

static ls_tensor *record_global(const forward *f)
{
    return ls_global_avg_pool2d(operand(f, 0));
}

/* ---- Maps of another size ---- */

static bool draw_adaptive(recipe *r, step *p)
{
    p->to = (sizes){3, {from_sizes(r, p)->at[0], recipe_between(r, 1, 7), recipe_between(r, 1, 7)}};
    recipe_say(p, "height", p->to.at[1]);
    recipe_say(p, "width", p->to.at[2]);
    p->large = recipe_large(r, p->from[0]);
    return recipe_numbers(&p->to) <= MOST_NUMBERS;
}

static ls_module *make_adaptive(ls_session *s, const step *p)
{
    return ls_nn_adaptive_avg_pool2d(s, recipe_int(p, "height"), recipe_int(p, "width"));
}

static ls_tensor *record_adaptive(const forward *f)
{
    return ls_adaptive_avg_pool2d(operand(f, 0), recipe_int(f->step, "height"), recipe_int(f->step, "width"));
}

static bool draw_upsample(recipe *r, step *p)
{
    const sizes *x = from_sizes(r, p);
    const int factor = recipe_between(r, 1, 3);
    recipe_say(p, "factor", factor);
    recipe_say(p, "bilinear", recipe_between(r, 0, 1));
    p->to = (sizes){3, {x->at[0], factor * x->at[1], factor * x->at[2]}};
    p->large = recipe_large(r, p->from[0]);
    return recipe_numbers(&p->to) <= MOST_NUMBERS;
}

static ls_upsample_mode mode_of(const step *p)
{
    return recipe_int(p, "bilinear") ? LS_BILINEAR : LS_NEAREST;
}

static ls_module *make_upsample(ls_session *s, const step *p)
{
    return ls_nn_upsample2d(s, recipe_int(p, "factor"), mode_of(p));
}

static ls_tensor *record_upsample(const forward *f)
{
    return ls_upsample2d(operand(f, 0), recipe_int(f->step, "factor"), mode_of(f->step));
}

static const char *const side_names[] = {"left", "right", "top", "bottom"};

static bool draw_pad(recipe *r, step *p)
{
    const sizes *x = from_sizes(r, p);
    int more[2] = {0};
    for (int i = 0; i < 4; i++) {
        const int side = recipe_between(r, 0, 2);
        recipe_say(p, side_names[i], side);
        more[i / 2] += side;
    }
    recipe_say(p, "value", ONE_OF(r, 0, 0, 0.5, -1));
    p->to = (sizes){3, {x->at[0], x->at[1] + more[1], x->at[2] + more[0]}};
    p->large = recipe_large(r, p->from[0]);
    return recipe_numbers(&p->to) <= MOST_NUMBERS;
}

static ls_tensor *record_pad(const forward *f)
{
    int sides[4];
    for (int i = 0; i < 4; i++)
        sides[i] = recipe_int(f->step, side_names[i]);
    return ls_pad2d(operand(f, 0), sides, recipe_told(f->step, "value"));
}

const operation map_operations[] = {
    {"nn_conv2d", "3", draw_conv2d, .make = make_conv2d},
    {"conv2d", "3", draw_conv2d_by, .record = record_conv2d},
    {"nn_conv_transpose2d", "3", draw_conv_transpose2d, .make = make_conv_transpose2d},
    {"conv_transpose2d", "3", draw_conv_transpose2d_by, .record = record_conv_transpose2d},
    {"nn_avg_pool2d", "3", draw_pool, .make = make_avg_pool2d, .bare = true},
    {"avg_pool2d", "3", draw_pool, .record = record_avg_pool2d},
    {"nn_max_pool2d", "3", draw_pool, .make = make_max_pool2d, .bare = true},
    {"max_pool2d", "3", draw_pool, .record = record_max_pool2d},
    {"global_avg_pool2d", "3", draw_global, .record = record_global},
    {"nn_adaptive_avg_pool2d", "3", draw_adaptive, .make = make_adaptive, .bare = true},
    {"adaptive_avg_pool2d", "3", draw_adaptive, .record = record_adaptive},
    {"nn_upsample2d", "3", draw_upsample, .make = make_upsample, .bare = true},
    {"upsample2d", "3", draw_upsample, .record = record_upsample},
    {"pad2d", "3", draw_pad, .record = record_pad},
    {0}};
