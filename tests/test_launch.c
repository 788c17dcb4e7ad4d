/* How a process that a launcher started becomes a rank: which launcher it was, the wire that its MPI's plugin makes,
 * and the cores that the ranks of a host deal out. The wire leads to other threads, and the MPI of the plugin is none.
 */
#include "support.h"

#include <lockstep_mpi.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "cluster/cluster.h"
#include "thread_wire.h"

/* ---- The launcher ------------------------------------------------------------------------------------------------ */

static void launchers_are_known_by_their_environment(void **state)
{
    (void)state;
    static const char *const names[] = {
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE",   "PMIX_RANK",
        "SLURM_PROCID",         "SLURM_STEP_NUM_TASKS", "RANK",     "WORLD_SIZE", "LOCAL_RANK"};
    int n, of, local;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    ls_cluster_launched(&n, &of, &local);
    assert_true(n == 0 && of == 1 && local == 0);
    ls_cluster *alone = ls_cluster_start();
    assert_int_equal(ls_cluster_status(alone), LS_OK);
    assert_int_equal(ls_cluster_ranks(alone), 1);
    ls_cluster_end(alone);

    setenv("SLURM_PROCID", "2", 1);
    setenv("SLURM_STEP_NUM_TASKS", "3", 1);
    setenv("SLURM_LOCALID", "1", 1);
    ls_cluster_launched(&n, &of, &local);
    assert_true(n == 2 && of == 3 && local == 1);
    ls_cluster *tasks = ls_cluster_start();
    assert_int_equal(ls_cluster_status(tasks), LS_BAD_ARGUMENT);
    assert_string_equal(ls_cluster_message(tasks),
                        "srun started 3 tasks without MPI, and each would train alone; start with srun --mpi=pmix or "
                        "--mpi=pmi2 ('srun --mpi=list' shows what is there), with mpirun, or a single task");
    ls_cluster_end(tasks);
    setenv("SLURM_STEP_NUM_TASKS", "1", 1);
    tasks = ls_cluster_start();
    assert_int_equal(ls_cluster_status(tasks), LS_OK);
    ls_cluster_end(tasks);
}

/* PyTorch's variables, with and without a single task of another launcher around them. */
static void processes_of_torchrun_do_not_train_alone(void **state)
{
    (void)state;
    int n, of, local;
    setenv("WORLD_SIZE", "4", 1);
    setenv("RANK", "3", 1);
    setenv("LOCAL_RANK", "1", 1);
    for (int within = 0; within < 2; within++) {
        setenv("SLURM_PROCID", "0", 1);
        setenv("SLURM_STEP_NUM_TASKS", within ? "1" : "", 1);
        ls_cluster_launched(&n, &of, &local);
        assert_true(n == 3 && of == 4 && local == 1);
        ls_cluster *tasks = ls_cluster_start();
        assert_int_equal(ls_cluster_status(tasks), LS_BAD_ARGUMENT);
        assert_string_equal(
            ls_cluster_message(tasks),
            "torchrun or the like (WORLD_SIZE) started 4 tasks without MPI, and each would train alone; "
            "start with mpirun, as in 'mpirun -n 4 lockstep train', or unset WORLD_SIZE to train in "
            "one process");
        ls_cluster_end(tasks);
    }
    setenv("SLURM_STEP_NUM_TASKS", "2", 1); /* an MPI or Slurm that started several is the one that counts */
    ls_cluster_launched(&n, &of, &local);
    assert_true(n == 0 && of == 2);
    unsetenv("SLURM_STEP_NUM_TASKS");
    unsetenv("RANK");
    unsetenv("LOCAL_RANK");
    ls_cluster_launched(&n, &of, &local);
    assert_true(n == 0 && of == 4);
    setenv("WORLD_SIZE", "1", 1);
    ls_cluster *alone = ls_cluster_start();
    assert_int_equal(ls_cluster_status(alone), LS_OK);
    ls_cluster_end(alone);
    unsetenv("WORLD_SIZE");
}

/* ---- Ranks that a launcher started ------------------------------------------------------------------------------- */

/* What the launched rank of this thread finds: its wire, its host, and the cores that it was left on. */
static _Thread_local struct launched {
    const ls_wire *wire;
    const char *host;
    const int *cores; /* ended by -1; NULL: the system refuses to tell */
    int kept[16], n;  /* the cores that it keeps to */
} * here;

bool __real_ls_launch_open(ls_context *context, const ls_launch *launch, ls_wire *wire);
bool __wrap_ls_launch_open(ls_context *context, const ls_launch *launch, ls_wire *wire);
bool __wrap_ls_launch_open(ls_context *context, const ls_launch *launch, ls_wire *wire)
{
    if (!here)
        return __real_ls_launch_open(context, launch, wire);
    *wire = *here->wire;
    return true;
}

void __real_ls_host_name(char name[LS_HOST_NAME]);
void __wrap_ls_host_name(char name[LS_HOST_NAME]);
void __wrap_ls_host_name(char name[LS_HOST_NAME])
{
    if (here)
        snprintf(name, LS_HOST_NAME, "%s", here->host);
    else
        __real_ls_host_name(name);
}

