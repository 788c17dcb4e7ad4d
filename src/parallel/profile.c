#include "parallel/profile.h"

#include <math.h>
#include <string.h>

/* A plan that was run, and for each of its steps the times of each core. */
typedef struct measured {
    struct measured *next;
    const ls_plan *plan;
    ls_plan_step *steps; /* a copy: what is read later needs no plan */
    int n;
    ls_tally *tally; /* [cores][n] */
} measured;

struct ls_profile {
    ls_session *session;        /* first: ls_session_of reads it */
    struct ls_trainer *trainer; /* NULL once stopped */
    const ls_flat *flat;        /* the network's: it outlives the trainer */
    int n_cores;
    ls_core_times *cores;
    measured *plans, **last;
    bool begun;
    double first, step_began, latest;
    ls_profile_row *rows;
    int n_rows;
    ls_profile_sum sum;
};

/* ---- While steps run ---- */

static measured *find(const ls_profile *profile, const ls_plan *plan)
{
    measured *m = profile->plans;
    while (m && m->plan != plan)
        m = m->next;
    return m;
}

static void free_measured(ls_context *context, measured *m)
{
    if (!m)
        return;
    ls_release(context, m->steps);
    ls_release(context, m->tally);
    ls_release(context, m);
}

ls_status ls_profile_reserve(ls_profile *profile, const ls_plan *plan)
{
    if (find(profile, plan))
        return LS_OK;
    ls_context *context = &profile->session->context;
    size_t n = (size_t)plan->n_steps;
    measured *m = ls_alloc(context, 1, sizeof *m, "a profile");
    if (m)
        m->steps = ls_alloc(context, n, sizeof *m->steps, "a profile");
    if (m && m->steps)
        m->tally = ls_alloc(context, n * (size_t)profile->n_cores, sizeof *m->tally, "a profile");
    if (!m || !m->tally) {
        free_measured(context, m);
        return LS_OUT_OF_MEMORY;
    }
    memcpy(m->steps, plan->steps, n * sizeof *m->steps);
    m->plan = plan;
    m->n = plan->n_steps;
    *profile->last = m; /* workers at work look for the plans in front of it and go no further */
    profile->last = &m->next;
    return LS_OK;
}

ls_core_times *ls_profile_core(ls_profile *profile, int place)
{
    return &profile->cores[place];
}

ls_tally *ls_profile_tally(ls_profile *profile, const ls_plan *plan, int place)
{
    const measured *m = find(profile, plan);
    return m->tally + (size_t)place * (size_t)m->n;
}

void ls_profile_begin_step(ls_profile *profile)
{
    profile->step_began = ls_seconds();
    for (int i = 0; i < profile->n_cores; i++) {
        profile->cores[i].computed = 0;
        if (!profile->begun)
            profile->cores[i].turn_to = profile->step_began;
    }
    if (!profile->begun)
        profile->first = profile->latest = profile->step_began;
    profile->begun = true;
}

void ls_profile_end_step(ls_profile *profile, int64_t rows)
{
    double longest = 0;
    for (int i = 0; i < profile->n_cores; i++)
        longest = fmax(longest, profile->cores[i].computed);
    profile->latest = ls_seconds();
    profile->sum.unhidden += profile->latest - profile->step_began - longest;
    profile->sum.steps++;
    profile->sum.images += rows;
}

/* ---- Start and stop ---- */

static void stop(ls_profile *profile)
{
    struct ls_trainer *trainer = profile->trainer;
    if (!trainer)
        return;
    ls_engine_wait(trainer->network->engine);
    trainer->profile = NULL;
    profile->trainer = NULL;
}

static void free_profile(void *object)
{
    ls_profile *profile = object;
    ls_context *context = &profile->session->context;
    stop(profile);
    while (profile->plans) {
        measured *m = profile->plans;
        profile->plans = m->next;
        free_measured(context, m);
    }
    ls_release(context, profile->cores);
    ls_release(context, profile->rows);
    ls_release(context, profile);
}

