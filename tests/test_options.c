/* What ranks compare of a command's options before its first step: each one that defines the result, by its name and
 * with its value, and none of those that a rank may have for itself. And what is said of words that the program does
 * not know, each other program's word for an option or a command among them. The program's own files do both. */
#include "support.h"

#include <stdarg.h>
#include <string.h>

#include "options/help.h"
#include "options/meant.h"
#include "options/options.h"
#include "options/table.h"
#include "options/value.h"
#include "text/say.h"

static char told[1024]; /* the last line of wrong usage */

int wrong_usage(const char *option, const char *format, ...)
{
    va_list arguments;
    const int n = snprintf(told, sizeof told, "%s: ", option);
    va_start(arguments, format);
    vsnprintf(told + n, sizeof told - (size_t)n, format, arguments);
    va_end(arguments);
    return STATUS_USAGE;
}

int finish_output(void)
{
    return 0;
}

enum { MOST = 64 };

typedef struct listed {
    settings chosen;
    ls_setting list[MOST];
    char texts[MOST][64], given[128];
    int n;
} listed;

/* The list for a command that is given an option, with the value behind a blank; NULL: none. */
static void list_of(listed *l, int command, const char *option)
{
    char *argv[4] = {"lockstep"}, *value = NULL;
    int status = 0, argc = 1;
    if (option) {
        snprintf(l->given, sizeof l->given, "%s", option);
        argv[argc++] = l->given;
        if ((value = strchr(l->given, ' ')) != NULL) {
            *value++ = '\0';
            argv[argc++] = value;
        }
    }
    if (!read_options_only(command, argc, argv, &l->chosen, &status) || status)
        fail_msg("%s is refused: %s", option ? option : "nothing", told);
    l->n = options_list(command, &l->chosen, l->list, l->texts, MOST);
}

typedef struct compared {
    const char *name, *usual, *option, *changed;
} compared;

static const compared of_train[] = {
    {"model", NULL, "--model resnet18", "resnet18"},
    {"weights-skip", NULL, "--weights-skip fc.*", "fc.*"},
    {"freeze", NULL, "--freeze fc.*", "fc.*"},
    {"dataset", "fashion-mnist", "--dataset npy", "npy"},
    {"batch", "256", "--batch 255", "255"},
    {"shard", "0", "--shard 1048576", "1048576"},
    {"bn", "shard", "--bn sync", "sync"},
    {"bn", "shard", "--bn 128", "128"},
    {"epochs", "10", "--epochs 2147483647", "2147483647"},
    {"steps", "0", "--steps 9223372036854775807", "9223372036854775807"},
    {"seed", "0", "--seed 18446744073709551615", "18446744073709551615"},
    {"init", "normal:0.01", "--init normal:0.0100001", "normal:0.0100001"},
    {"optimizer", "sgd", "--optimizer adamw", "adamw"},
    {"lr", "the usual", "--lr 0.10000000000000002", "0.10000000000000002"},
    {"momentum", "0", "--momentum 0.9", "0.9"},
    {"nesterov", "off", "--nesterov", "on"},
    {"beta1", "the usual", "--beta1 0.5", "0.5"},
    {"beta2", "the usual", "--beta2 0.5", "0.5"},
    {"eps", "the usual", "--eps 1e-9", "1e-09"},
    {"weight-decay", "the usual", "--weight-decay 0", "0"},
    {"no-decay", "off", "--no-decay", "on"},
    {"clip-norm", "0", "--clip-norm 3", "3"},
    {"ema", "0", "--ema 0.5", "0.5"},
    {"ema-warmup", "off", "--ema-warmup", "on"},
    {"ema-buffers", "off", "--ema-buffers", "on"},
    {"last-batch", "mean", "--last-batch share", "share"},
    {"last-batch", "mean", "--last-batch drop", "drop"},
    {"schedule", "constant", "--schedule cosine", "cosine"},
    {"warmup", "0", "--warmup 7", "7"},
    {"after-warmup", "off", "--after-warmup", "on"},
    {"start-factor", "the usual", "--start-factor 0.5", "0.5"},
    {"end-factor", "the usual", "--end-factor 0.5", "0.5"},
    {"gamma", "the usual", "--gamma 0.5", "0.5"},
    {"period", "0", "--period 7", "7"},
    {"period-factor", "0", "--period-factor 2", "2"},
    {"label-smoothing", "0", "--label-smoothing 0.1", "0.1"},
    {"validate", "0", "--validate 0.1", "0.1"},
    {"keep", "last", "--keep best", "best"},
    {"patience", "0", "--patience 2", "2"},
    {"limit", "0", "--limit 5", "5"},
    {"limit-test", "0", "--limit-test 6", "6"},
    {"no-shuffle", "off", "--no-shuffle", "on"},
    {"flip", "off", "--flip", "on"},
    {"crop", "0", "--crop 4", "4"},
    {"erase", "0", "--erase 0.5", "0.5"},
    {"conv", "auto", "--conv direct", "direct"},
    {"dtype", "f32", "--dtype bf16", "bf16"},
    {"checkpoint", NULL, "--checkpoint kept", "kept"},
    {"checkpoint-every", "usual", "--checkpoint-every 2m", "120 s"},
    {"checkpoint-every", "usual", "--checkpoint-every 120", "120 steps"},
    {"resume", "off", "--resume", "on"},
    {"restart", "off", "--restart", "on"},
    {"verify", "0", "--verify 3", "3"},
    {"report", NULL, "--report look", "look"},
    {"balance", "off", "--balance", "on"},
    {"host-sums", "off", "--host-sums", "on"},
    {"host-ranks", "0", "--host-ranks 2", "2"},
};
static const compared of_eval[] = {
    {"model", NULL, "--model lenet", "lenet"},   {"dataset", "fashion-mnist", "--dataset mnist", "mnist"},
    {"shard", "0", "--shard 16", "16"},          {"limit-test", "0", "--limit-test 6", "6"},
    {"conv", "auto", "--conv direct", "direct"}, {"dtype", "f32", "--dtype tf32", "tf32"},
};

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* The list is these, in order, and an option changes its own value alone. */
static void assert_compared(int command, const compared rows[], int n)
{
    listed usual, one;
    int places = 0;
    list_of(&usual, command, NULL);
    for (int i = 0; i < n; i++) {
        const int place = i && strcmp(rows[i].name, rows[i - 1].name) == 0 ? places - 1 : places++;
        list_of(&one, command, rows[i].option);
        assert_int_equal(one.n, usual.n);
        for (int k = 0; k < usual.n; k++) {
            const bool own = k == place;
            if (own &&
                (strcmp(usual.list[k].name, rows[i].name) != 0 || !same_text(usual.list[k].value, rows[i].usual)))
                fail_msg("%s is %s where %s should be", usual.list[k].name, usual.list[k].value, rows[i].name);
            if (!same_text(one.list[k].value, own ? rows[i].changed : usual.list[k].value))
                fail_msg("%s makes %s %s", rows[i].option, one.list[k].name, one.list[k].value);
        }
    }
    assert_int_equal(places, usual.n);
}

