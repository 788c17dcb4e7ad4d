/* Several cards in one process, and ranks that have cards: the bits of one card, wherever sums are made. Exit status 77
 * where there is no card; where there is one, it is shared by the ranks, and several in one process are not tested,
 * which is said. */
#include <lockstep_profile.h>
#include <lockstep_cluster.h>
#include <lockstep_checkpoint.h>
#include <lockstep_train.h>
#include <lockstep_trial.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/cards.h"
#include "files.h"
#include "not_run.h"
#include "observed.h"
#include "model/replica.h"
#include "support.h"
#include "tensors.h"
#include "thread_wire.h"
#include "gpu_network.h"

enum { STEPS = 5, RANKS = 3 };

static int cards;

/* Of a core and a card. */
typedef struct mix {
    bool lost;         /* the card fails in its first shard */
    atomic_int at[2];  /* results that core and card have staged */
    bool meet;         /* a device that begins waits for the other */
    int64_t shards[2]; /* that each of the two has computed */
} mix;

typedef struct how {
    const char *devices; /* NULL: all there are */
    ls_dtype dtype;
    uint64_t shuffle;
    int lost; /* the cards from this one on fail, each in its first shard; 0: none */
    int replicas;
    double clip;
    bool host_sums, balance;
    int host_ranks;
    bool verify;        /* before the first step too */
    bool measured;      /* a profile, whose spans are looked at */
    const char *folder; /* goes on from the checkpoint there, if there is one, and leaves one; NULL: neither */
    int until;          /* steps; 0: STEPS */
    mix *mix;           /* NULL: the devices are of one kind */
    bool frozen;        /* the stem is, and what has one dimension does not decay */
} how;

typedef struct result {
    uint64_t sum, averages;
    double losses[STEPS];
    ls_metrics metrics;
    float logits[ROWS * CLASSES], gradient[CLASSES];
} result;

static bool ends_no_run(void *user, ls_executor *executor, const char *call)
{
    (void)user, (void)executor;
    return strcmp(call, "end") != 0;
}

