/* The processor time that a container's settings (control groups, of both versions) leave to this process. */
#pragma once

#include "base/context.h"

/* In each `period` so many microseconds of processor time, of all cores together. */
typedef struct ls_quota {
    int64_t time, period; /* time 0: as much as the cores have */
    char *file;           /* that says so; NULL: none does */
} ls_quota;

/* The least of the quotas of the process's group and of the groups around it, as the files below `root` tell: "" is the
 * system. What cannot be read is no quota. `file` is the caller's to release. */
ls_quota ls_quota_read(ls_context *context, const char *root);

/* How many of so many cores the quota keeps busy when `sharers` processes share it, rounded up; at least 1. */
int ls_quota_cores(const ls_quota *quota, int sharers, int cores);
