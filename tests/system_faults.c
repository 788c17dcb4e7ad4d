#include "system_faults.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_int calls, at, error_there;
static atomic_bool cut_short;

void test_fault(int number, int error)
{
    calls = 0;
    error_there = error;
    at = number;
}

bool test_fault_met(void)
{
    return at && calls >= at;
}

void test_short_writes(bool on)
{
    calls = 0;
    cut_short = on;
}

/* Whether this call is the one. */
static bool fails(void)
{
    if (++calls != at || !at)
        return false;
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

int __wrap_open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    int mode = flags & O_CREAT ? va_arg(arguments, int) : 0;
    va_end(arguments);
    return (flags & O_CREAT) && fails() ? -1 : __real_open(path, flags, mode);
}

ssize_t __wrap_write(int fd, const void *bytes, size_t count)
{
    if (fails())
        return -1;
    if (cut_short && calls % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    return __real_write(fd, bytes, cut_short && count > 7 ? 7 : count);
}

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t count, off_t offset)
{
    return fails() ? -1 : __real_pwrite(fd, bytes, count, offset);
}

int __wrap_ftruncate(int fd, off_t length)
{
    return fails() ? -1 : __real_ftruncate(fd, length);
}

int __wrap_fsync(int fd)
{
    return fails() ? -1 : __real_fsync(fd);
}

/* A failed close has closed. */
int __wrap_close(int fd)
{
    bool failed = fails();
    int error = errno, status = __real_close(fd);
    errno = failed ? error : errno;
    return failed ? -1 : status;
}

int __wrap_rename(const char *from, const char *to)
{
    return fails() ? -1 : __real_rename(from, to);
}

int __wrap_unlink(const char *path)
{
    return fails() ? -1 : __real_unlink(path);
}