static bool sees_mix(void *user, ls_executor *executor, const char *call)
{
    mix *m = user;
    const bool card = executor->memory != 0;
    if (strcmp(call, "stage_result") == 0) {
        atomic_fetch_add(&m->at[card], 1);
        for (int i = 0; m->meet && i < 10000 && !atomic_load(&m->at[!card]); i++)
            nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    return !card || !m->lost || ends_no_run(NULL, executor, call);
}

static void observe(ls_session *s, how h)
{
    for (ls_turn *turn = s->turns; turn; turn = turn->next_turn)
        if (h.mix)
            test_observe(turn->executor, sees_mix, h.mix);
        else if (h.lost && turn->executor->memory > h.lost)
            test_observe(turn->executor, ends_no_run, NULL);
}

/* Each is told of once. */
static void assert_lost(ls_module *net, how h)
{
    int n = 0;
    for (const char *line; (line = ls_module_next_failure(net)); n++)
        if (!strstr(line, ": end failed: as the test has it; the others go on without it") || strncmp(line, "cuda:", 5))
            fail_msg("%s", line);
    assert_int_equal(n, h.mix ? h.mix->lost : h.lost ? cards - h.lost : 0);
}

/* Ranks' cards are connected where each rank has its own and nothing forbids it. */
static void assert_meeting(ls_trainer *trainer, how h, const ls_cluster *cluster)
{
    bool direct;
    const int ranks = ls_cluster_ranks(cluster);
    const char *meeting = ls_trainer_transport(trainer, &direct);
    const bool can = ranks > 1 && cards >= ranks && !h.host_sums && strstr(ls_features(), "a plugin for NCCL");
    if (direct != can || (ranks > 1) != (*meeting != '\0'))
        fail_msg("%d ranks: cards are %sconnected: %s", ranks, direct ? "" : "not ", meeting);
    if (ranks > 1 && h.host_sums)
        assert_string_equal(meeting, "rank 0: as it was asked for");
}

/* On the cards' line of time, where they are connected: at least two groups of transfers a step, among its other work.
 */
static void assert_exchanges(ls_profile *profile, ls_trainer *trainer)
{
    bool direct;
    int transfers = 0, sums = 0;
    ls_span span, shard = {.end = 0};
    ls_trainer_transport(trainer, &direct);
    assert_int_equal(ls_profile_stop(profile), LS_OK);
    for (int64_t i = 0; i < ls_profile_spans(profile); i++) {
        assert_int_equal(ls_profile_span_at(profile, i, &span), LS_OK);
        if (span.kind == LS_SPAN_OPERATION)
            shard = span;
        sums += span.kind == LS_SPAN_CARD_SUM;
        transfers += span.kind == LS_SPAN_LINK;
        if (span.kind == LS_SPAN_LINK)
            assert_true(span.end >= span.begin && shard.end > 0);
    }
    if (direct ? transfers < 2 * STEPS || sums < STEPS : transfers > 0)
        fail_msg("%d spans of transfers, %d of sums", transfers, sums);
}

static result train(how h, ls_cluster *cluster)
{
    result r = {.sum = 0};
    ls_session *s =
        ls_open(&(ls_options){.shard = SHARD,
                              .dtype = h.dtype,
                              .cluster = cluster,
                              .host_sums = h.host_sums,
                              .balance = h.balance,
                              .trial = &(ls_trial){.shuffle_pulls = h.shuffle, .host_ranks = h.host_ranks}});
    ls_data *data = images(s);
    ls_module *net = network_of(s);
    ls_module_initialize(net, h.devices ? ls_parse_devices(s, h.devices) : ls_all_devices(s),
                         &(ls_init){.kind = LS_XAVIER, .like = data});
    if (ls_failed(s))
        fail_msg("%s", ls_message(s));
    assert_int_equal(net->network->n_replicas, h.replicas);
    if (h.frozen)
        ls_module_freeze(net, "[01].*", true);
    observe(s, h);
    ls_trainer *trainer = ls_trainer_new(
        net, LS_SGD, &(ls_optim){.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-4, .clip_norm = h.clip, .ema = 0.75});
    if (h.frozen)
        ls_trainer_set_group(trainer, "*", &(ls_param_group){.lr = 0.5, .no_decay = true, .vectors = true});
    float bias[CLASSES] = {0.5f, -0.5f};
    ls_checkpoints *kept = h.folder ? ls_checkpoints_open(trainer, data, h.folder, NULL) : NULL;
    ls_checkpoint from = {.step = 0};
    if (kept)
        ls_checkpoint_load(kept, &from);
    const int until = h.until ? h.until : STEPS;
    ls_profile *profile = h.measured ? ls_profile_start(trainer, 1 << 14) : NULL;
    for (int step = (int)from.step; step < until && !ls_failed(s);) {
        ls_batch b;
        while (step < until && ls_data_next(data, &b)) {
            if (step == 2) /* values that somebody writes reach every memory */
                ls_module_write_parameter(net, h.frozen ? "1.bias" : "fc.1.bias", bias, h.frozen ? 4 : CLASSES);
            ls_backward(test_losses(net, &b));
            if ((step == 3 && !h.mix) || (step == 0 && h.verify))
                ls_trainer_verify(trainer);
            if (step == STEPS - 1)
                test_read_gradient(net, "fc.1.bias", r.gradient, CLASSES);
            ls_trainer_step(trainer);
            step++;
        }
    }
    if (kept)
        ls_checkpoint_save(kept, NULL);
    ls_wait(s);
    ls_report report;
    while (ls_trainer_next_report(trainer, &report))
        r.losses[report.step - 1] = report.loss;
    assert_meeting(trainer, h, cluster);
    if (profile)
        assert_exchanges(profile, trainer);
    for (int i = 0; h.mix && i < 2; i++) {
        ls_device_times times;
        assert_int_equal(ls_trainer_device_times(trainer, i, &times), LS_OK);
        h.mix->shards[i] = times.shards;
    }
    ls_module_evaluate(net, data, &r.metrics);
    ls_module_predict(net, data, r.logits, CLASSES);
    r.averages = test_average_checksum(net, trainer);
    r.sum = ls_module_checksum(net);
    assert_lost(net, h);
    if (ls_failed(s))
        fail_msg("%s: %s", h.devices ? h.devices : "all", ls_message(s));
    assert_int_equal(ls_close(s), LS_OK);
    return r;
}

static void assert_same(const char *what, const result *a, const result *b)
{
    if (a->sum != b->sum || a->averages != b->averages || memcmp(a->losses, b->losses, sizeof a->losses) != 0 ||
        memcmp(a->logits, b->logits, sizeof a->logits) != 0 || a->metrics.loss != b->metrics.loss)
        fail_msg("%s: other bits; losses %.9g and %.9g at the end", what, a->losses[STEPS - 1], b->losses[STEPS - 1]);
    if (memcmp(a->gradient, b->gradient, sizeof a->gradient) != 0)
        fail_msg("%s: another gradient", what);
}

static void several_cards_have_the_bits_of_one(void **state)
{
    (void)state;
    if (cards < 3)
        test_not_run("there are %d cards", cards);
    for (int dtype = LS_F32; dtype <= LS_BF16; dtype += 2) {
        const ls_dtype type = (ls_dtype)dtype;
        const how ways[] = {{.devices = "cuda:0-1", .replicas = 1},
                            {.devices = "cuda:0-2", .replicas = 2},
                            {.replicas = 2},
                            {.devices = "cuda:1x2,cuda:2", .replicas = 1},
                            {.devices = "cuda:2,cuda:0", .replicas = 1},
                            {.devices = "cuda:0-2", .shuffle = 5, .replicas = 2},
                            {.devices = "cuda:0-2", .lost = 1, .replicas = 2},
                            {.devices = "cuda:0-2", .lost = 2, .replicas = 2, .verify = true}};
        const result one = train((how){.devices = "cuda:0", .dtype = type}, NULL);
        assert_true(one.losses[0] > 0 && one.losses[STEPS - 1] > 0);
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            how h = ways[i];
            h.dtype = type;
            const result many = train(h, NULL);
            assert_same(h.devices ? h.devices : "all", &one, &many);
        }
        const result frozen = train((how){.devices = "cuda:0", .dtype = type, .frozen = true}, NULL);
        const result many = train((how){.devices = "cuda:0-2", .dtype = type, .replicas = 2, .frozen = true}, NULL);
        assert_same("with a frozen part", &frozen, &many);
    }
}

