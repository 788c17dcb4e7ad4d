#include "training/preparation.h"
#include "options/help.h"
#include "options/names.h"
#include "options/outputs.h"
#include "report/report.h"
#include "run/ranks.h"
#include "system/whole.h"
#include "training/best.h"
#include "training/keep.h"
#include "training/rate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <lockstep_train.h>

/* Saving at the end of a long run must not fail on what can be seen before it. */
static int check_save(const char *path)
{
    if (!path)
        return 0;
    if (!run_has("weights files"))
        return failed("--save",
                      "this program is built without weights files; 'lockstep --version' shows what is missing");
    return check_new_file("--save", path);
}

/* Options that need others. */
static int check_together(const settings *c)
{
    if (check_optimizer(c) != 0)
        return STATUS_USAGE;
    if (c->erase > 1)
        return wrong_usage("--erase", "must be from 0 to 1");
    if (c->label_smoothing > 1)
        return wrong_usage("--label-smoothing", "must be from 0 to 1");
    if (c->strip_prefix && !c->weights)
        return wrong_usage("--strip-prefix", "needs --weights");
    if (c->weights_skip && !c->weights)
        return wrong_usage("--weights-skip", "needs --weights");
    if (names_split("--weights-skip", c->weights_skip, &(name_list){.text = ""}) != 0)
        return STATUS_USAGE;
    if (c->keep == KEEP_BEST && !(c->validate > 0))
        return wrong_usage("--keep", "best needs --validate: test images that choose weights judge them too well");
    if (c->allow_classes && !c->weights && !c->resume)
        return wrong_usage("--allow-changed", "classes needs --weights or --resume");
    if (c->resume && c->restart)
        return wrong_usage("--restart", "trains anew, and --resume goes on; say one of them");
    if (c->checkpoint)
        return c->n_allow_changed && !c->resume ? wrong_usage("--allow-changed", "needs --resume") : 0;
    const char *without = c->resume                                ? "--resume"
                          : c->restart                             ? "--restart"
                          : c->every_steps || c->every_seconds > 0 ? "--checkpoint-every"
                          : c->n_allow_changed                     ? "--allow-changed"
                                                                   : NULL;
    return without ? wrong_usage(without, "needs --checkpoint DIR") : 0;
}

int preparation_check(settings *chosen)
{
    outputs_drop_null(COMMAND_TRAIN, chosen);
    int status = check_together(chosen);
    if (status)
        return status;
    if (chosen->allow_classes && chosen->resume && chosen->n_allow_changed < MOST_ALLOWED)
        chosen->allow_changed[chosen->n_allow_changed++] = "classes";
    if (chosen->trace && ls_cluster_ranks(ranks_cluster()) > 1)
        return failed("--trace", "works within one process so far; leave it out, or start without a launcher");
    if (ls_cluster_rank(ranks_cluster()) > 0)
        return 0;
    if ((status = check_output()) != 0 || (status = outputs_check(COMMAND_TRAIN, chosen, NULL, 0)) != 0 ||
        (status = check_save(chosen->save)) != 0)
        return status;
    if (chosen->trace && (status = check_new_file("--trace", chosen->trace)) != 0)
        return status;
    if (!chosen->report)
        return 0;
    return check_report("--report", chosen->report);
}

static double or_usual(double given, double usual)
{
    return given >= 0 ? given : usual;
}

