#include "options/options.h"
#include "options/meant.h"
#include "options/number.h"
#include "text/say.h"

#include <getopt.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind {
    KIND_TEXT,
    KIND_COUNT, /* int64_t from `least` to `most` */
    KIND_SEED,  /* uint64_t */
    KIND_REAL,  /* double, 0 or more */
    KIND_PART,  /* double: a share below 1, or a whole number */
    KIND_FLAG,
    KIND_CHOICE, /* int, the choice's value */
    KIND_INIT,
    KIND_EVERY,  /* steps, or a time with its unit */
    KIND_SIZES,  /* of an image */
    KIND_NAMES,  /* may be given several times */
    KIND_CHECKS, /* likewise */
    KIND_HELP
} kind;

typedef struct choice {
    const char *name;
    int value;
} choice;

static const choice models[] = {{"lenet", 0}, {"resnet18", 0}, {NULL, 0}};
static const choice datasets[] = {{"fashion-mnist", 0}, {"mnist", 0},  {"cifar10", 0}, {"cifar100", 0},
                                  {"npy", 0},           {"folder", 0}, {NULL, 0}};
static const choice optimizers[] = {{"sgd", LS_SGD}, {"adam", LS_ADAM}, {"adamw", LS_ADAMW}, {NULL, 0}};
static const choice schedules[] = {
    {"constant", LS_CONSTANT}, {"step", LS_STEP_SCHEDULE}, {"cosine", LS_COSINE}, {NULL, 0}};
static const choice convs[] = {{"auto", LS_CONV_AUTO}, {"direct", LS_CONV_DIRECT}, {NULL, 0}};
static const choice dtypes[] = {{"f32", LS_F32}, {"tf32", LS_TF32}, {"bf16", LS_BF16}, {NULL, 0}};
static const choice isas[] = {{"auto", LS_ISA_AUTO}, {"avx512", LS_ISA_AVX512}, {"avx2", LS_ISA_AVX2},
                              {"neon", LS_ISA_NEON}, {"plain", LS_ISA_PLAIN},   {NULL, 0}};
static const choice last_batches[] = {{"mean", LAST_MEAN}, {"share", LAST_SHARE}, {NULL, 0}};
static const choice keeps[] = {{"last", KEEP_LAST}, {"best", KEEP_BEST}, {NULL, 0}};
static const choice norms[] = {{"shard", BN_SHARD}, {"sync", BN_SYNC}, {NULL, 0}};
static const choice checks[] = {{"devices", 0}, {"cores", 0}, {"memory", 0}, {"canary", 0}, {"copies", 0},
                                {"mpi", 0},     {"data", 0},  {"disk", 0},   {NULL, 0}};

typedef struct row {
    const char *name, *argument; /* argument NULL: the option takes none */
    int commands;                /* COMMAND_..., and LOCAL */
    kind kind;
    size_t place;          /* in `settings` */
    const char *help;      /* NULL: for tests, not shown */
    int64_t least, most;   /* of KIND_COUNT */
    const choice *choices; /* of KIND_CHOICE and KIND_CHECKS, and of a KIND_TEXT that takes these alone */
} row;

enum {
    TRAIN = COMMAND_TRAIN,
    RUNS = COMMAND_TRAIN | COMMAND_EVAL | COMMAND_PREDICT,
    EXPORT = COMMAND_EXPORT,
    FILES = COMMAND_EVAL | COMMAND_PREDICT | EXPORT,
    BENCH = COMMAND_BENCH,
    DOCTOR = COMMAND_DOCTOR
};
enum { EVERY = RUNS | COMMAND_FETCH | COMMAND_PLAIN | COMMAND_REPORT | BENCH | DOCTOR | EXPORT };
/* Of where a rank runs and what it leaves behind: ranks may differ in it. The weights' content is compared, not their
 * place. */
enum { LOCAL = 1 << 16 };
#define AT(member) offsetof(settings, member)
#define REAL_LIMIT 1e30 /* the library's */