static void each_option_of_the_result_is_compared(void **state)
{
    (void)state;
    assert_compared(COMMAND_TRAIN, of_train, sizeof of_train / sizeof *of_train);
    assert_compared(COMMAND_EVAL, of_eval, sizeof of_eval / sizeof *of_eval);
    assert_compared(COMMAND_PREDICT, of_eval, sizeof of_eval / sizeof *of_eval);
}

static void the_others_are_a_ranks_own(void **state)
{
    (void)state;
    static const char *const own[] = {"--weights w",      "--strip-prefix a.", "--data there",       "--devices cpu:3",
                                      "--save s",         "--isa plain",       "--allow-changed lr", "--log l",
                                      "--trace t",        "--timeout 9",       "--in-flight 2",      "--quiet",
                                      "--shuffle-pulls 3"};
    listed usual, one;
    list_of(&usual, COMMAND_TRAIN, NULL);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        list_of(&one, COMMAND_TRAIN, own[i]);
        for (int k = 0; k < usual.n; k++)
            assert_true(same_text(one.list[k].value, usual.list[k].value));
    }
}

/* ---- Words that the program does not know ------------------------------------------------------------------------ */

/* The last line is of wrong usage, and reads so. */
static void assert_told(int status, const char *line)
{
    assert_int_equal(status, STATUS_USAGE);
    assert_string_equal(told, line);
    *told = '\0';
}

enum {
    TRAIN = COMMAND_TRAIN,
    PREDICT = COMMAND_PREDICT,
    EXPORT = COMMAND_EXPORT,
    BENCH = COMMAND_BENCH,
    REPORT = COMMAND_REPORT,
    DOCTOR = COMMAND_DOCTOR,
    FETCH = COMMAND_FETCH,
    RUNS = COMMAND_TRAIN | COMMAND_EVAL | COMMAND_PREDICT,
    FILES = COMMAND_EVAL | COMMAND_PREDICT | COMMAND_EXPORT
};

