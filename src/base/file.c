#include "base/file.h"
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OWNERS_FILE = S_IRUSR | S_IWUSR };

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

static ls_status not_regular(ls_context *context, const char *path, mode_t mode)
{
    const char *what = S_ISDIR(mode) ? "a directory" : S_ISFIFO(mode) ? "a FIFO" : "not a regular file";
    return ls_raise(context, LS_BAD_FILE, "%s: this is %s; name a regular file", path, what);
}

bool ls_file_is_there(const char *path)
{
    return access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

static ls_status note_opened(ls_context *context, const struct stat *about)
{
    ls_file_list *list = context->opened;
    struct ls_file_id *grown =
        list ? ls_grow(context, list->at, list->n, &list->room, 8, sizeof *grown, "a list of files") : NULL;
    if (!grown)
        return list ? LS_OUT_OF_MEMORY : LS_OK;
    list->at = grown;
    list->at[list->n++] = (struct ls_file_id){(uint64_t)about->st_dev, (uint64_t)about->st_ino};
    return LS_OK;
}

bool ls_file_list_has(const ls_file_list *list, const char *path)
{
    struct stat about;
    if (stat(path, &about) != 0)
        return false;
    for (int i = 0; i < list->n; i++)
        if (list->at[i].device == (uint64_t)about.st_dev && list->at[i].number == (uint64_t)about.st_ino)
            return true;
    return false;
}

int ls_file_open(ls_context *context, const char *path, int64_t *bytes)
{
    int fd;
    do { /* O_NONBLOCK: opening a FIFO must not wait for its writer */
        fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    } while (fd < 0 && errno == EINTR);
    struct stat about;
    if (fd < 0 || fstat(fd, &about) != 0) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        if (error == ENXIO && stat(path, &about) == 0) /* a socket, or a device without a driver */
            not_regular(context, path, about.st_mode);
        else
            ls_raise(context, LS_IO, "%s: cannot be opened for reading: %s", path, strerror(error));
        return -1;
    }
    if (!S_ISREG(about.st_mode)) {
        close(fd);
        not_regular(context, path, about.st_mode);
        return -1;
    }
    if (note_opened(context, &about) != LS_OK) {
        close(fd);
        return -1;
    }
    if (bytes)
        *bytes = about.st_size;
    return fd;
}

