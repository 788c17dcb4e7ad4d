/* eval and predict. */
#include "commands.h"
#include "outputs.h"
#include "ranks.h"
#include "run.h"
#include "say.h"
#include "watch.h"
#include "whole.h"

#include <stdio.h>
#include <stdlib.h>

/* Ranks, session, model and test data, as both commands need them. `status` is what reading the options gave. */
static int begin(int command, run *r, settings *chosen, ls_data **test, int status)
{
    status = ranks_start(chosen, status);
    const bool writes = ls_cluster_rank(ranks_cluster()) == 0; /* looked at before the work, not after it */
    if (!status && writes)
        status = outputs_check(command, chosen, NULL, 0);
    if (!status && writes && chosen->out)
        status = check_new_file("--out", chosen->out);
    if (!status)
        status = run_open(r, chosen, ranks_cluster());
    watch_session(r->session);
    watch_phase("data");
    if (!status)
        status = run_model_of_weights(r);
    if (!status && !(*test = run_data(r, LS_TEST)))
        status = STATUS_FAILED;
    if (!status && writes)
        status = outputs_check_data(command, chosen, *test);
    if (!status)
        status = run_network(r, *test);
    status = ranks_agree(command, r, NULL, *test, status);
    watch_phase("evaluation");
    return status;
}

static bool read_own_options(int command, int argc, char **argv, settings *chosen, int *status)
{
    ranks_expect();
    if (!read_options_only(command, argc, argv, chosen, status))
        return false;
    if (!*status && !chosen->weights)
        *status = wrong_usage("--weights", "is needed: the file with the trained weights");
    else if (!*status && chosen->n_allow_changed)
        *status = wrong_usage("--allow-changed", "'%s' is not classes", chosen->allow_changed[0]);
    else if (!*status && command == COMMAND_PREDICT && !chosen->out)
        *status = wrong_usage("--out", "is needed: the file for the logits");
    return true;
}

int command_eval(int argc, char **argv)
{
    settings chosen;
    run r = {.chosen = &chosen};
    ls_data *test = NULL;
    ls_metrics metrics;
    int status = 0;
    if (!read_own_options(COMMAND_EVAL, argc, argv, &chosen, &status))
        return status;
    if ((status = begin(COMMAND_EVAL, &r, &chosen, &test, status)) != 0)
        return ranks_close(&r, status);
    if (ls_evaluate(r.net, test, &metrics) != LS_OK)
        return ranks_close(&r, session_failed(r.session, "eval"));
    ranks_parted();
    if (ls_cluster_rank(ranks_cluster()) == 0)
        printf("test acc: %.2f on %s\n", (double)metrics.correct / (double)metrics.rows, r.devices_text);
    return ranks_close(&r, finish_output());
}

static int write_logits(run *r, const ls_data *test)
{
    int64_t rows = ls_data_rows(test);
    const int classes = r->about.classes;
    float *logits = malloc((size_t)rows * (size_t)classes * sizeof *logits);
    int status = 0;
    if (!logits)
        return failed("predict", "no memory for %lld rows of logits", (long long)rows);
    if (ls_predict(r->net, test, logits, classes) != LS_OK)
        status = session_failed(r->session, "predict");
    else
        ranks_parted();
    if (status || ls_cluster_rank(ranks_cluster()) > 0) {
        free(logits);
        return status;
    }
    if (ls_save_npy(r->session, r->chosen->out, logits, rows, classes) != LS_OK)
        status = session_failed(r->session, "--out");
    else if (!r->chosen->quiet)
        note("%lld rows of %d logits in %s", (long long)rows, classes, r->chosen->out);
    free(logits);
    return status;
}

int command_predict(int argc, char **argv)
{
    settings chosen;
    run r = {.chosen = &chosen};
    ls_data *test = NULL;
    int status = 0;
    if (!read_own_options(COMMAND_PREDICT, argc, argv, &chosen, &status))
        return status;
    if ((status = begin(COMMAND_PREDICT, &r, &chosen, &test, status)) == 0)
        status = write_logits(&r, test);
    return ranks_close(&r, status);
}
