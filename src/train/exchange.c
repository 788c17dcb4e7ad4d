#include "train/exchange.h"

#include <time.h>

#include "base/environment.h"
#include "cluster/cluster.h"
#include "device/gpu_trace.h"
#include "train/cohort.h"
#include "train/updates.h"

/* Steps whose throughputs are measured, from the second of the trainer on; the first is slower for reasons of its own.
 */
enum { FIRST_MEASURED = 1, LAST_MEASURED = 8 };

static ls_cluster *cluster_of(const ls_step_job *step)
{
    return step->trainer->session->options.cluster;
}

static bool grouped(const ls_groups *groups)
{
    return ls_groups_members(groups, groups->group) > 1;
}

/* The first member speaks for its group at a step's end. */
static bool leads(const ls_groups *groups)
{
    return groups->member == 0;
}

/* ---- Before a step ---- */

void ls_exchange_take_wire(struct ls_trainer *trainer)
{
    ls_cluster *cluster = trainer->session->options.cluster;
    if (cluster->stepping && cluster->stepping != trainer)
        ls_engine_wait(cluster->stepping->network->engine);
    cluster->stepping = trainer;
}

/* The ranks' places, which stay. */
static ls_status take_places(struct ls_trainer *trainer)
{
    const ls_options *options = &trainer->session->options;
    ls_context *context = &trainer->session->context;
    if (trainer->groups.ranks)
        return LS_OK;
    if (options->balance && !trainer->throughputs)
        trainer->throughputs = ls_alloc(context, (size_t)ls_cluster_ranks(options->cluster),
                                        sizeof *trainer->throughputs, "the ranks' throughputs");
    if (options->balance && !trainer->throughputs)
        return LS_OUT_OF_MEMORY;
    return ls_groups_make(&trainer->groups, context, options->cluster, trainer->session->trial.host_ranks);
}

/* Two steps are under way at most: what was measured is known to all once the next one is handed in. */
static ls_status cut(ls_step_job *step)
{
    struct ls_trainer *trainer = step->trainer;
    ls_context *context = &trainer->session->context;
    const ls_groups *groups = &trainer->groups;
    const bool balanced = trainer->throughputs && trainer->handed_in >= LAST_MEASURED + LS_DEPTH;
    if (ls_partition_reserve(&step->partition, context, groups->ranks, step->shards) != LS_OK ||
        ls_partition_reserve(&step->hosts, context, groups->groups, step->shards) != LS_OK)
        return LS_OUT_OF_MEMORY;
    if (step->partition.leaves != step->shards || step->exchange.balanced != balanced)
        ls_partition_cut_groups(&step->partition, &step->hosts, groups->first, balanced ? trainer->throughputs : NULL,
                                step->shards);
    step->exchange.balanced = balanced;
    step->first = step->partition.begin[groups->place];
    step->mine = step->partition.begin[groups->place + 1] - step->first;
    return LS_OK;
}

/* The buckets' all-reduces, with rows one behind the other, where there are any yet. Returns how many floats they take.
 */
static size_t lay_allreduces(ls_step_job *step, float *rows)
{
    struct ls_trainer *trainer = step->trainer;
    const ls_flat *flat = &trainer->network->flat;
    size_t floats = 0;
    for (int b = 0; b < flat->n_buckets; b++) {
        ls_allreduce *allreduce = &step->exchange.allreduces[b];
        *allreduce = (ls_allreduce){.groups = &trainer->groups,
                                    .ranks = &step->partition,
                                    .hosts = &step->hosts,
                                    .tree = &step->gradients.tree,
                                    .buffers = trainer->pool,
                                    .bucket = flat->buckets[b]};
        floats += ls_allreduce_lay(allreduce, rows ? rows + floats : NULL);
    }
    return floats;
}

/* Those of the buckets and of the end, and behind them the cohorts'. */
static int cohorts_slot(const ls_step_job *step)
{
    return step->exchange.slots * (step->trainer->network->flat.n_buckets + 1);
}
static int all_slots(const ls_step_job *step)
{
    return cohorts_slot(step) + ls_cohorts_slots(step);
}

