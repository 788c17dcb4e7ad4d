/* devices, fingerprint, data fetch. */
#include "commands.h"
#include "options/options.h"
#include "run/run.h"
#include "text/say.h"

#include <stdio.h>
#include <string.h>
#include <lockstep_weights.h>

static bool print_devices(ls_session *session, ls_device_type type)
{
    const int n = ls_device_count(session, type);
    for (int i = 0; i < n && !ls_failed(session); i++) {
        const char *about = ls_device_about(session, type == LS_CPU ? ls_cpu(i) : ls_gpu(i));
        if (!ls_failed(session))
            printf("%s:%d  %s\n", type == LS_CPU ? "cpu" : "cuda", i, about);
    }
    if (*ls_notice(session))
        note("%s%s", type == LS_CUDA ? "no GPUs: " : "", ls_notice(session));
    return !ls_failed(session);
}

int command_devices(int argc, char **argv)
{
    settings chosen;
    run r;
    int first, status = 0;
    int operands = read_options(COMMAND_PLAIN, argc, argv, &chosen, &first, &status);
    if (operands < 0)
        return status;
    if (operands > 0)
        return wrong_usage("devices", "takes no argument, but got '%s'", argv[first]);
    if ((status = run_open(&r, &chosen, NULL)) != 0)
        return run_close(&r, status);
    if (!print_devices(r.session, LS_CPU) || !print_devices(r.session, LS_CUDA))
        return run_close(&r, session_failed(r.session, "devices"));
    return run_close(&r, finish_output());
}

int command_fingerprint(int argc, char **argv)
{
    settings chosen;
    char digits[65];
    int first, status = 0;
    int operands = read_options(COMMAND_PLAIN, argc, argv, &chosen, &first, &status);
    if (operands < 0)
        return status;
    if (operands != 1)
        return wrong_usage("fingerprint", "takes one weights file");
    ls_session *session = ls_open(NULL);
    if (ls_file_fingerprint(session, argv[first], digits) != LS_OK)
        status = session_failed(session, "fingerprint");
    ls_close(session);
    if (status)
        return status;
    printf("fingerprint: %s\n", digits);
    return finish_output();
}

int command_data(int argc, char **argv)
{
    settings chosen;
    char why[MOST_WORDS];
    int first, status = 0;
    int operands = read_options(COMMAND_FETCH, argc, argv, &chosen, &first, &status);
    if (operands < 0)
        return status;
    if (operands != 1 || strcmp(argv[first], "fetch") != 0)
        return wrong_usage("data", "its one command is: lockstep data fetch [--url URL] [--to DIR]");
    ls_session *session = ls_open(NULL);
    if (ls_data_fetch(session, chosen.url, chosen.to, tell_line, NULL) != LS_OK)
        status = chosen.to || ls_status_of(session) != LS_BAD_ARGUMENT
                     ? session_failed(session, "data fetch")
                     : failed("data fetch", "%s with --to", session_words(session, why, sizeof why));
    ls_close(session);
    return status;
}
