/* What of a network is frozen, by patterns of its tensors' names: rules, of which the last one that fits a name
 * counts. */
#pragma once

#include "base/session.h"
#include "tensor/flat.h"

typedef struct ls_freeze_rule {
    const char *pattern; /* of fnmatch; interned */
    bool frozen;
} ls_freeze_rule;

/* Never changed: a new one takes its place. NULL has no rules. */
typedef struct ls_freezing {
    int n;
    ls_freeze_rule rules[];
} ls_freezing;

/* These rules and a further one, in place of an earlier one with its pattern. Lives as long as the session; NULL when
 * memory runs out. */
const ls_freezing *ls_freezing_with(ls_session *session, const ls_freezing *was, const char *pattern, bool frozen);

/* Notes in the views what the rules say; *changes: of any view something else than before. LS_BAD_ARGUMENT, which
 * changes nothing, names a pattern that fits none. Views that are joined, a BatchNorm's weight and bias, say, are
 * computed as one: they are frozen once both are to be. */
ls_status ls_freezing_mark(ls_session *session, const ls_freezing *freezing, ls_flat *flat, bool *changes);
/* LS_BAD_ARGUMENT where one is to be frozen without the other. */
ls_status ls_freezing_check(ls_session *session, const ls_freezing *freezing, const ls_flat *flat);

/* The rules in words, "" without any: "layer1.*, not layer1.1.*"; to be released. NULL when memory runs out. */
char *ls_freezing_text(ls_context *context, const ls_freezing *freezing);
