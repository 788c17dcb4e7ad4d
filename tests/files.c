#include "files.h"

#include <dirent.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- A folder ---- */

char test_folder[128];

int test_folder_make(void **state)
{
    (void)state;
    const char *parent = getenv("TMPDIR");
    snprintf(test_folder, sizeof test_folder, "%s/lockstep-test-XXXXXX",
             parent && strlen(parent) < 80 ? parent : "/tmp");
    return mkdtemp(test_folder) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *walk)
{
    (void)about, (void)kind, (void)walk;
    return remove(path);
}

int test_folder_remove(void **state)
{
    (void)state;
    chmod(test_folder, 0700);
    return nftw(test_folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *test_path(const char *name)
{
    static _Thread_local char paths[8][512];
    static _Thread_local int turn;
    char *path = paths[turn++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", test_folder, name);
    return path;
}

void test_write_file(const char *name, const void *bytes, size_t count)
{
    FILE *file = fopen(test_path(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

unsigned char *test_read_file(const char *name, size_t *count)
{
    FILE *file = fopen(test_path(name), "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *count = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*count + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *count, file), *count);
    bytes[*count] = 0;
    fclose(file);
    return bytes;
}

int test_files_in_folder(void)
{
    int n = 0;
    DIR *folder = opendir(test_folder);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    closedir(folder);
    return n;
}

/* ---- A context ---- */

test_memory test_allocations;
static ls_context context;

static void *allocate(size_t bytes, size_t alignment, void *user)
{
    test_memory *memory = user;
    if (++memory->count == memory->fail_at || bytes > (size_t)1 << 30) {
        return NULL;
    }
    memory->largest = bytes > memory->largest ? bytes : memory->largest;
    void *block = NULL;
    if (posix_memalign(&block, alignment, bytes) != 0) {
        return NULL;
    }
    memory->live++;
    return block;
}

static void release(void *block, void *user)
{
    test_memory *memory = user;
    memory->live--;
    free(block);
}

ls_allocator test_allocator(int fail_at)
{
    test_allocations = (test_memory){.fail_at = fail_at};
    return (ls_allocator){allocate, release, &test_allocations};
}

ls_context *test_context(void)
{
    ls_allocator allocator = test_allocator(0);
    assert_int_equal(ls_context_init(&context, &allocator), LS_OK);
    return &context;
}

void test_context_done(void)
{
    ls_context_destroy(&context);
    assert_int_equal(test_allocations.live, 0);
}

void test_expect(ls_status status, const char *message_part)
{
    if (context.status != status || !strstr(context.message, message_part) || strchr(context.message, '\n')) {
        fail_msg("expected %s \"...%s...\", got %s \"%s\"", ls_status_name(status), message_part,
                 ls_status_name(context.status), context.message);
    }
    context.status = LS_OK;
    context.message[0] = 0;
}

void test_keep_line(const char *line, void *user)
{
    strcat(strcat(user, line), "\n");
}
