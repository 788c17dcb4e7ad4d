/* Checkpoints and comparisons over ranks, which are threads here: a run goes on with the same bits on any other number
 * of them, rank 0 alone has the folder, and what one rank meets is every rank's failure, so that none waits for
 * another. */
#include "checkpoint_run.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cluster/cluster.h"
#include "model/network.h"
#include "system_faults.h"
#include "thread_wire.h"
#include "verify_run.h"

#if LOCKSTEP_HAVE_JANSSON && LOCKSTEP_HAVE_CRYPTO

/* What one rank came to. */
typedef struct part {
    run r;
    bool found, loaded, together, caught;
    int from;
    int64_t epoch;
    int batch, lines;
    ls_status status; /* before it was taken back */
    char digits[65], note[32], path[256], message[1024];
} part;

typedef struct over {
    how h;
    int ranks, to; /* trains until so many steps are done */
    bool load, alone_has_folder;
    void (*between)(struct over *o, part *p, int rank); /* after that, before the last save */
    part parts[WIRE_RANKS];
} over;

static const char *const lists[] = {"cpu:0", "cpu:0-1", "cpu:0-2"};

static void note_failure(part *p)
{
    p->status = ls_status_of(p->r.s);
    p->together = ls_failed_together(p->r.s);
    snprintf(p->message, sizeof p->message, "%s", ls_message(p->r.s));
}

static void run_rank(ls_cluster *cluster, int rank, void *user)
{
    over *o = user;
    part *p = &o->parts[rank];
    how h = o->h;
    ls_checkpoint loaded;
    h.cluster = cluster;
    h.devices = h.devices ? h.devices : lists[(rank + o->ranks) % 3];
    h.allocator = rank == 0 ? h.allocator : NULL;
    if (o->alone_has_folder && rank > 0)
        h.folder = "nobody's/folder";
    if (begin(&p->r, &h) == LS_OK && o->load) {
        p->found = ls_checkpoints_found(p->r.kept);
        p->loaded = ls_checkpoint_load(p->r.kept, &loaded);
        p->from = p->r.steps = (int)loaded.step;
        p->epoch = loaded.epoch;
        p->batch = loaded.batch;
        snprintf(p->path, sizeof p->path, "%s", loaded.path);
        const char *text = ls_checkpoint_note(p->r.kept, "word");
        snprintf(p->note, sizeof p->note, "%s", text ? text : "none");
    }
    train(&p->r, o->to);
    char word[32];
    snprintf(word, sizeof word, "at %d of rank %d", o->to, rank);
    if (o->between)
        o->between(o, p, rank);
    else if (ls_checkpoint_save(p->r.kept, (ls_note[]){{"word", word}, {NULL, NULL}}) == LS_OK)
        ls_checkpoint_wait(p->r.kept);
    note_failure(p);
    p->lines = p->r.lines;
    ls_module_fingerprint(p->r.net, p->digits);
    ls_close(p->r.s);
}

/* One run over ranks: loads what is there, goes on to a step, and saves it. */
static void go(over *o)
{
    memset(o->parts, 0, sizeof o->parts);
    wire_run(o->ranks, run_rank, o);
}

/* All ranks are of one mind. */
static void assert_alike(const over *o)
{
    const part *first = &o->parts[0];
    for (int r = 1; r < o->ranks; r++) {
        const part *p = &o->parts[r];
        assert_int_equal(p->status, first->status);
        assert_string_equal(p->message, first->message);
        assert_true(p->loaded == first->loaded && p->found == first->found && p->together == first->together);
        assert_true(p->from == first->from && p->epoch == first->epoch && p->batch == first->batch);
        assert_string_equal(p->note, first->note);
        assert_string_equal(p->digits, first->digits);
    }
}

static void assert_done(const over *o)
{
    if (o->parts[0].status != LS_OK)
        fail_msg("%s", o->parts[0].message);
    assert_alike(o);
}

