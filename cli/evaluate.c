/* eval and predict. */
#include "commands.h"
#include "options/options.h"
#include "options/outputs.h"
#include "run/pictures.h"
#include "run/ranks.h"
#include "run/run.h"
#include "run/watch.h"
#include "system/whole.h"
#include "text/say.h"

#include <lockstep_data.h>
#include <lockstep_profile.h>
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
    if (!status && writes)
        status = outputs_check_held(command, chosen);
    if (!status)
        status = run_doubt(r, NULL, *test);
    if (!status)
        status = run_network(r, *test);
    status = ranks_agree(command, r, NULL, NULL, *test, status);
    run_describe(r, status ? NULL : *test);
    watch_phase("evaluation");
    return status;
}

/* Pictures stand for a data set's test images. */
static int check_pictures(const settings *c)
{
    const char *of_data = c->data            ? "--data"
                          : c->limit_test    ? "--limit-test"
                          : c->allow_classes ? "--allow-changed"
                                             : NULL;
    if (c->out)
        return wrong_usage("--out", "gets the logits of a data set's test images: leave out either it or the pictures");
    return of_data ? wrong_usage(of_data, "is of a data set, which pictures do without") : 0;
}

static int check_needs(int command, const settings *c, int pictures)
{
    if (!c->weights)
        return wrong_usage("--weights", "is needed: the file with the trained weights");
    if (c->n_allow_changed)
        return wrong_usage("--allow-changed", "'%s' is not classes", c->allow_changed[0]);
    if (pictures)
        return check_pictures(c);
    if (c->input.rank)
        return wrong_usage("--input", "is of pictures; a data set says itself how large its images are");
    if (command == COMMAND_PREDICT && !c->out)
        return wrong_usage("--out", "is needed: the file for the logits; or name pictures to predict");
    return 0;
}

int command_eval(int argc, char **argv)
{
    settings chosen;
    run r = {.chosen = &chosen};
    ls_data *test = NULL;
    ls_metrics metrics;
    int status = 0;
    ranks_expect();
    if (!read_options_only(COMMAND_EVAL, argc, argv, &chosen, &status))
        return status;
    if (!status)
        status = check_needs(COMMAND_EVAL, &chosen, 0);
    if ((status = begin(COMMAND_EVAL, &r, &chosen, &test, status)) != 0)
        return ranks_close(&r, status);
    if (ls_module_evaluate(r.net, test, &metrics) != LS_OK)
        return ranks_close(&r, session_failed(r.session, "eval"));
    ranks_parted();
    if (ls_cluster_rank(ranks_cluster()) == 0)
        printf("test acc: %.2f on %s\n", (double)metrics.correct / (double)metrics.rows, r.devices_text);
    return ranks_close(&r, finish_output());
}

static int write_logits(run *r, ls_data *test)
{
    int64_t rows = ls_data_rows(test);
    const int classes = r->about.classes;
    float *logits = malloc((size_t)rows * (size_t)classes * sizeof *logits);
    int status = 0;
    if (!logits)
        return failed("predict", "no memory for %lld rows of logits", (long long)rows);
    if (ls_module_predict(r->net, test, logits, classes) != LS_OK)
        status = session_failed(r->session, "predict");
    else
        ranks_parted();
    if (status || ls_cluster_rank(ranks_cluster()) > 0) {
        free(logits);
        return status;
    }
    if (ls_save_npy(r->session, r->chosen->out, logits, rows, classes) != LS_OK)
        status = session_failed(r->session, "--out");
    if (!status && !r->chosen->quiet)
        note("%lld rows of %d logits in %s", (long long)rows, classes, r->chosen->out);
    free(logits);
    return status;
}

/* Pictures are each rank's own files, which others need not have. */
static int see_pictures(run *r, settings *chosen, char *const paths[], int n)
{
    int status = ranks_start(chosen, 0);
    if (!status && ls_cluster_ranks(ranks_cluster()) > 1)
        status = failed("predict", "pictures are for one process so far; start it without a launcher");
    if (!status)
        status = run_open(r, chosen, ranks_cluster());
    watch_session(r->session);
    watch_phase("data");
    if (!status && ls_self_test(r->session, r->devices, &r->self_test) != LS_OK)
        status = session_failed(r->session, "--devices");
    if (!status)
        status = run_network_of_weights(r, NULL);
    status = ranks_agree(COMMAND_PREDICT, r, NULL, NULL, NULL, status);
    watch_phase("evaluation");
    return status ? status : predict_pictures(r, paths, n);
}

int command_predict(int argc, char **argv)
{
    settings chosen;
    run r = {.chosen = &chosen};
    ls_data *test = NULL;
    int status = 0, first = 0;
    ranks_expect();
    const int pictures = read_options(COMMAND_PREDICT, argc, argv, &chosen, &first, &status);
    if (pictures < 0 && !status)
        return status;
    if (!status)
        status = check_needs(COMMAND_PREDICT, &chosen, pictures);
    if (!status && pictures > 0)
        status = see_pictures(&r, &chosen, argv + first, pictures);
    else if ((status = begin(COMMAND_PREDICT, &r, &chosen, &test, status)) == 0)
        status = write_logits(&r, test);
    return ranks_close(&r, status);
}