/* The optimizer's settings, with the usual values where none were given. */
static ls_optim optim_of(const settings *c, const char *model, int64_t steps)
{
    ls_optim optim = {.lr = or_usual(c->lr, strcmp(model, "resnet18") == 0 ? 0.1 : 0.2),
                      .momentum = c->momentum,
                      .weight_decay = or_usual(c->weight_decay, c->optimizer == LS_ADAMW ? 0.01 : 0),
                      .nesterov = c->nesterov,
                      .clip_norm = c->clip_norm,
                      .ema = c->ema,
                      .ema_warmup = c->ema_warmup,
                      .ema_buffers = c->ema_buffers,
                      .full_batch = c->last_batch == LAST_SHARE ? c->batch : 0,
                      .schedule = (ls_schedule)c->schedule,
                      .warmup = c->warmup,
                      .after_warmup = c->after_warmup,
                      .total = steps,
                      .start_factor = or_usual(c->start_factor, 0),
                      .end_factor = or_usual(c->end_factor, 0),
                      .gamma = or_usual(c->gamma, 0),
                      .period = c->period,
                      .period_factor = (int)c->period_factor};
    if (c->optimizer != LS_SGD) {
        optim.lr = or_usual(c->lr, 0.001);
        optim.beta1 = or_usual(c->beta1, 0.9);
        optim.beta2 = or_usual(c->beta2, 0.999);
        optim.eps = or_usual(c->eps, 1e-8);
    }
    return optim;
}

static int freeze(const training *t)
{
    name_list patterns;
    const int status = names_split("--freeze", t->run.chosen->freeze, &patterns);
    for (int i = 0; !status && patterns.list[i]; i++)
        if (ls_module_freeze(t->run.net, patterns.list[i], true) != LS_OK)
            return session_failed(t->run.session, "--freeze");
    return status;
}

static int make_trainer(training *t)
{
    const settings *c = t->run.chosen;
    t->optim = optim_of(c, t->run.model, t->steps);
    t->trainer = ls_trainer_new(t->run.net, (ls_optimizer)c->optimizer, &t->optim);
    if (t->trainer && c->lr == 0) /* asked for, not left out */
        ls_trainer_set_lr(t->trainer, 0);
    if (t->trainer && c->no_decay)
        ls_trainer_set_group(t->trainer, "*", &(ls_param_group){.no_decay = true, .vectors = true});
    if (!t->trainer || ls_trainer_check_batches(t->trainer, t->train) != LS_OK)
        return session_failed(t->run.session, "train");
    return 0;
}

/* An evaluation would find out, an epoch later. */
static int check_parts(const training *t)
{
    ls_data_info a, b;
    if (ls_data_about(t->train, &a) != LS_OK || ls_data_about(t->test, &b) != LS_OK)
        return session_failed(t->run.session, "data");
    if (a.channels != b.channels || a.height != b.height || a.width != b.width)
        return failed("data", "the training images are %d x %d x %d, but the test images %d x %d x %d", a.channels,
                      a.height, a.width, b.channels, b.height, b.width);
    if (a.floats != b.floats)
        return failed("data", "the training images are %s, but the test images %s; save both alike",
                      a.floats ? "float32" : "bytes", b.floats ? "float32" : "bytes");
    return 0;
}

/* Only rank 0 writes. */
static int check_outputs(const training *t)
{
    const ls_data *parts[] = {t->train, t->test};
    int status = 0;
    for (int i = 0; i < 2 && !status && ls_cluster_rank(ranks_cluster()) == 0; i++)
        status = outputs_check_data(COMMAND_TRAIN, t->run.chosen, parts[i]);
    if (!status && ls_cluster_rank(ranks_cluster()) == 0)
        status = outputs_check_held(COMMAND_TRAIN, t->run.chosen);
    return status;
}

int preparation_make(training *t)
{
    int status = 0;
    if (!(t->train = run_data(&t->run, LS_TRAIN)) || !(t->test = run_data(&t->run, LS_TEST)))
        return STATUS_FAILED;
    if ((status = check_outputs(t)) != 0 || (status = run_doubt(&t->run, t->train, t->test)) != 0 ||
        (status = check_parts(t)) != 0 || (status = best_hold_out(t)) != 0)
        return status;
    if ((status = run_network(&t->run, t->train)) != 0 || (status = freeze(t)) != 0)
        return status;
    t->rows = ls_data_rows(t->train);
    t->batches = ls_data_batches(t->train);
    count_steps(t, &(ls_checkpoint){.step = 0});
    if ((status = rate_check(t)) != 0)
        return status;
    t->epoch = 1;
    t->last_loss = t->val_acc = t->val_loss = NAN;
    return (status = make_trainer(t)) != 0 ? status : keep_check(t);
}
