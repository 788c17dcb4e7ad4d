/* How much memory the program says is to be had, from files of the system whose numbers are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "system/memory.h"

/* The system's files that tell of memory, in place of this machine's, while there are some. */
typedef struct system_file {
    const char *path, *text;
} system_file;
static const system_file *system_files;

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
    if (!system_files || (strncmp(path, "/proc/", 6) != 0 && strncmp(path, "/sys/", 5) != 0))
        return __real_fopen(path, mode);
    for (const system_file *f = system_files; f->path; f++)
        if (strcmp(f->path, path) == 0) {
            FILE *file = tmpfile();
            assert_non_null(file);
            fputs(f->text, file);
            rewind(file);
            return file;
        }
    return NULL;
}

static rlim_t addresses;

int __wrap_getrlimit(int resource, struct rlimit *limit);
int __wrap_getrlimit(int resource, struct rlimit *limit)
{
    assert_int_equal(resource, RLIMIT_AS);
    *limit = (struct rlimit){.rlim_cur = addresses, .rlim_max = RLIM_INFINITY};
    return 0;
}

static int lowest_unused(void)
{
    const int descriptor = dup(STDOUT_FILENO);
    close(descriptor);
    return descriptor;
}

static void assert_left(const system_file *files, int64_t left, const char *limited_by)
{
    const char *by;
    const int unused = lowest_unused();
    system_files = files;
    int64_t is = memory_left(&by);
    system_files = NULL;
    assert_int_equal(lowest_unused(), unused); /* all are closed */
    assert_int_equal(is, left);
    assert_string_equal(by, limited_by);
}

#define MEMORY "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:    1000 kB\nCached: 700 kB\n"
#define STAT   "anon 7\ninactive_anon 9\ninactive_file 50000\nactive_file 11\n"

static void what_is_left_is_the_least_of_all_limits(void **state)
{
    (void)state;
    addresses = RLIM_INFINITY;
    assert_left((const system_file[]){{"/proc/meminfo", MEMORY}, {NULL, NULL}}, 1024000, "the machine");
    /* Version 2: the group has enough, the one around it has not; what gives way is to be had. */
    assert_left((const system_file[]){{"/proc/meminfo", MEMORY},
                                      {"/proc/self/cgroup", "1:cpu:/\n0::/a/b\n"},
                                      {"/sys/fs/cgroup/a/b/memory.max", "900000\n"},
                                      {"/sys/fs/cgroup/a/b/memory.current", "100000\n"},
                                      {"/sys/fs/cgroup/a/memory.max", "500000\n"},
                                      {"/sys/fs/cgroup/a/memory.current", "300000\n"},
                                      {"/sys/fs/cgroup/a/memory.stat", STAT},
                                      {"/sys/fs/cgroup/memory.max", "max\n"},
                                      {NULL, NULL}},
                250000, "its control group");
    /* Version 1: no limit is a large one; the outermost group's counts too. */
    assert_left((const system_file[]){{"/proc/meminfo", MEMORY},
                                      {"/proc/self/cgroup", "4:memory:/a\n0::/\n"},
                                      {"/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n"},
                                      {"/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "5000\n"},
                                      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "400000\n"},
                                      {"/sys/fs/cgroup/memory/memory.usage_in_bytes", "100000\n"},
                                      {NULL, NULL}},
                300000, "its control group");
    /* A group may have more than it may; one with enough is no limit. */
    assert_left((const system_file[]){{"/proc/meminfo", MEMORY},
                                      {"/proc/self/cgroup", "0::/a\n"},
                                      {"/sys/fs/cgroup/a/memory.max", "1000\n"},
                                      {"/sys/fs/cgroup/a/memory.current", "2000\n"},
                                      {NULL, NULL}},
                0, "its control group");
    assert_left((const system_file[]){{"/proc/meminfo", MEMORY},
                                      {"/proc/self/cgroup", "0::/a\n"},
                                      {"/sys/fs/cgroup/a/memory.max", "2000000\n"},
                                      {"/sys/fs/cgroup/a/memory.current", "2000\n"},
                                      {NULL, NULL}},
                1024000, "the machine");
    /* Of addresses there are pages in use, the first number. */
    const system_file addressed[] = {{"/proc/meminfo", MEMORY}, {"/proc/self/statm", "3 2 1 0\n"}, {NULL, NULL}};
    const int64_t used = 3 * sysconf(_SC_PAGESIZE);
    addresses = (rlim_t)used + 600000;
    assert_left(addressed, 600000, "ulimit -v");
    addresses = (rlim_t)used - 1;
    assert_left(addressed, 0, "ulimit -v");
    addresses = (rlim_t)used + 2000000;
    assert_left(addressed, 1024000, "the machine");
}

static void sizes_are_written_as_people_read_them(void **state)
{
    (void)state;
    static const struct {
        int64_t bytes;
        const char *text;
    } sizes[] = {{(int64_t)731 << 20, "731 MiB"},
                 {((int64_t)2 << 20) - 1, "2 MiB"},
                 {(int64_t)1023 << 20, "1023 MiB"},
                 {(int64_t)1 << 30, "1.0 GiB"},
                 {(int64_t)7782 << 20, "7.6 GiB"}};
    char text[32];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        memory_text(text, sizeof text, sizes[i].bytes);
        assert_string_equal(text, sizes[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_is_the_least_of_all_limits),
        cmocka_unit_test(sizes_are_written_as_people_read_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
