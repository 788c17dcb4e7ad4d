#include "ranks.h"
#include "say.h"
#include "watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_SETTINGS = 48, MOST_TEXT = 64, USUAL_TIMEOUT = 300 /* seconds, of several ranks */ };

static struct {
    ls_cluster *cluster;
    bool agreed, parted;
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
    watch_start(chosen->timeout ? (double)chosen->timeout : ranks > 1 ? USUAL_TIMEOUT : 0, rank, ranks);
    watch_phase("the start of MPI");
    state.cluster = ls_cluster_start();
    if (ls_cluster_status(state.cluster) != LS_OK) {
        /* How they were started concerns all ranks alike; a plugin may be missing on one host alone. */
        say_at_once(ls_cluster_status(state.cluster) == LS_BAD_ARGUMENT ? rank == 0 : local == 0);
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

int ranks_agree(int command, const run *r, const ls_data *train, const ls_data *test, int status)
{
    ls_setting list[MOST_SETTINGS];
    char texts[MOST_SETTINGS][MOST_TEXT], sums[4][20];
    if (ls_cluster_ranks(state.cluster) == 1)
        return status;
    int n = 0;
    list[n++] = (ls_setting){"lockstep's version", ls_version()};
    n += options_list(command, r->chosen, list + n, texts, MOST_SETTINGS - 5);
    if (!status) {
        snprintf(sums[0], sizeof sums[0], "%016" PRIx64, train ? ls_data_checksum(train) : 0);
        snprintf(sums[1], sizeof sums[1], "%016" PRIx64, test ? ls_data_checksum(test) : 0);
        snprintf(sums[2], sizeof sums[2], "%016" PRIx64, r->net ? ls_checksum(r->net) : 0);
        snprintf(sums[3], sizeof sums[3], "%016" PRIx64, r->canary);
        list[n++] = (ls_setting){"what a canary step computes", sums[3]};
        list[n++] = (ls_setting){"the checksum of the training images", sums[0]};
        list[n++] = (ls_setting){"the checksum of the test images", sums[1]};
        list[n++] = (ls_setting){"the checksum of the first weights", sums[2]};
    }
    const char *held = status ? say_held() : NULL;
    ls_status agreed = ls_cluster_agree(state.cluster, held, list, n);
    say_at_once(ls_cluster_rank(state.cluster) == 0);
    state.agreed = agreed == LS_OK;
    if (agreed == LS_OK)
        return 0;
    int ours = failed("", "%s", ls_cluster_message(state.cluster));
    return status ? status : ours;
}

void ranks_parted(void)
{
    state.parted = true;
}

int ranks_close(run *r, int status)
{
    bool alone = state.agreed && !state.parted && !ls_failed_together(r->session);
    if (status && alone && ls_cluster_ranks(state.cluster) > 1) {
        fflush(NULL);
        _exit(status);
    }
    watch_session(NULL);
    watch_phase("the end");
    status = run_close(r, status);
    ls_cluster_part(state.cluster);
    watch_cluster(NULL);
    watch_phase("the end of MPI");
    ls_cluster_end(state.cluster);
    state.cluster = NULL;
    return status;
}