typedef struct rank {
    how h;
    result result;
} rank;

static void rank_main(ls_cluster *cluster, int number, void *user)
{
    rank *me = (rank *)user + number;
    me->result = train(me->h, cluster);
    ls_cluster_barrier(cluster);
}

/* Over NCCL and by way of the hosts, in one level and in two, the gradient clipped or not; the first two ways by each
 * number of ranks, the others by one. */
static void ranks_with_cards_have_the_bits_of_one(void **state)
{
    (void)state;
    const how ways[] = {{.host_sums = true},
                        {.host_sums = false},
                        {.dtype = LS_BF16},
                        {.host_ranks = 2, .measured = true},
                        {.host_sums = true, .measured = true},
                        {.verify = true, .shuffle = 3},
                        {.balance = true},
                        {.clip = 0.3},
                        {.frozen = true},
                        {.frozen = true, .host_sums = true}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const how alone = {.devices = "cuda:0", .dtype = ways[i].dtype, .clip = ways[i].clip, .frozen = ways[i].frozen};
        const result one = train(alone, NULL);
        const int least = i < 2 ? 2 : 2 + (int)i % (RANKS - 1), most = i < 2 ? RANKS : least;
        for (int ranks = least; ranks <= most; ranks++) {
            rank each[RANKS] = {{.result = {.sum = 0}}};
            for (int r = 0; r < ranks; r++) { /* of three cards the second of two ranks has two */
                each[r].h = ways[i];
                each[r].h.devices = r ? NULL : "cuda:0";
                each[r].h.replicas = ranks == 2 && r && cards == 3 ? 2 : 1;
            }
            wire_run(ranks, rank_main, each);
            for (int r = 0; r < ranks; r++)
                assert_same("a rank", &one, &each[r].result);
        }
    }
}

/* Moments live with the owners of their pieces, on the cards; a run goes on over another number of ranks, joined or
 * not. */
