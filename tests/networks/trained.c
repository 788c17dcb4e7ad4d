#include "networks/trained.h"
#include "support.h"

#include <lockstep_checkpoint.h>
#include <lockstep_train.h>
#include <lockstep_trial.h>
#include <stdlib.h>
#include <string.h>

#include "tensors.h"
#include "training.h"

/* ---- Before the first step ---- */

/* What begins at one number in all places does not any more; numbers that are divided by stay above zero. */
static void unsettle(const ls_parameter_info *info, float *values, void *user)
{
    const recipe *r = user;
    test_random random = {r->seed + r->number * 131};
    for (const char *c = info->name; *c; c++)
        random.state = random.state * 31 + (uint64_t)*c;
    for (int64_t i = 0; i < info->numbers && info->rank == 1; i++)
        values[i] += 0.4f * (float)test_uniform(&random);
}

static ls_devices devices_of(const way *w)
{
    ls_devices devices = test_cpus(w->devices);
    if (w->card)
        devices.at[devices.n - 1] = ls_gpu(0);
    return devices;
}

void recipe_begin(const recipe *r, const way *w, begun *b)
{
    const training *t = &r->training;
    b->s = ls_open(&(ls_options){.seed = r->seed + r->number,
                                 .shard = t->shard,
                                 .isa = w->isa,
                                 .conv = t->direct ? LS_CONV_DIRECT : LS_CONV_AUTO,
                                 .cluster = w->cluster,
                                 .trial = &(ls_trial){.shuffle_pulls = w->pulls}});
    b->data = recipe_data(b->s, r);
    b->net = recipe_network(b->s, r);
    ls_init init = t->init;
    init.like = b->data;
    ls_module_initialize(b->net, devices_of(w), &init);
    ls_module_apply(b->net, unsettle, (void *)r);
    if (*t->frozen)
        ls_module_freeze(b->net, t->frozen, true);
    b->trainer = ls_trainer_new(b->net, t->kind, &t->options);
    if (*t->grouped)
        ls_trainer_set_group(b->trainer, t->grouped,
                             &(ls_param_group){.lr = 2, .weight_decay = t->options.weight_decay > 0 ? 0.5 : 0});
    if (t->vectors)
        ls_trainer_set_group(b->trainer, "*", &(ls_param_group){.no_decay = true, .vectors = true});
}

bool recipe_next(const recipe *r, const begun *b, ls_batch *batch)
{
    if (!test_next(b->data, batch))
        return false;
    for (int i = 0; i < batch->n_inputs && r->training.arrays; i++)
        batch->inputs[i] = ls_clone(batch->inputs[i], ls_host());
    if (r->training.arrays)
        batch->y = ls_clone(batch->y, ls_host());
    return !ls_failed(b->s);
}

ls_tensor *recipe_losses(const recipe *r, const begun *b, const ls_batch *batch)
{
    ls_tensor *outputs = batch->n_inputs > 1 ? ls_module_forward_all(b->net, batch->inputs, batch->n_inputs)
                                             : ls_module_forward(b->net, batch->inputs[0]);
    return loss_record(r, outputs, batch->y);
}

/* ---- Steps ---- */

static void take_reports(const begun *b, outcome *o)
{
    while (o->n_reports < TRAINED && ls_trainer_next_report(b->trainer, &o->reports[o->n_reports]))
        o->n_reports++;
}

static void take_steps(const recipe *r, const begun *b, int from, int to)
{
    const training *t = &r->training;
    for (int k = from; k < to && !ls_failed(b->s); k++) {
        if (k == TRAINED / 2 && t->later_lr > 0)
            ls_trainer_set_lr(b->trainer, t->later_lr);
        ls_batch batch;
        for (int pass = 0; pass < t->passes; pass++)
            if (recipe_next(r, b, &batch))
                ls_backward(recipe_losses(r, b, &batch));
        ls_trainer_step(b->trainer);
    }
}

