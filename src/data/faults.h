/* What is wrong with the files of a data set, gathered before it is the failure: whoever mends them learns of all in
 * one run. */
#pragma once

#include "base/context.h"

enum { LS_FAULTS_TOLD = 20 };

typedef struct ls_faults {
    ls_context *context;
    ls_context aside;        /* where one file's failure is raised */
    const ls_loader *loader; /* to tell; may be NULL */
    int64_t count;
    ls_status status; /* of the first */
    char first[sizeof((ls_context *)0)->message];
} ls_faults;

ls_status ls_faults_begin(ls_faults *faults, ls_context *context, const ls_loader *loader);
/* Takes what was raised aside: a fault of a file is counted, told where there are several, and forgotten; another
 * failure, such as no memory, is the context's. Returns the context's status. */
ls_status ls_faults_take(ls_faults *faults);
/* Makes the faults of `path` the context's failure, where there are any; returns its status. */
ls_status ls_faults_raise(ls_faults *faults, const char *path);
void ls_faults_end(ls_faults *faults);
