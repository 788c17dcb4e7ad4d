/* How many devices there are: the cores of the affinity mask, of kernels for many, and a container's CPU quota. */
#include "files.h"

#include <errno.h>
#include <lockstep.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "base/quota.h"
#include "base/session.h"

/* ---- A machine of its own ---------------------------------------------------------------------------------------- */

/* The cores in the mask; the kernel refuses sets that are too short for its most. */
static const int *cores;
static int n_cores, most_cores;

int __real_sched_getaffinity(pid_t process, size_t bytes, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t process, size_t bytes, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t process, size_t bytes, cpu_set_t *set)
{
    if (!cores)
        return __real_sched_getaffinity(process, bytes, set);
    if (bytes * 8 < (size_t)most_cores) {
        errno = EINVAL;
        return -1;
    }
    memset(set, 0, bytes);
    for (int i = 0; i < n_cores; i++)
        ((unsigned char *)set)[cores[i] / 8] |= (unsigned char)(1 << cores[i] % 8);
    return 0;
}

static void have_cores(const int *list, int n, int most)
{
    cores = list;
    n_cores = n;
    most_cores = most;
}

static void write_text(const char *name, const char *text)
{
    char path[512], command[600];
    snprintf(path, sizeof path, "%s", test_path(name));
    *strrchr(path, '/') = 0;
    snprintf(command, sizeof command, "mkdir -p '%s'", path);
    assert_int_equal(system(command), 0);
    test_write_file(name, text, strlen(text));
}

/* The default devices on eight cores, below the test's folder as the system; `notice` has to be in what is told. */
static void assert_devices(int sharers, int expected, const char *notice)
{
    static const int eight[] = {0, 1, 2, 3, 4, 5, 6, 7};
    have_cores(eight, 8, 8);
    ls_session *s = ls_open(NULL);
    s->root = test_folder;
    s->sharers = sharers;
    assert_int_equal(ls_device_count(s, LS_CPU), expected);
    if (notice ? !strstr(ls_notice(s), notice) : *ls_notice(s) != 0)
        fail_msg("is told: %s", ls_notice(s));
    ls_devices all = ls_all_devices(s);
    assert_true(all.at[0].type == LS_CUDA || all.n == expected);
    assert_int_equal(ls_parse_devices(s, "cpu:0-15").n, 16);
    assert_int_equal(ls_close(s), LS_OK);
    have_cores(NULL, 0, 0);
}

/* ---- Cores ------------------------------------------------------------------------------------------------------- */

static void cores_beyond_a_thousand(void **state)
{
    (void)state;
    static const int some[] = {3, 1023, 1024, 1500, 4095};
    have_cores(some, 5, 4096);
    assert_int_equal(ls_core_count(), 5);
    for (int i = 0; i < 10; i++)
        assert_int_equal(ls_core_number(i), some[i % 5]);
    have_cores(some, 0, 1 << 20); /* a kernel that refuses */
    assert_int_equal(ls_core_count(), 1);
    assert_int_equal(ls_core_number(0), 0);
    have_cores(NULL, 0, 0);
}

/* ---- Quotas ------------------------------------------------------------------------------------------------------ */

static const char first_mounts[] =
    "31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs rw,mode=755\n"
    "33 31 0:30 /docker/abc /sys/fs/cgroup/cpuacct rw shared:9 - cgroup cgroup rw,cpuacct\n"
    "32 31 0:29 /docker/abc /sys/fs/cgroup/my\\040cpu rw,nosuid shared:7 - cgroup cgroup rw,cpuset,cpu\n";