static void take_values(const begun *b, outcome *o)
{
    const int n = ls_module_parameter_count(b->net);
    o->about = calloc((size_t)n + 1, sizeof *o->about);
    o->names = calloc((size_t)n + 1, sizeof *o->names);
    o->values = calloc((size_t)n + 1, sizeof *o->values);
    for (o->parameters = 0; o->parameters < n; o->parameters++) {
        ls_parameter_info *info = &o->about[o->parameters];
        if (ls_module_parameter_at(b->net, o->parameters, info) != LS_OK)
            return;
        snprintf(o->names[o->parameters], sizeof *o->names, "%s", info->name);
        o->values[o->parameters] = calloc((size_t)info->numbers + 1, sizeof **o->values);
        ls_module_read_parameter(b->net, info->name, o->values[o->parameters], info->numbers);
    }
}

static ls_tensor *loss_of(ls_tensor *outputs, ls_tensor *y, void *user)
{
    return loss_record(user, outputs, y);
}

static ls_tensor *mean_of(ls_tensor *outputs, ls_tensor *y, void *user)
{
    (void)y, (void)user;
    return ls_mean_each(outputs);
}

static void take_metrics(const recipe *r, const begun *b, outcome *o)
{
    ls_module_evaluate_with(b->net, b->data, loss_of, (void *)r, &o->metrics);
    ls_module_measure(b->net, b->data, mean_of, NULL, &o->mean, 1);
}

static void take_outputs(const recipe *r, const begun *b, outcome *o)
{
    ls_batch batch;
    if (!recipe_next(r, b, &batch))
        return;
    ls_tensor *outputs = batch.n_inputs > 1 ? ls_module_infer_all(b->net, batch.inputs, batch.n_inputs)
                                            : ls_module_infer(b->net, batch.inputs[0]);
    if (!outputs)
        return;
    const int64_t n = test_numbers_of(outputs), all = r->outputs.rank == 1 ? r->training.rows * r->outputs.at[0] : 0;
    o->n_outputs = n + all;
    o->outputs = calloc((size_t)o->n_outputs + 1, sizeof *o->outputs);
    ls_read(outputs, o->outputs, n);
    if (all)
        ls_module_predict(b->net, b->data, o->outputs + n, r->outputs.at[0]);
}

static void end(const recipe *r, const begun *b, outcome *o)
{
    ls_wait(b->s);
    take_reports(b, o);
    take_values(b, o);
    ls_module_fingerprint(b->net, o->fingerprint);
    if (r->training.options.ema > 0) {
        ls_trainer_use_average(b->trainer, true);
        ls_module_fingerprint(b->net, o->average);
        ls_trainer_use_average(b->trainer, false);
    }
    take_metrics(r, b, o);
    take_outputs(r, b, o);
    o->status = ls_status_of(b->s);
    snprintf(o->message, sizeof o->message, "%s", ls_message(b->s));
    snprintf(o->isa, sizeof o->isa, "%s", ls_isa_name(b->s));
    ls_close(b->s);
}

/* Until the checkpoint; the run that goes on begins anew. False after a failure, which is the outcome. */
static bool take_first_part(const recipe *r, const way *w, outcome *o)
{
    begun b;
    recipe_begin(r, w, &b);
    ls_checkpoints *kept = ls_checkpoints_open(b.trainer, b.data, w->folder, NULL);
    take_steps(r, &b, 0, w->stops);
    ls_checkpoint_save(kept, NULL);
    ls_checkpoint_wait(kept);
    take_reports(&b, o);
    const bool good = !ls_failed(b.s);
    if (good)
        ls_close(b.s);
    else
        end(r, &b, o);
    return good;
}

void train_recipe(const recipe *r, const way *w, outcome *o)
{
    begun b;
    way second = *w;
    *o = (outcome){.status = LS_OK};
    if (w->stops && !take_first_part(r, w, o))
        return;
    second.devices += w->stops > 0;
    recipe_begin(r, &second, &b);
    if (w->stops) {
        ls_checkpoint loaded = {.step = -1};
        ls_checkpoint_load(ls_checkpoints_open(b.trainer, b.data, w->folder, NULL), &loaded);
        if (loaded.step != w->stops)
            ls_fail(b.s, LS_INTERNAL, "the checkpoint is of step %d", (int)loaded.step);
    }
    take_steps(r, &b, w->stops, TRAINED);
    end(r, &b, o);
}