static const row table[] = {
    {"model", "M", TRAIN | DOCTOR, KIND_TEXT, AT(model), "lenet or resnet18 (default lenet)", 0, 0, models},
    {"model", "M", FILES, KIND_TEXT, AT(model), "lenet or resnet18 (default: as the weights file says)", 0, 0, models},
    {"model", "M", BENCH, KIND_TEXT, AT(model), "lenet or resnet18 (default both)", 0, 0, models},
    {"profile", NULL, BENCH, KIND_FLAG, AT(profile), "where a step's time goes, operation by operation", 0, 0, NULL},
    {"weights", "FILE", TRAIN | LOCAL, KIND_TEXT, AT(weights), "start from these weights (safetensors)", 0, 0, NULL},
    {"weights", "FILE", FILES | LOCAL, KIND_TEXT, AT(weights), "the weights (safetensors); needed", 0, 0, NULL},
    {"strip-prefix", "TEXT", TRAIN | FILES | LOCAL, KIND_TEXT, AT(strip_prefix),
     "remove this from each name in the weights file, such as\nmodule. or _orig_mod. of PyTorch's wrappers", 0, 0,
     NULL},
    {"out", "FILE", COMMAND_PREDICT | LOCAL, KIND_TEXT, AT(out),
     "write the logits here (NumPy's .npy);\nneeded without pictures", 0, 0, NULL},
    {"dataset", "NAME", RUNS | DOCTOR, KIND_TEXT, AT(dataset),
     "fashion-mnist, mnist, cifar10, cifar100, npy (NumPy's files)\nor folder (of images) (default fashion-mnist)", 0,
     0, datasets},
    {"onnx", "FILE", EXPORT, KIND_TEXT, AT(onnx), "write the model here (ONNX); needed", 0, 0, NULL},
    {"input", "SIZES", EXPORT, KIND_SIZES, AT(input),
     "an image's channels, height and width, such as 3x32x32\n(default: as the weights file says, else 1x28x28)", 0, 0,
     NULL},
    {"input", "SIZES", COMMAND_PREDICT, KIND_SIZES, AT(input),
     "channels, height and width of the images that the weights\nwere trained on, such as 3x32x32\n(default: as the "
     "weights file says)",
     0, 0, NULL},
    {"data", "DIR", RUNS | DOCTOR | LOCAL, KIND_TEXT, AT(data),
     "folder of the data set's files\n(default: $LOCKSTEP_DATA, the system's data folder, the user's cache)", 0, 0,
     NULL},
    {"devices", "LIST", RUNS | BENCH | DOCTOR | LOCAL, KIND_TEXT, AT(devices),
     "such as cpu:0,cpu:1, cpu:0-15, cuda:0 or cuda:0x2\n(default: every GPU; without one every core, within the\nCPU "
     "quota)",
     0, 0, NULL},
    {"batch", "N", TRAIN | BENCH | DOCTOR, KIND_COUNT, AT(batch), "images in a step, over all devices (default 256)", 1,
     INT_MAX, NULL},
    {"shard", "N", RUNS | BENCH | DOCTOR, KIND_COUNT, AT(shard),
     "images in a shard, the unit of work (default 64, on GPUs 256)", 1, MOST_SHARD, NULL},
    {"bn", "HOW", TRAIN | BENCH | DOCTOR, KIND_CHOICE, AT(bn),
     "what BatchNorm takes mean and variance over in training:\nshard, or sync for the whole batch, which is then one "
     "shard\n(default shard)",
     0, 0, norms},
    {"epochs", "N", TRAIN, KIND_COUNT, AT(epochs), "passes over the training images (default 10)", 1, INT_MAX, NULL},
    {"steps", "N", TRAIN, KIND_COUNT, AT(steps), "end after N steps in all, unless the epochs end before", 1, INT64_MAX,
     NULL},
    {"steps", "N", BENCH, KIND_COUNT, AT(steps),
     "steps of each of several rounds, or with --profile of one, after\ntwo that warm up (default 40 for lenet, 2 for "
     "resnet18;\n"
     "50 and 4 with --profile)",
     1, 1000000, NULL},
    {"seed", "N", TRAIN, KIND_SEED, AT(seed),
     "seed of all random numbers: first weights, order of images,\naugmentation (default 0)", 0, 0, NULL},
    {"init", "HOW", TRAIN, KIND_INIT, AT(init),
     "how the first weights are drawn: normal:DEVIATION, xavier\nor he (default normal:0.01)", 0, 0, NULL},
    {"save", "FILE", TRAIN | LOCAL, KIND_TEXT, AT(save), "write the trained weights (safetensors)", 0, 0, NULL},
    {"optimizer", "NAME", TRAIN | DOCTOR, KIND_CHOICE, AT(optimizer), "sgd, adam or adamw (default sgd)", 0, 0,
     optimizers},
    {"lr", "X", TRAIN, KIND_REAL, AT(lr),
     "learning rate (default 0.2 for lenet, 0.1 for resnet18;\n0.001 with adam and adamw)", 0, 0, NULL},
    {"momentum", "X", TRAIN | DOCTOR, KIND_REAL, AT(momentum), "momentum of sgd (default 0)", 0, 0, NULL},
    {"nesterov", NULL, TRAIN, KIND_FLAG, AT(nesterov), "use Nesterov's momentum (default off)", 0, 0, NULL},
    {"beta1", "X", TRAIN, KIND_REAL, AT(beta1), "decay of the mean gradient in adam and adamw (default 0.9)", 0, 0,
     NULL},
    {"beta2", "X", TRAIN, KIND_REAL, AT(beta2), "decay of the mean squared gradient in adam and adamw\n(default 0.999)",
     0, 0, NULL},
    {"eps", "X", TRAIN, KIND_REAL, AT(eps), "added to the divisor in adam and adamw (default 1e-8)", 0, 0, NULL},
    {"weight-decay", "X", TRAIN, KIND_REAL, AT(weight_decay),
     "pulls all weights towards 0 (default 0; 0.01 with adamw)", 0, 0, NULL},
    {"clip-norm", "X", TRAIN, KIND_REAL, AT(clip_norm),
     "scale the gradient of all weights together down to norm X\nwhen its norm is larger (default: never)", 0, 0, NULL},
    {"last-batch", "HOW", TRAIN, KIND_CHOICE, AT(last_batch),
     "the size of the step of an epoch's last, smaller batch: mean,\nas large as any, or share, by its share of a "
     "batch\n(default mean)",
     0, 0, last_batches},
    {"schedule", "NAME", TRAIN, KIND_CHOICE, AT(schedule),
     "constant, step (a tenth after half of the run,\na hundredth after three quarters) or cosine (default constant)",
     0, 0, schedules},
    {"warmup", "STEPS", TRAIN, KIND_COUNT, AT(warmup), "steps of linear rise to the learning rate (default 0)", 0,
     INT64_MAX, NULL},
    {"label-smoothing", "X", TRAIN, KIND_REAL, AT(label_smoothing),
     "train towards 1 - X for the right class, and spread X evenly\nover all classes; from 0 to 1 (default 0)", 0, 0,
     NULL},
    {"validate", "N", TRAIN, KIND_PART, AT(validate),
     "hold out N training images, or a share such as 0.1, and judge\neach epoch by them; the seed draws them (default: "
     "none)",
     0, 0, NULL},
    {"keep", "WHICH", TRAIN, KIND_CHOICE, AT(keep),
     "last or best: the weights that the run ends with and saves;\n--validate says which are best (default last)", 0, 0,
     keeps},
    {"patience", "N", TRAIN, KIND_COUNT, AT(patience),
     "end after N epochs without a better accuracy, on the images\nof --validate or else the test images (default: "
     "never)",
     1, INT_MAX, NULL},
    {"limit", "N", TRAIN, KIND_COUNT, AT(limit), "use the first N training images only (default all)", 1, INT64_MAX,
     NULL},
    {"limit-test", "N", RUNS, KIND_COUNT, AT(limit_test), "use the first N test images only (default all)", 1,
     INT64_MAX, NULL},
    {"no-shuffle", NULL, TRAIN, KIND_FLAG, AT(no_shuffle),
     "training images in file order (default: a new order every epoch)", 0, 0, NULL},
    {"flip", NULL, TRAIN, KIND_FLAG, AT(flip),
     "mirror training images left to right with probability 1/2,\nanew in each epoch (default: off)", 0, 0, NULL},
    {"crop", "N", TRAIN, KIND_COUNT, AT(crop),
     "shift training images by up to N pixels, anew in each epoch;\nzeros fill the edge (default 0)", 0, 1 << 20, NULL},
    {"erase", "X", TRAIN, KIND_REAL, AT(erase),
     "set a rectangle of a training image to zero with probability\nX, anew in each epoch (default 0)", 0, 0, NULL},
    {"conv", "HOW", RUNS | BENCH | DOCTOR, KIND_CHOICE, AT(conv),
     "auto or direct (default auto: Winograd where it suits)", 0, 0, convs},
    {"isa", "NAME", RUNS | BENCH | DOCTOR | LOCAL, KIND_CHOICE, AT(isa),
     "auto, avx512, avx2, neon or plain: the widest instruction\nset to use; it changes the speed, not the bits "
     "(default auto)",
     0, 0, isas},
    {"dtype", "TYPE", RUNS | BENCH | DOCTOR, KIND_CHOICE, AT(dtype),
     "f32, tf32 or bf16; tf32 and bf16 need GPUs (default f32)", 0, 0, dtypes},
    {"checkpoint", "DIR", TRAIN, KIND_TEXT, AT(checkpoint), "keep the last three checkpoints of the run in this folder",
     0, 0, NULL},
    {"checkpoint", "DIR", DOCTOR | LOCAL, KIND_TEXT, AT(checkpoint),
     "also check the room for checkpoints in this folder", 0, 0, NULL},
    {"skip", "CHECK", DOCTOR | LOCAL, KIND_CHECKS, 0,
     "checks to leave out: devices, cores, memory, canary, copies,\nmpi, data or disk; several with commas", 0, 0,
     checks},
    {"checkpoint-every", "N", TRAIN, KIND_EVERY, 0,
     "steps between checkpoints, or a time such as 90s, 10m, 2h;\nthe end of the run makes one too (default 10m)", 0, 0,
     NULL},
    {"resume", NULL, TRAIN, KIND_FLAG, AT(resume), "go on from the newest whole checkpoint, if there is one", 0, 0,
     NULL},
    {"restart", NULL, TRAIN, KIND_FLAG, AT(restart),
     "begin anew in a folder that has checkpoints; new ones replace\nthem", 0, 0, NULL},
    {"verify", "STEPS", TRAIN, KIND_COUNT, AT(verify),
     "every so many steps, compare the devices on a shard and the\nranks' weights, bit by bit (default never)", 1,
     INT64_MAX, NULL},
    {"allow-changed", "NAME", TRAIN | LOCAL, KIND_NAMES, 0,
     "with --resume: go on although this setting, such as lr, has\nchanged since the checkpoint; several with commas; "
     "with\n--weights: classes, which may then have other names",
     0, 0, NULL},
    {"allow-changed", "classes", COMMAND_EVAL | COMMAND_PREDICT | LOCAL, KIND_NAMES, 0,
     "classes: the weights' classes may have other names than the\ndata's, or another order", 0, 0, NULL},
    {"log", "FILE", TRAIN | LOCAL, KIND_TEXT, AT(log),
     "write a new log of the run, in JSON lines;\n--resume cuts the old one back to the checkpoint instead", 0, 0,
     NULL},
    {"report", "DIR", TRAIN, KIND_TEXT, AT(report),
     "write a report: DIR/report.html, curve.png and curve.svg\n(curves, settings, confusion matrix, most wrong "
     "images)",
     0, 0, NULL},
    {"trace", "FILE", TRAIN | LOCAL, KIND_TEXT, AT(trace),
     "write a timeline of the run for Perfetto (Chrome's trace\nformat), and print its summary", 0, 0, NULL},
    {"out", "DIR", COMMAND_REPORT, KIND_TEXT, AT(out), "folder of the page and the pictures (default report)", 0, 0,
     NULL},
    {"json", "FILE", BENCH, KIND_TEXT, AT(json), "write the same figures as JSON", 0, 0, NULL},
    {"url", "URL", COMMAND_FETCH, KIND_TEXT, AT(url), "address of the four files (default: the data set's own)", 0, 0,
     NULL},
    {"to", "DIR", COMMAND_FETCH, KIND_TEXT, AT(to), "folder for the files (default: the user's cache)", 0, 0, NULL},
    {"timeout", "SECONDS", RUNS | DOCTOR | LOCAL, KIND_COUNT, AT(timeout),
     "end when a rank or a device makes no progress for so long,\nand name it (default 300 with several ranks, else "
     "never)",
     1, 1000000, NULL},
    {"balance", NULL, TRAIN, KIND_FLAG, AT(balance),
     "over ranks: deal out shards by the speed of the first steps\n(default: the same number to each rank)", 0, 0,
     NULL},
    {"in-flight", "N", RUNS | BENCH | LOCAL, KIND_COUNT, AT(in_flight),
     "shards that a GPU computes at the same time; it changes the\nspeed, not the bits (default: up to 4, by its "
     "memory)",
     1, 4, NULL},
    {"host-sums", NULL, TRAIN, KIND_FLAG, AT(host_sums),
     "over ranks: GPUs exchange gradients through the hosts\n(default: by NCCL, where it is there)", 0, 0, NULL},
    {"quiet", NULL, RUNS | DOCTOR | EXPORT | LOCAL, KIND_FLAG, AT(quiet), "print results and errors only", 0, 0, NULL},
    {"help", NULL, EVERY, KIND_HELP, 0, "print this text", 0, 0, NULL},
    {"host-ranks", "N", TRAIN, KIND_COUNT, AT(host_ranks), NULL, 1, INT_MAX, NULL},
    {"shuffle-pulls", "N", RUNS | LOCAL, KIND_SEED, AT(shuffle_pulls), NULL, 0, 0, NULL},
};
enum { ROWS = sizeof table / sizeof *table };