static void ranks_with_cards_go_on_from_a_checkpoint(void **state)
{
    (void)state;
    if (!strstr(ls_features(), "weights files: jansson") || !strstr(ls_features(), "fingerprints: libcrypto"))
        test_not_run("this build has no checkpoints");
    const double clips[] = {0, 0.3, 0};
    for (int i = 0; i < 3; i++) {
        char folder[32], name[64];
        snprintf(folder, sizeof folder, "kept-%d", i);
        snprintf(name, sizeof name, "%s", test_path(folder));
        const result one = train((how){.devices = "cuda:0", .clip = clips[i], .frozen = i == 2}, NULL);
        for (int until = 2; until <= STEPS; until++) { /* by 2, 3, 2 and 3 ranks, the last ones by way of the hosts */
            rank each[RANKS] = {{.result = {.sum = 0}}};
            const int ranks = 2 + until % 2;
            for (int r = 0; r < ranks; r++)
                each[r].h = (how){.devices = "cuda:0",
                                  .replicas = 1,
                                  .clip = clips[i],
                                  .folder = name,
                                  .until = until,
                                  .host_sums = until == STEPS,
                                  .frozen = i == 2};
            wire_run(ranks, rank_main, each);
            for (int r = 0; r < ranks; r++)
                if (memcmp(&each[r].result.losses[until - 1], &one.losses[until - 1], sizeof *one.losses) != 0 ||
                    (until == STEPS && each[r].result.sum != one.sum))
                    fail_msg("clipping %g, after step %d: other bits", clips[i], until);
        }
    }
}

/* ---- Cards that fail ---- */

enum { SHORT = 3, MOST_KINDS = 16 };

/* The card at that place of the list of devices fails at its n-th call of that kind, or, where that is NULL, of any but
 * for memory: that is taken before a step, where ranks know nothing of each other. */
typedef struct failing {
    int place, at; /* 0: never */
    const char *kind;
    bool early; /* the network is evaluated before it is trained */
    char name[16];
    atomic_int calls;
    atomic_bool begun;          /* it is at a shard, or has failed */
    _Atomic(const char *) call; /* that failed; NULL: none */
} failing;

static int together; /* images that BatchNorm's statistics are over, as ls_options.batch_norm */

/* A device's first call in a shard; where shards meet, cards keep results in the shard's room. */
static bool begins_shard(const ls_executor *executor, const char *call)
{
    return strcmp(call, together && executor->memory ? "begin" : "stage_result") == 0;
}

static bool fails_once(void *user, ls_executor *executor, const char *call)
{
    failing *f = user;
    if (begins_shard(executor, call))
        f->begun = true;
    const bool meant = f->kind ? strcmp(call, f->kind) == 0 : strcmp(call, "allocate") != 0;
    if (!meant || atomic_fetch_add(&f->calls, 1) + 1 != f->at)
        return true;
    f->call = call;
    f->begun = true;
    return false;
}

/* How many calls of each kind there are. */
typedef struct counts {
    const char *kind[MOST_KINDS];
    atomic_int n[MOST_KINDS];
    failing f;
} counts;

static bool counts_calls(void *user, ls_executor *executor, const char *call)
{
    counts *c = user;
    int i = 0;
    while (c->kind[i] && strcmp(c->kind[i], call) != 0)
        i++;
    c->kind[i] = call;
    atomic_fetch_add(&c->n[i], 1);
    return fails_once(&c->f, executor, call);
}

/* The other devices leave it a shard, whatever the machine is at. */
static bool waits_for_it(void *user, ls_executor *executor, const char *call)
{
    failing *f = user;
    for (int i = 0; i < 10000 && !f->begun && begins_shard(executor, call); i++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    return true;
}

typedef struct outcome {
    ls_status status;
    char message[1024], line[400]; /* of the session; of the lost card */
    uint64_t sum;
    double loss;
} outcome;

static outcome train_failing(const char *devices, failing *f, counts *c, ls_cluster *cluster)
{
    outcome o = {.status = LS_OK};
    ls_session *s =
        ls_open(&(ls_options){.shard = SHARD, .batch_norm = together, .cluster = cluster, .host_sums = true});
    ls_data *data = together > 0 ? images_by(s, ROWS) : images(s); /* more shards that meet than there are rooms for */
    ls_module *net = network_of(s);
    ls_module_initialize(net, ls_parse_devices(s, devices), &(ls_init){.kind = LS_XAVIER, .like = data});
    const ls_engine *engine = net->network->engine;
    for (int i = 0; f && i < engine->n_workers; i++)
        if (c && i == f->place)
            test_observe(engine->workers[i].turn->executor, counts_calls, c);
        else
            test_observe(engine->workers[i].turn->executor, i == f->place ? fails_once : waits_for_it, f);
    if (f)
        snprintf(f->name, sizeof f->name, "%s", engine->workers[f->place].turn->executor->name);
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.05, .momentum = 0.9});
    int steps = 0;
    ls_metrics metrics = {0};
    if (f && f->early)
        ls_module_evaluate(net, data, &metrics);
    test_train(s, net, trainer, data, &steps, SHORT);
    ls_module_evaluate(net, data, &metrics);
    o.loss = metrics.loss;
    o.sum = ls_module_checksum(net);
    o.status = ls_status_of(s);
    snprintf(o.message, sizeof o.message, "%s", ls_message(s));
    const char *line = ls_module_next_failure(net);
    snprintf(o.line, sizeof o.line, "%s", line ? line : "");
    assert_null(ls_module_next_failure(net));
    ls_close(s);
    return o;
}