ls_status ls_exchange_reserve(ls_step_job *step)
{
    struct ls_trainer *trainer = step->trainer;
    ls_network *network = trainer->network;
    ls_context *context = &network->session->context;
    ls_cluster *cluster = cluster_of(step);
    const size_t buckets = (size_t)network->flat.n_buckets;
    if (take_places(trainer) != LS_OK || cut(step) != LS_OK)
        return LS_OUT_OF_MEMORY;
    if (ls_cohorts_reserve(step) != LS_OK)
        return ls_status_of(network->session);
    step->before = trainer->handed_in;
    step->exchange.measured = trainer->throughputs && step->before <= LAST_MEASURED;
    if (!step->exchange.statuses)
        step->exchange.statuses =
            ls_alloc(context, (size_t)step->partition.parts, sizeof *step->exchange.statuses, "what the ranks tell");
    if (!step->exchange.allreduces)
        step->exchange.allreduces = ls_alloc(context, buckets, sizeof *step->exchange.allreduces, "the buckets' ways");
    if (!step->exchange.statuses || !step->exchange.allreduces)
        return LS_OUT_OF_MEMORY;
    size_t floats = lay_allreduces(step, NULL);
    if (step->partition.parts == 1)
        return ls_status_of(network->session);
    ls_exchange_take_wire(trainer);
    if (floats > trainer->rows_floats) {
        ls_engine_wait(network->engine);
        ls_executor_release(network->master, trainer->rows);
        trainer->rows =
            ls_executor_alloc(network->master, floats, sizeof *trainer->rows, "other ranks' partial gradients");
        trainer->rows_floats = trainer->rows ? floats : 0;
        if (!trainer->rows)
            return LS_OUT_OF_MEMORY;
    }
    const ls_groups *groups = &trainer->groups;
    step->exchange.slots = ls_allreduce_slots(groups, &step->partition, &step->hosts) +
                           4 * (groups->groups + ls_groups_members(groups, groups->group));
    return ls_cluster_reserve(cluster, context, all_slots(step), &step->exchange.first_slot);
}

void ls_exchange_forget(struct ls_trainer *trainer)
{
    ls_cluster *cluster = trainer->session->options.cluster;
    if (cluster && cluster->stepping == trainer)
        cluster->stepping = NULL;
    ls_groups_destroy(&trainer->groups, &trainer->session->context);
    ls_release(&trainer->session->context, trainer->throughputs);
}

void ls_exchange_begin(ls_step_job *step)
{
    const ls_network *network = step->trainer->network;
    lay_allreduces(step, step->trainer->rows);
    ls_allreduce_hang(&step->gradients.tree, &step->trainer->groups, &step->partition, &step->hosts);
    step->exchange.to_move = step->partition.parts == 1 ? 0 : 1 + (network->connected ? 0 : network->flat.n_buckets);
    step->sums.filled = step->partition.parts == 1        ? LS_LAST_SUM
                        : network->connected              ? LS_PASSING
                        : grouped(&step->trainer->groups) ? LS_LOCAL_SUM
                                                          : LS_GROUP_SUM;
    atomic_store(&step->exchange.end, LS_FILLING);
    atomic_store(&step->exchange.computing, 0);
}

bool ls_exchange_end(ls_step_job *step)
{
    struct ls_trainer *trainer = step->trainer;
    const ls_groups *groups = &trainer->groups;
    step->exchange.statuses[groups->place] =
        (ls_rank_status){.throughput = {.seconds = (double)atomic_load(&step->exchange.computing) * 1e-9,
                                        .shards = step->mine,
                                        .at_once = trainer->network->engine->n_cores},
                         .flags = (atomic_load(&step->ending.broken) ? LS_FLAG_BROKEN : 0u) |
                                  (atomic_load(&trainer->session->broken) ? LS_FLAG_FAILED : 0u) |
                                  LS_FLAG_ASKED * (uint32_t)atomic_load(&trainer->asked),
                         .rule = ls_updates_hash(step)};
    if (step->partition.parts == 1)
        return true;
    atomic_store(&step->exchange.end, grouped(groups) ? LS_TO_SCATTER_LOCALLY : LS_TO_SCATTER);
    return false;
}

/* Every rank knows what all have told: takes note of their throughputs. */
static void learn(const ls_step_job *step)
{
    ls_throughput *throughputs = step->trainer->throughputs;
    if (!step->exchange.measured || step->before < FIRST_MEASURED)
        return;
    for (int p = 0; p < step->partition.parts; p++) {
        const ls_throughput *throughput = &step->exchange.statuses[p].throughput;
        throughputs[p] = (ls_throughput){throughputs[p].seconds + throughput->seconds,
                                         throughputs[p].shards + throughput->shards, throughput->at_once};
    }
}