/* Another program's words, and the option that is meant by them in each of these commands. */
static const struct meant {
    int commands;
    const char *option, *words;
} meant[] = {
    {TRAIN | BENCH | DOCTOR, "batch", "batch-size bs b global-batch-size per-device-batch-size"},
    {RUNS | BENCH | DOCTOR, "shard", "micro-batch-size"},
    {TRAIN, "lr", "learning-rate learn-rate lrate base-lr max-lr"},
    {TRAIN, "weights-skip", "ignore-mismatched-sizes skip"},
    {TRAIN, "epochs", "num-epochs n-epochs max-epochs e"},
    {TRAIN | BENCH, "steps", "num-steps max-steps total-steps iterations max-iter"},
    {RUNS | BENCH | DOCTOR, "devices",
     "gpu gpus gpu-ids num-gpus cpu no-cuda cuda cores threads num-threads d accelerator"},
    {PREDICT | REPORT, "out", "output output-dir output-file o"},
    {TRAIN, "save", "output output-file o out save-path save-model"},
    {EXPORT, "onnx", "output output-file o out"},
    {TRAIN | DOCTOR, "checkpoint", "output-dir save-dir checkpoint-dir"},
    {TRAIN, "checkpoint-every", "save-every save-steps"},
    {TRAIN, "resume", "resume-from resume-from-checkpoint continue"},
    {TRAIN, "weight-decay", "wd l2"},
    {TRAIN | DOCTOR, "optimizer", "opt"},
    {TRAIN, "beta1", "adam-beta1"},
    {TRAIN, "beta2", "adam-beta2"},
    {TRAIN, "eps", "epsilon adam-epsilon"},
    {TRAIN, "schedule", "scheduler lr-scheduler lr-schedule"},
    {TRAIN, "warmup", "warmup-steps"},
    {TRAIN, "after-warmup", "warmup-prefix"},
    {TRAIN, "gamma", "lr-gamma decay-rate"},
    {TRAIN, "period", "t-0 decay-steps step-size lr-step-size"},
    {TRAIN, "period-factor", "t-mult"},
    {TRAIN, "end-factor", "eta-min min-lr"},
    {TRAIN, "clip-norm", "clip grad-clip clip-grad clip-grad-norm max-grad-norm gradient-clip-val"},
    {TRAIN | DOCTOR, "ema", "ema-decay model-ema model-ema-decay ema-momentum average-weights"},
    {TRAIN, "ema-warmup", "model-ema-warmup ema-use-num-updates"},
    {TRAIN, "ema-buffers", "use-buffers model-ema-buffers"},
    {TRAIN, "label-smoothing", "smoothing"},
    {TRAIN, "patience", "early-stopping"},
    {TRAIN, "seed", "random-seed manual-seed"},
    {TRAIN | FILES | BENCH | DOCTOR, "model", "arch a m net network"},
    {TRAIN | FILES, "weights", "pretrained load load-weights init-from ckpt w"},
    {FILES, "weights", "checkpoint"},
    {RUNS | DOCTOR, "data", "data-dir data-path data-root dataset-path root"},
    {RUNS | DOCTOR, "dataset", "data-set"},
    {TRAIN, "limit", "max-samples max-train-samples limit-train"},
    {RUNS, "limit-test", "max-eval-samples"},
    {TRAIN, "flip", "hflip horizontal-flip"},
    {TRAIN, "crop", "random-crop"},
    {TRAIN, "erase", "random-erasing cutout"},
    {TRAIN | BENCH | DOCTOR, "bn", "sync-bn sync-batchnorm"},
    {RUNS | BENCH | DOCTOR, "dtype", "precision amp fp16 bf16 half"},
    {TRAIN, "last-batch", "drop-last"},
    {TRAIN, "log", "log-file log-dir logdir"},
    {TRAIN, "trace", "profile"},
    {TRAIN, "validate", "val-split validation-split"},
    {TRAIN, "restart", "overwrite"},
    {RUNS | EXPORT | DOCTOR, "quiet", "q silent"},
    {FETCH, "to", "dir"},
    {TRAIN, "no-shuffle",
     "noshuffle no_shuffle NO-SHUFFLE -no-shuffle no-shufle no-shufflee on-shuffle"}, /* mistyped */
};

/* Gives each word of a list with blanks between its members, as often as it is called; NULL behind the last. */
static const char *next_word(const char **list, char word[32])
{
    const int length = (int)strcspn(*list, " ");
    snprintf(word, 32, "%.*s", length, *list);
    *list += length + ((*list)[length] == ' ');
    return length ? word : NULL;
}

