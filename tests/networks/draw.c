/* How a random network is drawn: inputs, operations of which some are certain to be there, an end that fits the loss,
 * and a training. */
#include "networks/operation.h"
#include "networks/recipe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const input_kinds[] = {"bytes",          "map",    "features", "sequence", "ids",
                                   "several inputs", "source", "arrays",   "lengths"};
const int n_input_kinds = sizeof input_kinds / sizeof *input_kinds;
const char *const optimizer_kinds[] = {"sgd", "momentum", "nesterov", "adam", "adamw"};
const int n_optimizer_kinds = sizeof optimizer_kinds / sizeof *optimizer_kinds;
const char *const schedule_kinds[] = {"constant",    "step",      "cosine",       "linear",
                                      "exponential", "one_cycle", "warm_restarts"};
const int n_schedule_kinds = sizeof schedule_kinds / sizeof *schedule_kinds;

const char *recipe_input_kind(const recipe *r)
{
    return input_kinds[r->number % (uint64_t)n_input_kinds];
}

static bool begins_with(const recipe *r, const char *kind)
{
    return strcmp(recipe_input_kind(r), kind) == 0;
}

/* ---- Inputs ---- */

static input input_of(recipe *r, input_kind kind)
{
    input in = {.kind = kind};
    const int tokens = recipe_between(r, 2, 9);
    if (kind == BYTES || kind == MAP)
        in.to = (sizes){3, {recipe_between(r, 1, 4), recipe_between(r, 3, 9), recipe_between(r, 3, 9)}};
    else if (kind == FEATURES)
        in.to = (sizes){1, {recipe_between(r, 1, 37)}};
    else if (kind == SEQUENCE)
        in.to = (sizes){2, {tokens, recipe_between(r, 1, 18)}};
    else if (kind == IDS)
        in.to = (sizes){1, {tokens}};
    return in;
}

static void add_lengths(recipe *r, int tokens)
{
    r->inputs[r->n_inputs++] = (input){LENGTHS, {1, {1}}, tokens};
}

static void draw_inputs(recipe *r)
{
    static const char *const first[] = {"bytes", "map", "features", "sequence", "ids"};
    input_kind begin = (input_kind)recipe_between(r, BYTES, IDS);
    int more = 0;
    for (int k = 0; k < 5; k++)
        begin = begins_with(r, first[k]) ? (input_kind)k : begin;
    if (begins_with(r, "source"))
        begin = (input_kind)recipe_between(r, MAP, IDS);
    if (begins_with(r, "lengths"))
        begin = recipe_chance(r, 0.5) ? SEQUENCE : IDS;
    r->inputs[r->n_inputs++] = input_of(r, begin);
    if (begins_with(r, "lengths"))
        add_lengths(r, r->inputs[0].to.at[0]);
    if (begins_with(r, "several inputs"))
        more = recipe_between(r, 1, 3);
    else if (begins_with(r, "source") || begins_with(r, "arrays"))
        more = recipe_between(r, 0, 2);
    for (; more > 0; more--) {
        const input last = r->inputs[r->n_inputs - 1];
        if ((last.kind == SEQUENCE || last.kind == IDS) && recipe_chance(r, 0.6))
            add_lengths(r, last.to.at[0]);
        else
            r->inputs[r->n_inputs++] = input_of(r, (input_kind)recipe_between(r, MAP, IDS));
    }
}

/* An input of ids, in place of another one where there is no room. */
static void need_ids(recipe *r)
{
    for (int i = 0; i < r->n_inputs; i++)
        if (r->inputs[i].kind == IDS)
            return;
    if (r->n_inputs < LS_MAX_INPUTS - 1)
        r->inputs[r->n_inputs++] = input_of(r, IDS);
}

/* ---- Operations ---- */

static int some_number(recipe *r)
{
    int v = recipe_values(r) - 1;
    if (v < r->n_inputs || recipe_chance(r, 0.45))
        v = recipe_between(r, 0, recipe_values(r) - 1);
    if (recipe_is_number(r, v))
        return v;
    return r->inputs[v].kind == IDS ? recipe_add(r, recipe_chance(r, 0.5) ? "embedding" : "nn_embedding", v, NULL) : -1;
}

/* A value that the operation may take. */
static int value_for(recipe *r, const operation *op)
{
    if (!*op->takes)
        return 0;
    if (*op->takes == 'i') {
        int v = 0;
        while (v < r->n_inputs && r->inputs[v].kind != IDS)
            v++;
        return v < r->n_inputs ? v : -1;
    }
    int v = some_number(r);
    if (v >= 0 && !strchr(op->takes, '0' + recipe_sizes(r, v)->rank))
        v = recipe_as_rank(r, v, op->takes[recipe_between(r, 0, (int)strlen(op->takes) - 1)] - '0');
    return recipe_tame(r, v, 3);
}