/* ---- Going on ---- */

static void on_any_number_of_ranks(void **state)
{
    (void)state;
    static const int ways[][4] = {{1, 4, 3, 1}, {3, 1, 2, 7}, {5, 6, 1, 2}};
    static const int stops[] = {3, 5, 9, STEPS}; /* an epoch has five steps */
    for (int way = 0; way < 3; way++)
        for (int rule = 0; rule < RULES; rule++) {
            over *o = calloc(1, sizeof *o);
            o->h = rules[rule];
            for (int i = 0; i < 4; i++) {
                char note[32];
                o->ranks = ways[way][i];
                o->to = stops[i];
                o->load = i > 0;
                go(o);
                assert_done(o);
                snprintf(note, sizeof note, "at %d of rank 0", i ? stops[i - 1] : 0);
                if (i) {
                    assert_int_equal(o->parts[0].from, stops[i - 1]);
                    assert_string_equal(o->parts[0].note, note);
                    assert_non_null(strstr(o->parts[0].path, "kept/checkpoint-00000"));
                    assert_string_equal(o->parts[o->ranks - 1].path, o->parts[0].path);
                }
            }
            assert_string_equal(o->parts[0].digits, reference(&rules[rule]));
            free(o);
            empty_folder();
        }
}

static void the_file_is_that_of_one_process(void **state)
{
    (void)state;
    unsigned char *bytes[2];
    size_t n[2];
    static const int ranks[] = {1, 4};
    for (int i = 0; i < 2; i++) {
        over *o = calloc(1, sizeof *o);
        *o = (over){.h = usual, .ranks = ranks[i], .to = 7};
        go(o);
        assert_done(o);
        bytes[i] = test_read_file("kept/checkpoint-000001.safetensors", &n[i]);
        free(o);
        empty_folder();
    }
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(bytes[0], bytes[1], n[0]);
    free(bytes[0]);
    free(bytes[1]);
}

static void rank_0s_disk_is_enough(void **state)
{
    (void)state;
    over *o = calloc(1, sizeof *o);
    *o = (over){.h = usual, .ranks = 3, .to = 4, .alone_has_folder = true, .load = true};
    go(o);
    assert_done(o);
    assert_false(o->parts[0].loaded || o->parts[0].found);
    o->to = STEPS;
    go(o);
    assert_done(o);
    assert_true(o->parts[2].loaded && o->parts[2].found);
    assert_int_equal(o->parts[2].from, 4);
    assert_string_equal(o->parts[2].digits, reference(&usual));
    assert_int_equal(access(test_path("nobody's"), F_OK), -1);
    free(o);
}

/* ---- What is refused ---- */

static void assert_all_fail(const over *o, ls_status status, const char *words)
{
    assert_alike(o);
    if (o->parts[0].status != status || !strstr(o->parts[0].message, words))
        fail_msg("expected %s \"%s\", got \"%s\"", ls_status_name(status), words, o->parts[0].message);
    assert_true(o->parts[0].together);
}

static void what_cannot_be_loaded(void **state)
{
    (void)state;
    over *o = calloc(1, sizeof *o);
    *o = (over){.h = usual, .ranks = 3, .to = 4};
    go(o);
    assert_done(o);
    o->load = true;
    o->h.seed = 5;
    go(o);
    assert_all_fail(o, LS_CHANGED, "seed was 0 and is 5 now");
    assert_false(o->parts[1].loaded);
    /* The newest is damaged: rank 0 tells it, and all go on from the one before. */
    o->h.seed = 0;
    o->to = 6;
    go(o);
    assert_done(o);
    size_t n;
    unsigned char *bytes = test_read_file("kept/checkpoint-000002.safetensors", &n);
    bytes[n - 5] ^= 1;
    test_write_file("kept/checkpoint-000002.safetensors", bytes, n);
    free(bytes);
    o->to = STEPS;
    go(o);
    assert_done(o);
    assert_int_equal(o->parts[0].from, 4);
    assert_true(o->parts[0].lines == 1 && o->parts[1].lines == 0);
    assert_string_equal(o->parts[2].digits, reference(&usual));
    /* A folder that is none. */
    test_write_file("file", "x", 1);
    o->h.folder = "file";
    go(o);
    assert_all_fail(o, LS_IO, "file: the directory cannot be made");
    free(o);
}

