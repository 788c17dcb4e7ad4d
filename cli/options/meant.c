#include "options/meant.h"
#include "options/help.h"
#include "options/table.h"
#include "text/say.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { LONGEST_WORD = 48, SHORT_WORD = 4 /* a beginning that says little */ };

/* ---- Other programs' words --------------------------------------------------------------------------------------- */

/* What other programs call an option, or what there is to say where no option does the same. Of several rows with one
 * word the first whose option the command has counts. */
typedef struct meaning {
    const char *option, *words; /* with blanks between them */
    const char *instead;
} meaning;

static const meaning options[] = {
    {"batch", "batch-size bs b global-batch-size per-device-batch-size", NULL},
    {"shard", "micro-batch-size", NULL},
    {"lr", "learning-rate learn-rate lrate base-lr max-lr", NULL},
    {"epochs", "num-epochs n-epochs max-epochs e", NULL},
    {"steps", "num-steps max-steps total-steps iterations max-iter", NULL},
    {"devices", "gpu gpus gpu-ids num-gpus cpu no-cuda cuda cores threads num-threads d accelerator", NULL},
    {"out", "output output-dir output-file o", NULL},
    {"save", "output output-file o out save-path save-model", NULL},
    {"onnx", "output output-file o out", NULL},
    {"checkpoint", "output-dir save-dir checkpoint-dir", NULL},
    {"checkpoint-every", "save-every save-steps", NULL},
    {"resume", "resume-from resume-from-checkpoint continue", NULL},
    {"weight-decay", "wd l2", NULL},
    {"no-decay", "no-bias-decay no-weight-decay", NULL},
    {"weights-skip", "ignore-mismatched-sizes skip", NULL},
    {"freeze", "frozen freeze-layers freeze-backbone", NULL},
    {"optimizer", "opt", NULL},
    {"beta1", "adam-beta1", NULL},
    {"beta2", "adam-beta2", NULL},
    {"eps", "epsilon adam-epsilon", NULL},
    {"schedule", "scheduler lr-scheduler lr-schedule", NULL},
    {"warmup", "warmup-steps", NULL},
    {"after-warmup", "warmup-prefix", NULL},
    {"gamma", "lr-gamma decay-rate", NULL},
    {"period", "t-0 decay-steps step-size lr-step-size", NULL},
    {"period-factor", "t-mult", NULL},
    {"end-factor", "eta-min min-lr", NULL},
    {"clip-norm", "clip grad-clip clip-grad clip-grad-norm max-grad-norm gradient-clip-val", NULL},
    {"ema", "ema-decay model-ema model-ema-decay ema-momentum average-weights", NULL},
    {"ema-warmup", "model-ema-warmup ema-use-num-updates", NULL},
    {"ema-buffers", "use-buffers model-ema-buffers", NULL},
    {"label-smoothing", "smoothing", NULL},
    {"patience", "early-stopping", NULL},
    {"seed", "random-seed manual-seed", NULL},
    {"model", "arch a m net network", NULL},
    {"weights", "pretrained load load-weights init-from ckpt checkpoint w", NULL},
    {"data", "data-dir data-path data-root dataset-path root", NULL},
    {"dataset", "data-set", NULL},
    {"limit", "max-samples max-train-samples limit-train", NULL},
    {"limit-test", "max-eval-samples", NULL},
    {"flip", "hflip horizontal-flip", NULL},
    {"crop", "random-crop", NULL},
    {"erase", "random-erasing cutout", NULL},
    {"bn", "sync-bn sync-batchnorm", NULL},
    {"dtype", "precision amp fp16 bf16 half", NULL},
    {"last-batch", "drop-last", NULL},
    {"log", "log-file log-dir logdir", NULL},
    {"trace", "profile", NULL},
    {"validate", "val-split validation-split", NULL},
    {"restart", "overwrite", NULL},
    {"quiet", "q silent", NULL},
    {"to", "dir", NULL},
    {NULL, "workers num-workers j",
     "images are kept in memory, and no workers load them; --devices names what computes"},
    {NULL, "nproc nproc-per-node num-processes nodes np",
     "several processes are started by mpirun -n N; one process uses all of --devices"},
    {NULL, "pct-start warmup-epochs lr-warmup-epochs", "--warmup sets the rise in steps, one for each batch"},
    {NULL, "div-factor final-div-factor", "--start-factor and --end-factor are factors of the learning rate"},
    {NULL, "shuffle", "training images are shuffled unless --no-shuffle says otherwise"},
    {NULL, "verbose v", "progress is shown unless --quiet says otherwise"},
    {NULL, "version", "it stands alone: lockstep --version"},
    {NULL, "deterministic", "results are the same to the last bit always"},
    {NULL, "download", "'lockstep data fetch' downloads Fashion-MNIST"},
};