static const settings defaults = {.batch = 256,
                                  .epochs = 10,
                                  .init = {.kind = LS_NORMAL, .scale = 0.01},
                                  .init_text = "normal:0.01",
                                  .dataset = "fashion-mnist",
                                  .lr = -1,
                                  .beta1 = -1,
                                  .beta2 = -1,
                                  .eps = -1,
                                  .weight_decay = -1};

static const char *choice_name(const choice *choices, int value)
{
    while (choices->name && choices->value != value)
        choices++;
    return choices->name ? choices->name : "?";
}

const char *bn_choice(int bn)
{
    return choice_name(norms, bn);
}

const char *last_batch_choice(int last_batch)
{
    return choice_name(last_batches, last_batch);
}

const char *keep_choice(int keep)
{
    return choice_name(keeps, keep);
}

const char *dtype_choice(int dtype)
{
    return choice_name(dtypes, dtype);
}

const char *isa_choice(int isa)
{
    return choice_name(isas, isa);
}

const char *optimizer_choice(int optimizer)
{
    return choice_name(optimizers, optimizer);
}

const char *schedule_choice(int schedule)
{
    return choice_name(schedules, schedule);
}

const char *conv_choice(int conv)
{
    return choice_name(convs, conv);
}

/* Finds `text` among the choices; NULL, and a usage error said, where it is not there. */
static const choice *choose(const char *option, const choice *choices, const char *text)
{
    char list[128] = "";
    for (const choice *c = choices; c->name; c++) {
        if (strcmp(c->name, text) == 0)
            return c;
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", *list ? ", " : "", c->name);
    }
    wrong_usage(option, "'%s' is none of: %s", text, list);
    return NULL;
}

