/* Texts under names, in a form that can be sent: names and values in turn, each ended by a zero byte. */
#pragma once

#include "base/context.h"

#include <lockstep_checkpoint.h>

const char *ls_note_find(const ls_note *notes, const char *name); /* NULL where there is none */

typedef struct ls_notes {
    char *text;
    size_t bytes;
    ls_note *list; /* points into the text; ends with a name that is NULL */
} ls_notes;

/* A copy; NULL is no notes. */
ls_status ls_notes_copy(ls_context *context, ls_notes *notes, const ls_note *list);
/* Room for so many bytes of text, and the list once they are there. */
ls_status ls_notes_reserve(ls_context *context, ls_notes *notes, size_t bytes);
ls_status ls_notes_list(ls_context *context, ls_notes *notes);
void ls_notes_free(ls_context *context, ls_notes *notes);
