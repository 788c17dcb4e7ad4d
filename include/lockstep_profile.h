/* Lockstep's measurements: where training steps spend their time, what happened when, what a core can do at most, and
 * whether devices compute alike. The rules at the head of lockstep.h hold here too.
 *
 * SPDX-License-Identifier: MIT */
#ifndef LOCKSTEP_PROFILE_H
#define LOCKSTEP_PROFILE_H

#include <lockstep.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Devices' failures, times, memory
 * -------------------------------------------------------------------------------------- */

/* A GPU that fails while others of the network's devices have all that they need is lost: the network goes on without
 * it, with the same bits. Why, in a line, such as "cuda:1: a copy from the card failed: unspecified launch failure; the
 * others go on without it"; each is told once. NULL where there is nothing to tell. Does not wait. */
const char *ls_module_next_failure(ls_module *net);

/* What a device of the trainer's network has done so far, in seconds by the clock and up to this moment; a few readings
 * of the clock a shard count it, always. Does not wait. `i` is its place in the list of devices. */
typedef struct ls_device_times {
    ls_device device;
    double computing; /* the shards of training steps, and parts of others', without what follows */
    double reducing;  /* summing gradients, updating weights */
    double waiting;   /* in training steps: for other devices and ranks, for its core, for room */
    double idle;      /* no step was handed in; the network was evaluated */
    int64_t shards, images;
    double elsewhere; /* of computing and reducing: other programs had its core. Of ls_profile_device, else 0 */
} ls_device_times;
ls_status ls_trainer_device_times(ls_trainer *trainer, int i, ls_device_times *times);

/* Bytes of the host's memory that training over `data` on the network's devices holds at once, besides the data set; of
 * GPUs, which have most in their own memory, what the host keeps. Nothing is allocated for it but a plan. */
ls_status ls_trainer_memory_needed(ls_trainer *trainer, const ls_data *data, int64_t *bytes);

/* ---- Profile ----------------------------------------------------------------------------------------------------- */

/* Where training steps spend their time. From ls_profile_start to ls_profile_stop each operation of the steps handed in
 * is timed, at the price of two readings of the clock; otherwise nothing is. A trainer has one profile at a time. Its
 * numbers are read after the stop; it lives until the innermost scope that was open at the start is left.
 *
 * With `spans` above 0 it also keeps when everything happened, for a picture: for each device up to so many spans (32
 * bytes each), the newest. Operations are then timed by the clock, which is read in a fraction of the time that
 * processor time takes: what other programs had of the core is among them, and missing in `between`. */
typedef struct ls_profile ls_profile;
ls_profile *ls_profile_start(ls_trainer *trainer, int64_t spans); /* waits first; NULL after a failure */
ls_status ls_profile_stop(ls_profile *profile);                   /* waits; a further one does nothing */

/* An operation of the step. Times, here and below, are seconds of all cores together, of processor time where they
 * compute: other programs on these cores show as a part of their own. */
typedef enum ls_direction { LS_FORWARD, LS_BACKWARD_DATA, LS_BACKWARD_WEIGHT } ls_direction;
typedef struct ls_profile_row {
    const char *layer;           /* the module's path, "resnet_block2.0.conv3"; "" of the outermost */
    const char *parameter;       /* the first that it reads or writes the gradient of, "W2"; "" where there is none */
    const char *operation;       /* "conv", "winograd_weight", "batch_norm_backward", ... */
    ls_direction direction;      /* backward: towards what went in, or to the parameters alone */
    int in[3], out[3];           /* channels, height, width of an image, as they go in and out of the forward pass */
    int kernel, stride, padding; /* of convolutions and pools, of their rows; else 0 */
    int kernel_w, groups;        /* the same: the kernel's columns, and the groups of channels, 1 of a pool */
    bool fused_relu, fused_add;  /* a ReLU, a residual addition is part of it */
    bool fused_clamp;            /* a clamp is, such as ReLU6 */
    int64_t calls;               /* one for each shard */
    double seconds, bytes;       /* of all calls; bytes are those of operands and results */
    double flops;                /* of direct convolution's arithmetic, also where Winograd does with less; else 0 */
} ls_profile_row;
int ls_profile_rows(const ls_profile *profile); /* 0 until the stop; in the order of the step */
ls_status ls_profile_at(const ls_profile *profile, int i, ls_profile_row *row);

