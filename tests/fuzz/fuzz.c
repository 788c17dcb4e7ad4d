#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

_Noreturn void fuzz_found(const char *what, const char *file, int line)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
    abort();
}

/* ---- Files
 * -------------------------------------------------------------------------------------------------------- */

static char folder[64], packed[96], path[64], named[96], too[96];
static int file = -1;

static void remove_folder(void)
{
    unlink(packed);
    unlink(named);
    unlink(too);
    rmdir(folder);
}

static void make_file(void)
{
    file = memfd_create("input", MFD_CLOEXEC);
    must(file >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    snprintf(folder, sizeof folder, "%s/lockstep-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    must(mkdtemp(folder) != NULL);
    snprintf(packed, sizeof packed, "%s/input.gz", folder);
    must(symlink(path, packed) == 0);
    atexit(remove_folder);
}

const char *fuzz_file(const void *bytes, size_t count)
{
    if (file < 0)
        make_file();
    must(ftruncate(file, 0) == 0);
    must(pwrite(file, bytes, count, 0) == (ssize_t)count);
    return path;
}

const char *fuzz_packed_file(const void *bytes, size_t count)
{
    static char name[96];
    fuzz_file(bytes, count);
    snprintf(name, sizeof name, "%s/input", folder);
    return name;
}

const char *fuzz_folder(const char *name, const void *bytes, size_t count)
{
    fuzz_file(bytes, count);
    char wanted[sizeof named];
    snprintf(wanted, sizeof wanted, "%s/%s", folder, name);
    if (strcmp(wanted, named) != 0) {
        unlink(named);
        strcpy(named, wanted);
        must(symlink(path, named) == 0);
    }
    return folder;
}

void fuzz_folder_too(const char *name, const void *bytes, size_t count)
{
    if (file < 0)
        make_file();
    snprintf(too, sizeof too, "%s/%s", folder, name);
    FILE *second = fopen(too, "wb");
    must(second && fwrite(bytes, 1, count, second) == count && fclose(second) == 0);
}

/* ---- Contexts
 * ----------------------------------------------------------------------------------------------------- */

static size_t most_bytes;
static long alive;

static void *allocate(size_t bytes, size_t alignment, void *user)
{
    (void)user;
    void *memory = NULL;
    must(bytes <= most_bytes);
    if (posix_memalign(&memory, alignment, bytes) != 0)
        return NULL;
    alive++;
    return memory;
}

static void release(void *memory, void *user)
{
    (void)user;
    alive--;
    free(memory);
}

void fuzz_begin(ls_context *context, size_t most)
{
    ls_allocator allocator = {allocate, release, NULL};
    most_bytes = most;
    must(ls_context_init(context, &allocator) == LS_OK);
}

void fuzz_end(ls_context *context)
{
    ls_status status = ls_context_status(context);
    must((status == LS_OK) == (*context->message == 0));
    must(status == LS_OK || status == LS_BAD_FILE || status == LS_UNSUPPORTED);
    for (const char *at = context->message; *at; at++)
        must(*at >= ' ' && *at < 127);
    must(alive == 0);
    ls_context_destroy(context);
}
