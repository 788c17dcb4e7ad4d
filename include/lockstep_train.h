/* Training in detail: what trains and how fast, networks in a chain, averages of the weights.
 *
 * SPDX-License-Identifier: MIT
 *
 * The rules at the head of lockstep.h hold here too. */
#ifndef LOCKSTEP_TRAIN_H
#define LOCKSTEP_TRAIN_H

#include <lockstep.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- What trains ------------------------------------------------------------------------------------------------- */

/* Freezes what a pattern fits: * stands for any characters, ? for one, [12] for one of these ("layer[12].*", "*.bias").
 * A frozen parameter keeps its value: it has no gradient, moments or part in what ranks exchange, and below the lowest
 * parameter that trains there is no backward pass. Frozen running statistics stay as they are, and a BatchNorm that has
 * them normalises by them in training too; to let those of a frozen part move, free "*.running_*" again. Weight and
 * bias of a BatchNorm are frozen both or not at all, and so are its two statistics: a trainer refuses one without the
 * other (LS_BAD_ARGUMENT). `frozen` false: the way back. Of several calls the last whose pattern fits counts.
 *
 * Names are those below `net`, which may be a part of a network; a part that is appended later keeps what it has been
 * told. A pattern that fits nothing is LS_BAD_ARGUMENT, at the latest when the shapes are known. Not while the network
 * has a trainer, whose moments are of what trains (LS_BAD_ARGUMENT). Checkpoints name it among the settings, as
 * `frozen`; over ranks all freeze alike. */
ls_status ls_module_freeze(ls_module *net, const char *pattern, bool frozen);

/* ---- Rates and groups -------------------------------------------------------------------------------------------- */

/* The rate of step k, from 0, with lr the trainer's and T = ls_optim.total. A warm-up comes first: lr*(k + 1)/warmup
 * while k < warmup. Then, with cos(a, b, x) = b + (a - b)*(1 + cos(pi*x))/2, and k the same number, or with
 * after_warmup k - warmup, and T - warmup in place of T (SequentialLR of PyTorch, with warmup for its milestone, of
 * LinearLR(opt, 1/warmup, total_iters=warmup - 1) and the schedule below):
 *
 * LS_STEP_SCHEDULE: lr, from T/2 on 0.1*lr, from 3*T/4 on 0.01*lr.
 *
 * LS_COSINE: lr * cos(1, end_factor, k/T), and the end from T on (CosineAnnealingLR in PyTorch).
 *
 * LS_LINEAR: lr * (start_factor + (end_factor - start_factor)*min(k/T, 1)), start_factor 0: 1 (LinearLR).
 *
 * LS_EXPONENTIAL: lr * gamma^(k/period), k/period a whole number: a period of one epoch is ExponentialLR as it is
 * called once an epoch.
 *
 * LS_ONE_CYCLE: up to r = warmup - 1 lr * cos(start_factor, 1, k/r), then lr * cos(1, end_factor, (k - r)/(T - 1 - r));
 * start_factor 0: 1/25, end_factor 0: start_factor/10000. OneCycleLR, whose max_lr is lr; the momentum stays as it is.
 *
 * LS_WARM_RESTARTS: lr * cos(1, end_factor, x), where x goes from 0 to 1 over `period` steps, and again over
 * period_factor times as many, and so on (CosineAnnealingWarmRestarts). */

/* The learning rate of the next step, as the schedule has it; 0 without a trainer. A step that failed is no step. */
double ls_trainer_lr(const ls_trainer *trainer);
/* From the next step on `lr` stands where the option lr stood: the schedule and its warm-up scale it from where they
 * are. So a program that gives each step a rate of its own leaves the schedule LS_CONSTANT. Moments stay. At least 0
 * and below 1e30, else LS_BAD_ARGUMENT. A checkpoint holds it, and loading one brings back what the run had then. Over
 * ranks every rank makes this call, at the same step: one that updates otherwise than the others is LS_DIFFERS. */