static void grow(recipe *r, const operation *op)
{
    enum { TRIES = 30 };
    for (int k = 0; k < TRIES; k++) {
        const int steps = r->n_steps, parameters = r->n_parameters;
        const int v = recipe_add(r, op->name, value_for(r, op), NULL);
        if (v >= 0 && r->steps[r->n_steps - 1].large < 1e3) {
            recipe_shrunk(r, v, MOST_NUMBERS * 2 / 3);
            return;
        }
        r->n_steps = steps;
        r->n_parameters = parameters;
    }
}

/* The lengths of a sequence, by what takes them. */
static void use_lengths(recipe *r)
{
    static const char *const takers[] = {"lstm",       "gru",         "nn_lstm",   "nn_lstm_with", "nn_gru",
                                         "last_token", "nn_gru_with", "attention", "nn_attention"};
    for (int i = 1; i < r->n_inputs; i++)
        if (r->inputs[i].kind == LENGTHS) {
            const int v = r->inputs[i - 1].kind == IDS ? recipe_add(r, "embedding", i - 1, NULL) : i - 1;
            recipe_add(r, takers[recipe_between(r, 0, 8)], v, NULL);
        }
}

/* A parameter of another step, such as an embedding's table, in a product. */
static void use_again(recipe *r)
{
    for (int k = 0; k < r->n_parameters; k++)
        for (int v = recipe_values(r) - 1; v >= 0; v--) {
            const ls_shape *w = &r->parameters[k];
            const sizes *x = recipe_sizes(r, v);
            if (w->rank != 2 || !recipe_is_number(r, v) || x->rank < 1 || x->rank > 2)
                continue;
            const int last = x->at[x->rank - 1];
            const step with = {.parameters = {k}, .n_parameters = 1};
            if (last == w->dim[0] || last == w->dim[1]) {
                recipe_add(r, last == w->dim[1] ? "linear" : "matmul", recipe_tame(r, v, 2), &with);
                return;
            }
        }
}

/* Three operations in turn through the table, by strides, so that none is rare, among others. */
static void draw_steps(recipe *r)
{
    enum { CERTAIN = 3, STRIDE = 31 };
    const uint64_t all = (uint64_t)operation_count();
    const operation *certain[CERTAIN];
    for (int k = 0; k < CERTAIN; k++) {
        certain[k] = operation_at((int)((CERTAIN * r->number + (uint64_t)k) * STRIDE % all));
        if (*certain[k]->takes == 'i')
            need_ids(r);
    }
    for (int k = 0; k < CERTAIN; k++) {
        for (int others = recipe_between(r, 0, 3); others > 0; others--)
            grow(r, operation_at(recipe_between(r, 0, (int)all - 1)));
        grow(r, certain[k]);
        if (recipe_chance(r, 0.1))
            grow(r, operation_named("again"));
    }
    if (recipe_chance(r, 0.5))
        use_again(r);
    use_lengths(r);
}

/* ---- The end ---- */

static bool is_used(const recipe *r, int value)
{
    for (int k = 0; k < r->n_steps; k++)
        for (int i = 0; i < r->steps[k].n_from; i++)
            if (r->steps[k].from[i] == value)
                return true;
    return value < r->n_inputs && r->inputs[value].kind == LENGTHS;
}

/* All that nobody reads yet but `kept`, as features: (features); -1 where that is nothing. */
static int gathered(recipe *r, int kept)
{
    enum { EACH = 64 };
    int joined = -1;
    for (int v = 0, n = recipe_values(r); v < n; v++) {
        if (v == kept || is_used(r, v))
            continue;
        int part = recipe_is_number(r, v) ? v : recipe_add(r, "nn_embedding", v, NULL);
        part = recipe_tame(r, recipe_as_rank(r, recipe_shrunk(r, part, EACH), 1), 3);
        if (part < 0)
            continue;
        const step both = {.from = {joined, part}, .n_from = 2};
        joined = joined < 0 ? part : recipe_add(r, "concat_along", joined, &both);
    }
    return joined;
}

static int linear(recipe *r, int value, int features)
{
    step how = {.n_details = 0};
    recipe_say(&how, "features", features);
    return recipe_add(r, "nn_linear", recipe_tame(r, value, 2), &how);
}