static void one_run_a_folder(void **state)
{
    (void)state;
    run r;
    begin(&r, &usual);
    over *o = calloc(1, sizeof *o);
    *o = (over){.h = usual, .ranks = 3, .to = 1};
    go(o);
    assert_all_fail(o, LS_BUSY, "lock: another run uses this folder");
    free(o);
    assert_int_equal(end(&r), LS_OK);
}

/* ---- Faults at rank 0 ---- */

/* A failure to write is every rank's, and can be taken back. */
static void save_or_catch(part *p)
{
    if (ls_checkpoint_save(p->r.kept, NULL) == LS_OK)
        ls_checkpoint_wait(p->r.kept);
    if (ls_failed(p->r.s)) {
        assert_true(ls_failed_together(p->r.s));
        assert_non_null(strstr(ls_message(p->r.s), "No space left on device"));
        p->caught = ls_catch(p->r.s, LS_IO);
    }
}

static void save_and_go_on(over *o, part *p, int rank)
{
    (void)o, (void)rank;
    save_or_catch(p);
    train(&p->r, STEPS - 1);
    save_or_catch(p);
    train(&p->r, STEPS);
}

static void every_system_call_fails(void **state)
{
    (void)state;
    for (int n = 1, done = 0; !done; n++) {
        over *o = calloc(1, sizeof *o);
        *o = (over){.h = usual, .ranks = 1, .to = 2};
        go(o);
        *o = (over){.h = usual, .ranks = 3, .to = 4, .load = true, .between = save_and_go_on};
        test_fault(n, ENOSPC);
        go(o);
        done = !test_fault_met();
        assert_true(o->parts[1].caught || test_fault_passes());
        test_fault(0, 0);
        assert_done(o);
        assert_string_equal(o->parts[2].digits, reference(&usual));
        int from = assert_goes_on(&usual);
        assert_true(from == 2 || from == 4 || from == STEPS - 1);
        free(o);
        empty_folder();
    }
}

static int failing; /* the allocation of rank 0 in what comes that fails; 0: none */

static void fail_from_here(over *o, part *p, int rank)
{
    (void)o;
    if (rank == 0)
        test_allocations.fail_at = failing ? test_allocations.count + failing : 0;
    if (ls_checkpoint_save(p->r.kept, (ls_note[]){{"word", "saved"}, {NULL, NULL}}) == LS_OK)
        ls_checkpoint_wait(p->r.kept);
    if (!ls_failed(p->r.s))
        ls_checkpoint_load(p->r.kept, NULL);
    if (rank == 0)
        test_allocations.fail_at = 0;
}

static void every_allocation_of_rank_0_fails(void **state)
{
    (void)state;
    int n = 0;
    for (bool done = false; !done;) {
        over *o = calloc(1, sizeof *o);
        ls_allocator allocator = test_allocator(0);
        failing = ++n;
        *o = (over){.h = usual, .ranks = 3, .to = 2, .between = fail_from_here};
        o->h.allocator = &allocator;
        go(o);
        done = o->parts[0].status == LS_OK;
        assert_alike(o);
        if (!done)
            assert_all_fail(o, LS_OUT_OF_MEMORY, "no memory for");
        assert_int_equal(test_allocations.live, 0);
        free(o);
        empty_folder();
    }
    assert_true(n > 20);
}

#endif

/* ---- Comparing ---- */