ls_status ls_trainer_set_lr(ls_trainer *trainer, double lr);
/* From the next step on all options are these, for a further phase with another schedule or weight decay: moments,
 * averages and the count of steps, by which a schedule goes, stay as they are. It waits. LS_BAD_ARGUMENT where
 * ls_trainer_new would say so, and where momentum, ema or clip_norm would begin or end. Not while checkpoints of the
 * trainer are open, which hold the options among their settings (LS_BAD_ARGUMENT): leave the scope of these, and open
 * them anew. Over ranks every rank makes this call, at the same step. */
ls_status ls_trainer_set_options(ls_trainer *trainer, const ls_optim *options);

/* A group: parameters of a trainer that are updated with another rate or weight decay, by factors on the trainer's. */
typedef struct ls_param_group {
    double lr, weight_decay; /* factors; 0: 1, -1: 0 */
    bool no_decay;           /* a factor of 0 for weight_decay, as -1 */
    bool vectors; /* of what the pattern fits only what has one dimension: biases, and what norms multiply by */
} ls_param_group;
/* Puts the parameters whose names the pattern fits, as in ls_module_freeze, into a group. Factors of several groups
 * that have a parameter are multiplied; a further call with the same pattern, and the same `vectors`, takes the place
 * of the earlier one. Before the first step and before ls_checkpoints_open, which holds the groups among the settings,
 * as `groups`; over ranks all set the same. LS_BAD_ARGUMENT: a pattern that fits no parameter, at the latest in the
 * first step; a group that changes nothing; a factor for the decay of a trainer that has none. No decay for biases and
 * norms is: ls_trainer_set_group(trainer, "*", &(ls_param_group){.no_decay = true, .vectors = true}); */
ls_status ls_trainer_set_group(ls_trainer *trainer, const char *pattern, const ls_param_group *group);

/* ---- Networks in a chain, and gradients of inputs ---------------------------------------------------------------- */

/* A network may be called on what another one has made, or on anything computed from it, and a loss may be of several
 * networks' results: ls_module_forward(D, ls_module_forward(G, z)), each with a trainer of its own. The networks are of
 * one session; their devices may be others. ls_backward goes through all of it, one call of a network at a time, and
 * what becomes of each network's gradient is said by the calls:
 *
 *   kept: ls_backward keeps the gradient of each network that was called by ls_module_forward. It waits for the step of
 *     that network's own trainer, in any order of the trainers, also where that comes after further passes, which add
 *     to it; ls_clear_grad of one of its parameters drops it.
 *   dropped: ls_backward_for keeps the gradients of the networks of its list alone. Those of the others are not
 *     computed; the pass goes through them.
 *   none: parameters are constants of ls_module_infer, and the pass goes through to what it was called on. It ends at
 *     ls_detach.
 *
 * Each network's step divides by what the loss counts, and its report has that loss. A step moves the running
 * statistics of its own network alone. A loss of several calls of a network counts its images once: the sum of two
 * losses of a batch is their sum. Of several passes in one step each counts its own, so that two of a batch give the
 * mean of both losses; ls_optim.full_batch = batch gives their sum, and the report has it.
 *
 * What two networks share is a network of its own, in front of both or behind them: an encoder with two heads, an actor
 * and a critic. A module is a part of one network alone. Its trainer is the one that updates it, at its step, by what
 * the passes before have kept; a pass that is not to train it leaves it out of ls_backward_for's list:
 *
 *   ls_tensor *code = ls_module_forward(encoder, b.X);
 *   ls_backward(ls_add(first_loss(ls_module_forward(first, code)), second_loss(ls_module_forward(second, code))));
 *   ls_trainer_step(of_encoder), ls_trainer_step(of_first), ls_trainer_step(of_second);
 *
 * An input with numbers of its own that is tracked, ls_track(ls_clone(b.X, ls_host())), gets its gradient for ls_grad,
 * (images, ...) as it is: that of the sum over the images, through ls_module_forward or ls_module_infer. It needs no
 * trainer. Weights beside a network cannot be tracked (LS_UNSUPPORTED).
 *
 * Where there are such inputs, or several networks, ls_backward waits: it computes what the networks have made and the
 * gradients of that, in shards, on all devices of each, and the loss. A network's forward pass runs once more in its
 * step. A gradient goes from one network to another on the host alone, not on one of the devices (LS_UNSUPPORTED).
 * LS_STALE where a network was updated after it was called. */

