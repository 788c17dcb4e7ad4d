#include "io/folder.h"
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEAST_DIGITS = 6, MOST_DIGITS = 15 };
static const char prefix[] = "checkpoint-";

/* The number in a name such as checkpoint-000007.json, with what follows the number in *ending; -1 where it is none. */
static int64_t number_of(const char *name, const char **ending)
{
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return -1;
    const char *digits = name + sizeof prefix - 1;
    size_t n = strspn(digits, "0123456789");
    if (n < LEAST_DIGITS || n > MOST_DIGITS ||
        (n > LEAST_DIGITS && *digits == '0')) /* as it is written, and in no other way */
        return -1;
    *ending = digits + n;
    return strtoll(digits, NULL, 10);
}

char *ls_folder_path(ls_context *context, const char *directory, int64_t number, const char *ending)
{
    return ls_format(context, "a path", "%s/%s%0*lld.%s", directory, prefix, LEAST_DIGITS, (long long)number, ending);
}

static DIR *open_folder(ls_context *context, const char *directory)
{
    DIR *folder = opendir(directory);
    if (!folder)
        ls_raise(context, LS_IO, "%s: the folder cannot be read: %s", directory, strerror(errno));
    return folder;
}

/* The next entry; NULL at the end and after a failure, which is raised. */
static const struct dirent *next_entry(ls_context *context, const char *directory, DIR *folder)
{
    errno = 0;
    const struct dirent *entry = readdir(folder);
    if (!entry && errno)
        ls_raise(context, LS_IO, "%s: the folder cannot be read: %s", directory, strerror(errno));
    return entry;
}

static int highest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

static ls_status append(ls_context *context, int64_t **numbers, int *n, int *room, int64_t number)
{
    for (int i = 0; i < *n; i++)
        if ((*numbers)[i] == number)
            return LS_OK;
    int64_t *grown = ls_grow(context, *numbers, *n, room, 16, sizeof *grown, "a list of checkpoints");
    if (!grown)
        return ls_context_status(context);
    *numbers = grown;
    (*numbers)[(*n)++] = number;
    return LS_OK;
}

ls_status ls_folder_list(ls_context *context, const char *directory, bool all, int64_t **numbers, int *n)
{
    int room = 0;
    *numbers = NULL;
    *n = 0;
    DIR *folder = open_folder(context, directory);
    for (const struct dirent *entry; folder && (entry = next_entry(context, directory, folder)) != NULL;) {
        const char *ending;
        int64_t number = number_of(entry->d_name, &ending);
        bool manifest = number >= 0 && strcmp(ending, ".json") == 0;
        bool arrays = number >= 0 && strcmp(ending, ".safetensors") == 0;
        if ((manifest || (all && arrays)) && append(context, numbers, n, &room, number) != LS_OK)
            break;
    }
    if (folder)
        closedir(folder);
    if (*n > 1)
        qsort(*numbers, (size_t)*n, sizeof **numbers, highest_first);
    return ls_context_status(context);
}

ls_status ls_folder_next(ls_context *context, const char *directory, int64_t *number)
{
    int64_t *numbers;
    int n;
    ls_status status = ls_folder_list(context, directory, true, &numbers, &n);
    *number = n > 0 ? numbers[0] + 1 : 1;
    ls_release(context, numbers);
    int digits = 0;
    for (int64_t left = *number; left > 0; left /= 10)
        digits++;
    if (status == LS_OK && digits > MOST_DIGITS)
        return ls_raise(context, LS_BAD_FILE, "%s: %s%lld leaves no number for a next one; take it away", directory,
                        prefix, (long long)*number - 1);
    return status;
}

ls_status ls_folder_has_whole(ls_context *context, const char *directory, bool *has)
{
    int64_t *numbers;
    int n;
    *has = false;
    ls_status status = ls_folder_list(context, directory, false, &numbers, &n);
    for (int i = 0; i < n && status == LS_OK && !*has; i++) {
        char *file = ls_folder_path(context, directory, numbers[i], "safetensors");
        *has = file && ls_file_is_there(file);
        ls_release(context, file);
        status = ls_context_status(context);
    }
    ls_release(context, numbers);
    return status;
}

