/* What ranks compare of a command's options before its first step: each one that defines the result, by its name and
 * with its value, and none of those that a rank may have for itself. The program's own file reads them; what it says of
 * wrong ones is not looked at here. */
#include "support.h"

#include <string.h>

#include "options/help.h"
#include "options/meant.h"
#include "options/options.h"
#include "text/say.h"

/* Not reached: every option below is right. */
int wrong_usage(const char *option, const char *format, ...)
{
    fail_msg("%s is refused: %s", option, format);
    return 1;
}

int unknown_option(int command, const char *name, const char *given)
{
    fail_msg("%s of %s (%d) is refused", given, name, command);
    return 1;
}

int unknown_argument(int command, const char *name, const char *given)
{
    return unknown_option(command, name, given);
}

void print_help(int command, void (*options)(int command))
{
    (void)command, (void)options;
    fail();
}

int finish_output(void)
{
    return 0;
}

enum { MOST = 64 };

typedef struct listed {
    settings chosen;
    ls_setting list[MOST];
    char texts[MOST][64], given[64];
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
    assert_true(read_options_only(command, argc, argv, &l->chosen, &status));
    assert_int_equal(status, 0);
    l->n = options_list(command, &l->chosen, l->list, l->texts, MOST);
}

typedef struct compared {
    const char *name, *usual, *option, *changed;
} compared;

static const compared of_train[] = {
    {"model", NULL, "--model resnet18", "resnet18"},
    {"dataset", "fashion-mnist", "--dataset npy", "npy"},
    {"batch", "256", "--batch 255", "255"},
    {"shard", "0", "--shard 1048576", "1048576"},
    {"bn", "shard", "--bn sync", "sync"},
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
    {"clip-norm", "0", "--clip-norm 3", "3"},
    {"last-batch", "mean", "--last-batch share", "share"},
    {"schedule", "constant", "--schedule cosine", "cosine"},
    {"warmup", "0", "--warmup 7", "7"},
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_option_of_the_result_is_compared),
        cmocka_unit_test(the_others_are_a_ranks_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