static void quotas_of_the_first_version(void **state)
{
    (void)state;
    assert_devices(1, 8, NULL);
    write_text("proc/self/cgroup", "4:cpuacct:/docker/abc\n3:cpuset,cpu:/docker/abc/job/step\n0::/\n");
    write_text("proc/self/mountinfo", first_mounts);
    assert_devices(1, 8, NULL);
    write_text("sys/fs/cgroup/my cpu/cpu.cfs_quota_us", "-1\n");
    write_text("sys/fs/cgroup/my cpu/cpu.cfs_period_us", "100000\n");
    assert_devices(1, 8, NULL);
    write_text("sys/fs/cgroup/my cpu/cpu.cfs_quota_us", "250000\n");
    assert_devices(1, 3, "a CPU quota of 2.5 cores (/sys/fs/cgroup/my cpu/cpu.cfs_quota_us) keeps 3 of 8 busy");
    write_text("sys/fs/cgroup/my cpu/job/cpu.cfs_quota_us", "50000\n"); /* of a group around the process's */
    write_text("sys/fs/cgroup/my cpu/job/cpu.cfs_period_us", "100000\n");
    assert_devices(1, 1, "a CPU quota of 0.5 cores (/sys/fs/cgroup/my cpu/job/cpu.cfs_quota_us)");
    write_text("sys/fs/cgroup/my cpu/job/cpu.cfs_quota_us", "550000\n");
    assert_devices(2, 2, "this host's ranks share it");
    write_text("sys/fs/cgroup/my cpu/cpu.cfs_quota_us", "700000\n");
    write_text("sys/fs/cgroup/my cpu/job/step/cpu.cfs_quota_us", "1600000\n");
    write_text("sys/fs/cgroup/my cpu/job/step/cpu.cfs_period_us", "100000\n");
    assert_devices(1, 6, "a CPU quota of 5.5 cores");
    write_text("sys/fs/cgroup/my cpu/job/cpu.cfs_quota_us", "750000\n"); /* it takes no core away */
    write_text("sys/fs/cgroup/my cpu/cpu.cfs_quota_us", "-1\n");
    assert_devices(1, 8, NULL);
    assert_devices(2, 4, "a CPU quota of 7.5 cores");
}

static void quotas_of_the_second_version(void **state)
{
    (void)state;
    write_text("proc/self/cgroup", "0::/user.slice/run\n");
    write_text("proc/self/mountinfo", "24 23 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n");
    write_text("sys/fs/cgroup/user.slice/run/cpu.max", "max 100000\n");
    assert_devices(1, 8, NULL);
    write_text("sys/fs/cgroup/user.slice/cpu.max", "150000 50000\n");
    assert_devices(1, 3, "a CPU quota of 3 cores (/sys/fs/cgroup/user.slice/cpu.max) keeps 3 of 8 busy");
    write_text("sys/fs/cgroup/user.slice/run/cpu.max", "1000 100000\n");
    assert_devices(1, 1, "a CPU quota of 0.01 cores");
    write_text("sys/fs/cgroup/user.slice/run/cpu.max", "100000 100000\n");
    assert_devices(1, 1, "a CPU quota of 1 core (/sys/fs");
    write_text("sys/fs/cgroup/user.slice/run/cpu.max", "1600000 100000\n");
    write_text("sys/fs/cgroup/user.slice/cpu.max", "1600000 100000\n");
    assert_devices(1, 8, NULL);
}

/* In a container the group may lie above what is mounted: its own files are the mount's. */
static void a_group_that_is_not_seen(void **state)
{
    (void)state;
    write_text("proc/self/cgroup", "0::/../..\n");
    write_text("proc/self/mountinfo", "24 23 0:22 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    write_text("sys/fs/cgroup/cpu.max", "200000 100000\n");
    assert_devices(1, 2, "a CPU quota of 2 cores (/sys/fs/cgroup/cpu.max)");
    for (int i = 0; i < 6; i++) {
        static const char *const bad[] = {"",     "200000", "200000 0", "-5 100000", "99999999999999999999 100000",
                                          "rot 3"};
        write_text("sys/fs/cgroup/cpu.max", bad[i]);
        assert_devices(1, 8, NULL);
    }
    write_text("proc/self/mountinfo", "24 23\n\n - \nx y z - cgroup2\n");
    assert_devices(1, 8, NULL);
    write_text("proc/self/cgroup", "no group\n0:\n::\n");
    assert_devices(1, 8, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_beyond_a_thousand),
        cmocka_unit_test_setup_teardown(quotas_of_the_first_version, test_folder_make, test_folder_remove),
        cmocka_unit_test_setup_teardown(quotas_of_the_second_version, test_folder_make, test_folder_remove),
        cmocka_unit_test_setup_teardown(a_group_that_is_not_seen, test_folder_make, test_folder_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
