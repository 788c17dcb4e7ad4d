/* Ends of objects one by one, before their scopes': for other languages, and for long sessions.
 *
 * SPDX-License-Identifier: MIT
 *
 * The rules at the head of lockstep.h hold here too. */
#ifndef LOCKSTEP_LIFETIME_H
#define LOCKSTEP_LIFETIME_H

#include <lockstep.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For callers who count who uses what, as languages do that collect garbage. ls_hold takes a tensor out of its scope:
 * it lives until ls_drop was called as often as ls_hold, or until ls_close. Of what a module's forward records neither
 * does anything. */
ls_tensor *ls_hold(ls_tensor *tensor);
void ls_drop(ls_tensor *tensor);
/* A tensor on the host over the caller's numbers, which are not copied: who changes them changes the tensor, and the
 * other way. `release` is called, from any thread, once nothing needs them any more; after a failure at once. */
ls_tensor *ls_values_at(ls_session *session, float *values, ls_shape shape, void (*release)(void *user), void *user);
/* Where the numbers of a tensor on the host lie, in C order; waits. They stay there as long as the tensor does.
 * LS_BAD_ARGUMENT of a tensor on another device. */
float *ls_numbers(ls_tensor *tensor);
/* Ends a data set, a trainer, a profile or a folder of checkpoints before its scope is left; it waits. A data set's
 * batch goes too, as with the next ls_data_next. LS_BAD_ARGUMENT of anything else, and of a trainer whose profile or
 * checkpoints are still there. After a failure of the session it ends the object and returns that. */
ls_status ls_end(void *object);

/* Ends the network's values before their scope is left; it waits. What was made with them is LS_STALE from now on, and
 * the network may be initialized again. LS_BAD_ARGUMENT where it has a trainer, which ls_end ends; nothing without
 * values. */
ls_status ls_module_end(ls_module *net);

#ifdef __cplusplus
}
#endif

#endif
