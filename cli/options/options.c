#include "options/options.h"
#include "options/choice.h"
#include "options/meant.h"
#include "options/value.h"
#include "text/say.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What getopt_long could not take. Of `-batch` it has not gone on to the next argument. */
static int refuse_option(int command, int argc, char **argv)
{
    if (optopt >= 256)
        return wrong_usage(argv[optind - 1], "takes no value");
    bool within = optopt && optind < argc && argv[optind][0] == '-' && argv[optind][1] == optopt;
    return unknown_option(command, argv[0], argv[within ? optind : optind - 1]);
}

enum { LABEL = 20 }; /* columns */

/* The options of a command with their defaults. */
static void print_options(int command)
{
    const row *r;
    for (int i = 0; (r = table_row(i)) != NULL; i++) {
        if (!(r->commands & command) || !r->help)
            continue;
        char left[32];
        snprintf(left, sizeof left, "--%s%s%s", r->name, r->argument ? " " : "", r->argument ? r->argument : "");
        const bool apart = strlen(left) > LABEL; /* on a line of its own */
        if (apart)
            printf("  %s\n", left);
        const char *text = r->help;
        for (const char *label = apart ? "" : left; *text; label = "") {
            int length = (int)strcspn(text, "\n");
            printf("  %-*s %.*s\n", LABEL, label, length, text);
            text += length + (text[length] == '\n');
        }
    }
}

/* Whether an option's value, a word of its own, is another option: the value was forgotten. */
static bool is_option(const struct option *options, const char *word)
{
    if (strncmp(word, "--", 2) != 0)
        return false;
    const size_t length = strcspn(word + 2, "=");
    for (; options->name; options++)
        if (strlen(options->name) == length && strncmp(options->name, word + 2, length) == 0)
            return true;
    return false;
}

static int read_one(const row *r, const struct option *options, const char *last, settings *chosen)
{
    if (!optarg || optarg != last || !is_option(options, optarg))
        return read_value(r, optarg, chosen);
    char shown[64];
    snprintf(shown, sizeof shown, "--%s", r->name);
    return wrong_usage(shown, "needs a value, and %s is an option; write %s=%s if that is the value", optarg, shown,
                       optarg);
}

int read_options(int command, int argc, char **argv, settings *chosen, int *first, int *status)
{
    struct option long_options[MOST_ROWS + 1];
    const row *r;
    int n = 0;
    for (int i = 0; (r = table_row(i)) != NULL; i++)
        if (r->commands & command)
            long_options[n++] = (struct option){r->name, r->argument ? required_argument : no_argument, NULL, 256 + i};
    long_options[n] = (struct option){0};

    *chosen = settings_usual;
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
        else if (got == 'h' || table_row(got - 256)->kind == KIND_HELP) {
            print_help(command, print_options);
            *status = finish_output();
            return -1;
        } else
            *status = read_one(table_row(got - 256), long_options, argv[optind - 1], chosen);
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
    const row *r;
    int n = 0;
    for (int i = 0; n < most && (r = table_row(i)) != NULL; i++) {
        const void *place = (const char *)chosen + r->place;
        if (!(r->commands & command) || r->commands & LOCAL || r->kind > KIND_EVERY)
            continue;
        char *text = texts[n];
        list[n++] = (ls_setting){r->name, text};
        if (r->kind == KIND_TEXT || r->kind == KIND_LIST)
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
            choice_or_count(r->choices, *(const int64_t *)place, text, 64);
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