/* What a run in which a call fails comes to. */
typedef enum end { SAME_BITS, TO_ROUNDING, NAMED } end;

static void assert_end(const char *devices, const failing *f, const outcome *o, const outcome *whole, end wanted)
{
    char said[64];
    const char *call = f->call ? f->call : "";
    const bool memory = strcmp(call, "allocate") == 0, lost = *call && !memory && wanted != NAMED;
    const bool fails = memory ? o->status != LS_OK : *call && wanted == NAMED; /* side streams do without memory */
    const ls_status status = !fails ? LS_OK : memory ? LS_OUT_OF_MEMORY : LS_NO_DEVICE;
    snprintf(said, sizeof said, "%s%s%s", f->name, memory ? "" : ": ", memory ? "" : call);
    bool good = o->status == status && (*o->line != 0) == lost;
    if (o->status != LS_OK)
        good &= strstr(o->message, said) != NULL;
    else
        good &= (!lost || strncmp(o->line, said, strlen(said)) == 0) &&
                (wanted == TO_ROUNDING ? fabs(o->loss - whole->loss) <= 1e-4 * whole->loss : o->sum == whole->sum);
    if (!good)
        fail_msg("%s, call %d of %s, %s: status %d, \"%s\", \"%s\", %s bits", devices, f->at, f->name, call,
                 (int)o->status, o->message, o->line, o->sum == whole->sum ? "the same" : "other");
}

/* Of each kind of call the first, the second, one in the middle and the last. Of the first it is known that it comes.
 */
static void each_call_fails(const char *devices, int place, end wanted, const char *kinds)
{
    counts c = {.f = {.place = place}};
    const outcome whole = train_failing(devices, &c.f, &c, NULL);
    char seen[256] = "";
    assert_end(devices, &c.f, &whole, &whole, wanted);
    for (int i = 0; c.kind[i]; i++) {
        const int n = atomic_load(&c.n[i]), places[] = {1, 2, n / 2, n};
        for (int k = 0; k < 4; k++) {
            failing f = {.place = place, .kind = c.kind[i], .at = places[k]};
            if (places[k] > n || (k && places[k] <= places[k - 1]))
                continue;
            const outcome o = train_failing(devices, &f, NULL, NULL);
            assert_end(devices, &f, &o, &whole, wanted);
            if (k == 0 && f.call)
                snprintf(seen + strlen(seen), sizeof seen - strlen(seen), " %s", f.call);
        }
    }
    failing early = {.place = place, .kind = "end", .at = 1, .early = true};
    const outcome o = train_failing(devices, &early, NULL, NULL);
    assert_end(devices, &early, &o, &whole, wanted);
    print_message("%s: calls of %s that failed:%s\n", devices, c.f.name, seen);
    char name[32];
    for (const char *at = kinds; sscanf(at, "%31s", name) == 1; at = strstr(at, name) + strlen(name))
        if (!strstr(seen, name))
            fail_msg("no %s failed", name);
}

static void every_call_fails(void **state)
{
    (void)state;
    each_call_fails("cuda:0", 0, NAMED, "put get stage_result begin end update finish");
    each_call_fails("cpu:0,cuda:0", 1, TO_ROUNDING, "put get stage_result begin end finish");
    if (cards < 2)
        test_not_run("there is one card");
    each_call_fails("cuda:0-1", 1, SAME_BITS, "copy stage_result begin end finish");
    each_call_fails("cuda:0-1", 0, NAMED, "put stage_result begin end update finish");
}

