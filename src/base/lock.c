#include "base/host.h"
#include "base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/timer.h"

enum { FIELD = 80, ENTRY = 640, LONGEST_END = 10 /* seconds that a process may take to go */ };

struct ls_lock {
    ls_context *context;
    char *path;
    int fd;
};

/* ---- The entry --------------------------------------------------------------------------------------------------- */

typedef struct entry {
    char host[FIELD], boot[FIELD], job[FIELD], since[FIELD];
    long process;
    unsigned long long start; /* of the process, in the kernel's ticks since boot: numbers of processes come again */
} entry;

/* When a process started, 0 where there is none such: the 22nd field of its stat, counted behind the name in
 * parentheses. */
static unsigned long long start_of(long process)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", process);
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[length] = 0;
    const char *at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

static void describe_self(entry *self)
{
    *self = (entry){.process = (long)getpid(), .start = start_of((long)getpid())};
    ls_host_name(self->host);
    ls_host_boot(self->boot);
    const char *job = getenv("SLURM_JOB_ID");
    snprintf(self->job, sizeof self->job, "%s", job && *job ? job : "-");
    time_t now = time(NULL);
    struct tm utc;
    if (!gmtime_r(&now, &utc) || !strftime(self->since, sizeof self->since, "%Y-%m-%dT%H:%M:%SZ", &utc))
        strcpy(self->since, "?");
}

static void write_entry(const entry *e, char text[ENTRY])
{
    snprintf(text, ENTRY, "host %s\nprocess %ld\nstart %llu\nboot %s\njob %s\nsince %s\n", e->host, e->process,
             e->start, e->boot, e->job, e->since);
}

static bool read_entry(const char *text, entry *e)
{
    return sscanf(text, "host %79s process %ld start %llu boot %79s job %79s since %79s", e->host, &e->process,
                  &e->start, e->boot, e->job, e->since) == 6;
}

bool ls_lock_stale(const char *text)
{
    entry holder, self;
    if (!read_entry(text, &holder))
        return !*text; /* the machine died between making the file and writing to it */
    describe_self(&self);
    if (strcmp(holder.host, self.host) == 0)
        return strcmp(holder.boot, self.boot) != 0 || start_of(holder.process) != holder.start;
    return strcmp(holder.job, "-") != 0 && strcmp(holder.job, self.job) == 0;
}

/* ---- The file ---------------------------------------------------------------------------------------------------- */

/* Whether the kernel's locks on this file system are known to all who can reach it: the usual ones of one machine. */
static bool of_this_machine(int fd)
{
    static const unsigned long kinds[] = {0xef53 /* ext */,
                                          0x58465342 /* xfs */,
                                          0x9123683e /* btrfs */,
                                          0x01021994 /* tmpfs */,
                                          0x794c7630 /* overlay */,
                                          0xf2f52010 /* f2fs */,
                                          0x2fc12fc1 /* zfs */};
    struct statfs about;
    if (fstatfs(fd, &about) != 0)
        return false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (((unsigned long)about.f_type & 0xffffffff) == kinds[i])
            return true;
    return false;
}

static ls_status busy(ls_context *context, const char *path, const char *text)
{
    entry e;
    if (!read_entry(text, &e))
        return ls_raise(context, LS_BUSY, "%s: another run uses this folder; end it, or remove this file if it is gone",
                        path);
    return ls_raise(context, LS_BUSY,
                    "%s: another run uses this folder: process %ld on %s, since %s%s%s; end it, or remove this file if "
                    "it is gone",
                    path, e.process, e.host, e.since, strcmp(e.job, "-") ? ", job " : "",
                    strcmp(e.job, "-") ? e.job : "");
}

/* Whether an entry's holder is on its way out: a process that was killed has lost its memory, and with it its command
 * line, before its files are closed. */
