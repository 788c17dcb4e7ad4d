/* Files of weights in detail: what is read of them, names of classes, what a file tells.
 *
 * SPDX-License-Identifier: MIT
 *
 * The rules at the head of lockstep.h hold here too. */
#ifndef LOCKSTEP_WEIGHTS_H
#define LOCKSTEP_WEIGHTS_H

#include <lockstep.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

/* What is done otherwise than by ls_module_load. `strip` is left out in front of all names of the file, which must have
 * it (LS_BAD_FILE): "module." or "_orig_mod." of PyTorch's wrappers. What a pattern of `skip` fits, as ls_module_freeze
 * has it ("fc.*"), is not read, and may be missing or of another shape; one that fits no name of the file or the
 * network is LS_BAD_ARGUMENT. With `partial` the file may have more and fewer names than the network, but what both
 * have is of one shape. What is not read keeps its values. A file of which nothing is read is LS_BAD_FILE. For a part
 * of a network names and patterns are those below it. */
typedef struct ls_load_options {
    const char *strip;
    const char *const *skip; /* ends with NULL */
    bool partial;
} ls_load_options;
/* `options` and `report` may be NULL. *report gets text that lives as long as the session, NULL after a failure. Its
 * first line says how many parameters were read, and each further one begins with "converted from F16 to float32: ",
 * "kept, skipped: ", "kept, not in the file: ", "passed over, skipped: " or "passed over, not in the network: ", names
 * with commas behind it. Files' names of classes (ls_module_class_name) count only where the network's last parameter
 * is read. */
ls_status ls_module_load_with(ls_module *net, const char *path, const ls_load_options *options, const char **report);

/* ---- Saving, names of classes ------------------------------------------------------------------------------------ */

/* Whether ls_module_save could do that now, with room for all of it: before a long run, not at its end. Leaves nothing.
 */
ls_status ls_module_check_save(ls_module *net, const char *path);
/* The names of the network's classes, by label, which files of it bear: those of init.like, else of the caller (copied;
 * 0: none any more), else of the file loaded last. Loading a file that calls one otherwise than data or caller is
 * LS_CHANGED, as is evaluating data that call one otherwise than the file. NULL: none. */
ls_status ls_module_name_classes(ls_module *net, const char *const names[], int n);
const char *ls_module_class_name(const ls_module *net, int label); /* lives until the names are others */
/* (-1, channels, height, width) or (-1, features) of the images that the network takes; rank 0 while nothing told
 * it. */
ls_shape ls_module_images_shape(const ls_module *net);
/* The model's name in a file's metadata ("lenet"), written to name[size]; "" where the file has none. */
ls_status ls_file_model(ls_session *session, const char *path, char *name, size_t size);
/* ls_module_fingerprint of a file, whose F16, BF16 and F64 count as float32. */
ls_status ls_file_fingerprint(ls_session *session, const char *path, char digits[65]);

#ifdef __cplusplus
}
#endif

#endif