/* What lay on the card is begun anew. With statistics of two shards there are several groups of them under way, of
 * which the first must find room on the devices that are left. */
static void every_call_fails_where_shards_meet(void **state)
{
    (void)state;
    together = -1;
    each_call_fails("cpu:0,cuda:0", 1, TO_ROUNDING, "put get begin end finish");
    if (cards > 1) {
        each_call_fails("cuda:0-1", 0, NAMED, "put begin end update finish");
        together = 2 * SHARD;
        each_call_fails("cuda:0-1", 1, SAME_BITS, "copy get begin end finish");
    }
    together = 0;
}

/* At any of its calls, so at any place between meetings. */
static void a_card_is_lost_between_meetings(void **state)
{
    (void)state;
    if (cards < 2)
        test_not_run("there is one card");
    for (int i = 0; i < 2; i++) {
        const char *devices = cards > 2 ? "cuda:0-2" : "cuda:0-1";
        const int calls = i ? 240 : 70; /* about as many as the card makes */
        together = i ? 2 * SHARD : -1;
        const outcome whole = train_failing("cuda:0", NULL, NULL, NULL);
        int lost = 0;
        for (int at = 1; at < calls; at += i ? 11 : 5) {
            failing f = {.place = 1, .at = at};
            const outcome o = train_failing(devices, &f, NULL, NULL);
            assert_end(devices, &f, &o, &whole, SAME_BITS);
            lost += f.call != NULL;
        }
        print_message("%s, statistics of %d images: lost at %d places\n", devices, together, lost);
        assert_true(lost > 0);
    }
    together = 0;
}

typedef struct failing_rank {
    const char *devices;
    failing f;
    outcome outcome;
} failing_rank;

static void failing_rank_main(ls_cluster *cluster, int number, void *user)
{
    failing_rank *me = (failing_rank *)user + number;
    me->outcome = train_failing(me->devices, me->f.at ? &me->f : NULL, NULL, cluster);
    ls_cluster_barrier(cluster);
}

/* By way of the hosts, who have the values: a rank goes on without one of its cards, and fails by name without any. */
static void a_rank_loses_a_card(void **state)
{
    if (cards < 3)
        test_not_run("there are %d cards", cards);
    together = *state ? -1 : 0;
    const outcome whole = train_failing("cuda:0", NULL, NULL, NULL);
    for (int at = 1; at < 60; at += 7)
        for (int left = 0; left < 2; left++) {
            failing_rank ranks[2] = {{.devices = "cuda:0"}, /* of three cards the second of two ranks has two */
                                     {.devices = left ? "cuda:0-1" : "cuda:0", .f = {.at = at}}};
            wire_run(2, failing_rank_main, ranks);
            assert_end(ranks[1].devices, &ranks[1].f, &ranks[1].outcome, &whole, left ? SAME_BITS : NAMED);
            if (ranks[1].outcome.status == LS_OK)
                assert_true(ranks[0].outcome.sum == whole.sum);
            else
                assert_non_null(strstr(ranks[0].outcome.message, "rank 1"));
        }
    together = 0;
}

/* Parts of the batch that lie on a card are computed by the others once it is lost. */
static void parts_of_a_lost_card(void **state)
{
    (void)state;
    if (cards < 2)
        test_not_run("there is one card");
    uint64_t sums[2];
    for (int lost = 0; lost < 2; lost++) {
        ls_session *s = ls_open(&(ls_options){.shard = SHARD});
        ls_data *data = images(s);
        ls_module *net = network_of(s);
        const ls_devices devices = ls_parse_devices(s, "cuda:0-1");
        ls_module_initialize(net, devices, &(ls_init){.kind = LS_XAVIER, .like = data});
        observe(s, (how){.lost = lost});
        ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.05});
        for (int step = 0; step < SHORT; step++) {
            ls_batch b;
            ls_tensor *X[2], *y[2];
            while (!ls_data_next(data, &b))
                ;
            ls_scatter(b.X, devices, X);
            ls_scatter(b.y, devices, y);
            for (int i = 0; i < 2; i++)
                ls_backward(ls_cross_entropy(ls_module_forward(net, X[i]), y[i]));
            ls_trainer_step(trainer);
        }
        sums[lost] = ls_module_checksum(net);
        if (ls_failed(s))
            fail_msg("%s", ls_message(s));
        assert_true((ls_module_next_failure(net) != NULL) == lost);
        assert_int_equal(ls_close(s), LS_OK);
    }
    assert_true(sums[0] == sums[1]);
}