/* (classes), (classes, tokens) or (classes, height, width) of a value with as many sizes. */
static int logits(recipe *r, int value, int classes)
{
    const int rank = recipe_sizes(r, value)->rank;
    step turn = {.n_details = 0}, how = {.n_details = 0};
    if (rank == 1)
        return linear(r, value, classes);
    recipe_say(&turn, "i", 1);
    recipe_say(&turn, "j", 2);
    if (rank == 2)
        return recipe_add(r, "transpose", linear(r, value, classes), &turn);
    recipe_say(&how, "kernel", 1);
    recipe_say(&how, "channels", classes);
    return recipe_add(r, "nn_conv2d", recipe_tame(r, value, 2), &how);
}

/* (classes) as (classes, 1) or (classes, 1, 1). */
static int beside(recipe *r, int value, int rank)
{
    const int classes = recipe_sizes(r, value)->at[0];
    step how = {.n_details = 0}, first = {.n_details = 0};
    recipe_say(&how, "channels", rank == 2 ? 1 : classes);
    recipe_say(&how, "height", rank == 2 ? classes : 1);
    recipe_say(&how, "width", 1);
    value = recipe_add(r, "reshape", value, &how);
    recipe_say(&first, "dim", 1);
    return rank == 2 ? recipe_add(r, "mean_over", value, &first) : value;
}

static bool draw_end(recipe *r, int rank)
{
    enum { PLACES = 30, WIDE = 120 };
    int body = -1;
    for (int v = recipe_values(r) - 1; rank > 1 && body < 0 && v >= 0; v--)
        if (recipe_is_number(r, v) && !is_used(r, v))
            body = v;
    const int rest = gathered(r, body);
    if (rank == 1)
        return logits(r, rest, r->classes) >= 0;
    body = body < 0 ? rest : body;
    const int end =
        logits(r, recipe_shrunk(r, recipe_as_rank(r, recipe_shrunk(r, body, WIDE), rank), PLACES), r->classes);
    if (end < 0 || rest < 0 || rest == body)
        return end >= 0;
    const step both = {.from = {end, beside(r, linear(r, rest, r->classes), rank)}, .n_from = 2};
    return both.from[1] >= 0 && recipe_add(r, "add", end, &both) >= 0;
}

/* ---- The loss ---- */

static void draw_loss(recipe *r)
{
    static const double ignored[] = {-100, 0, 1};
    const loss_kind *loss = r->loss;
    r->options = (ls_loss){0};
    for (int c = 0; c < MOST_CLASSES; c++) {
        r->class_weights[c] = ONE_OF(r, 0.5, 1, 1.75, 2.5);
        r->positive_weights[c] = ONE_OF(r, 0.5, 1, 3);
    }
    if (r->classes > 4 && recipe_chance(r, 0.4))
        r->class_weights[2] = r->positive_weights[1] = 0;
    if (loss->smooth)
        r->options.smoothing = ONE_OF(r, 0.125, 0.25, 0.1);
    if (loss->weighs)
        r->options.class_weights = r->class_weights;
    if (loss->positive)
        r->options.positive_weights = r->positive_weights;
    if (loss->ignores) {
        r->options.ignore = (int64_t)recipe_one_of(r, ignored, 3);
        r->options.has_ignore = r->options.ignore == 0 || recipe_chance(r, 0.5);
    }
    if (strcmp(loss->name, "huber") == 0 || strcmp(loss->name, "two") == 0)
        r->options.delta = ONE_OF(r, 0, 0.5, 1.5);
    r->outputs = *recipe_sizes(r, recipe_values(r) - 1);
    r->y = r->outputs;
    if (loss->y == 'l')
        r->y = (sizes){.rank = 0};
    if (loss->y == 'p') {
        r->y = (sizes){r->outputs.rank - 1, {0}};
        for (int i = 0; i < r->y.rank; i++)
            r->y.at[i] = r->outputs.at[i + 1];
    }
}

/* ---- The training ---- */

/* No shard has a single image, over which a BatchNorm may have one number, and no batch so few that no label counts. */
static bool fits(const training *t)
{
    enum { FEWEST = 6 };
    const int last = t->rows % t->batch;
    return (last == 0 || last >= FEWEST) && t->batch % t->shard != 1 && last % t->shard != 1;
}

static void draw_data(recipe *r, training *t)
{
    const input *x = &r->inputs[0];
    do {
        t->rows = recipe_between(r, 18, MOST_ROWS);
        t->batch = recipe_between(r, 6, t->rows);
        t->shard = (int)ONE_OF(r, 2, 3, 5, 7, 8, 16, 17, 20, 64);
    } while (!fits(t));
    t->source = begins_with(r, "source");
    t->arrays = begins_with(r, "arrays");
    t->shuffle = !t->source && recipe_chance(r, 0.6);
    t->direct = recipe_chance(r, 0.3);
    t->names_labels = recipe_chance(r, 0.5);
    if ((x->kind == BYTES || x->kind == MAP) && !t->source && recipe_chance(r, 0.7)) {
        const bool moves = r->y.rank < 2;
        t->augment = (ls_augment){.flip = moves && recipe_chance(r, 0.6),
                                  .crop = moves ? recipe_between(r, 0, 2) : 0,
                                  .erase = recipe_chance(r, 0.5) ? 0.5 : 0};
    }
    t->init = (ls_init){.kind = (ls_init_kind)recipe_between(r, LS_NORMAL, LS_HE), .scale = 0.3};
}