static bool is_ending(const char *text)
{
    entry holder, self;
    char path[64], first;
    if (!read_entry(text, &holder))
        return false;
    describe_self(&self);
    if (strcmp(holder.host, self.host) != 0 || strcmp(holder.boot, self.boot) != 0)
        return false;
    if (start_of(holder.process) != holder.start)
        return true;
    snprintf(path, sizeof path, "/proc/%ld/cmdline", holder.process);
    FILE *file = fopen(path, "re");
    const bool gone = !file || fread(&first, 1, 1, file) == 0;
    if (file)
        fclose(file);
    return gone;
}

/* Opens and locks the file that bears the name now: the holder before may have removed it between the two. -1 after a
 * failure. */
static int open_locked(ls_context *context, const char *path, bool *kernel)
{
    const double began = ls_seconds();
    for (int attempt = 0; attempt < 100;) {
        int fd = ls_file_make(path, O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0) {
            ls_raise(context, LS_IO, "%s: cannot be written: %s", path, strerror(errno));
            return -1;
        }
        *kernel = flock(fd, LOCK_EX | LOCK_NB) == 0;
        if (!*kernel && errno == EWOULDBLOCK) {
            char text[ENTRY] = "";
            ssize_t got = pread(fd, text, sizeof text - 1, 0);
            text[got > 0 ? got : 0] = 0;
            close(fd);
            if (is_ending(text) && ls_seconds() - began < LONGEST_END) {
                nanosleep(&(struct timespec){0, 10000000}, NULL);
                continue;
            }
            busy(context, path, text);
            return -1;
        }
        struct stat held, named;
        if (fstat(fd, &held) == 0 && stat(path, &named) == 0 && held.st_ino == named.st_ino &&
            held.st_dev == named.st_dev)
            return fd;
        close(fd);
        attempt++;
    }
    ls_raise(context, LS_BUSY, "%s: other runs take this folder again and again", path);
    return -1;
}

/* Puts this process's entry in place of another's that is stale. */
static ls_status enter(ls_lock *lock, bool kernel)
{
    char text[ENTRY] = "";
    ssize_t got;
    do {
        got = pread(lock->fd, text, sizeof text - 1, 0);
    } while (got < 0 && errno == EINTR);
    if (got < 0) /* what cannot be read is no empty entry */
        return ls_raise(lock->context, LS_IO, "%s: cannot be read: %s", lock->path, strerror(errno));
    text[got] = 0;
    if (!(kernel && of_this_machine(lock->fd)) && !ls_lock_stale(text))
        return busy(lock->context, lock->path, text);
    entry self;
    describe_self(&self);
    write_entry(&self, text);
    ssize_t length = (ssize_t)strlen(text);
    ssize_t put = ftruncate(lock->fd, 0) == 0 ? pwrite(lock->fd, text, (size_t)length, 0) : -1;
    if (put != length) {
        const int error = put < 0 ? errno : ENOSPC;
        unlink(lock->path); /* an entry that names nobody would only be in the way */
        return ls_raise(lock->context, LS_IO, "%s: cannot be written: %s", lock->path, strerror(error));
    }
    return LS_OK;
}

ls_lock *ls_lock_take(ls_context *context, const char *directory)
{
    ls_lock *lock = ls_alloc(context, 1, sizeof *lock, "a lock");
    if (!lock)
        return NULL;
    bool kernel = false;
    *lock = (ls_lock){.context = context, .fd = -1, .path = ls_format(context, "a path", "%s/lock", directory)};
    if (lock->path)
        lock->fd = open_locked(context, lock->path, &kernel);
    if (lock->fd >= 0 && enter(lock, kernel) == LS_OK)
        return lock;
    if (lock->fd >= 0)
        close(lock->fd);
    ls_release(context, lock->path);
    ls_release(context, lock);
    return NULL;
}

void ls_lock_give(ls_lock *lock)
{
    if (!lock)
        return;
    unlink(lock->path); /* while it is still locked */
    close(lock->fd);
    ls_release(lock->context, lock->path);
    ls_release(lock->context, lock);
}
