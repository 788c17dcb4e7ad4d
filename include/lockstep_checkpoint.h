/* Checkpoints: runs that go on after a break, with the bits of a run without one.
 *
 * SPDX-License-Identifier: MIT
 *
 * The rules at the head of lockstep.h hold here too. */
#ifndef LOCKSTEP_CHECKPOINT_H
#define LOCKSTEP_CHECKPOINT_H

#include <lockstep.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A folder of checkpoints of a run. Each is checkpoint-NUMBER.safetensors (weights, running statistics, the optimizer's
 * moments: `velocity:NAME`, or `exp_avg:NAME` and `exp_avg_sq:NAME`; averages of the weights: `average:NAME`; what
 * ls_trainer_remember keeps: `remembered:NAME`) and checkpoint-NUMBER.json: the step, the data's position, the settings
 * that define the result, the caller's notes and a SHA-256 of everything. A checkpoint appears whole or not at all.
 *
 * A run that loads one goes on with the same bits as if it had never ended, on any devices and any instruction set.
 * Settings that would change the bits are compared when one is loaded: numerics, model, init, seed, shard, conv, dtype,
 * data, batch, shuffle, optimizer, lr, momentum, nesterov, beta1, beta2, eps (the last three with Adam), weight_decay,
 * clip_norm, ema and full_batch (above 0), ema_warmup, ema_buffers and after_warmup (each where it is on), schedule,
 * warmup, total, start_factor, end_factor, gamma, period and period_factor (each with the schedules that take it;
 * end_factor above 0), frozen and groups (the patterns of ls_module_freeze and ls_trainer_set_group, where there are
 * any), batch_norm, drop_last, flip, crop, edge_target and erase (each where it is on), classes (the data's names in
 * their order, where both the checkpoint and the data have some), and the caller's own. A rate that ls_trainer_set_lr
 * has set is none of them: the checkpoint holds it, and lr is the option. Averages that a checkpoint lacks, where ema
 * or ema_buffers is allowed to change, begin with the next update.
 *
 * Over ranks every rank makes each of these calls, at the same step. Rank 0 alone has the folder, reads and writes; the
 * others' disks, directories, settings and `told` do not matter. What is found and loaded, notes too, and what one rank
 * meets is then every rank's (ls_failed_together). A checkpoint goes on over any number of ranks. */
typedef struct ls_checkpoints ls_checkpoints;

/* Text under a name. A list of them ends with a name that is NULL. */
typedef struct ls_note {
    const char *name, *value; /* UTF-8 */
} ls_note;

typedef struct ls_checkpoint_options {
    int keep; /* so many of the newest stay; 0: 3 */
    const ls_note
        *settings; /* of the caller's, that define the result too; copied; "" is as good as none; NULL: none */
    const char *const *allow_changed; /* settings that may differ in what is loaded; ends with NULL; NULL: none */
    void (*told)(const char *line, void *user); /* what loading passes over and why, a line each; may be NULL */
    void *user;
} ls_checkpoint_options;

/* Opens a folder for the trainer's run over `data` (NULL: the caller keeps its own position), and makes it where it is
 * not there; one that it made goes with it where nothing was saved. One process at a time has it: LS_BUSY names the
 * other. It is held until its scope is left. Needs what saving weights and fingerprints need (LS_UNSUPPORTED).
 * `options` may be NULL. */
ls_checkpoints *ls_checkpoints_open(ls_trainer *trainer, ls_data *data, const char *directory,
                                    const ls_checkpoint_options *options);

/* Whether there were whole ones when it was opened (their sums are not looked at). Unless one is loaded they are of
 * another run, and give way to new ones, one by one: a program does well to ask first. */
bool ls_checkpoints_found(const ls_checkpoints *checkpoints);

/* Waits for the steps handed in, copies their result, and writes the checkpoint on a thread of its own while training
 * goes on. `notes` (copied; NULL: none) come back with it. What a write meets is reported by the next of these calls:
 * LS_IO leaves the checkpoints before as they are, and may be taken back with ls_catch to go on and try again. */
ls_status ls_checkpoint_save(ls_checkpoints *checkpoints, const ls_note *notes);
ls_status ls_checkpoint_wait(ls_checkpoints *checkpoints); /* until the last one is on the disk */

typedef struct ls_checkpoint {
    int64_t step;     /* finished updates */
    int64_t epoch;    /* the data continues at batch `batch` of it, both from 0 */
    int batch;        /* as many as an epoch has: its end comes next */
    const char *path; /* of the manifest; lives as long as the session */
} ls_checkpoint;

/* Brings network, trainer and data to the newest whole checkpoint. False where there is none, and after a failure. A
 * damaged one is told and passed over; so is one of other settings, but when all the whole ones are such, that is
 * LS_CHANGED and names them. A failure leaves network, trainer and data as they were. `loaded` may be NULL. */
bool ls_checkpoint_load(ls_checkpoints *checkpoints, ls_checkpoint *loaded);
/* Names of the settings for which it was LS_CHANGED, in the order of its message, for `allow_changed`; ends with NULL.
 * None where the weights are another network's, and on ranks other than 0. Valid until the next load. */
const char *const *ls_checkpoint_differing(const ls_checkpoints *checkpoints);
/* A note of the checkpoint that was loaded; NULL where there is none of that name. */
const char *ls_checkpoint_note(const ls_checkpoints *checkpoints, const char *name);

/* ---- The best weights so far ------------------------------------------------------------------------------------- */

/* Remembers the network's values as they are, in place of what it remembered; goes back to these values (LS_STALE
 * without any), but not to moments or steps. Checkpoints keep them too: the best weights so far, say. Both wait; all
 * ranks make these calls. */
ls_status ls_trainer_remember(ls_trainer *trainer);
ls_status ls_trainer_recall(ls_trainer *trainer);

/* After a loss that is not finite, taken back with ls_catch: goes back to the newest values over which the loss of a
 * batch was finite, but not to moments. *step: the updates behind them. They are those that the last update began with;
 * after an update that was not finite, those that are there. LS_STALE where they are not there any more: values were
 * changed otherwise since, or the step that failed was that of several ranks or of a GPU. It waits, and drops gradients
 * that no update has used. */
ls_status ls_trainer_step_back(ls_trainer *trainer, int64_t *step);

#ifdef __cplusplus
}
#endif

#endif