bool __real_ls_core_set_read(ls_core_set *set);
bool __wrap_ls_core_set_read(ls_core_set *set);
bool __wrap_ls_core_set_read(ls_core_set *set)
{
    if (!here)
        return __real_ls_core_set_read(set);
    memset(set, 0, sizeof *set);
    for (const int *core = here->cores; core && *core >= 0; core++)
        ls_core_set_add(set, *core);
    return here->cores != NULL;
}

bool __real_ls_core_set_keep_to(const ls_core_set *set);
bool __wrap_ls_core_set_keep_to(const ls_core_set *set);
bool __wrap_ls_core_set_keep_to(const ls_core_set *set)
{
    if (!here)
        return __real_ls_core_set_keep_to(set);
    for (int i = 0; i < LS_MAX_CORES; i++)
        if (ls_core_set_has(set, i))
            here->kept[here->n++] = i;
    return true;
}

static ls_cluster *start_launched(const ls_wire *wire, int rank, void *user)
{
    here = (struct launched *)user + rank;
    here->wire = wire;
    return ls_cluster_start();
}

typedef struct dealt {
    int ranks;
    const int *left[WIRE_RANKS];
    const char *host[WIRE_RANKS];
    int kept[WIRE_RANKS][5]; /* ended by -1 */
    bool crowded;
} dealt;

static void look_at_deal(ls_cluster *cluster, int number, void *user)
{
    const dealt *d = user;
    assert_int_equal(ls_cluster_status(cluster), LS_OK);
    assert_int_equal(cluster->crowded, d->crowded);
    int n = 0;
    for (; d->kept[number][n] >= 0; n++)
        assert_int_equal(here->kept[n], d->kept[number][n]);
    assert_int_equal(here->n, n);
    here = NULL;
}

static void cores_are_dealt_to_the_ranks_of_a_host(void **state)
{
    (void)state;
    static const int eight[] = {2, 3, 5, 7, 11, 13, 17, 1030, -1}, two[] = {4, 6, -1}, one[] = {8, -1},
                     other[] = {9, -1};
    static const dealt deals[] = {
        {4,
         {eight, eight, eight, eight},
         {"a", "a", "a", "a"},
         {{2, 3, -1}, {5, 7, -1}, {11, 13, -1}, {17, 1030, -1}},
         false},
        {3, {eight, eight, eight}, {"a", "a", "a"}, {{2, 3, -1}, {5, 7, 11, -1}, {13, 17, 1030, -1}}, false},
        {2, {two, two}, {"a", "a"}, {{4, -1}, {6, -1}}, false},
        {3, {two, two, two}, {"a", "a", "a"}, {{4, -1}, {6, -1}, {4, -1}}, true}, /* more ranks than cores */
        {2, {one, other}, {"a", "a"}, {{-1}, {-1}}, false},                       /* bound by the launcher */
        {4,
         {eight, two, eight, two},
         {"a", "a", "a", "a"},
         {{2, 3, 5, 7, -1}, {4, -1}, {11, 13, 17, 1030, -1}, {6, -1}},
         false},
        {4, {two, two, two, two}, {"a", "b", "b", "a"}, {{4, -1}, {4, -1}, {6, -1}, {6, -1}}, false}, /* of two hosts */
        {2, {NULL, NULL}, {"a", "a"}, {{-1}, {-1}}, false},
    };
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "8", 1);
    for (size_t i = 0; i < sizeof deals / sizeof *deals; i++) {
        struct launched ranks[WIRE_RANKS] = {{.n = 0}};
        for (int r = 0; r < deals[i].ranks; r++)
            ranks[r] = (struct launched){.host = deals[i].host[r], .cores = deals[i].left[r]};
        wire_start(deals[i].ranks, start_launched, ranks, look_at_deal, (void *)&deals[i]);
    }
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("OMPI_COMM_WORLD_SIZE");
}

/* A wire that is none is said, and nobody waits. */
static void a_wire_that_is_none_is_refused(void **state)
{
    (void)state;
    static const struct {
        ls_wire wire;
        ls_status status;
        const char *line;
    } wires[] = {
        {{.size = sizeof(ls_wire), .error = "no way"}, LS_UNSUPPORTED, "no way"},
        {{.size = sizeof(ls_wire) - 8, .ranks = 1},
         LS_BAD_ARGUMENT,
         "the wire between ranks is of another version, or has no such rank"},
        {{.size = sizeof(ls_wire), .ranks = 0},
         LS_BAD_ARGUMENT,
         "the wire between ranks is of another version, or has no such rank"},
        {{.size = sizeof(ls_wire), .ranks = 2, .rank = 2},
         LS_BAD_ARGUMENT,
         "the wire between ranks is of another version, or has no such rank"},
        {{.size = sizeof(ls_wire), .ranks = 2, .rank = -1},
         LS_BAD_ARGUMENT,
         "the wire between ranks is of another version, or has no such rank"},
        {{.size = sizeof(ls_wire), .ranks = 1},
         LS_UNSUPPORTED,
         "mpirun of Open MPI started 8 ranks, but the MPI that lockstep-openmpi.so was built with sees one alone: it "
         "is "
         "another MPI or version; start with its own mpirun, or build Lockstep with this one"},
    };
    setenv("OMPI_COMM_WORLD_RANK", "3", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "8", 1);
    for (size_t i = 0; i < sizeof wires / sizeof *wires; i++) {
        struct launched alone = {.host = "a"};
        ls_cluster *cluster = start_launched(&wires[i].wire, 0, &alone);
        assert_int_equal(ls_cluster_status(cluster), wires[i].status);
        assert_string_equal(ls_cluster_message(cluster), wires[i].line);
        ls_cluster_end(cluster);
    }
    here = NULL;
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("OMPI_COMM_WORLD_SIZE");
}

