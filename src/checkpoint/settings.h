/* The settings that define a run's result, as names and texts; and whether those of a checkpoint are the same. */
#pragma once

#include "base/session.h"

#include <lockstep_checkpoint.h>

enum { LS_SETTINGS = 64 };

typedef struct ls_settings {
    ls_session *session;
    ls_note list[LS_SETTINGS + 1]; /* interned; ends with a name NULL */
    int n;
    const char *allowed[LS_SETTINGS];
    int n_allowed;
} ls_settings;

/* Of a trainer, its data (NULL: none) and the caller's own. LS_BAD_ARGUMENT where `allow_changed` names none of
 * them. */
ls_status ls_settings_take(ls_settings *settings, struct ls_trainer *trainer, const ls_data *data, const ls_note *own,
                           const char *const *allow_changed);

/* LS_CHANGED, naming each that differs and may not, to `context`; the names alone, interned, to `differ` too (NULL: not
 * wanted), which ends with NULL. */
ls_status ls_settings_compare(const ls_settings *settings, const ls_note *was, ls_context *context, const char *path,
                              const char *differ[LS_SETTINGS + 1]);