ls_status ls_file_read(ls_context *context, int fd, const char *path, int64_t offset, void *into, size_t count)
{
    unsigned char *at = into;
    while (count > 0) {
        ssize_t got = pread(fd, at, count, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return ls_raise(context, LS_IO, "%s: cannot be read: %s", path, strerror(errno));
        if (got == 0)
            return ls_raise(context, LS_BAD_FILE,
                            "%s: the file ends at byte %lld, %zu bytes too early; it was cut off or is being written",
                            path, (long long)offset, count);
        at += got;
        offset += got;
        count -= (size_t)got;
        ls_count_work(context); /* a folder of many images takes long */
    }
    return LS_OK;
}

/* ---- Making ------------------------------------------------------------------------------------------------------ */

int ls_file_make(const char *path, int flags)
{
    struct stat about;
    int fd;
    do {
        fd = open(path, flags | O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
    } while (fd < 0 && errno == EINTR);
    if (fd >= 0 && fstat(fd, &about) == 0 && (about.st_mode & OWNERS_FILE) != OWNERS_FILE)
        (void)!fchmod(fd, (about.st_mode & 07777) | OWNERS_FILE); /* some file systems have no modes */
    return fd;
}

/* As ls_file_make. Returns an errno, 0 after success. */
static int make_directory(const char *path)
{
    struct stat about;
    if (mkdir(path, 0777) != 0)
        return errno;
    if (stat(path, &about) == 0 && (about.st_mode & S_IRWXU) != S_IRWXU)
        (void)!chmod(path, (about.st_mode & 07777) | S_IRWXU);
    return 0;
}

/* The directory that a path's last name is in. */
static char *directory_of(ls_context *context, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return ls_copy_string(context, ".", "a path");
    return ls_format(context, "a path", "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

/* A new name lasts only once its directory is on the disk. */
static ls_status sync_directory(ls_context *context, const char *path, const char *directory)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return ls_raise(context, LS_IO, "%s: cannot be made durable (its directory cannot be opened): %s", path,
                        strerror(errno));
    /* Some file systems cannot sync a directory and say EINVAL; they have nothing to sync. */
    ls_status status = LS_OK;
    if (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP)
        status = ls_raise(context, LS_IO, "%s: cannot be made durable (fsync of its directory failed): %s", path,
                          strerror(errno));
    close(fd);
    return status;
}

/* ---- Replacing --------------------------------------------------------------------------------------------------- */

struct ls_replace {
    ls_context *context;
    char *path, *temporary, *directory;
    int fd;
    bool failed;
    int64_t bytes;   /* written */
    ls_sha256 *hash; /* of what is written now; the caller's */
};

static void release(ls_replace *replace)
{
    ls_context *context = replace->context;
    ls_release(context, replace->path);
    ls_release(context, replace->temporary);
    ls_release(context, replace->directory);
    ls_release(context, replace);
}

static ls_status fail(ls_replace *replace, const char *what, int error)
{
    replace->failed = true;
    return ls_raise(replace->context, LS_IO, "%s: cannot be %s: %s", replace->path, what, strerror(error));
}

/* A new name for every attempt; the process's number keeps two programs apart, O_EXCL decides what is left. */
static int open_temporary(ls_replace *replace)
{
    for (int attempt = 0; attempt < 1000; attempt++) {
        ls_release(replace->context, replace->temporary);
        replace->temporary =
            ls_format(replace->context, "a path", "%s.%ld.%d.tmp", replace->path, (long)getpid(), attempt);
        if (!replace->temporary)
            return -1;
        int fd = ls_file_make(replace->temporary, O_EXCL);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

/* As containers do it with single files: no other file can take its name. */
static bool is_mounted(const char *path)
{
#ifdef STATX_ATTR_MOUNT_ROOT
    struct statx about;
    return statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &about) == 0 &&
           about.stx_attributes & STATX_ATTR_MOUNT_ROOT;
#else
    (void)path;
    return false;
#endif
}

ls_replace *ls_replace_begin(ls_context *context, const char *path)
{
    struct stat about;
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode)) {
        not_regular(context, path, about.st_mode);
        return NULL;
    }
    if (is_mounted(path)) {
        ls_raise(context, LS_BAD_FILE, "%s: this is mounted by itself, and cannot be replaced; mount its folder", path);
        return NULL;
    }
    ls_replace *replace = ls_alloc(context, 1, sizeof *replace, "a file to write");
    if (!replace)
        return NULL;
    replace->context = context;
    replace->fd = -1;
    replace->path = ls_copy_string(context, path, "a path");
    replace->directory = replace->path ? directory_of(context, path) : NULL;
    if (replace->directory)
        replace->fd = open_temporary(replace);
    if (replace->fd < 0) {
        if (replace->temporary)
            fail(replace, "written", errno);
        release(replace);
        return NULL;
    }
    return replace;
}

ls_status ls_replace_write(ls_replace *replace, const void *bytes, size_t count)
{
    if (!replace)
        return LS_INTERNAL;
    const unsigned char *at = bytes;
    if (replace->hash && !replace->failed && ls_sha256_add(replace->hash, bytes, count) != LS_OK)
        replace->failed = true;
    while (count > 0 && !replace->failed) {
        ssize_t put = write(replace->fd, at, count);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return fail(replace, "written", put < 0 ? errno : ENOSPC);
        at += put;
        count -= (size_t)put;
        replace->bytes += put;
    }
    return replace->failed ? ls_context_status(replace->context) : LS_OK;
}

int64_t ls_replace_bytes(const ls_replace *replace)
{
    return replace->bytes;
}

void ls_replace_hash(ls_replace *replace, ls_sha256 *hash)
{
    if (replace)
        replace->hash = hash;
}

const char *ls_replace_temporary(const ls_replace *replace)
{
    return replace->temporary;
}

ls_status ls_replace_end(ls_replace *replace)
{
    if (!replace)
        return LS_INTERNAL;
    if (!replace->failed && fsync(replace->fd) != 0)
        fail(replace, "written (fsync failed)", errno);
    if (close(replace->fd) != 0 && !replace->failed) /* network file systems report late errors here */
        fail(replace, "written (close failed)", errno);
    replace->fd = -1;
    if (!replace->failed && rename(replace->temporary, replace->path) != 0)
        fail(replace, "put in place", errno);
    if (replace->failed)
        unlink(replace->temporary);
    else
        replace->failed = sync_directory(replace->context, replace->path, replace->directory) != LS_OK;
    ls_status status = replace->failed ? ls_context_status(replace->context) : LS_OK;
    release(replace);
    return status;
}

void ls_replace_drop(ls_replace *replace)
{
    if (!replace)
        return;
    close(replace->fd);
    unlink(replace->temporary);
    release(replace);
}

/* ---- Directories ------------------------------------------------------------------------------------------------- */

/* One that is new is on the disk before anything is put into it; where nobody may read the one above, that is left to
 * the system. */
static ls_status settle_new(ls_context *context, const char *path)
{
    char *above = directory_of(context, path);
    if (!above)
        return ls_context_status(context);
    ls_status status = access(above, R_OK) == 0 ? sync_directory(context, path, above) : LS_OK;
    ls_release(context, above);
    return status;
}

/* Why there is no directory, where making one met this error: the system says only that something is there. */
static const char *why_no_directory(const char *path, int error)
{
    struct stat about;
    if (stat(path, &about) == 0)
        return S_ISDIR(about.st_mode) ? NULL : "what is there is no directory";
    return error == EEXIST ? "what is there is a link that leads nowhere" : strerror(error);
}

ls_status ls_make_directories(ls_context *context, const char *path)
{
    char *copy = ls_copy_string(context, path, "a path");
    if (!copy)
        return ls_context_status(context);
    ls_status status = LS_OK;
    for (char *at = copy; status == LS_OK && *at; at++) {
        char next = at[1];
        if (*at == '/' || (next != '/' && next != 0)) /* cut after each component's last character */
            continue;
        at[1] = 0;
        const int error = make_directory(copy);
        const char *why = error ? why_no_directory(copy, error) : NULL;
        if (why)
            status = ls_raise(context, LS_IO, "%s: the directory cannot be made: %s", copy, why);
        else if (!error)
            status = settle_new(context, copy);
        at[1] = next;
    }
    ls_release(context, copy);
    return status;
}