/* ---- The step's end ---- */

typedef void mover(ls_posting *posting, int peer, void *data, size_t bytes);

static void send(ls_posting *posting, int peer, void *data, size_t bytes)
{
    ls_post_send(posting, peer, data, bytes);
}

/* What places [first, end) tell, the metrics of their shards, and the statistics of a part's nodes, each in its first
 * shard's row; without a partition those that are summed, in the first row. */
static void move_results(const ls_step_job *step, ls_posting *posting, int peer, int first, int end,
                         const ls_partition *partition, int part, mover *move)
{
    const size_t shard = (size_t)step->partition.begin[first], last = (size_t)step->partition.begin[end];
    const size_t state = step->trainer->network->flat.state;
    move(posting, peer, step->exchange.statuses + first, (size_t)(end - first) * sizeof *step->exchange.statuses);
    move(posting, peer, step->results.metrics + shard * LS_METRICS, (last - shard) * LS_METRICS * sizeof(float));
    if (!partition)
        move(posting, peer, step->results.statistics, state * sizeof(float));
    for (int i = partition ? partition->first_node[part] : 0; partition && i < partition->first_node[part + 1]; i++) {
        size_t row = (size_t)ls_tree_first_leaf(&step->gradients.tree, partition->nodes[i]);
        move(posting, peer, step->results.statistics + row * state, state * sizeof(float));
    }
}

/* From the members to their group's first. */
static bool scatter_end_locally(const ls_step_job *step, ls_posting posting)
{
    const ls_groups *groups = &step->trainer->groups;
    const int first = groups->first[groups->group], end = groups->first[groups->group + 1];
    for (int p = first + 1; leads(groups) && p < end; p++)
        move_results(step, &posting, groups->rank[p], p, p + 1, &step->partition, p, ls_post_receive);
    if (!leads(groups))
        move_results(step, &posting, groups->rank[first], groups->place, groups->place + 1, &step->partition,
                     groups->place, send);
    return posting.good;
}

/* Among the first of all groups. */
static bool scatter_end(const ls_step_job *step, ls_posting posting)
{
    const ls_groups *groups = &step->trainer->groups;
    const int *first = groups->first, mine = groups->group;
    for (int g = 0; leads(groups) && g < groups->groups; g++) {
        if (g == mine)
            continue;
        move_results(step, &posting, groups->rank[first[g]], first[g], first[g + 1], &step->hosts, g, ls_post_receive);
        move_results(step, &posting, groups->rank[first[g]], first[mine], first[mine + 1], &step->hosts, mine, send);
    }
    return posting.good;
}

/* All of it, and the statistics' sum, from a group's first to its members. */
static bool gather_end_locally(const ls_step_job *step, ls_posting posting)
{
    const ls_groups *groups = &step->trainer->groups;
    const int first = groups->first[groups->group], end = groups->first[groups->group + 1];
    for (int p = first + 1; leads(groups) && p < end; p++)
        move_results(step, &posting, groups->rank[p], 0, groups->ranks, NULL, 0, send);
    if (!leads(groups))
        move_results(step, &posting, groups->rank[first], 0, groups->ranks, NULL, 0, ls_post_receive);
    return posting.good;
}

/* What came is added to what is there. */
static void sum_end(ls_step_job *step, bool across)
{
    const ls_network *network = step->trainer->network;
    const ls_groups *groups = &step->trainer->groups;
    int begin = across ? 0 : step->hosts.begin[groups->group];
    int end = across ? step->shards : step->hosts.begin[groups->group + 1];
    if (leads(groups))
        ls_partition_sum(begin, end, step->shards, across ? &step->hosts : &step->partition, step->results.statistics,
                         network->flat.state, ls_backend_ref()->add);
}

/* ---- Stages; the caller holds the cluster's lock ---- */

static bool is_end(const ls_step_job *step, int number)
{
    return number == step->trainer->network->flat.n_buckets;
}

static int first_slot(const ls_step_job *step, int number)
{
    return step->exchange.first_slot + number * step->exchange.slots;
}