static int read_count(const char *option, const row *r, const char *text, int64_t *value)
{
    if (number_count(text, r->least, r->most, value))
        return 0;
    if (r->most == INT64_MAX)
        return wrong_usage(option, "'%s' is not a whole number of at least %lld", text, (long long)r->least);
    return wrong_usage(option, "'%s' is not a whole number from %lld to %lld", text, (long long)r->least,
                       (long long)r->most);
}

/* 0.1 is a share; 500 are images. */
static int read_part(const char *option, const char *text, double *value)
{
    int64_t count;
    if (number_count(text, 1, INT_MAX, &count)) {
        *value = (double)count;
        return 0;
    }
    if (number_real(text, 1, value) && *value > 0 && *value < 1)
        return 0;
    return wrong_usage(option, "'%s' is neither a number of images nor a share above 0 and below 1, such as 0.1", text);
}

static int read_init(const char *option, const char *text, settings *chosen)
{
    ls_init init = {.kind = LS_NORMAL, .scale = 0.01};
    if (strcmp(text, "xavier") == 0)
        init.kind = LS_XAVIER;
    else if (strcmp(text, "he") == 0)
        init.kind = LS_HE;
    else if (strncmp(text, "normal:", 7) == 0) {
        if (!number_real(text + 7, REAL_LIMIT, &init.scale) || init.scale == 0)
            return wrong_usage(option, "'%s': the deviation is not a number above 0 and below %g", text, REAL_LIMIT);
    } else if (strcmp(text, "normal") != 0)
        return wrong_usage(option, "'%s' is none of: normal:DEVIATION, xavier, he", text);
    chosen->init = init;
    chosen->init_text = strcmp(text, "normal") == 0 ? defaults.init_text : text;
    return 0;
}