/* ---- CPUs and cards together ---- */

/* Which of them computes a shard is a matter of time, and of no bit. */
static void cpus_and_cards_train_together(void **state)
{
    (void)state;
    const result one = train((how){.devices = "cuda:0"}, NULL), core = train((how){.devices = "cpu:0"}, NULL);
    const char *const lists[] = {"cpu:0,cuda:0", "cuda:0,cpu:0"};
    assert_same("cpu:0", &one, &core);
    for (int i = 0; i < 2; i++) {
        mix m = {.meet = true};
        const result both = train((how){.devices = lists[i], .replicas = 1, .mix = &m}, NULL);
        assert_true(m.shards[0] > 0 && m.shards[1] > 0);
        assert_same(lists[i], &one, &both);
        assert_int_equal(both.metrics.rows, ROWS);
    }
}

/* What the card has begun and lost is done by the core. */
static void a_core_goes_on_without_a_card(void **state)
{
    (void)state;
    mix m = {.lost = true, .meet = true};
    const result left = train((how){.devices = "cpu:0,cuda:0", .replicas = 1, .mix = &m}, NULL);
    const result one = train((how){.devices = "cpu:0"}, NULL);
    assert_same("cpu:0", &one, &left);
}

/* A device that is far slower than another kind leaves shards to it, but not for ever. */
static void slow_devices_leave_shards(void **state)
{
    (void)state;
    ls_session *s = ls_open(&(ls_options){.shard = SHARD});
    ls_data *data = images(s);
    ls_module *net = network_of(s);
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0,cuda:0"), &(ls_init){.like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.05});
    ls_batch b;
    mix m = {.lost = false};
    ls_worker *workers = net->network->engine->workers;
    observe(s, (how){.mix = &m});
    for (int step = 0; step < 3; step++) {
        assert_true(ls_data_next(data, &b) || ls_data_next(data, &b));
        atomic_store(&workers[0].pace.seconds, step < 2 ? 1e6 : 1.0);
        atomic_store(&workers[1].pace.seconds, 1e-6);
        if (step == 2)
            m.lost = true;
        test_step(net, trainer, &b);
        ls_wait(s);
        assert_false(ls_failed(s));
        assert_int_equal(atomic_load(&m.at[0]) > 0, step == 2);
    }
    assert_int_equal(ls_close(s), LS_OK);
}

static void cpus_and_cards_are_compared(void **state)
{
    (void)state;
    ls_session *s = ls_open(&(ls_options){.shard = SHARD, .dtype = LS_BF16});
    ls_module_initialize(network_of(s), ls_parse_devices(s, "cuda:0,cpu:0"), NULL);
    assert_caught(s, LS_UNSUPPORTED, "cpu");
    assert_int_equal(ls_close(s), LS_OK);
    s = ls_open(&(ls_options){.shard = SHARD});
    ls_data *data = images(s);
    ls_module *net = network_of(s);
    uint64_t sum = 0, cores = 1;
    assert_int_equal(ls_self_test(s, ls_parse_devices(s, "cpu:0,cuda:0"), &sum), LS_OK);
    assert_int_equal(ls_self_test(s, ls_parse_devices(s, "cpu:0"), &cores), LS_OK);
    assert_true(sum == cores);
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0,cuda:0"), &(ls_init){.like = data});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.05});
    ls_batch b;
    assert_true(ls_data_next(data, &b));
    ls_backward(test_losses(net, &b));
    assert_int_equal(ls_trainer_verify(trainer), LS_OK);
    assert_int_equal(ls_close(s), LS_OK);
}