static void other_programs_options_are_translated(void **state)
{
    (void)state;
    char word[32], given[64], line[256];
    for (size_t i = 0; i < sizeof meant / sizeof *meant; i++)
        for (int command = 1; command <= EXPORT; command <<= 1) {
            const char *list = meant[i].words;
            while (meant[i].commands & command && next_word(&list, word)) {
                snprintf(given, sizeof given, "--%s=3", word);
                snprintf(line, sizeof line, "--%s: unknown option of it; did you mean --%s?", word, meant[i].option);
                assert_told(unknown_option(command, "it", given), line);
            }
        }
}

static void words_without_an_option_are_answered(void **state)
{
    (void)state;
    static const struct answer {
        int command;
        const char *words, *answer;
    } answers[] = {
        {TRAIN, "workers num-workers j",
         "unknown option of it; images are kept in memory, and no workers load them; --devices names what computes"},
        {TRAIN, "nproc nproc-per-node num-processes nodes np",
         "unknown option of it; several processes are started by mpirun -n N; one process uses all of --devices"},
        {TRAIN, "pct-start warmup-epochs lr-warmup-epochs",
         "unknown option of it; --warmup sets the rise in steps, one for each batch"},
        {TRAIN, "div-factor final-div-factor",
         "unknown option of it; --start-factor and --end-factor are factors of the learning rate"},
        {TRAIN, "shuffle", "unknown option of it; training images are shuffled unless --no-shuffle says otherwise"},
        {TRAIN, "verbose v", "unknown option of it; progress is shown unless --quiet says otherwise"},
        {TRAIN, "version", "unknown option of it; it stands alone: lockstep --version"},
        {TRAIN, "deterministic", "unknown option of it; results are the same to the last bit always"},
        {TRAIN, "download", "unknown option of it; 'lockstep data fetch' downloads Fashion-MNIST"},
        /* Options of other commands, by their own name and by another's. */
        {PREDICT, "momentum", "no option of it, but of train and doctor"},
        {REPORT, "dtype", "no option of it, but of train, eval, predict, bench and doctor"},
        {BENCH, "data", "no option of it, but of train, eval, predict and doctor"},
        {PREDICT, "learning-rate", "unknown option of it; --lr is one of train"},
        {EXPORT, "num-steps", "unknown option of it; --steps is one of train and bench"},
        {EXPORT, "output-dir", "unknown option of it; --out is one of predict and report"},
        {TRAIN, "dir", "unknown option of it; --to is one of data fetch"},
        /* A value tells its option. */
        {TRAIN, "cosine", "unknown option of it; did you mean --schedule cosine?"},
        {TRAIN, "one-cycle", "unknown option of it; did you mean --schedule one-cycle?"},
        {TRAIN, "adam", "unknown option of it; did you mean --optimizer adam?"},
        {BENCH, "resnet18", "unknown option of it; did you mean --model resnet18?"},
        {PREDICT, "cosine", "unknown option of it; 'lockstep help it' lists them"},
        /* Several options begin so; one letter alone does not count, and neither does an only one. */
        {TRAIN, "li", "may be any of --limit, --limit-test"},
        {TRAIN, "res", "may be any of --resume, --restart"},
        {TRAIN, "z y", "unknown option of it; 'lockstep help it' lists them"},
        /* A word of up to two letters may be off by none, of five by one, of nine by two, of more by three. */
        {TRAIN, "lx", "unknown option of it; 'lockstep help it' lists them"},
        {TRAIN, "sed sead esed xseed", "unknown option of it; did you mean --seed?"},
        {TRAIN, "sdee sxxd xse xxeed", "unknown option of it; 'lockstep help it' lists them"},
        {TRAIN, "pacience ptaience", "unknown option of it; did you mean --patience?"},
        {TRAIN, "zzzience xxxtience", "unknown option of it; 'lockstep help it' lists them"},
        {TRAIN, "labelsmothin", "unknown option of it; did you mean --label-smoothing?"},
        /* Hyphens count for nothing, in other programs' words either; and a word may go on from an option. */
        {TRAIN, "batchsize batch-siz-e batchsizing", "unknown option of it; did you mean --batch?"},
        {TRAIN, "learningrate", "unknown option of it; did you mean --lr?"},
        {TRAIN, "checkpoint-every-n-steps", "unknown option of it; did you mean --checkpoint-every?"},
        {TRAIN, "seedling savebest", "unknown option of it; 'lockstep help it' lists them"},
        {TRAIN, "labelsmthn", "unknown option of it; 'lockstep help it' lists them"},
    };
    char word[32], given[64], line[256];
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        for (const char *list = answers[i].words; next_word(&list, word);) {
            snprintf(given, sizeof given, "--%s", word);
            snprintf(line, sizeof line, "--%s: %s", word, answers[i].answer);
            assert_told(unknown_option(answers[i].command, "it", given), line);
        }
}