typedef struct compared {
    int ranks;
    int wrong;   /* the rank that computes wrongly; -1: none */
    int flipped; /* the rank whose replica is changed; -1: none */
    int member;  /* what is wrong, or changed */
    struct {
        ls_status status;
        bool together;
        int steps;
        char message[1024], digits[65];
    } of[WIRE_RANKS];
} compared;

static int what_is_wrong(int rank, void *user)
{
    const compared *c = user;
    return rank == c->wrong ? c->member : -1;
}

static void flip(ls_module *net, const char *name)
{
    ls_network *network = net->network;
    ls_engine_wait(network->engine);
    const ls_view *view = &network->flat.views[ls_flat_find(&network->flat, name)];
    verify_flip(ls_network_values(network, view) + view->numbers - 1);
}

static void compare_rank(ls_cluster *cluster, int rank, void *user)
{
    compared *c = user;
    verify_run v = verify_begin(rank == 1 ? "cpu:0-1" : "cpu:0", cluster);
    ls_batch batch;
    while (c->of[rank].steps < 6 && !ls_failed(v.s))
        if (ls_data_next(v.data, &batch)) {
            if (rank == c->flipped && c->of[rank].steps == 3)
                flip(v.net, verify_members[c->member].tensor);
            ls_backward(test_losses(v.net, &batch));
            ls_trainer_verify(v.trainer);
            if (ls_trainer_step(v.trainer) == LS_OK)
                c->of[rank].steps++;
        }
    c->of[rank].status = ls_status_of(v.s);
    c->of[rank].together = ls_failed_together(v.s);
    snprintf(c->of[rank].message, sizeof c->of[rank].message, "%s", ls_message(v.s));
    ls_module_fingerprint(v.net, c->of[rank].digits);
    ls_close(v.s);
}

static void compare(compared *c)
{
    memset(c->of, 0, sizeof c->of);
    verify_make_wrong(what_is_wrong, c);
    wire_run(c->ranks, compare_rank, c);
}

static void ranks_that_agree_train_as_ever(void **state)
{
    (void)state;
    char digits[65] = "";
    for (int ranks = 1; ranks <= 4; ranks++) {
        compared c = {.ranks = ranks, .wrong = -1, .flipped = -1};
        compare(&c);
        for (int r = 0; r < ranks; r++) {
            if (c.of[r].status != LS_OK)
                fail_msg("%s", c.of[r].message);
            assert_int_equal(c.of[r].steps, 6);
            if (!*digits)
                memcpy(digits, c.of[r].digits, sizeof digits);
            assert_string_equal(c.of[r].digits, digits);
        }
    }
}

/* `behind` stands before what differs. */
static void assert_named(compared *c, int steps, const char *before, const char *behind)
{
    char first[256];
    const verify_member *m = &verify_members[c->member];
    snprintf(first, sizeof first, "%s, first in %s; ", behind, c->flipped >= 0 ? m->tensor : m->words);
    compare(c);
    for (int r = 0; r < c->ranks; r++) {
        if (!strstr(c->of[r].message, before) || !strstr(c->of[r].message, first))
            fail_msg("%s: \"%s\"", m->words, c->of[r].message);
        assert_int_equal(c->of[r].status, LS_DIFFERS);
        assert_true(c->of[r].together);
        assert_int_equal(c->of[r].steps, steps);
        assert_string_equal(c->of[r].message, c->of[0].message);
    }
}

/* Whatever comes out wrong, on any rank in turn. */
static void a_rank_that_computes_wrongly_is_named(void **state)
{
    (void)state;
    for (int m = 0; m < VERIFY_MEMBERS; m++) {
        char rank[64];
        compared c = {.ranks = 4, .wrong = m % 2 ? 0 : 2 + m / 2 % 2, .flipped = -1, .member = m};
        snprintf(rank, sizeof rank, "ls_trainer_verify: step 1, shard 0: rank %d on host ", c.wrong);
        assert_named(&c, 0, rank, ", cpu(0) computes other bits than 4 of the 5 devices");
    }
    compared c = {.ranks = 2, .wrong = 0, .flipped = -1};
    assert_named(&c, 0, "ls_trainer_verify: step 1, shard 0: rank 0 on host ",
                 " computes other bits than 2 of the 3 devices");
    c = (compared){.ranks = 3, .wrong = 1, .flipped = -1}; /* its two devices are as many as the others' */
    assert_named(&c, 0, "ls_trainer_verify: step 1, shard 0: rank 0 on host ", ", cpu(0) compute different bits");
}