ls_profile *ls_profile_start(ls_trainer *trainer)
{
    if (!trainer || ls_failed(trainer->session))
        return NULL;
    ls_context *context = &trainer->session->context;
    if (trainer->profile) {
        ls_raise(context, LS_BAD_ARGUMENT, "ls_profile_start: the trainer is being measured already");
        return NULL;
    }
    if (ls_network_apart(trainer->network)) {
        ls_raise(context, LS_UNSUPPORTED, "ls_profile_start: operations of %s are not timed",
                 trainer->network->unit->name);
        return NULL;
    }
    if (ls_network_settle(trainer->network) != LS_OK)
        return NULL;
    ls_profile *profile = ls_alloc(context, 1, sizeof *profile, "a profile");
    if (!profile)
        return NULL;
    profile->session = trainer->session;
    profile->last = &profile->plans;
    profile->flat = &trainer->network->flat;
    profile->n_cores = trainer->network->engine->n_cores;
    profile->cores = ls_alloc(context, (size_t)profile->n_cores, sizeof *profile->cores, "a profile");
    if (!profile->cores) {
        free_profile(profile);
        return NULL;
    }
    profile->trainer = trainer;
    trainer->profile = profile;
    return ls_own(trainer->session, profile, free_profile);
}

/* ---- Adding up ---- */

static ls_tally add_tallies(const ls_profile *profile, const measured *m, int step)
{
    ls_tally all = {0};
    for (int i = 0; i < profile->n_cores; i++) {
        const ls_tally *one = &m->tally[(size_t)i * (size_t)m->n + (size_t)step];
        all.calls += one->calls;
        all.images += one->images;
        all.groups += one->groups;
        all.seconds += one->seconds;
    }
    return all;
}

static bool is_image(const ls_argument *a)
{
    return a->c && a->per_image;
}

/* In the backward pass what makes a number for each image passes the gradient on; what else writes into the gradient is the
 * parameters' own. */
static ls_direction direction_of(const ls_plan_step *step, bool backward)
{
    if (backward && is_image(&step->out[0]))
        return LS_BACKWARD_DATA;
    for (int k = 0; k < LS_MAX_OUT; k++)
        if (step->out[k].c && step->out[k].place == LS_IN_GRADIENTS)
            return LS_BACKWARD_WEIGHT;
    return LS_FORWARD;
}

static void set_shape(int shape[3], const ls_argument *a)
{
    shape[0] = a->c;
    shape[1] = a->h;
    shape[2] = a->w;
}

/* The gradient of parameters has as operands what went in and the gradient of what came out, or the latter alone. */
static void set_shapes(ls_profile_row *row, const ls_plan_step *step)
{
    const ls_argument *in = &step->in[0], *out = &step->out[0];
    if (row->direction == LS_BACKWARD_DATA) {
        in = &step->out[0];
        out = &step->in[0];
    } else if (row->direction == LS_BACKWARD_WEIGHT) {
        out = is_image(&step->in[1]) ? &step->in[1] : in;
    }
    set_shape(row->in, in->c ? in : out);
    set_shape(row->out, out->c ? out : in);
}

/* The first parameter that the step reads, or writes the gradient of. */
static const char *parameter_of(const ls_flat *flat, const ls_plan_step *step)
{
    for (int k = 0; k < LS_MAX_IN + LS_MAX_OUT; k++) {
        const ls_argument *a = k < LS_MAX_IN ? &step->in[k] : &step->out[k - LS_MAX_IN];
        for (int i = 0; a->c && i < flat->n_views; i++)
            if ((a->place == LS_IN_WEIGHTS || a->place == LS_IN_GRADIENTS) && flat->views[i].trainable &&
                flat->views[i].offset == a->offset)
                return flat->views[i].name;
    }
    return "";
}

static bool has_windows(ls_op op)
{
    switch (op) {
    case LS_OP_CONV:
    case LS_OP_CONV_DATA:
    case LS_OP_CONV_WEIGHT:
    case LS_OP_WINOGRAD:
    case LS_OP_WINOGRAD_DATA:
    case LS_OP_WINOGRAD_WEIGHT:
    case LS_OP_AVG_POOL:
    case LS_OP_AVG_POOL_BACKWARD:
    case LS_OP_MAX_POOL:
    case LS_OP_MAX_POOL_BACKWARD:
        return true;
    default:
        return false;
    }
}

