/* Who is named as being on a core, in a system whose processes are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "system/cores.h"

enum { CORE = 1000000, OTHER = 1000001 }; /* which no machine has: this one's processes are on none of them */

/* A thread at each of the two looks; of ticks that are -1 it is not there. */
typedef struct process {
    int process, thread, core;
    const char *name;
    int user[2], system[2];
} process;

/* In place of this machine's, in this order. */
static const process *processes;
static int looks;

/* A folder that is open: /proc, or the threads of a process. */
typedef struct folder {
    int process, next;
    struct dirent entry;
} folder;
static folder open_folders[2];

DIR *__wrap_opendir(const char *path);
DIR *__wrap_opendir(const char *path)
{
    int number = 0;
    folder *f = &open_folders[strcmp(path, "/proc") != 0];
    looks += f == open_folders;
    assert_true(f == open_folders || sscanf(path, "/proc/%d/task", &number) == 1);
    *f = (folder){.process = number};
    return (DIR *)(void *)f;
}

struct dirent *__wrap_readdir(DIR *of);
struct dirent *__wrap_readdir(DIR *of)
{
    folder *f = (folder *)(void *)of;
    for (;;) {
        const process *p = &processes[f->next];
        if (!p->name)
            return NULL;
        f->next++;
        const bool first = p == processes || p->process != p[-1].process;
        if (f == open_folders ? !first : p->process != f->process || p->user[looks - 1] < 0)
            continue;
        snprintf(f->entry.d_name, sizeof f->entry.d_name, "%d", f == open_folders ? p->process : p->thread);
        return &f->entry;
    }
}

int __wrap_closedir(DIR *of);
int __wrap_closedir(DIR *of)
{
    (void)of;
    return 0;
}

FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
    int number, thread;
    (void)mode;
    assert_int_equal(sscanf(path, "/proc/%d/task/%d/stat", &number, &thread), 2);
    const process *p = processes;
    while (p->name && p->thread != thread)
        p++;
    assert_non_null(p->name);
    FILE *file = tmpfile();
    assert_non_null(file);
    fprintf(file, "%d (%s) R", thread, p->name);
    for (int field = 4; field <= 52; field++)
        fprintf(file, " %d",
                field == 14   ? p->user[looks - 1]
                : field == 15 ? p->system[looks - 1]
                : field == 39 ? p->core
                              : 7 * field);
    rewind(file);
    return file;
}

static void assert_named(const process *list, const char *on_core, const char *on_other)
{
    core_look cores[2] = {{.number = CORE}, {.number = OTHER}};
    processes = list;
    looks = 0;
    assert_true(cores_look(cores, 2));
    assert_int_equal(looks, 2);
    assert_false(cores[0].pinned);
    assert_string_equal(cores[0].other, on_core);
    assert_string_equal(cores[1].other, on_other);
}

/* Not who has run long, but who ran most meanwhile; the first that is met, or another. */
static void who_took_most_is_named(void **state)
{
    (void)state;
    assert_named((const process[]){{100, 100, CORE, "long", {9000, 9002}, {5000, 5001}},
                                   {200, 200, CORE, "most", {10, 18}, {5, 12}},
                                   {300, 300, CORE, "less", {800, 812}, {0, 2}},
                                   {400, 400, OTHER, "elsewhere", {0, 40}, {0, 0}},
                                   {0, 0, 0, NULL, {0, 0}, {0, 0}}},
                 "most, process 200", "elsewhere, process 400");
    assert_named((const process[]){{100, 100, CORE, "most", {10, 30}, {0, 0}},
                                   {200, 200, CORE, "long", {9000, 9019}, {0, 0}},
                                   {200, 201, OTHER, "a (second) one", {0, 0}, {0, 3}},
                                   {0, 0, 0, NULL, {0, 0}, {0, 0}}},
                 "most, process 100", "a (second) one, process 200");
}

static void others_are_not_named(void **state)
{
    (void)state;
    assert_named((const process[]){{(int)getpid(), 50, CORE, "this program", {0, 20}, {0, 0}},
                                   {100, 100, CORE, "hardly there", {70, 71}, {9, 9}},
                                   {200, 200, CORE, "new", {-1, 20}, {0, 0}},
                                   {300, 300, CORE, "gone", {20, -1}, {0, 0}},
                                   {0, 0, 0, NULL, {0, 0}, {0, 0}}},
                 "", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(who_took_most_is_named),
                                       cmocka_unit_test(others_are_not_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