typedef struct ls_profile_sum {
    int64_t steps, images;
    int cores;
    double seconds; /* by the clock, from the first step's begin to the last one's end */
    /* The parts of seconds * cores. */
    double operations; /* all rows */
    double gathering;  /* images, and converting them from bytes */
    double reducing;   /* summing gradients and updating weights, while other cores may compute */
    double between;    /* the operations; on cards copies */
    double waiting;    /* for work */
    double elsewhere;  /* work that waited while the core was with other programs */
    /* What reducing and waiting delay, by the clock: of each step the time which that core that computed longest did
     * not compute. With nothing to sum and update the steps would be so much shorter. */
    double unhidden;
    int64_t dropped; /* steps whose spans are not there any more */
} ls_profile_sum;
ls_status ls_profile_total(const ls_profile *profile, ls_profile_sum *sum);
ls_status ls_profile_device(const ls_profile *profile, int i, ls_device_times *times); /* from start to stop */

/* ---- Spans ------------------------------------------------------------------------------------------------------- */

/* What happened, and when. A device is at one of the first kinds at any moment, from the first step on, but for waits
 * of less than a microsecond; shards may have folds and reductions within them; these and parts of others have
 * operations. A card's operations, copies and sums are its own, beside what its device's thread is at, which hands them
 * in and waits for them. */
typedef enum ls_span_kind {
    LS_SPAN_IDLE,        /* nothing was handed in */
    LS_SPAN_WAIT,        /* for shards that other devices compute, and for the step's end */
    LS_SPAN_WAIT_CORE,   /* for its core, which another device has */
    LS_SPAN_WAIT_BUFFER, /* for room for one more gradient */
    LS_SPAN_WAIT_RANKS,  /* for sums or weights of other ranks */
    LS_SPAN_SHARD,       /* of a training step: forward and backward */
    LS_SPAN_EVALUATE,    /* a shard of an evaluation or a prediction */
    LS_SPAN_HELP,        /* without a shard of its own: a part of an operation of another device's */
    LS_SPAN_FOLD,        /* sums finished shards, to make room */
    LS_SPAN_GIVE,        /* sums this rank's shards of a bucket for the ranks that own its pieces */
    LS_SPAN_REDUCE,      /* sums a bucket of gradients, and updates its weights; or ends the step */
    LS_SPAN_OPERATION,
    LS_SPAN_STEP,       /* the latter from the first device's begin to the last one's end */
    LS_SPAN_CHECKPOINT, /* is written, beside the training */
    LS_SPAN_TO_CARD,
    LS_SPAN_FROM_CARD,
    LS_SPAN_CARD_SUM,
    LS_SPAN_LINK /* copies; sums, updates; to and from other ranks' cards */
} ls_span_kind;
typedef struct ls_span {
    ls_span_kind kind;
    int device;        /* its place in the list of devices; -1: of a step or checkpoint */
    double begin, end; /* seconds of CLOCK_MONOTONIC */
    int64_t step;      /* the training step, from 1, it belongs to; else 0 */
    int number;        /* of the shard or the bucket; -1 without one */
    int row;           /* of an operation: that of ls_profile_at; -1: it gathers images */
} ls_span;
/* From the beginning of a step on where older ones had to go (`dropped`). One device after another, by their ends;
 * cards last. */
int64_t ls_profile_spans(const ls_profile *profile); /* 0 until the stop */
ls_status ls_profile_span_at(const ls_profile *profile, int64_t i, ls_span *span);

/* ---- Speed ------------------------------------------------------------------------------------------------------- */

/* What one core of these devices can do at most while the others do the same: flops a second in fused multiply-adds on
 * registers (0 where the kernels have no such measure), and bytes a second, read and written, in the sum of two vectors
 * too long for the caches. Waits first; takes a second or so, on threads of its own. */
typedef struct ls_speed {
    double flops, bytes;
} ls_speed;
ls_status ls_measure_speed(ls_session *session, ls_devices devices, ls_speed *speed);

/* ---- Whether devices compute alike ------------------------------------------------------------------------------- */

/* Trains a tiny network of its own on the core of each device. *sum tells what came out: the same on any CPU, for equal
 * ls_options.conv. Devices that disagree are LS_INTERNAL, by name. */
ls_status ls_self_test(ls_session *session, ls_devices devices, uint64_t *sum);

/* Between ls_backward and ls_trainer_step: computes one shard, at each call another, on every device of the network (on
 * a single one twice) and compares loss, statistics and gradients bit by bit. LS_DIFFERS names step, shard, the device
 * that is not with the majority and the first tensor. Over ranks, all of which make this call, the devices are those of
 * all ranks, and before they compute, the ranks' copies of the weights and statistics are compared too. Waits; changes
 * nothing. It costs each device one shard. */
ls_status ls_trainer_verify(ls_trainer *trainer);

#ifdef __cplusplus
}
#endif
#endif
