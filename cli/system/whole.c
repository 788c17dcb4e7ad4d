#include "system/whole.h"
#include "text/say.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The folder that a path's last name is in, to be freed; NULL without memory. */
static char *folder_of(const char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    while (length > 0 && path[length - 1] != '/')
        length--;
    while (length > 1 && path[length - 1] == '/')
        length--;
    return strndup(length ? path : ".", length ? length : 1);
}

static bool leads_nowhere(const char *path)
{
    struct stat about;
    return stat(path, &about) != 0 && errno == ENOENT && lstat(path, &about) == 0;
}

int check_folder(const char *option, const char *folder)
{
    struct stat about;
    if (leads_nowhere(folder))
        return failed(option, "%s: is a link that leads nowhere", folder);
    if (stat(folder, &about) != 0 || (!S_ISDIR(about.st_mode) && (errno = ENOTDIR)) || access(folder, W_OK) != 0)
        return failed(option, "%s: %s", folder, strerror(errno));
    return 0;
}

int check_new_folder(const char *option, const char *folder)
{
    struct stat about;
    if (leads_nowhere(folder) || stat(folder, &about) == 0 || errno != ENOENT)
        return check_folder(option, folder);
    char *above = folder_of(folder);
    int status = above ? check_folder(option, above) : failed(option, "%s", strerror(ENOMEM));
    free(above);
    return status;
}

/* A new name itself lasts only once its folder is on the disk; a file system that cannot say so keeps it anyway. */
static void settle(const char *path)
{
    char *folder = folder_of(path);
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(folder);
}

int make_folder(const char *option, const char *folder)
{
    if (mkdir(folder, 0777) == 0)
        settle(folder);
    else if (errno != EEXIST)
        return failed(option, "%s: %s", folder, strerror(errno));
    return check_folder(option, folder);
}

/* A file is written under a temporary name, which is longer by a process's number and a few letters more. */
enum { LONGER = 24 };

int check_new_file(const char *option, const char *path)
{
    struct stat about;
    size_t length = strlen(path);
    const char *slash = strrchr(path, '/');
    if (length && path[length - 1] == '/')
        return failed(option, "%s: names a folder, not a file", path);
    char *folder = folder_of(path);
    int status = folder ? check_folder(option, folder) : failed(option, "%s", strerror(ENOMEM));
    const long most = status ? -1 : pathconf(folder, _PC_NAME_MAX);
    free(folder);
    if (status)
        return status;
    if (most > 0 && strlen(slash ? slash + 1 : path) + LONGER > (size_t)most)
        return failed(option, "%s: %s", path, strerror(ENAMETOOLONG));
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode))
        return failed(option, "%s: %s", path, S_ISDIR(about.st_mode) ? strerror(EISDIR) : "not a regular file");
    return 0;
}

int check_new_file_in(const char *option, const char *folder, const char *name)
{
    char *path;
    if (asprintf(&path, "%s/%s", folder, name) < 0)
        return failed(option, "%s", strerror(ENOMEM));
    int status = check_new_file(option, path);
    free(path);
    return status;
}

bool whole_begin_at(whole_file *f, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = folder_of(path);
    bool good = folder && whole_begin(f, folder, slash ? slash + 1 : path);
    int error = folder ? errno : ENOMEM;
    free(folder);
    errno = error;
    return good;
}

/* stdio forgets the reason of a write that failed before the last one. */
static ssize_t put(void *file, const char *bytes, size_t count)
{
    whole_file *f = file;
    size_t done = 0;
    while (done < count && !f->error) {
        ssize_t n = write(f->fd, bytes + done, count - done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            f->error = n == 0 ? ENOSPC : errno;
    }
    errno = f->error;
    return f->error ? 0 : (ssize_t)count;
}

static FILE *open_new(whole_file *f)
{
    f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
    FILE *file = f->fd >= 0 ? fopencookie(f, "w", (cookie_io_functions_t){.write = put}) : NULL;
    if (f->fd >= 0 && !file)
        close(f->fd);
    return file;
}

bool whole_begin(whole_file *f, const char *folder, const char *name)
{
    *f = (whole_file){0};
    if (asprintf(&f->path, "%s/%s", folder, name) < 0)
        f->path = NULL;
    if (asprintf(&f->temporary, "%s/.%s.%ld", folder, name, (long)getpid()) < 0)
        f->temporary = NULL;
    if (f->path && f->temporary)
        f->file = open_new(f);
    else
        errno = ENOMEM;
    if (f->file)
        return true;
    int error = errno;
    free(f->path);
    free(f->temporary);
    errno = error;
    return false;
}

bool whole_end(whole_file *f, bool good)
{
    errno = 0;
    good = fclose(f->file) == 0 && good && !f->error && fsync(f->fd) == 0;
    int error = f->error ? f->error : errno;
    if (close(f->fd) != 0 && good) {
        good = false;
        error = errno;
    }
    if (good && rename(f->temporary, f->path) != 0) {
        good = false;
        error = errno;
    }
    error = error ? error : EIO;
    if (good)
        settle(f->path);
    else
        unlink(f->temporary);
    free(f->path);
    free(f->temporary);
    errno = error;
    return good;
}