ls_status ls_folder_sweep(ls_context *context, const char *directory)
{
    DIR *folder = open_folder(context, directory);
    for (const struct dirent *entry; folder && (entry = next_entry(context, directory, folder)) != NULL;) {
        const char *ending;
        size_t length = strlen(entry->d_name);
        if (number_of(entry->d_name, &ending) >= 0 && length > 4 && strcmp(entry->d_name + length - 4, ".tmp") == 0)
            unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder)
        closedir(folder);
    return ls_context_status(context);
}

ls_status ls_folder_write(ls_context *context, const char *directory, int64_t number, const ls_named_array *arrays,
                          int n, const int *first, const char *const metadata[][2], int n_metadata,
                          ls_manifest *manifest)
{
    char *file = ls_folder_path(context, directory, number, "safetensors");
    char *path = ls_folder_path(context, directory, number, "json");
    if (file && path &&
        ls_safetensors_save_sections(context, file, arrays, n, metadata, n_metadata, manifest->sections,
                                     manifest->n_sections, first) == LS_OK &&
        ls_manifest_write(context, path, manifest) != LS_OK)
        ls_folder_remove(context, directory, number); /* the manifest may be in place, and its folder not synced */
    ls_release(context, file);
    ls_release(context, path);
    return ls_context_status(context);
}

ls_status ls_folder_check(ls_context *context, const char *directory, int64_t number, ls_manifest *manifest)
{
    char *path = ls_folder_path(context, directory, number, "json"),
         *file = ls_folder_path(context, directory, number, "safetensors");
    ls_status status = path && file ? LS_OK : ls_context_status(context);
    if (status == LS_OK && !ls_file_is_there(path))
        status = ls_raise(context, LS_BAD_FILE, "%s: it has no manifest; its save did not end", file);
    if (status == LS_OK)
        status = ls_manifest_read(context, path, manifest);
    if (status == LS_OK) {
        if (!ls_file_is_there(file))
            status = ls_raise(context, LS_BAD_FILE, "%s: missing, though its manifest is there", file);
        else
            status = ls_sections_check(context, file, manifest->sections, manifest->n_sections);
        if (status != LS_OK)
            ls_manifest_free(context, manifest);
    }
    ls_release(context, path);
    ls_release(context, file);
    return status;
}

ls_safetensors *ls_folder_open(ls_context *context, const char *directory, int64_t number)
{
    char *file = ls_folder_path(context, directory, number, "safetensors");
    ls_safetensors *opened = file ? ls_safetensors_open(context, file) : NULL;
    ls_release(context, file);
    return opened;
}

/* The manifest goes first: without it the other file is no checkpoint. */
void ls_folder_remove(ls_context *context, const char *directory, int64_t number)
{
    char *path = ls_folder_path(context, directory, number, "json"),
         *file = ls_folder_path(context, directory, number, "safetensors");
    if (path && file && (unlink(path) == 0 || errno == ENOENT))
        unlink(file);
    ls_release(context, path);
    ls_release(context, file);
}

ls_status ls_folder_prune(ls_context *context, const char *directory, int keep)
{
    int64_t *whole, *all;
    int n, n_all;
    if (ls_folder_list(context, directory, false, &whole, &n) == LS_OK &&
        ls_folder_list(context, directory, true, &all, &n_all) == LS_OK) {
        for (int i = 0; i < n_all; i++) {
            bool kept = n == 0 || all[i] > whole[0];
            for (int k = 0; k < n && k < keep; k++)
                kept |= all[i] == whole[k];
            if (!kept)
                ls_folder_remove(context, directory, all[i]);
        }
        ls_release(context, all);
    }
    ls_release(context, whole);
    return ls_context_status(context);
}