/* A norm taken on the card is the one that the host takes of several cards' gradient. */
static void a_card_clips_as_the_host_does(void **state)
{
    (void)state;
    const result one = train((how){.devices = "cuda:0", .clip = 0.3}, NULL);
    const result other = train((how){.devices = "cuda:0"}, NULL);
    const result parts = train((how){.devices = "cuda:0x3", .clip = 0.3}, NULL);
    assert_same("cuda:0x3", &one, &parts);
    assert_true(one.sum != other.sum);
    if (cards < 2) {
        print_message("there are %d cards: not compared with the host\n", cards);
        return;
    }
    const result two = train((how){.devices = "cuda:0-1", .clip = 0.3, .replicas = 1}, NULL);
    assert_same("cuda:0-1", &one, &two);
    const how each = {.devices = "cuda:0", .clip = 0.3, .replicas = 1};
    rank pair[2] = {{.h = each}, {.h = each}};
    wire_run(2, rank_main, pair); /* these clip on the host */
    assert_same("two ranks", &one, &pair[0].result);
}

static void two_models_are_refused(void **state)
{
    (void)state;
    if (cards < 2)
        test_not_run("there is one card");
    for (int dtype = LS_F32; dtype <= LS_BF16; dtype += 2) { /* in float32 they have the same bits */
        ls_session *s = ls_open(&(ls_options){.dtype = (ls_dtype)dtype});
        ls_turn_of(s, ls_gpu(1))->executor->model = "another";
        ls_module_initialize(network_of(s), ls_parse_devices(s, "cuda:0-1"), NULL);
        if (dtype != LS_F32)
            assert_caught(s, LS_UNSUPPORTED, "cuda:1 (another) are two models of GPU");
        assert_int_equal(ls_close(s), LS_OK);
    }
}

/* A network's shards are computed by any of its devices; a tensor of one's own lies on one. */
static void own_numbers_in_a_loss_are_refused(void **state)
{
    (void)state;
    ls_session *s = ls_open(&(ls_options){.shard = SHARD});
    ls_data *data = images(s);
    ls_module *net = network_of(s);
    ls_module_initialize(net, ls_parse_devices(s, "cuda:0"), &(ls_init){.like = data});
    ls_tensor *own = ls_zeros(s, LS_SHAPE(CLASSES));
    ls_track(own);
    ls_batch b;
    assert_true(ls_data_next(data, &b));
    ls_tensor *logits = ls_add(ls_module_infer(net, b.X), own);
    float values[BATCH * CLASSES];
    ls_read(logits, values, BATCH * CLASSES);
    assert_caught(s, LS_UNSUPPORTED, "one's own");
    assert_int_equal(ls_close(s), LS_OK);
}

/* What is made for the core is not left where there is no memory for what the card needs, nor the other way round. */
static ls_status infer_on_both(const ls_allocator *allocator)
{
    ls_session *s = ls_open(&(ls_options){.shard = SHARD, .allocator = allocator});
    ls_data *data = images(s);
    ls_module *net = ls_sequential(s, LS_LIST(ls_nn_fn(s, ls_flatten), ls_nn_linear(s, CLASSES)));
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0,cuda:0"), &(ls_init){.like = data});
    ls_batch b;
    if (ls_data_next(data, &b))
        ls_item(ls_sum(ls_module_infer(net, b.X)));
    return ls_close(s);
}

static void every_allocation_for_both_may_fail(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(infer_on_both);
}

int main(void)
{
    char why[256] = "";
    cards = ls_card_count(why, sizeof why);
    if (cards == 0)
        return test_none_run("%s", why);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_cards_have_the_bits_of_one),
        cmocka_unit_test(ranks_with_cards_have_the_bits_of_one),
        cmocka_unit_test_setup_teardown(ranks_with_cards_go_on_from_a_checkpoint, test_folder_make, test_folder_remove),
        cmocka_unit_test(every_call_fails),
        cmocka_unit_test(every_call_fails_where_shards_meet),
        cmocka_unit_test(a_card_is_lost_between_meetings),
        cmocka_unit_test(a_rank_loses_a_card),
        {"a_rank_loses_a_card_where_shards_meet", a_rank_loses_a_card, NULL, NULL, "meet"},
        cmocka_unit_test(parts_of_a_lost_card),
        cmocka_unit_test(cpus_and_cards_train_together),
        cmocka_unit_test(a_core_goes_on_without_a_card),
        cmocka_unit_test(slow_devices_leave_shards),
        cmocka_unit_test(cpus_and_cards_are_compared),
        cmocka_unit_test(every_allocation_for_both_may_fail),
        cmocka_unit_test(a_card_clips_as_the_host_does),
        cmocka_unit_test(own_numbers_in_a_loss_are_refused),
        cmocka_unit_test(two_models_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
