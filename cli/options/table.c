#include "options/table.h"
#include "options/help.h"
#include "options/settings.h"

#include <limits.h>
#include <string.h>

enum {
    TRAIN = COMMAND_TRAIN,
    RUNS = COMMAND_TRAIN | COMMAND_EVAL | COMMAND_PREDICT,
    EXPORT = COMMAND_EXPORT,
    FILES = COMMAND_EVAL | COMMAND_PREDICT | EXPORT,
    BENCH = COMMAND_BENCH,
    DOCTOR = COMMAND_DOCTOR
};
enum { EVERY = RUNS | COMMAND_FETCH | COMMAND_PLAIN | COMMAND_REPORT | BENCH | DOCTOR | EXPORT };
#define AT(member) offsetof(settings, member)

static const row table[] = {
    {"model", "M", TRAIN | DOCTOR, KIND_TEXT, AT(model), "lenet or resnet18 (default lenet)", 0, 0, model_choices},
    {"model", "M", FILES, KIND_TEXT, AT(model), "lenet or resnet18 (default: as the weights file says)", 0, 0,
     model_choices},
    {"model", "M", BENCH, KIND_TEXT, AT(model), "lenet or resnet18 (default both)", 0, 0, model_choices},
    {"profile", NULL, BENCH, KIND_FLAG, AT(profile), "where a step's time goes, operation by operation", 0, 0, NULL},
    {"weights", "FILE", TRAIN | LOCAL, KIND_TEXT, AT(weights), "start from these weights (safetensors)", 0, 0, NULL},
    {"weights", "FILE", FILES | LOCAL, KIND_TEXT, AT(weights), "the weights (safetensors); needed", 0, 0, NULL},
    {"strip-prefix", "TEXT", TRAIN | FILES | LOCAL, KIND_TEXT, AT(strip_prefix),
     "remove this text from the beginning of each name in the\nweights file, such as 'module.' or '_orig_mod.', "
     "which\nPyTorch's wrappers add",
     0, 0, NULL},
    {"weights-skip", "NAMES", TRAIN, KIND_LIST, AT(weights_skip),
     "do not read these parameters from the weights file. NAMES are\nseparated by commas; * stands for any text: "
     "'fc.*' is the last\n"
     "layer of resnet18 (default: read all)",
     0, 0, NULL},
    {"freeze", "NAMES", TRAIN, KIND_LIST, AT(freeze),
     "do not train these parameters. NAMES are separated by commas; *\nstands for any text, as in 'resnet_block2.*' "
     "(default: train all)",
     0, 0, NULL},
    {"out", "FILE", COMMAND_PREDICT | LOCAL, KIND_TEXT, AT(out),
     "write the logits to this file (NumPy's .npy);\nneeded where no picture is named", 0, 0, NULL},
    {"dataset", "NAME", RUNS | DOCTOR, KIND_TEXT, AT(dataset),
     "fashion-mnist, mnist, cifar10, cifar100, npy (NumPy's files)\nor folder (of images) (default fashion-mnist)", 0,
     0, dataset_choices},
    {"onnx", "FILE", EXPORT, KIND_TEXT, AT(onnx), "write the model here (ONNX); needed", 0, 0, NULL},
    {"input", "SIZES", EXPORT, KIND_SIZES, AT(input),
     "an image's channels, height and width, such as 3x32x32\n(default: as the weights file says, else 1x28x28)", 0, 0,
     NULL},
    {"input", "SIZES", COMMAND_PREDICT, KIND_SIZES, AT(input),
     "channels, height and width of the images that the weights\nwere trained on, such as 3x32x32\n(default: as the "
     "weights file says)",
     0, 0, NULL},
    {"data", "DIR", RUNS | DOCTOR | LOCAL, KIND_TEXT, AT(data),
     "folder of the data set's files (default: $LOCKSTEP_DATA, else\nthe system's data folder, else the user's cache)",
     0, 0, NULL},
    {"devices", "LIST", RUNS | BENCH | DOCTOR | LOCAL, KIND_TEXT, AT(devices),
     "such as 'cpu:0,cpu:1', 'cpu:0-15', 'cuda:0', or 'cuda:0x2'\n(card 0 twice, as two devices) (default: every GPU; "
     "where there\n"
     "is none, every core, within the CPU quota)",
     0, 0, NULL},
    {"batch", "N", TRAIN | BENCH | DOCTOR, KIND_COUNT, AT(batch), "images in a step, over all devices (default 256)", 1,
     INT_MAX, NULL},
    {"shard", "N", RUNS | BENCH | DOCTOR, KIND_COUNT, AT(shard),
     "images in a shard, the unit of work (default 64; 256 in tf32 and bf16)", 1, MOST_SHARD, NULL},
    {"bn", "HOW", TRAIN | BENCH | DOCTOR, KIND_COUNT, AT(bn),
     "the images over which BatchNorm computes mean and variance in\ntraining: with 'shard' those of one shard, with "
     "'sync' all of\nthe batch, with a number N those of N images in a row. N must be\na multiple of --shard (default "
     "shard)",
     1, MOST_SHARD, bn_choices},
    {"epochs", "N", TRAIN, KIND_COUNT, AT(epochs), "passes over the training images (default 10)", 1, INT_MAX, NULL},
    {"steps", "N", TRAIN, KIND_COUNT, AT(steps), "end after N steps in all, or after --epochs if that is sooner", 1,
     INT64_MAX, NULL},
    {"steps", "N", BENCH, KIND_COUNT, AT(steps),
     "steps in each round, after two steps that warm up (default 40\nfor lenet and 2 for resnet18; 50 and 4 with "
     "--profile). There\n"
     "are several rounds, but with --profile only one",
     1, 1000000, NULL},
    {"seed", "N", TRAIN, KIND_SEED, AT(seed),
     "seed of all random numbers: first weights, order of images,\naugmentation (default 0)", 0, 0, NULL},
    {"init", "HOW", TRAIN, KIND_INIT, AT(init),
     "how the first weights are drawn: normal:DEVIATION, xavier\nor he (default normal:0.01)", 0, 0, NULL},
    {"save", "FILE", TRAIN | LOCAL, KIND_TEXT, AT(save), "write the trained weights (safetensors)", 0, 0, NULL},
    {"optimizer", "NAME", TRAIN | DOCTOR, KIND_CHOICE, AT(optimizer), "sgd, adam or adamw (default sgd)", 0, 0,
     optimizer_choices},
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
    {"no-decay", NULL, TRAIN, KIND_FLAG, AT(no_decay),
     "leave biases and BatchNorm's weights out of --weight-decay\n(default: it pulls all weights towards 0)", 0, 0,
     NULL},
    {"clip-norm", "X", TRAIN, KIND_REAL, AT(clip_norm),
     "when the norm of the whole gradient is above X, scale the\ngradient to norm X (default: never)", 0, 0, NULL},
    {"ema", "X", TRAIN | DOCTOR, KIND_REAL, AT(ema),
     "keep a moving average of the weights with decay X, such as\n0.999; accuracy is measured with it, and --save "
     "writes "
     "it\n"
     "(default: none)",
     0, 0, NULL},
    {"ema-warmup", NULL, TRAIN, KIND_FLAG, AT(ema_warmup),
     "begin with a smaller decay: after n updates it is\n(1 + n)/(10 + n), as long as this is below --ema (default "
     "off)",
     0, 0, NULL},
    {"ema-buffers", NULL, TRAIN, KIND_FLAG, AT(ema_buffers),
     "average BatchNorm's running mean and variance with --ema too;\nelse the averages are judged and saved with the "
     "network's own\n(default off)",
     0, 0, NULL},
    {"last-batch", "HOW", TRAIN, KIND_CHOICE, AT(last_batch),
     "how much an epoch's last batch counts if it is not full: with\n'mean' as much as a full batch, with 'share' in "
     "proportion to its\n"
     "images, with 'drop' not at all: the epoch ends before it\n(default mean)",
     0, 0, last_batch_choices},
    {"schedule", "NAME", TRAIN, KIND_CHOICE, AT(schedule),
     "how the learning rate changes in the run: constant, step (a\ntenth of --lr after half of the run, a hundredth "
     "after three\n"
     "quarters), cosine, linear, exponential, one-cycle or\nwarm-restarts (default constant)",
     0, 0, schedule_choices},
    {"warmup", "STEPS", TRAIN, KIND_COUNT, AT(warmup),
     "steps at the start, during which the learning rate rises to\n--lr (default 0; with one-cycle 0.3 of the run's "
     "steps)",
     0, INT64_MAX, NULL},
    {"after-warmup", NULL, TRAIN, KIND_FLAG, AT(after_warmup),
     "let the schedule begin where --warmup ends; else it counts from\nthe run's first step, and the rate jumps to it "
     "there (default off)",
     0, 0, NULL},
    {"start-factor", "X", TRAIN, KIND_REAL, AT(start_factor),
     "where linear and one-cycle begin, as a factor of the learning\nrate (default 1; 0.04 with one-cycle)", 0, 0,
     NULL},
    {"end-factor", "X", TRAIN, KIND_REAL, AT(end_factor),
     "where cosine, linear, one-cycle and warm-restarts end, as a\nfactor of the learning rate (default 0; with "
     "one-cycle a\nten-thousandth of --start-factor)",
     0, 0, NULL},
    {"gamma", "X", TRAIN, KIND_REAL, AT(gamma),
     "needed with --schedule exponential: the learning rate is\nmultiplied by X after each --period", 0, 0, NULL},
    {"period", "STEPS", TRAIN, KIND_COUNT, AT(period),
     "with exponential: the steps from one fall of the rate to the\nnext (default 1). With warm-restarts: the steps "
     "until the first\n"
     "restart; needed there. An epoch has one step for each batch:\n235 with 60,000 images and --batch "
     "256",
     1, INT64_MAX, NULL},
    {"period-factor", "N", TRAIN, KIND_COUNT, AT(period_factor),
     "with warm-restarts each period is N times as long as the one\nbefore (default 1)", 1, INT_MAX, NULL},
    {"label-smoothing", "X", TRAIN, KIND_REAL, AT(label_smoothing),
     "train towards 1 - X for the right class, and spread X evenly\nover all classes; from 0 to 1 (default 0)", 0, 0,
     NULL},
    {"validate", "N", TRAIN, KIND_PART, AT(validate),
     "hold out N training images, or a share of them such as 0.1. They\nare not trained on, and after each epoch "
     "accuracy "
     "is measured on\nthem. The seed determines which ones (default: none)",
     0, 0, NULL},
    {"keep", "WHICH", TRAIN, KIND_CHOICE, AT(keep),
     "which weights the run ends with and saves: with 'last' those of\nthe last epoch, with 'best' those of the epoch "
     "with the best\n"
     "accuracy on the images of --validate. For best, --validate is\nrequired (default last)",
     0, 0, keep_choices},
    {"patience", "N", TRAIN, KIND_COUNT, AT(patience),
     "end after N epochs without a better accuracy, on the images\nof --validate or else the test images (default: "
     "never)",
     1, INT_MAX, NULL},
    {"limit", "N", TRAIN, KIND_COUNT, AT(limit), "use the first N training images only (default all)", 1, INT64_MAX,
     NULL},
    {"limit-test", "N", RUNS, KIND_COUNT, AT(limit_test), "use the first N test images only (default all)", 1,
     INT64_MAX, NULL},
    {"no-shuffle", NULL, TRAIN, KIND_FLAG, AT(no_shuffle),
     "read training images in file order (default: a new order every\nepoch)", 0, 0, NULL},
    {"flip", NULL, TRAIN, KIND_FLAG, AT(flip),
     "mirror training images left to right with probability 1/2,\nanew in each epoch (default: off)", 0, 0, NULL},
    {"crop", "N", TRAIN, KIND_COUNT, AT(crop),
     "shift training images by up to N pixels, anew in each epoch;\nzeros fill the edge (default 0)", 0, 1 << 20, NULL},
    {"erase", "X", TRAIN, KIND_REAL, AT(erase),
     "with probability X, set a rectangle of a training image to zero,\nanew in each epoch (default 0)", 0, 0, NULL},
    {"conv", "HOW", RUNS | BENCH | DOCTOR, KIND_CHOICE, AT(conv),
     "auto or direct (default auto: Winograd where it suits)", 0, 0, conv_choices},
    {"isa", "NAME", RUNS | BENCH | DOCTOR | LOCAL, KIND_CHOICE, AT(isa),
     "auto, avx512, avx2, neon or plain: the widest instruction\nset to use; it changes the speed, not the bits "
     "(default auto)",
     0, 0, isa_choices},
    {"dtype", "TYPE", RUNS | BENCH | DOCTOR, KIND_CHOICE, AT(dtype),
     "f32, tf32 or bf16; tf32 and bf16 need GPUs (default f32)", 0, 0, dtype_choices},
    {"checkpoint", "DIR", TRAIN, KIND_TEXT, AT(checkpoint), "keep the last three checkpoints of the run in this folder",
     0, 0, NULL},
    {"checkpoint", "DIR", DOCTOR | LOCAL, KIND_TEXT, AT(checkpoint),
     "also check that the disk of this folder has room for checkpoints", 0, 0, NULL},
    {"skip", "CHECK", DOCTOR | LOCAL, KIND_CHECKS, 0,
     "checks to leave out: devices, cores, memory, canary (the\nself-test), copies, mpi, data or disk; several with "
     "commas",
     0, 0, check_choices},
    {"checkpoint-every", "N", TRAIN, KIND_EVERY, 0,
     "steps between checkpoints, or a time such as 90s, 10m, 2h;\nthe end of the run makes one too (default 10m)", 0, 0,
     NULL},
    {"resume", NULL, TRAIN, KIND_FLAG, AT(resume), "continue from the newest complete checkpoint, if there is one", 0,
     0, NULL},
    {"restart", NULL, TRAIN, KIND_FLAG, AT(restart),
     "begin anew in a folder that has checkpoints; new ones replace\nthem", 0, 0, NULL},
    {"verify", "STEPS", TRAIN, KIND_COUNT, AT(verify),
     "every STEPS steps each device computes the same shard, and the\nresults are compared bit by bit; with several "
     "ranks (processes\nof mpirun) the weights are compared too (default never)",
     1, INT64_MAX, NULL},
    {"allow-changed", "NAME", TRAIN | LOCAL, KIND_NAMES, 0,
     "with --resume: settings that may differ from the checkpoint's,\nsuch as lr; several with commas. With --weights "
     "only the name\n'classes' is allowed: the weights are then taken even if their\nclass names, or the order of "
     "the names, differ from the data's",
     0, 0, NULL},
    {"allow-changed", "classes", COMMAND_EVAL | COMMAND_PREDICT | LOCAL, KIND_NAMES, 0,
     "take the weights even if their class names, or the order of the\nnames, differ from the data's", 0, 0, NULL},
    {"log", "FILE", TRAIN | LOCAL, KIND_TEXT, AT(log),
     "write a log of the run, in JSON lines; with --resume the old\nlog is cut back to the checkpoint and continued "
     "from there",
     0, 0, NULL},
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
     "end when a rank (a process of mpirun) or a device makes no\nprogress for SECONDS, and name it (default 300 with "
     "several\n"
     "ranks, else never)",
     1, 1000000, NULL},
    {"balance", NULL, TRAIN, KIND_FLAG, AT(balance),
     "with several ranks: give each as many shards as suit its\nspeed, measured at the first steps (default: the same "
     "number\nto each rank)",
     0, 0, NULL},
    {"in-flight", "N", RUNS | BENCH | LOCAL, KIND_COUNT, AT(in_flight),
     "shards that a GPU computes at the same time; N changes the\nspeed, not the bits (default: up to 4, as the GPU's "
     "memory allows)",
     1, 4, NULL},
    {"host-sums", NULL, TRAIN, KIND_FLAG, AT(host_sums),
     "with several ranks: GPUs exchange gradients through the hosts\n(default: by NCCL, if it is installed)", 0, 0,
     NULL},
    {"quiet", NULL, RUNS | DOCTOR | EXPORT | LOCAL, KIND_FLAG, AT(quiet), "print results and errors only", 0, 0, NULL},
    {"help", NULL, EVERY, KIND_HELP, 0, "print this text", 0, 0, NULL},
    {"host-ranks", "N", TRAIN, KIND_COUNT, AT(host_ranks), NULL, 1, INT_MAX, NULL},
    {"shuffle-pulls", "N", RUNS | LOCAL, KIND_SEED, AT(shuffle_pulls), NULL, 0, 0, NULL},
};
enum { ROWS = sizeof table / sizeof *table };
_Static_assert(sizeof table / sizeof *table <= MOST_ROWS, "MOST_ROWS is too small");

const row *table_row(int i)
{
    return i < ROWS ? &table[i] : NULL;
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