/* ls_backward that keeps the gradients of n networks, and drops those of all others; n = 0 keeps none, for those of
 * inputs alone. LS_BAD_ARGUMENT for a network that was not called by ls_module_forward on the way to this loss. */
ls_status ls_backward_for(ls_tensor *loss, ls_module *const nets[], int n);

/* How many reports ls_trainer_next_report will never give, as nobody took them in time; 0 without a trainer. */
int64_t ls_trainer_reports_lost(ls_trainer *trainer);

/* ---- Averages ---------------------------------------------------------------------------------------------------- */

/* The moving average of what trains, which is kept where the option ema is above 0: after each update, of weights w,
 *   average = average + (1 - d)*(w - average), d = ema; the first time average = w.
 * With ema_warmup d = min(ema, (1 + n)/(10 + n)), where the average holds n updates: TensorFlow's
 * ExponentialMovingAverage with num_updates, torch_ema's use_num_updates. All else is PyTorch's
 * torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn(ema), in float32. Frozen parameters are no part of it,
 * and stay as they are. So do BatchNorm's statistics, as with use_buffers=False: averages that lag far behind the
 * weights may then be judged by statistics that are not theirs. With ema_buffers the same average is kept of the
 * statistics, as with use_buffers=True.
 *
 * With `on` the averages take the place of the network's values, for evaluation, prediction, saving and fingerprints;
 * without, the network has its own values back, to the bit, as it has when the trainer ends. Meanwhile nothing else may
 * change its values: a step, a checkpoint and ls_trainer_recall are LS_STALE; ls_trainer_remember takes the averages.
 * Before the first update the averages are the values. It waits. Over ranks every rank makes this call.
 * LS_BAD_ARGUMENT without an ema; a call that changes nothing is fine. */
ls_status ls_trainer_use_average(ls_trainer *trainer, bool on);

/* ---- Evaluation that ends early ---------------------------------------------------------------------------------- */

/* Ends the inference under way, or else the next one, after the shards that are being computed: ls_module_evaluate,
 * ls_module_predict and the like, and reading what ls_module_infer makes of a network's own devices. It fails with
 * LS_INTERRUPTED, which ls_catch takes back, and its numbers are NaN; where all shards had begun it succeeds. Steps are
 * left alone. Over ranks it fails on all of them. From any thread, and from a signal's handler. */
void ls_interrupt(ls_session *session);

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* What a module makes in a step is not kept for its backward pass, but computed again right before it: about one more
 * forward pass of the module, and in memory only its results and, while its backward pass runs, what one of these
 * modules makes. Worth it for each of several modules in a row, such as the blocks of a residual network, not for the
 * network as a whole. No bit changes, and dropout draws the same: torch.utils.checkpoint in PyTorch. A module within
 * such a one is part of it. `on` false: the way back. Before the parameters are made, which is the first call, or
 * ls_module_initialize with init.like; LS_BAD_ARGUMENT after that. ls_trainer_memory_needed tells what it saves. */
ls_status ls_module_recompute(ls_module *module, bool on);

/* ---- Before the first step --------------------------------------------------------------------------------------- */

/* Refuses by name, before the first step, what a data set's batches would make impossible: BatchNorm over a single
 * value. */
ls_status ls_trainer_check_batches(ls_trainer *trainer, const ls_data *data);

#ifdef __cplusplus
}
#endif

#endif
