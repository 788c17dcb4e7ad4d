/* The checkpoints of a folder: checkpoint-000007.safetensors has the arrays, and checkpoint-000007.json, put in place
 * after it, makes it a checkpoint. Numbers only rise, so that nothing whole is ever written over; the highest is the
 * newest, whatever clocks say. */
#pragma once

#include "io/manifest.h"

/* The number of the next one. LS_BAD_FILE where a file's number leaves no room for it. */
ls_status ls_folder_next(ls_context *context, const char *directory, int64_t *number);

/* Numbers of the folder, the highest first: of those with a manifest, or of all with either file. The caller releases
 * *numbers. */
ls_status ls_folder_list(ls_context *context, const char *directory, bool all, int64_t **numbers, int *n);

/* Whether there is one with both files, which it may take reading them to find damaged. */
ls_status ls_folder_has_whole(ls_context *context, const char *directory, bool *has);

/* Removes what saves that were interrupted left under temporary names. Only for the folder's holder. */
ls_status ls_folder_sweep(ls_context *context, const char *directory);

/* The path of a checkpoint's file with this ending, "json" or "safetensors"; the caller releases it. */
char *ls_folder_path(ls_context *context, const char *directory, int64_t number, const char *ending);

/* Writes both files; fills in the manifest's sections, whose names and number it has. `metadata` and `first` are as for
 * ls_safetensors_save_sections. What a failure leaves is no checkpoint. */
ls_status ls_folder_write(ls_context *context, const char *directory, int64_t number, const ls_named_array *arrays,
                          int n, const int *first, const char *const metadata[][2], int n_metadata,
                          ls_manifest *manifest);

/* Reads the manifest, to be freed, and holds the arrays against its sums. */
ls_status ls_folder_check(ls_context *context, const char *directory, int64_t number, ls_manifest *manifest);
ls_safetensors *ls_folder_open(ls_context *context, const char *directory, int64_t number); /* NULL after a failure */

void ls_folder_remove(ls_context *context, const char *directory, int64_t number);
/* Removes all but the newest `keep` with a manifest, and what has none and is older than the newest of them. */
ls_status ls_folder_prune(ls_context *context, const char *directory, int keep);
