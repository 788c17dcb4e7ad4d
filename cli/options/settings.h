/* What a command's options say. */
#pragma once

#include <lockstep.h>

enum { MOST_ALLOWED = 32, MOST_SHARD = 1 << 20 /* images */ };
enum { BN_SYNC = -1, BN_SHARD = 0 }; /* else so many images */
enum { LAST_MEAN, LAST_SHARE, LAST_DROP };
enum { KEEP_LAST, KEEP_BEST };

/* NULL and 0 where one was not given and has no default here. */
typedef struct settings {
    const char *model, *dataset, *data, *devices, *weights, *save, *out, *log, *report, *trace, *url, *to, *json, *onnx;
    const char *strip_prefix; /* of names in the weights file */
    const char *weights_skip; /* patterns of names, with commas */
    const char *freeze;       /* likewise */
    int64_t batch, shard /* 0: by the devices */, epochs, steps, limit, limit_test, warmup, timeout, host_ranks,
        in_flight;
    uint64_t seed, shuffle_pulls;
    ls_init init;
    const char *init_text;
    int optimizer, schedule, conv, isa, dtype;        /* as in the header's enums */
    int64_t bn;                                       /* images that BatchNorm's statistics are over, or BN_... */
    int last_batch;                                   /* how a partial one counts: LAST_... */
    double lr;                                        /* negative: the default of model and optimizer */
    double momentum, beta1, beta2, eps, weight_decay; /* negative: the optimizer's default */
    double label_smoothing, clip_norm, ema;
    double start_factor, end_factor, gamma; /* of the schedule; negative: the usual */
    int64_t period, period_factor;          /* likewise; 0: not given */
    bool no_decay;                          /* of what has one dimension */
    bool ema_warmup, ema_buffers, after_warmup;
    bool nesterov, no_shuffle, balance, host_sums, quiet, profile;
    bool flip;
    int64_t crop;
    double erase;
    ls_shape input; /* one image's channels, height and width; rank 0: not given */
    const char *checkpoint;
    bool resume, restart;
    int64_t patience;    /* epochs without a better accuracy; 0: the run goes to its end */
    double validate;     /* training images held out: below 1 their share, else their number; 0: none */
    int keep;            /* the weights that a run ends with: KEEP_... */
    int64_t verify;      /* steps between; 0: never */
    int64_t every_steps; /* between checkpoints; 0: by time */
    double every_seconds;
    const char *allow_changed[MOST_ALLOWED + 1]; /* ends with NULL */
    int n_allow_changed;
    bool allow_classes;                /* the weights' may have other names */
    const char *skipped[MOST_ALLOWED]; /* checks of doctor */
    int n_skipped;
} settings;

/* Where no option says anything. */
extern const settings settings_usual;