static bool begin_transfers(const ls_step_job *step, int number, ls_stage stage, ls_posting posting)
{
    const bool end = is_end(step, number);
    const ls_allreduce *allreduce = &step->exchange.allreduces[end ? 0 : number];
    switch (stage) {
    case LS_TO_SCATTER_LOCALLY:
        return end ? scatter_end_locally(step, posting) : ls_allreduce_scatter_locally(allreduce, posting);
    case LS_TO_SCATTER:
        return end ? scatter_end(step, posting) : ls_allreduce_scatter(allreduce, posting);
    case LS_TO_GATHER:
        return ls_allreduce_gather(allreduce, ls_step_target(step), posting);
    case LS_TO_GATHER_LOCALLY:
        return end ? gather_end_locally(step, posting)
                   : ls_allreduce_gather_locally(allreduce, ls_step_target(step), posting);
    default:
        return false;
    }
}

static bool begin_on_wire(const ls_step_job *step, int number, ls_stage stage)
{
    const int tag = is_end(step, number) ? LS_TAG_END : LS_TAG_STEP + 2 * number + (stage >= LS_TO_GATHER);
    const ls_posting posting = {
        .wire = &cluster_of(step)->wire, .slot = first_slot(step, number), .tag = tag, .good = true};
    return begin_transfers(step, number, stage, posting);
}

/* What follows on transfers; sums only where this rank has what to sum. */
static ls_stage stage_after(ls_step_job *step, int number, ls_stage stage)
{
    const bool end = is_end(step, number);
    const ls_allreduce *allreduce = &step->exchange.allreduces[end ? 0 : number];
    const ls_stage last = grouped(&step->trainer->groups) ? LS_TO_GATHER_LOCALLY : LS_MOVED;
    switch (stage) {
    case LS_SCATTERING_LOCALLY:
        if (end)
            sum_end(step, false);
        return !end && allreduce->stripe.end > allreduce->stripe.begin ? LS_GROUP_SUM : LS_TO_SCATTER;
    case LS_SCATTERING:
        if (end)
            sum_end(step, true);
        return end ? last : allreduce->piece.end > allreduce->piece.begin ? LS_LAST_SUM : LS_TO_GATHER;
    case LS_GATHERING:
        return last;
    default:
        return LS_MOVED;
    }
}

static bool to_send(int stage)
{
    return stage == LS_TO_SCATTER_LOCALLY || stage == LS_TO_SCATTER || stage == LS_TO_GATHER ||
           stage == LS_TO_GATHER_LOCALLY;
}

static bool travels(int stage)
{
    return stage == LS_SCATTERING_LOCALLY || stage == LS_SCATTERING || stage == LS_GATHERING ||
           stage == LS_GATHERING_LOCALLY;
}

/* A group of transfers is begun, or done; 1 when that is so, 0 not yet, -1 after a failure. */
static int advance_one(ls_step_job *step, int number, atomic_int *stage)
{
    const ls_wire *wire = &cluster_of(step)->wire;
    const int was = atomic_load(stage);
    if (to_send(was)) {
        bool good = begin_on_wire(step, number, (ls_stage)was);
        atomic_store(stage, was + 1);
        return good ? 1 : -1;
    }
    int done = travels(was) ? wire->test(wire->user, first_slot(step, number), step->exchange.slots) : 0;
    if (done <= 0)
        return done;
    ls_stage next = stage_after(step, number, (ls_stage)was);
    atomic_store(stage, next);
    if (next == LS_MOVED)
        step->exchange.to_move--;
    else if (!to_send(next))
        ls_step_wake(step);
    return 1;
}

void ls_exchange_give_up(ls_step_job *step)
{
    ls_session *session = step->trainer->session;
    ls_raise(&session->context, LS_IO, "rank %d: step %lld: a transfer between ranks failed",
             ls_cluster_rank(cluster_of(step)), (long long)step->number + 1);
    atomic_store(&session->broken, true);
    atomic_store(&step->ending.broken, 1);
    ls_step_unrecord(step);
    atomic_store(&step->ending.complete, 1);
    ls_step_wake(step);
}

void ls_exchange_look(ls_step_job *step)
{
    const struct ls_trainer *trainer = step->trainer;
    if (!trainer->network->connected)
        return;
    trainer->network->master->type->peers.look(trainer->network->master);
    if (ls_executor_check(trainer->network->master) != LS_OK)
        ls_exchange_give_up(step);
}