/* 500 is steps; 90s, 10m and 2h are times. */
static int read_every(const char *option, const char *text, settings *chosen)
{
    static const struct unit {
        char letter;
        int seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}};
    char digits[24];
    size_t length = strlen(text);
    chosen->every_steps = 0;
    chosen->every_seconds = 0;
    for (size_t i = 0; length > 1 && length < sizeof digits && i < sizeof units / sizeof *units; i++) {
        int64_t count;
        snprintf(digits, sizeof digits, "%.*s", (int)length - 1, text);
        if (text[length - 1] == units[i].letter && number_count(digits, 1, INT_MAX, &count)) {
            chosen->every_seconds = (double)count * units[i].seconds;
            return 0;
        }
    }
    if (number_count(text, 1, INT64_MAX, &chosen->every_steps))
        return 0;
    return wrong_usage(option, "'%s' is neither a number of steps nor a time such as 90s, 10m, 2h", text);
}

/* One name, or several with commas. They are the settings' own, or the options' that set them. */
static int read_names(const char *option, char *text, settings *chosen)
{
    static const char *const others[][2] = {{"weight-decay", "weight_decay"},
                                            {"clip-norm", "clip_norm"},
                                            {"label-smoothing", "label_smoothing"},
                                            {"last-batch", "full_batch"},
                                            {"no-shuffle", "shuffle"},
                                            {"limit", "data"},
                                            {"dataset", "data"},
                                            {"epochs", "total"},
                                            {"steps", "total"}};
    for (char *name = strtok(text, ","); name; name = strtok(NULL, ",")) {
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            if (strcmp(name, others[i][0]) == 0)
                name = (char *)others[i][1];
        if (strcmp(name, "classes") == 0) {
            chosen->allow_classes = true;
            continue;
        }
        if (chosen->n_allow_changed == MOST_ALLOWED)
            return wrong_usage(option, "is given more than %d times", MOST_ALLOWED);
        chosen->allow_changed[chosen->n_allow_changed++] = name;
    }
    return chosen->n_allow_changed || chosen->allow_classes ? 0 : wrong_usage(option, "its value is empty");
}

