/* The program's options: one table drives parsing, defaults and help. */
#ifndef CLI_OPTIONS_OPTIONS_H
#define CLI_OPTIONS_OPTIONS_H

#include <lockstep.h>
#include <lockstep_cluster.h>

#include "options/help.h"

enum { MOST_ALLOWED = 32, MOST_SHARD = 1 << 20 /* images */ };
enum { BN_SHARD, BN_SYNC };
enum { LAST_MEAN, LAST_SHARE };
enum { KEEP_LAST, KEEP_BEST };

/* What the options say; NULL and 0 where one was not given and has no default here. */
typedef struct settings {
    const char *model, *dataset, *data, *devices, *weights, *save, *out, *log, *report, *trace, *url, *to, *json, *onnx;
    const char *strip_prefix; /* of names in the weights file */
    int64_t batch, shard /* 0: by the devices */, epochs, steps, limit, limit_test, warmup, timeout, host_ranks,
        in_flight;
    uint64_t seed, shuffle_pulls;
    ls_init init;
    const char *init_text;
    int optimizer, schedule, conv, isa, dtype;        /* as in the header's enums */
    int bn;                                           /* where BatchNorm's statistics come from: BN_... */
    int last_batch;                                   /* how a partial one counts: LAST_... */
    double lr;                                        /* negative: the default of model and optimizer */
    double momentum, beta1, beta2, eps, weight_decay; /* negative: the optimizer's default */
    double label_smoothing, clip_norm;
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

/* Reads argv[1..] for a command. On success returns 0 or more, the number of operands, which then stand in argv from
 * *first on. Otherwise a line was said or the help printed: -1, and *status is what to exit with. */
int read_options(int command, int argc, char **argv, settings *chosen, int *first, int *status);

/* The same for a command without operands. False where there is nothing more to do than to exit with *status; where a
 * line was said it is true and *status not 0, for other ranks may have to hear of it. */
bool read_options_only(int command, int argc, char **argv, settings *chosen, int *status);

/* The i-th option that is shown, with the commands that have it; NULL behind the last. A name may come several
 * times. */
const char *option_at(int i, int *commands);
/* The option of a command that has this among the values to choose from; NULL where there is none. */
const char *option_with_value(int command, const char *value);

/* The options of a command that define its result, for comparison between ranks; at most `most`. Numbers are written to
 * texts. */
int options_list(int command, const settings *chosen, ls_setting list[], char texts[][64], int most);

const char *bn_choice(int bn);
const char *last_batch_choice(int last_batch);
const char *keep_choice(int keep);
const char *dtype_choice(int dtype);
const char *isa_choice(int isa);
const char *optimizer_choice(int optimizer);
const char *schedule_choice(int schedule);
const char *conv_choice(int conv);

#endif
