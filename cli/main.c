#include "commands.h"
#include "help.h"
#include "picture.h"
#include "say.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct command {
    const char *name;
    int (*run)(int argc, char **argv);
} command;

static const command commands[] = {
    {"train", command_train},
    {"eval", command_eval},
    {"predict", command_predict},
    {"export", command_export},
    {"devices", command_devices},
    {"fingerprint", command_fingerprint},
    {"data", command_data},
    {"report", command_report},
    {"bench", command_bench},
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

int main(int argc, char **argv)
{
    hold_standard_streams();
    /* A reader that goes away shows as a failed write, and a lost progress bar ends no run. */
    signal(SIGPIPE, SIG_IGN);
    if (argc < 2)
        return wrong_usage("usage", "lockstep COMMAND [options]; 'lockstep --help' lists the commands");
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_overview();
        return finish_output();
    }
    if (strcmp(name, "--version") == 0)
        return print_version();
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(name, commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    return wrong_usage(*name ? name : "''", "no such command; 'lockstep --help' lists them");
}