/* 3x32x32 */
static int read_sizes(const char *option, char *text, ls_shape *image)
{
    char *rest = NULL;
    int64_t size;
    *image = LS_SHAPE(1);
    bool good = *text && text[strlen(text) - 1] != 'x' && !strstr(text, "xx") && *text != 'x';
    for (char *at = strtok_r(text, "x", &rest); at && good; at = strtok_r(NULL, "x", &rest)) {
        good = image->rank < LS_MAX_RANK && number_count(at, 1, INT_MAX, &size);
        if (good)
            image->dim[image->rank++] = size;
    }
    return good && image->rank == LS_MAX_RANK ? 0
                                              : wrong_usage(option, "needs three sizes of at least 1, such as 1x28x28");
}

static int read_checks(const char *option, const choice *choices, char *text, settings *chosen)
{
    for (char *name = strtok(text, ","); name; name = strtok(NULL, ",")) {
        if (!choose(option, choices, name))
            return STATUS_USAGE;
        if (chosen->n_skipped == MOST_ALLOWED)
            return wrong_usage(option, "is given more than %d times", MOST_ALLOWED);
        chosen->skipped[chosen->n_skipped++] = name;
    }
    return chosen->n_skipped ? 0 : wrong_usage(option, "its value is empty");
}

/* Puts one option's value where it belongs; 0, or the status to exit with once a line is said. */
static int read_value(const row *r, char *text, settings *chosen)
{
    char option[32];
    void *place = (char *)chosen + r->place;
    snprintf(option, sizeof option, "--%s", r->name);
    switch (r->kind) {
    case KIND_TEXT:
        if (!*text)
            return wrong_usage(option, "its value is empty");
        if (r->choices && !choose(option, r->choices, text))
            return STATUS_USAGE;
        *(const char **)place = text;
        return 0;
    case KIND_COUNT:
        return read_count(option, r, text, place);
    case KIND_SEED:
        if (!number_unsigned(text, place))
            return wrong_usage(option, "'%s' is not a whole number from 0 to 18446744073709551615", text);
        return 0;
    case KIND_REAL:
        if (!number_real(text, REAL_LIMIT, place))
            return wrong_usage(option, "'%s' is not a number of at least 0 and below %g", text, REAL_LIMIT);
        return 0;
    case KIND_PART:
        return read_part(option, text, place);
    case KIND_FLAG:
        *(bool *)place = true;
        return 0;
    case KIND_CHOICE: {
        const choice *found = choose(option, r->choices, text);
        if (!found)
            return STATUS_USAGE;
        *(int *)place = found->value;
        return 0;
    }
    case KIND_INIT:
        return read_init(option, text, chosen);
    case KIND_EVERY:
        return read_every(option, text, chosen);
    case KIND_SIZES:
        return read_sizes(option, text, place);
    case KIND_NAMES:
        return read_names(option, text, chosen);
    case KIND_CHECKS:
        return read_checks(option, r->choices, text, chosen);
    case KIND_HELP:
        break;
    }
    return 0;
}

