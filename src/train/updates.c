#include "train/updates.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <lockstep_train.h>

#include "base/environment.h"
#include "base/random.h"
#include "cluster/cluster.h"
#include "model/layout.h"
#include "optim/optimizer.h"

enum { LEAST_RULES = 8 };

/* ---- Groups ---- */

static ls_status check_fits(const struct ls_trainer *trainer, const ls_group_rule *rule)
{
    const ls_flat *flat = &trainer->network->flat;
    for (int i = 0; i < flat->n_views; i++)
        if (flat->views[i].trainable && ls_group_has(rule, flat->views[i].name, flat->views[i].rank))
            return LS_OK;
    return ls_raise(&trainer->session->context, LS_BAD_ARGUMENT,
                    "ls_trainer_set_group: no parameter%s is called \"%s\"; * stands for any part of a name",
                    rule->group.vectors ? " of one dimension" : "", rule->pattern);
}

static ls_status check_call(const struct ls_trainer *trainer, const char *pattern, const ls_param_group *group)
{
    const char *wrong =
        !pattern || !*pattern ? "the pattern is empty; \"*\" is everything" : ls_group_wrong(group, &trainer->options);
    if (ls_failed(trainer->session))
        return ls_status_of(trainer->session);
    if (!wrong && trainer->updates.settled)
        wrong = "groups are set before the first step, and before ls_checkpoints_open";
    return wrong ? ls_raise(&trainer->session->context, LS_BAD_ARGUMENT, "ls_trainer_set_group: %s", wrong) : LS_OK;
}

/* A place for the rule: that of the one it replaces, or a new one. */
static ls_group_rule *place_for(struct ls_trainer *trainer, const ls_group_rule *rule)
{
    ls_updates *u = &trainer->updates;
    for (int i = 0; i < u->n_rules; i++)
        if (ls_group_is_same(&u->rules[i], rule))
            return &u->rules[i];
    ls_group_rule *rules = ls_grow(&trainer->session->context, u->rules, u->n_rules, &u->rules_capacity, LEAST_RULES,
                                   sizeof *rules, "the groups");
    u->rules = rules ? rules : u->rules;
    return rules ? &u->rules[u->n_rules++] : NULL;
}

ls_status ls_trainer_set_group(ls_trainer *trainer, const char *pattern, const ls_param_group *group)
{
    LS_OWN_ENVIRONMENT;
    if (!trainer)
        return LS_BAD_ARGUMENT;
    if (check_call(trainer, pattern, group) != LS_OK)
        return ls_status_of(trainer->session);
    const ls_group_rule rule = {ls_intern(trainer->session, pattern), *group};
    if (!rule.pattern || (trainer->network->defined && check_fits(trainer, &rule) != LS_OK))
        return ls_status_of(trainer->session);
    ls_group_rule *to = place_for(trainer, &rule);
    if (to)
        *to = rule;
    return ls_status_of(trainer->session);
}

/* ---- Runs ---- */

static int number_of(ls_updates *u, ls_factors factors)
{
    int i = 0;
    while (i < u->n_factors && (u->factors[i].lr != factors.lr || u->factors[i].weight_decay != factors.weight_decay))
        i++;
    if (i == u->n_factors)
        u->factors[u->n_factors++] = factors;
    return i;
}

/* A run ends where a parameter begins that is updated otherwise. */
static void cut(ls_updates *u, const ls_flat *flat)
{
    u->n_runs = u->n_factors = 0;
    for (int i = 0; i < flat->n_views; i++) {
        const ls_view *view = &flat->views[i];
        if (!ls_is_trained(view))
            continue;
        const int rule = number_of(u, ls_group_factors(u->rules, u->n_rules, view->name, view->rank));
        if (u->n_runs && u->runs[u->n_runs - 1].rule == rule)
            continue;
        if (u->n_runs)
            u->runs[u->n_runs - 1].end = view->offset;
        u->runs[u->n_runs++].rule = rule;
    }
    if (u->n_runs)
        u->runs[u->n_runs - 1].end = flat->trainable;
}

ls_status ls_updates_init(struct ls_trainer *trainer)
{
    ls_updates *u = &trainer->updates;
    ls_context *context = &trainer->session->context;
    const ls_flat *flat = &trainer->network->flat;
    const size_t views = (size_t)flat->n_views;
    if (u->runs)
        return LS_OK;
    if (ls_layout_check(trainer->network) != LS_OK)
        return ls_status_of(trainer->session);
    for (int i = 0; i < u->n_rules; i++)
        if (check_fits(trainer, &u->rules[i]) != LS_OK)
            return ls_status_of(trainer->session);
    if (!u->factors)
        u->factors = ls_alloc(context, views, sizeof *u->factors, "the groups");
    ls_update_run *runs = u->factors ? ls_alloc(context, views, sizeof *runs, "the groups") : NULL;
    if (!runs)
        return LS_OUT_OF_MEMORY;
    u->runs = runs;
    u->settled = true;
    cut(u, flat);
    return LS_OK;
}

void ls_updates_destroy(struct ls_trainer *trainer)
{
    ls_context *context = &trainer->session->context;
    ls_release(context, trainer->updates.rules);
    ls_release(context, trainer->updates.factors);
    ls_release(context, trainer->updates.runs);
}

/* ---- A step's rules ---- */

void ls_updates_begin(ls_step_job *step, double lr, int64_t age, int64_t averaged)
{
    const struct ls_trainer *trainer = step->trainer;
    const size_t stride = trainer->network->flat.trainable;
    for (int i = 0; i < trainer->updates.n_factors; i++) {
        const ls_factors *factors = &trainer->updates.factors[i];
        ls_optim options = trainer->options;
        options.weight_decay *= factors->weight_decay;
        step->how[i] = ls_optimizer_update(trainer->kind, &options, lr * factors->lr, age, step->counted);
        step->how[i].stride = stride;
        step->how[i].averaging = ls_optimizer_averaging(&options, averaged);
        step->how[i].average_at = ls_average_at(trainer);
    }
}

uint32_t ls_updates_hash(const ls_step_job *step)
{
    uint32_t hash = 0;
    for (int i = 0; i < step->trainer->updates.n_factors; i++)
        hash = 31 * hash + ls_update_hash(&step->how[i]);
    return hash;
}

const ls_update *ls_updates_at(const ls_step_job *step, size_t at, size_t last, size_t *end)
{
    const ls_update_run *run = step->trainer->updates.runs;
    while (run->end <= at)
        run++;
    *end = run->end < last ? run->end : last;
    return &step->how[run->rule];
}

/* ---- Ranks ---- */

ls_status ls_updates_agree(struct ls_trainer *trainer)
{
    ls_session *session = trainer->session;
    ls_updates *u = &trainer->updates;
    if (u->agreed || ls_failed(session))
        return ls_status_of(session);
    u->settled = u->agreed = true;
    if (ls_cluster_ranks(session->options.cluster) == 1)
        return LS_OK;
    char *frozen = ls_layout_frozen_text(trainer->network);
    char *groups = ls_group_text(&session->context, u->rules, u->n_rules);
    char together[16]; /* ranks that disagreed on it would wait for each other */
    snprintf(together, sizeof together, "%d", session->options.batch_norm);
    const ls_setting settings[] = {{"frozen", frozen}, {"groups", groups}, {"batch_norm", together}};
    ls_cluster_agree_settings(session, settings, sizeof settings / sizeof *settings);
    ls_release(&session->context, frozen);
    ls_release(&session->context, groups);
    return ls_status_of(session);
}