static ls_profile_row row_of(const ls_plan_step *step, const ls_tally *all, bool backward, const ls_flat *flat)
{
    const ls_attributes *a = &step->attributes;
    ls_cost cost = ls_plan_cost(step);
    ls_profile_row row = {.layer = step->layer ? step->layer : "",
                          .parameter = parameter_of(flat, step),
                          .operation = ls_op_name(a->op),
                          .direction = direction_of(step, backward),
                          .fused_relu = a->fused_relu,
                          .fused_add = a->fused_add,
                          .calls = all->calls,
                          .seconds = all->seconds,
                          .flops = cost.flops * (double)all->images,
                          .bytes = cost.group_bytes * (double)all->groups + cost.call_bytes * (double)all->calls};
    if (has_windows(a->op)) {
        row.kernel = a->kernel;
        row.stride = a->stride;
        row.padding = a->padding;
    }
    set_shapes(&row, step);
    return row;
}

static ls_status make_rows(ls_profile *profile)
{
    size_t n = 0;
    for (const measured *m = profile->plans; m; m = m->next)
        n += (size_t)m->n;
    profile->rows = ls_alloc(&profile->session->context, n, sizeof *profile->rows, "a profile");
    if (!profile->rows)
        return LS_OUT_OF_MEMORY;
    for (const measured *m = profile->plans; m; m = m->next) {
        bool backward = false;
        for (int i = 0; i < m->n; i++) {
            ls_tally all = add_tallies(profile, m, i);
            backward |= m->steps[i].attributes.op == LS_OP_ONES; /* the backward pass begins with it */
            if (m->steps[i].attributes.op == LS_OP_IMAGES) {
                profile->sum.gathering += all.seconds;
            } else if (all.calls) {
                profile->rows[profile->n_rows++] = row_of(&m->steps[i], &all, backward, profile->flat);
                profile->sum.operations += all.seconds;
            }
        }
    }
    return LS_OK;
}

/* From a core's last reading of the clock to the end of the last step, or back from it: a turn may end later than the step. */
static void close_times(ls_core_times *core, double end)
{
    double past = core->turn_to - end, in_turn = fmin(past, core->turn_to - core->turn_from);
    if (past <= 0) {
        core->idle -= past;
    } else {
        core->turns -= in_turn;
        core->idle -= past - in_turn;
    }
}

static void add_up(ls_profile *profile)
{
    ls_profile_sum *sum = &profile->sum;
    double turns = 0, worked = 0;
    for (int i = 0; i < profile->n_cores && profile->begun; i++) {
        ls_core_times *core = &profile->cores[i];
        close_times(core, profile->latest);
        sum->reducing += core->reducing;
        sum->waiting += core->idle + core->blocked;
        turns += core->turns - core->blocked;
        worked += core->worked;
    }
    sum->cores = profile->n_cores;
    sum->seconds = profile->latest - profile->first;
    sum->between = worked - sum->operations - sum->gathering - sum->reducing;
    sum->elsewhere = turns - worked;
}

ls_status ls_profile_stop(ls_profile *profile)
{
    if (!profile)
        return LS_BAD_ARGUMENT;
    ls_session *session = profile->session;
    bool running = profile->trainer != NULL;
    stop(profile);
    if (!ls_failed(session) && running && make_rows(profile) == LS_OK)
        add_up(profile);
    return ls_status_of(session);
}

int ls_profile_rows(const ls_profile *profile)
{
    return profile ? profile->n_rows : 0;
}

static ls_status check_reading(const ls_profile *profile, bool good, const char *function, const char *wrong)
{
    if (!profile)
        return LS_BAD_ARGUMENT;
    ls_context *context = &profile->session->context;
    if (profile->trainer)
        return ls_raise(context, LS_BAD_ARGUMENT, "%s: the profile runs still; call ls_profile_stop first", function);
    return good ? ls_status_of(profile->session) : ls_raise(context, LS_BAD_ARGUMENT, "%s: %s", function, wrong);
}

ls_status ls_profile_at(const ls_profile *profile, int i, ls_profile_row *row)
{
    bool good = profile && row && i >= 0 && i < profile->n_rows;
    ls_status status = check_reading(profile, good, "ls_profile_at", row ? "there is no such row" : "row is NULL");
    if (status == LS_OK)
        *row = profile->rows[i];
    return status;
}

ls_status ls_profile_total(const ls_profile *profile, ls_profile_sum *sum)
{
    ls_status status = check_reading(profile, sum != NULL, "ls_profile_total", "sum is NULL");
    if (status == LS_OK)
        *sum = profile->sum;
    return status;
}