fake_mpi fake;
void lockstep_open_wire(ls_wire *wire);
void lockstep_wire_of(const void *comm, ls_wire *wire);

/* The plugin's start ends what it began where it fails, and its end ends the rest. */
static void an_mpi_is_finalised_once(void **state)
{
    (void)state;
    static const struct {
        fake_mpi how;
        const char *error;
    } starts[] = {
        {{.init = MPI_FAILED, .threads = MPI_THREAD_MULTIPLE}, "MPI could not be initialised"},
        {{.threads = MPI_THREAD_FUNNELED},
         "MPI was initialised for a single thread; call MPI_Init_thread with MPI_THREAD_SERIALIZED"},
        {{.threads = MPI_THREAD_MULTIPLE, .dup = MPI_FAILED}, "MPI could not duplicate the communicator"},
        {{.threads = MPI_THREAD_SERIALIZED}, NULL},
    };
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        ls_wire wire;
        fake = starts[i].how;
        lockstep_open_wire(&wire);
        assert_int_equal(wire.size, sizeof wire);
        if (starts[i].error) {
            assert_string_equal(wire.error, starts[i].error);
            assert_null(wire.end);
        } else {
            assert_null(wire.error);
            assert_true(wire.rank == 2 && wire.ranks == 3 && fake.comms == 1 && fake.finalised == 0);
            wire.end(wire.user);
        }
        assert_int_equal(fake.initialised, starts[i].how.init == MPI_SUCCESS);
        assert_int_equal(fake.finalised, fake.initialised);
        assert_int_equal(fake.comms, 0);
    }
}

/* An MPI that the program has started is the program's to end. */
static void a_started_mpi_is_left_to_who_started_it(void **state)
{
    (void)state;
    static const MPI_Comm world = MPI_COMM_WORLD;
    for (int of_comm = 0; of_comm < 2; of_comm++) {
        ls_wire wire;
        fake = (fake_mpi){.init = MPI_FAILED, .threads = MPI_THREAD_MULTIPLE, .initialised = 1};
        if (of_comm)
            lockstep_wire_of(&world, &wire);
        else
            lockstep_open_wire(&wire);
        assert_null(wire.error);
        assert_true(wire.rank == 2 && wire.ranks == 3 && fake.comms == 1);
        wire.end(wire.user);
        assert_true(fake.comms == 0 && fake.finalised == 0);
    }
    ls_wire wire;
    fake = (fake_mpi){.threads = MPI_THREAD_MULTIPLE};
    lockstep_wire_of(&world, &wire);
    assert_string_equal(wire.error, "MPI was not initialised; call MPI_Init_thread first");
}

static void a_communicator_needs_the_plugin_of_its_mpi(void **state)
{
    (void)state;
    static const MPI_Comm world = MPI_COMM_WORLD;
    ls_cluster *cluster = ls_cluster_of_comm("other", &world);
    assert_int_equal(ls_cluster_status(cluster), LS_UNSUPPORTED);
    assert_string_equal(ls_cluster_message(cluster),
                        "the communicator is one of other, whose plugin cannot be had: Lockstep was built without it; "
                        "build Lockstep where that MPI is installed");
    ls_cluster_end(cluster);
    cluster = ls_cluster_of_comm(NULL, &world);
    assert_int_equal(ls_cluster_status(cluster), LS_BAD_ARGUMENT);
    ls_cluster_end(cluster);
    cluster = ls_cluster_of_comm("openmpi", NULL);
    assert_int_equal(ls_cluster_status(cluster), LS_BAD_ARGUMENT);
    ls_cluster_end(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launchers_are_known_by_their_environment),
        cmocka_unit_test(processes_of_torchrun_do_not_train_alone),
        cmocka_unit_test(cores_are_dealt_to_the_ranks_of_a_host),
        cmocka_unit_test(a_wire_that_is_none_is_refused),
        cmocka_unit_test(an_mpi_is_finalised_once),
        cmocka_unit_test(a_started_mpi_is_left_to_who_started_it),
        cmocka_unit_test(a_communicator_needs_the_plugin_of_its_mpi),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