static void a_replica_that_differs_is_named(void **state)
{
    (void)state;
    for (int m = 0; m < VERIFY_TENSORS; m++) {
        char rank[64];
        compared c = {.ranks = 3, .wrong = -1, .flipped = m % 3, .member = m};
        snprintf(rank, sizeof rank, "ls_trainer_verify: step 4: rank %d on host ", m % 3);
        assert_named(&c, 3, rank, " has other values than 2 of the 3 ranks");
    }
    compared c = {.ranks = 2, .wrong = -1, .flipped = 1};
    assert_named(&c, 3, "ls_trainer_verify: step 4: rank 0 on host ", " have different values");
}

/* ---- What ranks know of each other ---- */

static void look_around(ls_cluster *cluster, int rank, void *user)
{
    (void)user;
    ls_devices all[WIRE_RANKS], mine = {.n = rank + 1};
    for (int d = 0; d <= rank; d++)
        mine.at[d] = ls_cpu(rank + d);
    ls_session *s = ls_open(&(ls_options){.cluster = cluster});
    assert_int_equal(ls_cluster_devices(s, &mine, all), LS_OK);
    assert_int_equal(ls_cluster_devices(NULL, &mine, all), LS_BAD_ARGUMENT);
    for (int r = 0; r < ls_cluster_ranks(cluster); r++) {
        assert_int_equal(all[r].n, r + 1);
        assert_int_equal(all[r].at[r].index, 2 * r);
        assert_int_equal(ls_cluster_process(cluster, r), getpid());
    }
    /* Name spaces that are not known are not one. */
    cluster->processes[rank][1] = cluster->processes[(rank + 1) % 4][1] = 0;
    assert_int_equal(ls_cluster_process(cluster, (rank + 1) % 4), 0);
    assert_int_equal(ls_cluster_process(cluster, -1), 0);
    assert_int_equal(ls_cluster_process(NULL, 0), 0);
    assert_int_equal(ls_close(s), LS_OK);
}

static void devices_and_processes(void **state)
{
    (void)state;
    ls_devices mine = {.n = 2, .at = {ls_cpu(1), ls_cpu(3)}}, all[1];
    wire_run(4, look_around, NULL);
    ls_session *s = ls_open(NULL);
    assert_int_equal(ls_cluster_devices(s, &mine, all), LS_OK);
    assert_true(all[0].n == 2 && all[0].at[1].index == 3);
    assert_int_equal(ls_close(s), LS_OK);
    ls_cluster *alone = ls_cluster_start(); /* by no launcher */
    s = ls_open(&(ls_options){.cluster = alone});
    assert_int_equal(ls_cluster_devices(s, &mine, all), LS_OK);
    assert_int_equal(ls_close(s), LS_OK);
    ls_cluster_end(alone);
}

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, test_folder_make, test_folder_remove)
    const struct CMUnitTest tests[] = {
#if LOCKSTEP_HAVE_JANSSON && LOCKSTEP_HAVE_CRYPTO
        test(on_any_number_of_ranks),
        test(the_file_is_that_of_one_process),
        test(rank_0s_disk_is_enough),
        test(what_cannot_be_loaded),
        test(one_run_a_folder),
        test(every_system_call_fails),
        test(every_allocation_of_rank_0_fails),
#endif
        test(ranks_that_agree_train_as_ever),
        test(a_rank_that_computes_wrongly_is_named),
        test(a_replica_that_differs_is_named),
        test(devices_and_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
