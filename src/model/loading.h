/* Files into a network: which array becomes which tensor. */
#pragma once

#include "io/safetensors.h"
#include "model/network.h"

#include <lockstep_weights.h>

/* Whether the options (NULL: none) leave out what has this name. */
bool ls_loading_skips(const ls_load_options *options, const char *name);
/* The array that tensor number `view` is read from, under its own name or a further one (`ls_flat_find_by_any`); NULL:
 * it keeps its values. */
const ls_saved *ls_loading_source(const ls_load_options *options, const ls_safetensors *file, const ls_flat *flat,
                                  int view);

/* Whether a file for the part of the network whose names begin with `within` (NULL: for all of it) is to have it. */
bool ls_loading_wants(const char *within, const ls_view *view);
/* Whether the file has every tensor of that part in its shape, and nothing else but what `besides` takes by its name
 * (NULL: nothing else), as the options (NULL: none) want it; what is wrong goes to `context`. */
ls_status ls_loading_check(const ls_network *network, const ls_safetensors *file, ls_context *context, const char *path,
                           const ls_load_options *options, const char *within, bool (*besides)(const char *name));

/* Reads them into the copy that is not current and makes it the current one, so that a failure half-way leaves the
 * network as it was. */
ls_status ls_loading_read(ls_network *network, const ls_safetensors *file, const ls_load_options *options);

/* What ls_module_load_with tells of a file that passed the check; lives as long as the session. NULL when memory runs
 * out. */
const char *ls_loading_report(const ls_network *network, const ls_safetensors *file, const ls_load_options *options,
                              const char *within);