/* ---- Outcomes ---- */

void outcome_free(outcome *o)
{
    for (int i = 0; i < o->parameters; i++)
        free(o->values[i]);
    free(o->about);
    free(o->names);
    free(o->values);
    free(o->outputs);
    *o = (outcome){.status = LS_OK};
}

static int64_t first_difference(const float *a, const float *b, int64_t n)
{
    int64_t i = 0;
    while (i < n && memcmp(&a[i], &b[i], sizeof *a) == 0)
        i++;
    return i;
}

static bool same_reports(const outcome *a, const outcome *b, char *why, int size)
{
    if (a->n_reports != b->n_reports) {
        snprintf(why, (size_t)size, "%d steps are reported, not %d", b->n_reports, a->n_reports);
        return false;
    }
    for (int k = 0; k < a->n_reports; k++) {
        const ls_report *x = &a->reports[k], *y = &b->reports[k];
        if (memcmp(&x->loss, &y->loss, sizeof x->loss) == 0 && x->correct == y->correct && x->rows == y->rows &&
            memcmp(&x->norm, &y->norm, sizeof x->norm) == 0 && x->step == y->step)
            continue;
        snprintf(why, (size_t)size, "step %d: loss %.9g, not %.9g; %d right, not %d; norm %.9g, not %.9g", k + 1,
                 y->loss, x->loss, (int)y->correct, (int)x->correct, y->norm, x->norm);
        return false;
    }
    return true;
}

static bool same_values(const outcome *a, const outcome *b, char *why, int size)
{
    for (int i = 0; i < a->parameters && i < b->parameters; i++) {
        const int64_t n = a->about[i].numbers, at = first_difference(a->values[i], b->values[i], n);
        if (at == n)
            continue;
        snprintf(why, (size_t)size, "%s: number %d of %d is %.9g, not %.9g", a->names[i], (int)at, (int)n,
                 (double)b->values[i][at], (double)a->values[i][at]);
        return false;
    }
    return true;
}

static bool same_metrics(const outcome *a, const outcome *b, char *why, int size)
{
    if (memcmp(&a->metrics.loss, &b->metrics.loss, sizeof a->metrics.loss) == 0 &&
        a->metrics.correct == b->metrics.correct && a->metrics.rows == b->metrics.rows &&
        memcmp(&a->mean, &b->mean, sizeof a->mean) == 0)
        return true;
    snprintf(why, (size_t)size, "evaluated: loss %.9g, not %.9g; %d right, not %d; mean %.9g, not %.9g",
             b->metrics.loss, a->metrics.loss, (int)b->metrics.correct, (int)a->metrics.correct, b->mean, a->mean);
    return false;
}

bool outcome_same(const outcome *a, const outcome *b, char *why, int size)
{
    if (a->status != b->status || strcmp(a->message, b->message) != 0) {
        snprintf(why, (size_t)size, "it ends with \"%s\", not with \"%s\"", b->message, a->message);
        return false;
    }
    if (!same_values(a, b, why, size) || !same_reports(a, b, why, size))
        return false;
    snprintf(why, (size_t)size, "the fingerprints are %.16s, not %.16s; of the averages %.16s, not %.16s",
             b->fingerprint, a->fingerprint, b->average, a->average);
    if (strcmp(a->fingerprint, b->fingerprint) != 0 || strcmp(a->average, b->average) != 0)
        return false;
    if (!same_metrics(a, b, why, size))
        return false;
    const int64_t at = a->n_outputs == b->n_outputs ? first_difference(a->outputs, b->outputs, a->n_outputs) : 0;
    snprintf(why, (size_t)size, "what it infers behind the training: number %d of %d", (int)at, (int)a->n_outputs);
    return a->n_outputs == b->n_outputs && at == a->n_outputs;
}