static void draw_schedule(recipe *r, ls_optim *o)
{
    o->schedule = (ls_schedule)((r->number / 5) % (uint64_t)n_schedule_kinds);
    if (o->schedule == LS_ONE_CYCLE || recipe_chance(r, 0.4))
        o->warmup = 2;
    if (o->schedule != LS_EXPONENTIAL && o->schedule != LS_WARM_RESTARTS && o->schedule != LS_CONSTANT)
        o->total = TRAINED + 2;
    if (o->schedule == LS_LINEAR || o->schedule == LS_ONE_CYCLE)
        o->start_factor = 0.25;
    if (o->schedule == LS_LINEAR || o->schedule == LS_COSINE || o->schedule == LS_WARM_RESTARTS)
        o->end_factor = 0.5;
    if (o->schedule == LS_EXPONENTIAL)
        o->gamma = 0.75;
    if (o->schedule == LS_EXPONENTIAL || o->schedule == LS_WARM_RESTARTS)
        o->period = 2;
    if (o->schedule == LS_WARM_RESTARTS)
        o->period_factor = 2;
}

/* The last one that is called. */
static int end_layer(const recipe *r)
{
    int end = 0;
    for (int k = 0; k < r->n_steps; k++)
        end = r->steps[k].layer >= 0 ? r->steps[k].layer : end;
    return end;
}

/* "m3.*" of a layer, or "p2", of those that the network has; the last layer is the end's and is not among them. */
static void draw_pattern(recipe *r, char pattern[24])
{
    const int end = end_layer(r);
    int n = 0;
    *pattern = 0;
    for (int k = 0; k < r->n_parameters; k++)
        if (recipe_between(r, 0, n++) == 0)
            snprintf(pattern, 24, "p%d", k);
    for (int k = 0; k < r->n_steps; k++)
        if (r->steps[k].layer == k && k != end && !r->steps[k].op->bare && !recipe_says(&r->steps[k], "no_affine") &&
            recipe_between(r, 0, n++) == 0)
            snprintf(pattern, 24, "m%d.*", k);
}

static void draw_training(recipe *r)
{
    training *t = &r->training;
    ls_optim *o = &t->options;
    draw_data(r, t);
    const int k = (int)(r->number % (uint64_t)n_optimizer_kinds);
    t->optimizer = optimizer_kinds[k];
    t->kind = k < 3 ? LS_SGD : k == 3 ? LS_ADAM : LS_ADAMW;
    o->lr = k < 3 ? 0.05 : 0.01;
    o->momentum = k == 1 || k == 2 ? 0.9 : 0;
    o->nesterov = k == 2;
    draw_schedule(r, o);
    o->weight_decay = recipe_chance(r, 0.4) ? 0.05 : 0;
    o->clip_norm = recipe_chance(r, 0.3) ? ONE_OF(r, 0.05, 0.5) : 0;
    o->full_batch = recipe_chance(r, 0.2) ? 30 : 0;
    o->ema = recipe_chance(r, 0.4) ? 0.75 : 0;
    o->ema_warmup = o->ema > 0 && recipe_chance(r, 0.5);
    t->passes = recipe_chance(r, 0.3) ? 2 : 1;
    t->later_lr = recipe_chance(r, 0.25) ? o->lr / 2 : 0;
    if (recipe_chance(r, 0.3))
        draw_pattern(r, t->frozen);
    if (recipe_chance(r, 0.3))
        draw_pattern(r, t->grouped);
    t->vectors = recipe_chance(r, 0.2) && r->steps[end_layer(r)].op == operation_named("nn_linear");
}

void recipe_draw(recipe *r, uint64_t seed, uint64_t number, bool still)
{
    bool whole = false;
    for (uint64_t k = 0; !whole; k++) {
        *r = (recipe){.seed = seed, .number = number, .still = still};
        r->state = (seed * 1000003 + number) * 31 + k;
        recipe_random(r);
        r->loss = &loss_kinds[(number + number / 9) % (uint64_t)n_loss_kinds];
        r->classes = recipe_between(r, 2, MOST_CLASSES);
        draw_inputs(r);
        draw_steps(r);
        whole = draw_end(r, r->loss->rank ? r->loss->rank : recipe_between(r, 1, 3));
    }
    draw_loss(r);
    draw_training(r);
}
