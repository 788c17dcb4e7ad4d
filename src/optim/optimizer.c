#include "optim/optimizer.h"

#include <math.h>
#include <string.h>

#include "base/math.h"
#include "base/number.h"
#include "base/random.h"
#include "optim/schedule.h"

static const struct optimizer {
    const char *name, *moments[LS_MOST_MOMENTS];
} optimizers[] = {[LS_SGD] = {"sgd", {"velocity"}},
                  [LS_ADAM] = {"adam", {"exp_avg", "exp_avg_sq"}},
                  [LS_ADAMW] = {"adamw", {"exp_avg", "exp_avg_sq"}}};
static const char average[] = "average";
enum { OPTIMIZERS = sizeof optimizers / sizeof *optimizers };

static bool is_share(double x)
{
    return x >= 0 && x < 1;
}

const char *ls_optimizer_wrong(ls_optimizer kind, const ls_optim *o)
{
    if ((int)kind < 0 || (int)kind >= OPTIMIZERS)
        return "there is no such optimizer";
    if (!o)
        return "options are NULL";
    if (!ls_is_rate(o->lr))
        return "lr must be at least 0 and below 1e30";
    if (!(o->momentum >= 0 && o->momentum < 1e30) || !(o->weight_decay >= 0 && o->weight_decay < 1e30))
        return "momentum and weight_decay must be at least 0 and below 1e30";
    if (o->nesterov && o->momentum == 0)
        return "nesterov needs a momentum";
    if (kind != LS_SGD && o->momentum != 0)
        return "momentum is SGD's; Adam has beta1";
    if (kind == LS_SGD && (o->beta1 != 0 || o->beta2 != 0 || o->eps != 0))
        return "beta1, beta2 and eps are Adam's";
    if (!is_share(ls_optimizer_beta1(o)) || !is_share(ls_optimizer_beta2(o)))
        return "beta1 and beta2 must be below 1, and above 0 or -1, which is none";
    if (!ls_is_rate(ls_optimizer_eps(o)) || (o->eps > 0 && (float)o->eps == 0))
        return "eps must be below 1e30, no smaller than a float can be, and above 0 or -1, which is none";
    if (!(o->clip_norm >= 0 && o->clip_norm < 1e30))
        return "clip_norm must be at least 0 and below 1e30";
    if (!(o->ema >= 0 && o->ema < 1))
        return "ema must be at least 0 and below 1";
    if (o->ema_warmup && o->ema == 0)
        return "ema_warmup needs an ema";
    if (o->ema_buffers && o->ema == 0)
        return "ema_buffers needs an ema";
    if (o->full_batch < 0)
        return "full_batch must be at least 0";
    return ls_schedule_wrong(o);
}

const char *ls_optimizer_name(ls_optimizer kind)
{
    return optimizers[kind].name;
}

/* That the rule has, without the average. */
static int own_moments(ls_optimizer kind, const ls_optim *options)
{
    return kind == LS_SGD ? options->momentum != 0 : 2;
}

int ls_optimizer_moments(ls_optimizer kind, const ls_optim *options)
{
    return own_moments(kind, options) + ls_optimizer_averages(options);
}

const char *ls_optimizer_moment(ls_optimizer kind, const ls_optim *options, int i)
{
    return i < own_moments(kind, options) ? optimizers[kind].moments[i] : average;
}

bool ls_is_moment(const char *name)
{
    size_t length = strcspn(name, ":");
    if (name[length] && length == sizeof average - 1 && strncmp(name, average, length) == 0)
        return true;
    for (int k = 0; name[length] && k < OPTIMIZERS; k++)
        for (int i = 0; i < LS_MOST_MOMENTS && optimizers[k].moments[i]; i++)
            if (strlen(optimizers[k].moments[i]) == length && strncmp(name, optimizers[k].moments[i], length) == 0)
                return true;
    return false;
}

double ls_optimizer_beta1(const ls_optim *options)
{
    return ls_or_usual(options->beta1, 0.9);
}

double ls_optimizer_beta2(const ls_optim *options)
{
    return ls_or_usual(options->beta2, 0.999);
}

double ls_optimizer_eps(const ls_optim *options)
{
    return ls_or_usual(options->eps, 1e-8);
}

float ls_optimizer_divisor(const ls_optim *o, double counted)
{
    return (float)(o->full_batch ? (double)o->full_batch : counted);
}

ls_averaging ls_optimizer_averaging(const ls_optim *o, int64_t averaged)
{
    const double warm = (double)(1 + averaged) / (double)(10 + averaged);
    const double decay = o->ema_warmup && warm < o->ema ? warm : o->ema;
    return (ls_averaging){.share = ls_optimizer_averages(o) ? (float)(1 - decay) : 0, .first = averaged == 0};
}

static ls_adam adam_update(ls_optimizer kind, const ls_optim *o, double lr, int64_t age, float divisor)
{
    const double beta1 = ls_optimizer_beta1(o), beta2 = ls_optimizer_beta2(o);
    return (ls_adam){.divisor = divisor,
                     .share1 = (float)(1 - beta1),
                     .share2 = (float)(1 - beta2),
                     .rate = (float)(lr / (1 - ls_integer_power(beta1, age + 1))),
                     .scale = (float)(1 / sqrt(1 - ls_integer_power(beta2, age + 1))),
                     .eps = (float)ls_optimizer_eps(o),
                     .weight_decay = kind == LS_ADAM ? (float)o->weight_decay : 0,
                     .decay = kind == LS_ADAMW ? (float)(lr * o->weight_decay) : 0,
                     .first = age == 0};
}

ls_update ls_optimizer_update(ls_optimizer kind, const ls_optim *o, double lr, int64_t age, double counted)
{
    const float divisor = ls_optimizer_divisor(o, counted);
    if (kind != LS_SGD)
        return (ls_update){.rule = LS_RULE_ADAM, .adam = adam_update(kind, o, lr, age, divisor)};
    return (ls_update){.rule = LS_RULE_SGD,
                       .sgd = {.divisor = divisor,
                               .lr = (float)lr,
                               .momentum = (float)o->momentum,
                               .weight_decay = (float)o->weight_decay,
                               .nesterov = o->nesterov,
                               .first = age == 0}};
}

/* Over the numbers of the rule, which have no gaps between them. */
uint32_t ls_update_hash(const ls_update *how)
{
    const uint64_t hash = how->rule == LS_RULE_ADAM ? ls_hash_bytes(&how->adam, sizeof how->adam)
                                                    : ls_hash_bytes(&how->sgd, sizeof how->sgd);
    const uint64_t both = 31 * hash + ls_hash_bytes(&how->averaging, sizeof how->averaging);
    return (uint32_t)(both ^ both >> 32);
}

void ls_update_divide(ls_update *how, float divisor)
{
    if (how->rule == LS_RULE_ADAM)
        how->adam.divisor = divisor;
    else
        how->sgd.divisor = divisor;
}