const char *option_at(int i, int *commands)
{
    int shown = -1;
    for (int k = 0; k < ROWS; k++)
        if (table[k].help && ++shown == i) {
            *commands = table[k].commands & ~LOCAL;
            return table[k].name;
        }
    return NULL;
}

const char *option_with_value(int command, const char *value)
{
    for (int i = 0; i < ROWS; i++)
        for (const choice *c = table[i].choices; c && c->name && table[i].commands & command; c++)
            if (strcmp(c->name, value) == 0)
                return table[i].name;
    return NULL;
}

/* What getopt_long could not take. Of `-batch` it has not gone on to the next argument. */
static int refuse_option(int command, int argc, char **argv)
{
    if (optopt >= 256)
        return wrong_usage(argv[optind - 1], "takes no value");
    bool within = optopt && optind < argc && argv[optind][0] == '-' && argv[optind][1] == optopt;
    return unknown_option(command, argv[0], argv[within ? optind : optind - 1]);
}

/* The options of a command with their defaults. */
static void print_options(int command)
{
    for (int i = 0; i < ROWS; i++) {
        const row *r = &table[i];
        if (!(r->commands & command) || !r->help)
            continue;
        char left[32];
        snprintf(left, sizeof left, "--%s%s%s", r->name, r->argument ? " " : "", r->argument ? r->argument : "");
        const char *text = r->help;
        for (const char *label = left; *text; label = "") {
            int length = (int)strcspn(text, "\n");
            printf("  %-20s %.*s\n", label, length, text);
            text += length + (text[length] == '\n');
        }
    }
}