/* A letter too many. */
static void each_option_is_the_nearest_to_itself(void **state)
{
    (void)state;
    const char *name;
    int commands;
    char given[64];
    for (int i = 0; (name = option_at(i, &commands)) != NULL; i++) {
        snprintf(given, sizeof given, "--%sx", name);
        for (int command = 1; command <= EXPORT; command <<= 1)
            if (commands & command) {
                assert_int_equal(unknown_option(command, "it", given), STATUS_USAGE);
                assert_non_null(strstr(told, name));
            }
    }
}

static const char *command_at(int i)
{
    static const char *const names[] = {"train", "eval", "predict", "export", "devices", "data", "bench", NULL};
    return names[i];
}

static void other_programs_commands_are_translated(void **state)
{
    (void)state;
    static const char *const verbs[][2] = {{"train", "fit training run Train traim"},
                                           {"eval", "test evaluate evaluation validate accuracy"},
                                           {"predict", "infer inference classify"},
                                           {"export", "convert onnx"},
                                           {"devices", "gpus cpus list"},
                                           {"doctor", "check diagnose info"},
                                           {"fingerprint", "hash sha256 checksum"},
                                           {"report", "compare plot"},
                                           {"bench", "benchmark"},
                                           {"bench --profile", "profile"},
                                           {"data fetch", "fetch download"}};
    char word[32], line[128];
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        for (const char *list = verbs[i][1]; next_word(&list, word);) {
            snprintf(line, sizeof line, "%s: no such command; did you mean 'lockstep %s'?", word, verbs[i][0]);
            assert_told(unknown_command(word, command_at), line);
        }
    assert_told(unknown_command("brew", command_at), "brew: no such command; 'lockstep help' lists them");
    assert_told(unknown_command("", command_at), "'': no such command; 'lockstep help' lists them");
    assert_told(unknown_command("--fit", command_at),
                "--fit: the command comes first: lockstep COMMAND [options]; 'lockstep help' lists them");
}

/* What stands where an option should: a value tells its option, and a word means what it means behind dashes. */
static void arguments_name_their_option(void **state)
{
    (void)state;
    static const struct argument {
        int command;
        const char *given, *option; /* NULL: none is known for it */
    } arguments[] = {
        {TRAIN, "cpu:0-1", "devices cpu:0-1"},
        {TRAIN, "cuda:0", "devices cuda:0"},
        {TRAIN, "gpu:1", "devices gpu:1"},
        {PREDICT, "a.pt", "weights a.pt"},
        {PREDICT, "a.pth", "weights a.pth"},
        {TRAIN, "a.safetensors", "weights a.safetensors"},
        {EXPORT, "a.onnx", "onnx a.onnx"},
        {TRAIN, "a.jsonl", "log a.jsonl"},
        {PREDICT, "a.npy", "out a.npy"},
        {TRAIN, "/", "data /"},
        {DOCTOR, "resnet18", "model resnet18"},
        {TRAIN, "cifar10", "dataset cifar10"},
        {TRAIN, "adamw", "optimizer adamw"},
        {TRAIN, "batch=3", "batch 3"},
        {TRAIN, "batch_size=3", "batch 3"},
        {TRAIN, "quiet", "quiet"},
        {EXPORT, "net=lenet", "model lenet"},
        {PREDICT, ".npy", NULL},
        {EXPORT, "a.jsonl", NULL},
        {REPORT, "/", NULL},
        {PREDICT, "lr=3", NULL},
        {TRAIN, "help", NULL},
        {TRAIN, "extra", NULL},
    };
    char line[256];
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++) {
        const struct argument *a = &arguments[i];
        if (a->option)
            snprintf(line, sizeof line, "it: takes options only, but got '%s'; did you mean --%s?", a->given,
                     a->option);
        else
            snprintf(line, sizeof line, "it: takes options only, but got '%s'; 'lockstep help it' lists them",
                     a->given);
        assert_told(unknown_argument(a->command, "it", a->given), line);
    }
}

/* ---- Values ------------------------------------------------------------------------------------------------------ */

/* Reads `--option value` for a command; what is refused is told in this line. */
static void assert_refused(int command, const char *option, const char *value, const char *why)
{
    settings chosen;
    char name[64], given[600], line[1024];
    int status = 0;
    snprintf(name, sizeof name, "--%s", option);
    snprintf(given, sizeof given, "%s", value);
    snprintf(line, sizeof line, "--%s: %s", option, why);
    assert_true(read_options_only(command, 3, (char *[]){"lockstep", name, given, NULL}, &chosen, &status));
    assert_told(status, line);
}

