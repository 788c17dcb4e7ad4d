#include "system_faults.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_int calls, at, error_there;
static atomic_bool cut_short;
static const char *_Atomic call_failed = "";

/* ---- What is done, and in what order ---- */

enum { LINE = 1024 };

static struct {
    pthread_mutex_t lock;
    char folder[512]; /* empty: nothing is recorded */
    char lines[16384], last[LINE];
} record = {.lock = PTHREAD_MUTEX_INITIALIZER};

void test_record(const char *folder)
{
    pthread_mutex_lock(&record.lock);
    snprintf(record.folder, sizeof record.folder, "%s", folder);
    record.lines[0] = record.last[0] = 0;
    pthread_mutex_unlock(&record.lock);
}

const char *test_recorded(void)
{
    pthread_mutex_lock(&record.lock);
    record.folder[0] = 0;
    pthread_mutex_unlock(&record.lock);
    return record.lines;
}

/* The path in the folder, without the numbers of processes and attempts that temporary names have; NULL outside of
 * it. */
static const char *name_of(const char *given, char name[LINE])
{
    const size_t length = strlen(record.folder);
    char path[2 * LINE] = "";
    if (given[0] != '/' && getcwd(path, LINE))
        strcat(path, "/");
    strncat(path, given, LINE - 1);
    if (strncmp(path, record.folder, length) != 0 || (path[length] != '/' && path[length] != 0))
        return NULL;
    const char *from = path[length] ? path + length + 1 : ".";
    if (strncmp(from, "./", 2) == 0)
        from += 2;
    char *to = name;
    while (*from && to < name + LINE - 1) {
        const size_t digits = *from == '.' ? strspn(from + 1, "0123456789") : 0;
        const char after = from[digits + 1];
        if (digits && (after == '.' || after == 0))
            from += digits + 1;
        else if (*from == '/' && (after == '/' || after == 0))
            from++;
        else
            *to++ = *from++;
    }
    *to = 0;
    return name;
}

/* One line; many writes to a file one after another are one. `second` may be NULL. */
static void note(const char *what, const char *path, const char *second)
{
    char one[LINE], two[LINE], line[3 * LINE];
    const int error = errno;
    pthread_mutex_lock(&record.lock);
    if (record.folder[0] && name_of(path, one) && (!second || name_of(second, two))) {
        snprintf(line, sizeof line, "%s %s%s%s\n", what, one, second ? " " : "", second ? two : "");
        if (strcmp(line, record.last) != 0 && strlen(record.lines) + strlen(line) < sizeof record.lines)
            strcat(record.lines, line);
        snprintf(record.last, sizeof record.last, "%.*s", LINE - 1, line);
    }
    pthread_mutex_unlock(&record.lock);
    errno = error;
}

/* The same for what is open, by the name that it has now. */
static void note_open(const char *what, int fd)
{
    char link[64], path[LINE];
    if (!record.folder[0])
        return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    note(what, path, NULL);
}

/* ---- Faults ---- */

void test_fault(int number, int error)
{
    calls = 0;
    call_failed = "";
    error_there = error;
    at = number;
}

bool test_fault_met(void)
{
    return at && calls >= at;
}

const char *test_fault_call(void)
{
    return call_failed;
}

bool test_fault_passes(void)
{
    static const char *const others[] = {"close", "unlink", "mkdir", ""};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(call_failed, others[i]) == 0)
            return true;
    return strcmp(call_failed, "fsync") == 0 && error_there == EINVAL;
}

void test_short_writes(bool on)
{
    calls = 0;
    cut_short = on;
}

/* Whether this call is the one. */
static bool fails(const char *call)
{
    if (++calls != at || !at)
        return false;
    call_failed = call;
    if (error_there == TEST_KILL)
        raise(SIGKILL);
    errno = error_there;
    return true;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
ssize_t __real_write(int fd, const void *bytes, size_t count);
ssize_t __wrap_write(int fd, const void *bytes, size_t count);
ssize_t __real_pwrite(int fd, const void *bytes, size_t count, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t count, off_t offset);
int __real_ftruncate(int fd, off_t length);
int __wrap_ftruncate(int fd, off_t length);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_close(int fd);
int __wrap_close(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __real_unlink(const char *path);
int __wrap_unlink(const char *path);
int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);

int __wrap_open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    int mode = flags & O_CREAT ? va_arg(arguments, int) : 0;
    va_end(arguments);
    return (flags & O_CREAT) && fails("open") ? -1 : __real_open(path, flags, mode);
}

ssize_t __wrap_write(int fd, const void *bytes, size_t count)
{
    if (fails("write"))
        return -1;
    if (cut_short && calls % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    note_open("write", fd);
    return __real_write(fd, bytes, cut_short && count > 7 ? 7 : count);
}

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t count, off_t offset)
{
    if (fails("pwrite"))
        return -1;
    note_open("write", fd);
    return __real_pwrite(fd, bytes, count, offset);
}

int __wrap_ftruncate(int fd, off_t length)
{
    if (fails("ftruncate"))
        return -1;
    note_open("write", fd);
    return __real_ftruncate(fd, length);
}

/* What is recorded is what the disk would have after each call, so no call is noted before it has succeeded. */
int __wrap_fsync(int fd)
{
    const int status = fails("fsync") ? -1 : __real_fsync(fd);
    if (status == 0)
        note_open("sync", fd);
    return status;
}

/* A failed close has closed. */
int __wrap_close(int fd)
{
    bool failed = fails("close");
    int error = errno, status = __real_close(fd);
    errno = failed ? error : errno;
    return failed ? -1 : status;
}

int __wrap_rename(const char *from, const char *to)
{
    const int status = fails("rename") ? -1 : __real_rename(from, to);
    if (status == 0)
        note("rename", from, to);
    return status;
}

int __wrap_unlink(const char *path)
{
    const int status = fails("unlink") ? -1 : __real_unlink(path);
    if (status == 0)
        note("remove", path, NULL);
    return status;
}

int __wrap_mkdir(const char *path, mode_t mode)
{
    const int status = fails("mkdir") ? -1 : __real_mkdir(path, mode);
    if (status == 0)
        note("make", path, NULL);
    return status;
}