int read_options(int command, int argc, char **argv, settings *chosen, int *first, int *status)
{
    struct option long_options[ROWS + 1];
    int n = 0;
    for (int i = 0; i < ROWS; i++)
        if (table[i].commands & command)
            long_options[n++] =
                (struct option){table[i].name, table[i].argument ? required_argument : no_argument, NULL, 256 + i};
    long_options[n] = (struct option){0};

    *chosen = defaults;
    opterr = 0;
    optind = 0; /* GNU's way to begin anew, whatever was read before */
    for (;;) {
        optopt = 0;
        int got = getopt_long(argc, argv, ":h", long_options, NULL);
        if (got == -1)
            break;
        if (got == ':')
            *status = wrong_usage(argv[optind - 1], "needs a value");
        else if (got == '?')
            *status = refuse_option(command, argc, argv);
        else if (got == 'h' || table[got - 256].kind == KIND_HELP) {
            print_help(command, print_options);
            *status = finish_output();
            return -1;
        } else
            *status = read_value(&table[got - 256], optarg, chosen);
        if (*status)
            return -1;
    }
    *first = optind;
    return argc - optind;
}

bool read_options_only(int command, int argc, char **argv, settings *chosen, int *status)
{
    int first, operands = read_options(command, argc, argv, chosen, &first, status);
    if (operands > 0)
        *status = unknown_argument(command, argv[0], argv[first]);
    return operands >= 0 || *status;
}

/* How many digits tell it from all others. */
static int digits_of(double value)
{
    char text[64];
    int digits = 1;
    while (digits < 17 && snprintf(text, sizeof text, "%.*g", digits, value) > 0 && strtod(text, NULL) != value)
        digits++;
    return digits;
}

int options_list(int command, const settings *chosen, ls_setting list[], char texts[][64], int most)
{
    int n = 0;
    for (int i = 0; i < ROWS && n < most; i++) {
        const row *r = &table[i];
        const void *place = (const char *)chosen + r->place;
        if (!(r->commands & command) || r->commands & LOCAL || r->kind > KIND_EVERY)
            continue;
        char *text = texts[n];
        list[n++] = (ls_setting){r->name, text};
        if (r->kind == KIND_TEXT)
            list[n - 1].value = *(const char *const *)place;
        else if (r->kind == KIND_INIT)
            list[n - 1].value = chosen->init_text;
        else if (r->kind == KIND_EVERY && chosen->every_steps)
            snprintf(text, 64, "%lld steps", (long long)chosen->every_steps);
        else if (r->kind == KIND_EVERY && chosen->every_seconds > 0)
            snprintf(text, 64, "%g s", chosen->every_seconds);
        else if (r->kind == KIND_EVERY)
            snprintf(text, 64, "usual");
        else if (r->kind == KIND_COUNT)
            snprintf(text, 64, "%lld", (long long)*(const int64_t *)place);
        else if (r->kind == KIND_SEED)
            snprintf(text, 64, "%llu", (unsigned long long)*(const uint64_t *)place);
        else if (r->kind == KIND_REAL && *(const double *)place < 0)
            snprintf(text, 64, "the usual");
        else if (r->kind == KIND_REAL || r->kind == KIND_PART)
            snprintf(text, 64, "%.*g", digits_of(*(const double *)place), *(const double *)place);
        else if (r->kind == KIND_FLAG)
            snprintf(text, 64, "%s", *(const bool *)place ? "on" : "off");
        else
            snprintf(text, 64, "%s", choice_name(r->choices, *(const int *)place));
    }
    return n;
}
