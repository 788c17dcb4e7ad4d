/* What a run leaves for people to look at: report.html, curve.png and curve.svg in a folder. */
#pragma once

#include "record/record.h"
#include "run/run.h"

#include <stdio.h>

struct figure;
struct judge;

/* Whether a report can be written to `folder` at the end, over nothing but another report: 0, or the status to exit
 * with once a line is said. */
int check_report(const char *option, const char *folder);

/* Writes a folder's three files, each whole or not at all; `page` writes the first. 0, or a failure once a line is
 * said. */
int write_report(const char *option, const char *folder, record *const runs[], int n,
                 void (*page)(FILE *file, const struct figure *figure, const void *user), const void *user);

/* The report of a run that has just been trained and judged. */
int report_run(const run *r, record *of, const struct judge *j, const char *fingerprint);