ls_advance ls_exchange_advance(ls_step_job *step)
{
    ls_cluster *cluster = cluster_of(step);
    if (step->partition.parts == 1 || pthread_mutex_trylock(&cluster->lock) != 0)
        return LS_STILL;
    const int last = step->trainer->network->flat.n_buckets;
    bool moved = false, over = false, lost = false;
    for (int i = 0; i <= last && step->exchange.to_move > 0; i++) {
        int result;
        while ((result = advance_one(step, i, i == last ? &step->exchange.end : &step->sums.stage[i])) > 0)
            moved = true;
        lost |= result < 0;
    }
    over = moved && step->exchange.to_move == 0;
    const int met = over ? 0 : ls_cohorts_advance(step, &cluster->wire, step->exchange.first_slot + cohorts_slot(step));
    moved |= met > 0;
    lost |= met < 0;
    if (lost) {
        step->exchange.to_move = 0;
        ls_cluster_cancel(cluster, step->exchange.first_slot, all_slots(step));
    }
    if (moved) {
        atomic_store(&cluster->waiting, 0);
        ls_count_work(&step->trainer->session->context);
    }
    pthread_mutex_unlock(&cluster->lock);
    if (lost)
        ls_exchange_give_up(step);
    else if (over)
        learn(step);
    return over && !lost ? LS_ALL_MOVED : moved ? LS_MOVING : LS_STILL;
}

void ls_exchange_await(const ls_step_job *step, bool idle)
{
    const struct timespec moment = {0, 20000};
    atomic_store(&cluster_of(step)->waiting, idle);
    nanosleep(&moment, NULL);
}

static bool under_way(int stage)
{
    return to_send(stage) || travels(stage);
}

bool ls_exchange_under_way(const ls_step_job *step)
{
    bool any = step->partition.parts > 1 && (under_way(atomic_load(&step->exchange.end)) || ls_cohorts_under_way(step));
    for (int b = 0; b < step->trainer->network->flat.n_buckets && !any; b++)
        any = under_way(atomic_load(&step->sums.stage[b]));
    return any;
}

/* ---- Connected cards ---- */

/* All buckets' transfers at once: the card does nothing else meanwhile. */
static void transfer_all(const ls_step_job *step, ls_stage stage)
{
    ls_executor *master = step->trainer->network->master;
    const int mark = ls_gpu_trace_mark(master);
    master->type->peers.begin_group(master);
    for (int b = 0; b < step->trainer->network->flat.n_buckets; b++)
        begin_transfers(step, b, stage, (ls_posting){.executor = master});
    master->type->peers.end_group(master);
    ls_gpu_trace_note(master, mark, LS_SPAN_LINK, -1, NULL);
}

void ls_exchange_pass(ls_step_job *step, void (*sum)(ls_step_job *step, ls_stage stage, ls_worker *worker),
                      ls_worker *worker)
{
    const bool in_groups = grouped(&step->trainer->groups);
    if (in_groups) {
        sum(step, LS_LOCAL_SUM, worker);
        transfer_all(step, LS_TO_SCATTER_LOCALLY);
    }
    sum(step, LS_GROUP_SUM, worker);
    transfer_all(step, LS_TO_SCATTER);
    sum(step, LS_LAST_SUM, worker);
    transfer_all(step, LS_TO_GATHER);
    if (in_groups)
        transfer_all(step, LS_TO_GATHER_LOCALLY);
}

/* ---- Outside of steps ---- */

ls_status ls_exchange_pieces(struct ls_trainer *trainer, int bucket, size_t begin[], size_t end[])
{
    const ls_groups *groups = &trainer->groups;
    if (take_places(trainer) != LS_OK)
        return LS_OUT_OF_MEMORY;
    for (int g = 0; g < groups->groups; g++)
        for (int m = 0; m < ls_groups_members(groups, g); m++) {
            int rank = groups->rank[groups->first[g] + m];
            ls_bucket piece = ls_groups_piece(groups, &trainer->network->flat.buckets[bucket], g, m);
            begin[rank] = piece.begin * sizeof(float);
            end[rank] = piece.end * sizeof(float);
        }
    return LS_OK;
}

bool ls_trainer_balanced(ls_trainer *trainer, int shards[])
{
    LS_OWN_ENVIRONMENT;
    if (!trainer || !trainer->handed_in)
        return false;
    const ls_step_job *step = &trainer->steps[(trainer->handed_in - 1) % LS_DEPTH];
    for (int p = 0; step->exchange.balanced && shards && p < step->partition.parts; p++)
        shards[trainer->groups.rank[p]] = step->partition.begin[p + 1] - step->partition.begin[p];
    return step->exchange.balanced;
}
