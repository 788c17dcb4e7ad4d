/* A checkpoint's manifest: a small JSON file that says what the checkpoint beside it holds, and where in the run it was
 * taken. Its last member is the SHA-256 of all bytes before, so that one changed bit anywhere is seen. */
#pragma once

#include "io/notes.h"
#include "io/safetensors.h"

#include <lockstep_checkpoint.h>

enum { LS_MANIFEST_FORMAT = 1, LS_SECTIONS = 7 };

typedef struct ls_manifest {
    int64_t step;         /* finished updates */
    int64_t epoch, batch; /* of the data's next batch; both from 0 */
    int64_t age;          /* updates that the optimizer's moments hold: fewer than `step` where they were begun anew */
    int64_t averaged;     /* likewise the average of the weights; where none is kept, as many as the moments */
    double lr;            /* that was set since the start; negative: none was */
    const ls_note *settings; /* what defines the result; ends with a name that is NULL, as do the notes */
    const ls_note *notes;    /* the caller's */
    ls_section sections[LS_SECTIONS];
    int n_sections;
    void *text; /* of one that was read: what names and values point into */
} ls_manifest;

/* Replaces `path` as a whole or not at all. */
ls_status ls_manifest_write(ls_context *context, const char *path, const ls_manifest *manifest);

/* LS_BAD_FILE for what is damaged, LS_UNSUPPORTED for a whole one of another format. After a failure there is nothing
 * to free. */
ls_status ls_manifest_read(ls_context *context, const char *path, ls_manifest *manifest);
void ls_manifest_free(ls_context *context, ls_manifest *manifest);