static void wrong_values_are_refused(void **state)
{
    (void)state;
    static const char *const counts[] = {"epochs",     "batch",  "patience", "limit",
                                         "limit-test", "verify", "steps",    "shard"};
    static const char *const of_counts[] = {"2147483647", "2147483647", "2147483647", NULL,
                                            NULL,         NULL,         NULL,         "1048576"};
    static const char *const no_counts[] = {
        "0", "-1", "5x", " 5", "+5", "1e3", "0x10", "99999999999999999999", "", "9223372036854775808"};
    char why[128];
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (size_t k = 0; k < sizeof no_counts / sizeof *no_counts; k++) {
            if (of_counts[i])
                snprintf(why, sizeof why, "'%s' is not a whole number from 1 to %s", no_counts[k], of_counts[i]);
            else
                snprintf(why, sizeof why, "'%s' is not a whole number of at least 1", no_counts[k]);
            assert_refused(TRAIN, counts[i], no_counts[k], why);
        }
    static const char *const reals[] = {
        "lr",    "momentum",     "weight-decay", "beta1", "beta2", "eps", "clip-norm", "label-smoothing",
        "erase", "start-factor", "end-factor",   "gamma", "ema"};
    static const char *const no_reals[] = {"-1",     "-0.1", "nan",  "inf", "1e30", "1e38", "1e999",
                                           "1e-999", "0x1",  "0.1x", "",    " 0.1", "e5",   "1.2.3"};
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        for (size_t k = 0; k < sizeof no_reals / sizeof *no_reals; k++) {
            snprintf(why, sizeof why, "'%s' is not a number of at least 0 and below 1e+30", no_reals[k]);
            assert_refused(TRAIN, reals[i], no_reals[k], why);
        }
    static const struct refused {
        int command;
        const char *option, *value, *why;
    } others[] = {
        {TRAIN, "epochs", "2147483648", "'2147483648' is not a whole number from 1 to 2147483647"},
        {TRAIN, "batch", "4294967297", "'4294967297' is not a whole number from 1 to 2147483647"},
        {TRAIN, "shard", "1048577", "'1048577' is not a whole number from 1 to 1048576"},
        {TRAIN, "warmup", "-1", "'-1' is not a whole number of at least 0"},
        {TRAIN, "period", "0", "'0' is not a whole number of at least 1"},
        {TRAIN, "period-factor", "2147483648", "'2147483648' is not a whole number from 1 to 2147483647"},
        {TRAIN, "crop", "1048577", "'1048577' is not a whole number from 0 to 1048576"},
        {BENCH, "steps", "1000001", "'1000001' is not a whole number from 1 to 1000000"},
        {BENCH, "in-flight", "5", "'5' is not a whole number from 1 to 4"},
        {BENCH, "in-flight", "0", "'0' is not a whole number from 1 to 4"},
        {DOCTOR, "timeout", "1000001", "'1000001' is not a whole number from 1 to 1000000"},
        {TRAIN, "seed", "-1", "'-1' is not a whole number from 0 to 18446744073709551615"},
        {TRAIN, "seed", "18446744073709551616",
         "'18446744073709551616' is not a whole number from 0 to 18446744073709551615"},
        {TRAIN, "seed", "1.5", "'1.5' is not a whole number from 0 to 18446744073709551615"},
        {TRAIN, "seed", "", "'' is not a whole number from 0 to 18446744073709551615"},
        {TRAIN, "validate", "0", "'0' is neither a number of images nor a share above 0 and below 1, such as 0.1"},
        {TRAIN, "validate", "1.0", "'1.0' is neither a number of images nor a share above 0 and below 1, such as 0.1"},
        {TRAIN, "validate", "1.5", "'1.5' is neither a number of images nor a share above 0 and below 1, such as 0.1"},
        {TRAIN, "validate", "2147483648",
         "'2147483648' is neither a number of images nor a share above 0 and below 1, such as 0.1"},
        {TRAIN, "init", "normal:0", "'normal:0': the deviation is not a number above 0 and below 1e+30"},
        {TRAIN, "init", "normal:", "'normal:': the deviation is not a number above 0 and below 1e+30"},
        {TRAIN, "init", "normal:1e30", "'normal:1e30': the deviation is not a number above 0 and below 1e+30"},
        {TRAIN, "init", "normal:-1", "'normal:-1': the deviation is not a number above 0 and below 1e+30"},
        {TRAIN, "init", "normal:nan", "'normal:nan': the deviation is not a number above 0 and below 1e+30"},
        {TRAIN, "init", "glorot", "'glorot' is none of: normal:DEVIATION, xavier, he"},
        {TRAIN, "init", "", "'' is none of: normal:DEVIATION, xavier, he"},
        {TRAIN, "checkpoint-every", "0", "'0' is neither a number of steps nor a time such as 90s, 10m, 2h"},
        {TRAIN, "checkpoint-every", "-1", "'-1' is neither a number of steps nor a time such as 90s, 10m, 2h"},
        {TRAIN, "checkpoint-every", "5x", "'5x' is neither a number of steps nor a time such as 90s, 10m, 2h"},
        {TRAIN, "checkpoint-every", "m", "'m' is neither a number of steps nor a time such as 90s, 10m, 2h"},
        {TRAIN, "checkpoint-every", "0m", "'0m' is neither a number of steps nor a time such as 90s, 10m, 2h"},
        {TRAIN, "checkpoint-every", "1.5h", "'1.5h' is neither a number of steps nor a time such as 90s, 10m, 2h"},
        {TRAIN, "checkpoint-every", "10ms", "'10ms' is neither a number of steps nor a time such as 90s, 10m, 2h"},
        {TRAIN, "checkpoint-every", "2147483648s",
         "'2147483648s' is neither a number of steps nor a time such as 90s, 10m, 2h"},
        {TRAIN, "checkpoint-every", "", "'' is neither a number of steps nor a time such as 90s, 10m, 2h"},
        {TRAIN, "model", "vgg", "'vgg' is none of: lenet, resnet18"},
        {TRAIN, "model", "", "its value is empty"},
        {TRAIN, "dataset", "imagenet", "'imagenet' is none of: fashion-mnist, mnist, cifar10, cifar100, npy, folder"},
        {TRAIN, "schedule", "poly",
         "'poly' is none of: constant, step, cosine, linear, exponential, one-cycle, warm-restarts"},
        {TRAIN, "bn", "batch", "'batch' is none of: shard, sync"},
        {TRAIN, "keep", "worst", "'worst' is none of: last, best"},
        {TRAIN, "last-batch", "skip", "'skip' is none of: mean, share, drop"},
        {TRAIN, "optimizer", "lion", "'lion' is none of: sgd, adam, adamw"},
        {TRAIN, "conv", "fft", "'fft' is none of: auto, direct"},
        {TRAIN, "isa", "sse", "'sse' is none of: auto, avx512, avx2, neon, plain"},
        {TRAIN, "dtype", "f16", "'f16' is none of: f32, tf32, bf16"},
        {TRAIN, "allow-changed", "", "its value is empty"},
        {TRAIN, "allow-changed", ",", "',' has an empty name beside a comma"},
        {TRAIN, "allow-changed", "lr,,batch", "'lr,,batch' has an empty name beside a comma"},
        {TRAIN, "freeze", "", "its value is empty"},
        {TRAIN, "freeze", ",", "',' has an empty name beside a comma"},
        {TRAIN, "freeze", ",W1", "',W1' has an empty name beside a comma"},
        {TRAIN, "freeze", "W1,", "'W1,' has an empty name beside a comma"},
        {TRAIN, "freeze", "W1,,b1", "'W1,,b1' has an empty name beside a comma"},
        {TRAIN, "allow-changed", "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y,z,1,2,3,4,5,6,7",
         "is given more than 32 times"},
        {DOCTOR, "skip", "cores,everything",
         "'everything' is none of: devices, cores, memory, canary, copies, mpi, data, disk"},
        {DOCTOR, "skip", "", "its value is empty"},
        {DOCTOR, "skip", "cores,", "'cores,' has an empty name beside a comma"},
        {EXPORT, "input", "1x28", "needs three sizes of at least 1, such as 1x28x28"},
        {EXPORT, "input", "1x28x28x1", "needs three sizes of at least 1, such as 1x28x28"},
        {EXPORT, "input", "1x0x28", "needs three sizes of at least 1, such as 1x28x28"},
        {EXPORT, "input", "1xx28x28", "needs three sizes of at least 1, such as 1x28x28"},
        {EXPORT, "input", "x1x28x28", "needs three sizes of at least 1, such as 1x28x28"},
        {EXPORT, "input", "1x28x28x", "needs three sizes of at least 1, such as 1x28x28"},
        {EXPORT, "input", "1x28x2147483648", "needs three sizes of at least 1, such as 1x28x28"},
        {EXPORT, "input", "", "needs three sizes of at least 1, such as 1x28x28"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_refused(others[i].command, others[i].option, others[i].value, others[i].why);
}

/* Reads an option for a command, with the value behind a blank. */
static settings read_one(int command, const char *option)
{
    static listed one; /* whose texts the settings are */
    list_of(&one, command, option);
    return one.chosen;
}

/* What the list above does not show. */
static void settings_are_as_chosen(void **state)
{
    (void)state;
    assert_true(read_one(TRAIN, "--validate 1").validate == 1 && read_one(TRAIN, "--validate 0.999").validate == 0.999);
    assert_true(read_one(TRAIN, "--validate 2147483647").validate == 2147483647);
    assert_true(read_one(TRAIN, "--checkpoint-every 90s").every_seconds == 90);
    assert_true(read_one(TRAIN, "--checkpoint-every 2m").every_seconds == 120);
    assert_true(read_one(TRAIN, "--checkpoint-every 3h").every_seconds == 10800);
    assert_int_equal(read_one(TRAIN, "--checkpoint-every 1").every_steps, 1);
    assert_true(read_one(TRAIN, "--checkpoint-every 1").every_seconds == 0);
    assert_int_equal(read_one(TRAIN, "--init xavier").init.kind, LS_XAVIER);
    assert_int_equal(read_one(TRAIN, "--init he").init.kind, LS_HE);
    const settings normal = read_one(TRAIN, "--init normal:0.5"), usual = read_one(TRAIN, "--init normal");
    assert_true(normal.init.kind == LS_NORMAL && normal.init.scale == 0.5);
    assert_true(usual.init.kind == LS_NORMAL && usual.init.scale == 0.01);
    assert_string_equal(usual.init_text, "normal:0.01");
    const ls_shape image = read_one(EXPORT, "--input 3x32x48").input;
    assert_true(image.rank == 4 && image.dim[0] == 1 && image.dim[1] == 3 && image.dim[2] == 32 && image.dim[3] == 48);

    /* A setting that may be another is named by itself or by the option that sets it. */
    static const char *const names[][2] = {{"weight-decay", "weight_decay"},
                                           {"clip-norm", "clip_norm"},
                                           {"ema-warmup", "ema_warmup"},
                                           {"label-smoothing", "label_smoothing"},
                                           {"start-factor", "start_factor"},
                                           {"end-factor", "end_factor"},
                                           {"period-factor", "period_factor"},
                                           {"ema-buffers", "ema_buffers"},
                                           {"after-warmup", "after_warmup"},
                                           {"no-shuffle", "shuffle"},
                                           {"limit", "data"},
                                           {"dataset", "data"},
                                           {"epochs", "total"},
                                           {"steps", "total"},
                                           {"lr", "lr"},
                                           {"shuffle", "shuffle"}};
    char option[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(option, sizeof option, "--allow-changed %s", names[i][0]);
        const settings chosen = read_one(TRAIN, option);
        assert_int_equal(chosen.n_allow_changed, 1);
        assert_string_equal(chosen.allow_changed[0], names[i][1]);
        assert_false(chosen.allow_classes);
    }
    const settings last = read_one(TRAIN, "--allow-changed last-batch"); /* its values set two */
    assert_int_equal(last.n_allow_changed, 2);
    assert_string_equal(last.allow_changed[0], "full_batch");
    assert_string_equal(last.allow_changed[1], "drop_last");
    static const char *const called[][2] = {{"total", "epochs"},         {"full_batch", "last-batch"},
                                            {"drop_last", "last-batch"}, {"after_warmup", "after-warmup"},
                                            {"shuffle", "no-shuffle"},   {"data", "data"},
                                            {"clip_norm", "clip-norm"},  {"lr", "lr"}};
    for (size_t i = 0; i < sizeof called / sizeof *called; i++)
        assert_string_equal(option_of_setting(called[i][0]), called[i][1]);
    const settings classes = read_one(TRAIN, "--allow-changed classes");
    assert_true(classes.allow_classes && classes.n_allow_changed == 0);
    listed several;
    list_of(&several, TRAIN, "--allow-changed a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y,z,1,2,3,4,5,classes,6");
    assert_int_equal(several.chosen.n_allow_changed, 32);
    assert_string_equal(several.chosen.allow_changed[31], "6");
    list_of(&several, DOCTOR, "--skip mpi,disk");
    assert_int_equal(several.chosen.n_skipped, 2);
    assert_string_equal(several.chosen.skipped[0], "mpi");
    assert_string_equal(several.chosen.skipped[1], "disk");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_option_of_the_result_is_compared),
        cmocka_unit_test(the_others_are_a_ranks_own),
        cmocka_unit_test(other_programs_options_are_translated),
        cmocka_unit_test(words_without_an_option_are_answered),
        cmocka_unit_test(each_option_is_the_nearest_to_itself),
        cmocka_unit_test(other_programs_commands_are_translated),
        cmocka_unit_test(arguments_name_their_option),
        cmocka_unit_test(wrong_values_are_refused),
        cmocka_unit_test(settings_are_as_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
