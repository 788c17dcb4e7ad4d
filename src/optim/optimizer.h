/* The optimizers: what each keeps for a weight from update to update, its moments, and how a step's update goes. */
#pragma once

#include <lockstep.h>

#include "device/update.h"

/* What is wrong with a trainer's options; NULL where nothing is. */
const char *ls_optimizer_wrong(ls_optimizer kind, const ls_optim *options);

const char *ls_optimizer_name(ls_optimizer kind); /* "adamw" */

/* How many moments there are, the last of them the average where one is kept, and what moment i is called in a
 * checkpoint: "velocity"; "exp_avg" and "exp_avg_sq", as in PyTorch; "average". */
int ls_optimizer_moments(ls_optimizer kind, const ls_optim *options);
const char *ls_optimizer_moment(ls_optimizer kind, const ls_optim *options, int i);
/* Whether a tensor of a checkpoint, "velocity:fc.weight", is a moment of any optimizer. */
bool ls_is_moment(const char *name);

/* Where the options say 0. */
double ls_optimizer_beta1(const ls_optim *options);
double ls_optimizer_beta2(const ls_optim *options);
double ls_optimizer_eps(const ls_optim *options);

/* What the sum of a gradient is divided by, of losses that count so much: as many as there are images, mostly. */
float ls_optimizer_divisor(const ls_optim *options, double counted);

static inline bool ls_optimizer_averages(const ls_optim *options)
{
    return options->ema > 0;
}

/* When the average holds so many updates; with 0 it begins. */
ls_averaging ls_optimizer_averaging(const ls_optim *options, int64_t averaged);
/* By the rate `lr`, over a batch that counts `counted`, when the moments hold `age` updates; with age 0 they begin. All
 * but where the moments lie, and the average. */
ls_update ls_optimizer_update(ls_optimizer kind, const ls_optim *options, double lr, int64_t age, double counted);
uint32_t ls_update_hash(const ls_update *how); /* equal for equal numbers */

/* Divides the gradient's sum by this in place of that divisor. */
void ls_update_divide(ls_update *how, float divisor);