static const meaning verbs[] = {
    {"train", "fit training run", NULL},
    {"eval", "test evaluate evaluation validate accuracy", NULL},
    {"predict", "infer inference classify", NULL},
    {"export", "convert onnx", NULL},
    {"devices", "gpus cpus list", NULL},
    {"doctor", "check diagnose info", NULL},
    {"fingerprint", "hash sha256 checksum", NULL},
    {"report", "compare plot", NULL},
    {"bench", "benchmark", NULL},
    {"bench --profile", "profile", NULL},
    {"data fetch", "fetch download", NULL},
};
#define COUNT(list) (sizeof(list) / sizeof *(list))

/* ---- Spelling ---------------------------------------------------------------------------------------------------- */

/* A word of `length` without its hyphens, cut at LONGEST_WORD: "batchsize" is "batch-size". */
static const char *letters(const char *text, size_t length, char into[LONGEST_WORD])
{
    size_t n = 0;
    for (size_t i = 0; i < length && n + 1 < LONGEST_WORD; i++)
        if (text[i] != '-')
            into[n++] = text[i];
    into[n] = '\0';
    return into;
}

/* How many letters must be put in, left out, replaced or exchanged with the next one to make one word of the other,
 * whatever their hyphens. */
static int distance(const char *one, const char *other)
{
    int rows[3][LONGEST_WORD + 1];
    char own[LONGEST_WORD], others[LONGEST_WORD];
    const char *a = letters(one, strlen(one), own), *b = letters(other, strlen(other), others);
    const int n = (int)strlen(a), m = (int)strlen(b);
    int *before = rows[0], *last = rows[1], *now = rows[2];
    for (int j = 0; j <= m; j++)
        last[j] = j;
    for (int i = 1; i <= n; i++) {
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            int least = last[j - 1] + (a[i - 1] != b[j - 1]);
            least = last[j] + 1 < least ? last[j] + 1 : least;
            least = now[j - 1] + 1 < least ? now[j - 1] + 1 : least;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < least)
                least = before[j - 2] + 1;
            now[j] = least;
        }
        int *free_row = before;
        before = last;
        last = now;
        now = free_row;
    }
    return last[m];
}

/* How far a spelling may be off: a letter in a short word, three in a long one. */
static int most_distance(const char *text)
{
    size_t length = strlen(text);
    return length < 3 ? 0 : length < 6 ? 1 : length < 10 ? 2 : 3;
}

/* The word that was typed: in small letters, without dashes in front and a value behind, and '_' is '-'. What is too
 * long is cut. */
static void plain_word(const char *text, char into[LONGEST_WORD])
{
    size_t n = 0;
    text += strspn(text, "-");
    for (; *text && *text != '=' && n + 1 < LONGEST_WORD; text++)
        into[n++] = *text == '_' ? '-' : (char)tolower((unsigned char)*text);
    into[n] = '\0';
}

/* Whether a list of words with blanks between them has this one, whatever its hyphens. */
static bool has_word(const char *list, const char *word)
{
    char given[LONGEST_WORD], listed[LONGEST_WORD];
    letters(word, strlen(word), given);
    for (const char *at = list; *at; at += strspn(at, " ")) {
        const size_t n = strcspn(at, " ");
        if (strcmp(letters(at, n, listed), given) == 0)
            return true;
        at += n;
    }
    return false;
}

/* ---- Options ----------------------------------------------------------------------------------------------------- */

/* "train", "train and doctor", "train, eval and predict". */
static void name_commands(int commands, char *text, size_t size)
{
    *text = '\0';
    for (int bit = 1; bit <= commands; bit <<= 1) {
        if (!(commands & bit))
            continue;
        bool last = !(commands & ~(2 * bit - 1));
        size_t length = strlen(text);
        snprintf(text + length, size - length, "%s%s", !length ? "" : last ? " and " : ", ", command_name(bit));
    }
}

/* The command's option that is spelled most like the word, or else the longest one that the word goes on from, as
 * "batches" does from "batch"; NULL where none is like it. */
static const char *nearest_option(int command, const char *typed)
{
    const char *name, *nearest = NULL, *begun = NULL;
    int commands, least = most_distance(typed) + 1;
    size_t longest = SHORT_WORD;
    for (int i = 0; (name = option_at(i, &commands)) != NULL; i++) {
        int off = commands & command ? distance(typed, name) : least;
        const size_t length = strlen(name);
        if (off < least) {
            least = off;
            nearest = name;
        }
        if (commands & command && length > longest && strncmp(typed, name, length) == 0) {
            longest = length;
            begun = name;
        }
    }
    return nearest ? nearest : begun;
}

/* The commands that have an option of this name. */
static int commands_with(const char *option)
{
    const char *name;
    int commands, all = 0;
    for (int i = 0; (name = option_at(i, &commands)) != NULL; i++)
        all |= strcmp(name, option) == 0 ? commands : 0;
    return all;
}

/* The option that another program's word stands for, one of the command's if there is such; NULL where there is none,
 * with what there is to say in *instead, or NULL. */
static const char *translate(int command, const char *typed, const char **instead)
{
    const char *elsewhere = NULL;
    *instead = NULL;
    for (size_t i = 0; i < COUNT(options); i++) {
        const char *option = options[i].option;
        if (!has_word(options[i].words, typed))
            continue;
        if (!option)
            *instead = options[i].instead;
        else if (commands_with(option) & command)
            return option;
        else if (!elsewhere && commands_with(option))
            elsewhere = option;
    }
    return elsewhere;
}

