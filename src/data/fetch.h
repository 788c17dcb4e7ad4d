/* Downloading files whose content is known beforehand. */
#pragma once

#include "data/pinned.h"

/* Puts `name`.gz of every file, from `url`/`name`.gz, into `directory`. Files that are there and right are kept. */
ls_status ls_fetch_files(ls_context *context, const char *url, const char *directory, const ls_pinned *files, int n,
                         void (*told)(const char *line, void *user), void *user);
