#include "commands.h"
#include "options/help.h"
#include "options/meant.h"
#include "report/picture.h"
#include "system/stack.h"
#include "text/say.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct command {
    const char *name;
    int (*run)(int argc, char **argv);
} command;

static const command commands[] = {
    {"train", command_train},   {"eval", command_eval},       {"predict", command_predict},
    {"export", command_export}, {"devices", command_devices}, {"fingerprint", command_fingerprint},
    {"data", command_data},     {"report", command_report},   {"bench", command_bench},
    {"doctor", command_doctor},
};

/* A closed standard stream would give its number to the next file, and that file would get what is meant for the
 * stream. Input reads as empty and messages go nowhere; results must fail, so stdout becomes what cannot be written. */
static void hold_standard_streams(void)
{
    static const int modes[] = {O_RDONLY, O_RDONLY, O_WRONLY};
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", modes[fd]) != fd)
            _exit(STATUS_FAILED);
}

static int print_version(void)
{
    const char *cairo = pictures_version();
    printf("lockstep %s\n%s", ls_version(), ls_features());
    printf("reports: %s%s\n", cairo ? "cairo " : "not built in (cairo)", cairo ? cairo : "");
    return finish_output();
}

static const char *name_at(int i)
{
    return i < (int)(sizeof commands / sizeof *commands) ? commands[i].name : NULL;
}

static const command *find(const char *name)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

/* `help`, `help COMMAND`; `help data fetch` is that of data. */
static int print_help_of(int argc, char **argv)
{
    const char *asked = argc > 1 ? argv[1] : "help";
    const command *c = find(asked);
    if (c)
        return c->run(2, (char *[]){argv[1], "--help", NULL});
    if (*asked != '-' && strcmp(asked, "help") != 0 && strcmp(asked, "version") != 0)
        return unknown_command(asked, name_at);
    print_overview();
    return finish_output();
}

static bool is_one_of(const char *name, const char *a, const char *b, const char *c)
{
    return strcmp(name, a) == 0 || strcmp(name, b) == 0 || strcmp(name, c) == 0;
}

/* `version`, `version --help`. */
static int print_version_of(int argc, char **argv)
{
    if (argc > 1 && is_one_of(argv[1], "--help", "-h", "help"))
        return print_help_of(1, argv);
    return argc > 1 ? wrong_usage(argv[0], "takes no argument, but got '%s'", argv[1]) : print_version();
}

int main(int argc, char **argv)
{
    hold_standard_streams();
    umask(umask(0) & ~(mode_t)S_IRWXU); /* a run reads its own files again */
    /* A reader that goes away shows as a failed write, and a lost progress bar ends no run; so does a file that may not
     * grow. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    if (argc < 2)
        return wrong_usage("usage", "lockstep COMMAND [options]; 'lockstep help' lists the commands");
    const char *name = argv[1];
    if (is_one_of(name, "--help", "-h", "help"))
        return print_help_of(argc - 1, argv + 1);
    if (is_one_of(name, "--version", "-V", "version"))
        return print_version_of(argc - 1, argv + 1);
    const command *c = find(name);
    return c ? with_stack(c->run, argc - 1, argv + 1) : unknown_command(name, name_at);
}
