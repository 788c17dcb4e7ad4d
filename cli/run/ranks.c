#include "run/ranks.h"
#include "options/options.h"
#include "run/watch.h"
#include "text/say.h"
#include "text/taken.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST_SETTINGS = 64,
    MOST_TEXT = 64,
    MOST_LISTED = 16 /* ranks */,
    USUAL_TIMEOUT = 300 /* seconds, of several ranks */
};

static struct {
    ls_cluster *cluster;
    bool agreed, parted, balance_said;
} state;

ls_cluster *ranks_cluster(void)
{
    return state.cluster;
}

void ranks_expect(void)
{
    int rank, ranks, local;
    ls_cluster_launched(&rank, &ranks, &local);
    if (ranks > 1)
        say_hold();
}

int ranks_start(settings *chosen, int status)
{
    int rank, ranks, local;
    ls_cluster_launched(&rank, &ranks, &local);
    if (ranks == 1 && status)
        return status;
    taken_within((double)chosen->timeout);
    watch_start(chosen->timeout ? (double)chosen->timeout : ranks > 1 ? USUAL_TIMEOUT : 0, rank, ranks);
    watch_phase("the start of MPI");
    state.cluster = ls_cluster_start();
    if (ls_cluster_status(state.cluster) != LS_OK) {
        /* Tasks without an MPI know nothing of each other, whose rank 0 may be a variable that was left behind. A
         * plugin may be missing on one host alone. */
        say_at_once(ls_cluster_status(state.cluster) == LS_BAD_ARGUMENT || local == 0);
        if (!status)
            return failed("start", "%s", ls_cluster_message(state.cluster));
        failed("", "%s", say_held());
        return status;
    }
    watch_cluster(state.cluster);
    watch_phase("start");
    rank = ls_cluster_rank(state.cluster);
    if (ls_cluster_ranks(state.cluster) > 1)
        say_as(rank, ls_cluster_host(state.cluster, rank));
    if (rank > 0) {
        chosen->quiet = true;
        chosen->log = chosen->save = NULL;
    }
    return status;
}

int ranks_agree(int command, run *r, const ls_data *train, const ls_data *validation, const ls_data *test, int status)
{
    ls_setting list[MOST_SETTINGS];
    char texts[MOST_SETTINGS][MOST_TEXT], sums[5][20];
    if (ls_cluster_ranks(state.cluster) == 1)
        return status;
    int n = 0;
    list[n++] = (ls_setting){"lockstep's version", ls_version()};
    n += options_list(command, r->chosen, list + n, texts, MOST_SETTINGS - 6);
    if (!status) {
        snprintf(sums[0], sizeof sums[0], "%016" PRIx64, train ? ls_data_checksum(train) : 0);
        snprintf(sums[1], sizeof sums[1], "%016" PRIx64, test ? ls_data_checksum(test) : 0);
        snprintf(sums[2], sizeof sums[2], "%016" PRIx64, r->net ? ls_module_checksum(r->net) : 0);
        snprintf(sums[3], sizeof sums[3], "%016" PRIx64, r->self_test);
        snprintf(sums[4], sizeof sums[4], "%016" PRIx64, validation ? ls_data_checksum(validation) : 0);
        list[n++] = (ls_setting){"what a self-test computes", sums[3]};
        list[n++] = (ls_setting){"the checksum of the training images", sums[0]};
        list[n++] = (ls_setting){"the checksum of the validation images", sums[4]};
        list[n++] = (ls_setting){"the checksum of the test images", sums[1]};
        list[n++] = (ls_setting){"the checksum of the first weights", sums[2]};
    }
    const char *held = status ? say_held() : NULL;
    ls_status agreed = ls_cluster_agree(state.cluster, held, list, n);
    say_at_once(agreed == LS_OK || ls_cluster_rank(state.cluster) == 0);
    state.agreed = agreed == LS_OK;
    if (agreed == LS_OK)
        return run_meet(r);
    int ours = failed("", "%s", ls_cluster_message(state.cluster));
    return status ? status : ours;
}

/* Of few ranks each one's, of many the least and the most. */
static void list_shares(const int *shards, int ranks, char *text, size_t size)
{
    int least = 0, most = 0;
    *text = '\0';
    for (int r = 0; r < ranks; r++) {
        least = shards[r] < shards[least] ? r : least;
        most = shards[r] > shards[most] ? r : most;
        if (ranks <= MOST_LISTED)
            snprintf(text + strlen(text), size - strlen(text), "%s%d", r ? ", " : "", shards[r]);
    }
    if (ranks > MOST_LISTED)
        snprintf(text, size, "from %d on rank %d to %d on rank %d", shards[least], least, shards[most], most);
}

void ranks_say_balance(ls_trainer *trainer)
{
    int ranks = ls_cluster_ranks(state.cluster);
    if (ranks == 1 || state.balance_said || !ls_trainer_balanced(trainer, NULL))
        return;
    int *shards = calloc((size_t)ranks, sizeof *shards);
    char text[256];
    if (shards && ls_trainer_balanced(trainer, shards)) {
        list_shares(shards, ranks, text, sizeof text);
        note("note: a step's shards by the ranks' measured speed: %s", text);
    }
    free(shards);
    state.balance_said = true;
}

void ranks_meet(ls_trainer *trainer, bool quiet)
{
    bool direct;
    const char *how = ls_trainer_transport(trainer, &direct);
    if (*how && !quiet)
        note("note: the ranks' GPUs exchange gradients by %s%s", direct ? "" : "way of the hosts: ", how);
}

void ranks_parted(void)
{
    state.parted = true;
}

void ranks_end_together(void)
{
    say_together();
    ranks_parted();
}

int ranks_close(run *r, int status)
{
    bool alone = state.agreed && !state.parted && !ls_failed_together(r->session);
    if (status && alone && ls_cluster_ranks(state.cluster) > 1) {
        fflush(NULL);
        watch_end();
        _exit(status);
    }
    watch_session(NULL);
    watch_phase("the end");
    status = run_close(r, status);
    ls_cluster_barrier(state.cluster);
    watch_cluster(NULL);
    watch_phase("the end of MPI");
    ls_cluster_end(state.cluster);
    state.cluster = NULL;
    return status;
}