/* The command's options that begin so, where these are several. */
static bool list_beginnings(int command, const char *typed, char *text, size_t size)
{
    const char *name;
    int commands, found = 0;
    *text = '\0';
    for (int i = 0; (name = option_at(i, &commands)) != NULL; i++)
        if (commands & command && strncmp(name, typed, strlen(typed)) == 0) {
            size_t length = strlen(text);
            snprintf(text + length, size - length, "%s--%s", found++ ? ", " : "", name);
        }
    return found > 1;
}

int unknown_option(int command, const char *own, const char *text)
{
    char typed[LONGEST_WORD], shown[LONGEST_WORD + 16], list[512];
    const char *instead;
    plain_word(text, typed);
    snprintf(shown, sizeof shown, "%.*s", (int)strcspn(text, "="), text);
    const bool letter = strlen(typed) < 2;
    if (!letter && list_beginnings(command, typed, list, sizeof list))
        return wrong_usage(shown, "may be any of %s", list);
    if (commands_with(typed) & command)
        return wrong_usage(shown, "unknown option of %s; did you mean --%s?", own, typed);
    const char *meant = translate(command, typed, &instead);
    if (meant && commands_with(meant) & command)
        return wrong_usage(shown, "unknown option of %s; did you mean --%s?", own, meant);
    if (instead)
        return wrong_usage(shown, "unknown option of %s; %s", own, instead);
    if (commands_with(typed)) {
        name_commands(commands_with(typed), list, sizeof list);
        return wrong_usage(shown, "no option of %s, but of %s", own, list);
    }
    const char *takes = option_with_value(command, typed);
    if (takes)
        return wrong_usage(shown, "unknown option of %s; did you mean --%s %s?", own, takes, typed);
    const char *nearest = nearest_option(command, typed);
    if (nearest)
        return wrong_usage(shown, "unknown option of %s; did you mean --%s?", own, nearest);
    if (meant) {
        name_commands(commands_with(meant), list, sizeof list);
        return wrong_usage(shown, "unknown option of %s; --%s is one of %s", own, meant, list);
    }
    return wrong_usage(shown, "unknown option of %s; 'lockstep help %s' lists them", own, own);
}

/* ---- Arguments --------------------------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), n = strlen(end);
    return length > n && strcmp(text + length - n, end) == 0;
}

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* The option whose value such an argument looks like; NULL where it looks like none. */
static const char *option_for(int command, const char *text)
{
    static const char *const places[][2] = {{"cpu:", "devices"},         {"cuda:", "devices"}, {"gpu:", "devices"},
                                            {".safetensors", "weights"}, {".pt", "weights"},   {".pth", "weights"},
                                            {".onnx", "onnx"},           {".jsonl", "log"},    {".npy", "out"}};
    const char *option = option_with_value(command, text);
    for (size_t i = 0; !option && i < COUNT(places); i++)
        if (*places[i][0] == '.' ? ends_with(text, places[i][0]) : strncmp(text, places[i][0], 4) == 0)
            option = places[i][1];
    if (!option && is_folder(text))
        option = "data";
    return option && commands_with(option) & command ? option : NULL;
}

int unknown_argument(int command, const char *own, const char *text)
{
    char typed[LONGEST_WORD];
    const char *instead, *value = strchr(text, '=');
    plain_word(text, typed);
    if (strcmp(typed, "help") == 0)
        return wrong_usage(own, "takes options only, but got '%s'; 'lockstep help %s' lists them", text, own);
    const char *option = option_for(command, text);
    if (option)
        return wrong_usage(own, "takes options only, but got '%s'; did you mean --%s %s?", text, option, text);
    option = commands_with(typed) & command ? typed : translate(command, typed, &instead);
    if (option && commands_with(option) & command)
        return wrong_usage(own, "takes options only, but got '%s'; did you mean --%s%s%s?", text, option,
                           value ? " " : "", value ? value + 1 : "");
    return wrong_usage(own, "takes options only, but got '%s'; 'lockstep help %s' lists them", text, own);
}

/* ---- Commands ---------------------------------------------------------------------------------------------------- */

int unknown_command(const char *text, const char *(*name)(int i))
{
    char typed[LONGEST_WORD];
    const char *meant = NULL, *at;
    if (*text == '-')
        return wrong_usage(text, "the command comes first: lockstep COMMAND [options]; 'lockstep help' lists them");
    plain_word(text, typed);
    for (size_t i = 0; i < COUNT(verbs) && !meant; i++)
        meant = has_word(verbs[i].words, typed) ? verbs[i].option : NULL;
    int least = meant ? 0 : most_distance(typed) + 1;
    for (int i = 0; (at = name(i)) != NULL; i++) {
        int off = distance(typed, at);
        if (off < least) {
            least = off;
            meant = at;
        }
    }
    if (meant)
        return wrong_usage(text, "no such command; did you mean 'lockstep %s'?", meant);
    return wrong_usage(*text ? text : "''", "no such command; 'lockstep help' lists them");
}
