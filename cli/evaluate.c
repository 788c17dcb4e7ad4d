/* eval and predict. */
#include "commands.h"
#include "run.h"
#include "say.h"

#include <stdio.h>
#include <stdlib.h>

enum { CLASSES = 10 };

/* Session, model and test data, as both commands need them. */
static int begin(run *r, const settings *chosen, ls_data **test)
{
    int status = run_open(r, chosen);
    if (!status)
        status = run_model_of_weights(r);
    if (!status && !(*test = run_data(r, LS_TEST)))
        status = STATUS_FAILED;
    return status ? status : run_network(r, *test);
}

static int read_own_options(int command, int argc, char **argv, settings *chosen, int *status)
{
    int first;
    int operands = read_options(command, argc, argv, chosen, &first, status);
    if (operands < 0)
        return -1;
    if (operands > 0)
        *status = wrong_usage(argv[0], "takes options only, but got '%s'", argv[first]);
    else if (!chosen->weights)
        *status = wrong_usage("--weights", "is needed: the file with the trained weights");
    else if (command == COMMAND_PREDICT && !chosen->out)
        *status = wrong_usage("--out", "is needed: the file for the logits");
    return *status ? -1 : 0;
}

int command_eval(int argc, char **argv)
{
    settings chosen;
    run r;
    ls_data *test;
    ls_metrics metrics;
    int status = 0;
    if (read_own_options(COMMAND_EVAL, argc, argv, &chosen, &status) < 0)
        return status;
    if ((status = begin(&r, &chosen, &test)) != 0)
        return run_close(&r, status);
    if (ls_evaluate(r.net, test, &metrics) != LS_OK)
        return run_close(&r, session_failed(r.session, "eval"));
    printf("test acc: %.2f on %s\n", (double)metrics.correct / (double)metrics.rows, r.devices_text);
    return run_close(&r, finish_output());
}

static int write_logits(run *r, const ls_data *test)
{
    int64_t rows = ls_data_rows(test);
    float *logits = malloc((size_t)rows * CLASSES * sizeof *logits);
    int status = 0;
    if (!logits)
        return failed("predict", "no memory for %lld rows of logits", (long long)rows);
    if (ls_predict(r->net, test, logits, CLASSES) != LS_OK)
        status = session_failed(r->session, "predict");
    else if (ls_save_npy(r->session, r->chosen->out, logits, rows, CLASSES) != LS_OK)
        status = session_failed(r->session, "--out");
    else if (!r->chosen->quiet)
        note("%lld rows of %d logits in %s", (long long)rows, CLASSES, r->chosen->out);
    free(logits);
    return status;
}

int command_predict(int argc, char **argv)
{
    settings chosen;
    run r;
    ls_data *test;
    int status = 0;
    if (read_own_options(COMMAND_PREDICT, argc, argv, &chosen, &status) < 0)
        return status;
    if ((status = begin(&r, &chosen, &test)) == 0)
        status = write_logits(&r, test);
    return run_close(&r, status);
}
