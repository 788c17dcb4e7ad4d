#include "io/notes.h"

#include <string.h>

const char *ls_note_find(const ls_note *notes, const char *name)
{
    for (; notes && notes->name; notes++)
        if (strcmp(notes->name, name) == 0)
            return notes->value;
    return NULL;
}

ls_status ls_notes_reserve(ls_context *context, ls_notes *notes, size_t bytes)
{
    *notes = (ls_notes){.bytes = bytes, .text = ls_alloc(context, bytes, 1, "a checkpoint's notes")};
    return notes->text ? LS_OK : LS_OUT_OF_MEMORY;
}

ls_status ls_notes_list(ls_context *context, ls_notes *notes)
{
    size_t n = 0;
    for (size_t i = 0; i < notes->bytes; i++)
        n += notes->text[i] == 0;
    notes->list = ls_alloc(context, n / 2 + 1, sizeof *notes->list, "a checkpoint's notes");
    if (!notes->list)
        return LS_OUT_OF_MEMORY;
    const char *at = notes->text;
    for (size_t i = 0; i < n / 2; i++) {
        const char *value = at + strlen(at) + 1;
        notes->list[i] = (ls_note){at, value};
        at = value + strlen(value) + 1;
    }
    return LS_OK;
}

ls_status ls_notes_copy(ls_context *context, ls_notes *notes, const ls_note *list)
{
    size_t bytes = 0;
    for (const ls_note *note = list; note && note->name; note++)
        bytes += strlen(note->name) + 1 + (note->value ? strlen(note->value) : 0) + 1;
    if (ls_notes_reserve(context, notes, bytes) != LS_OK)
        return LS_OUT_OF_MEMORY;
    char *at = notes->text;
    for (const ls_note *note = list; note && note->name; note++) {
        at = stpcpy(at, note->name) + 1;
        at = stpcpy(at, note->value ? note->value : "") + 1;
    }
    return ls_notes_list(context, notes);
}

void ls_notes_free(ls_context *context, ls_notes *notes)
{
    ls_release(context, notes->text);
    ls_release(context, notes->list);
    *notes = (ls_notes){.text = NULL};
}
