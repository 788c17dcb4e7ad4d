/* The classes that a network tells apart: the names that data gave, held against those that weights bring. */
#pragma once

#include "io/safetensors.h"
#include "model/network.h"

/* The names are the data's from here on, where these have any. */
ls_status ls_network_take_classes(ls_network *network, const ls_data *data);

/* LS_CHANGED names the first class that is called otherwise in the file than by data or caller. What does not say is
 * not held against the other. */
ls_status ls_network_compare_classes(const ls_network *network, const ls_safetensors *file, const char *path);

/* The same of names that a file brought, and data that are evaluated; `function` is the caller's word. */
ls_status ls_network_compare_data(const ls_network *network, const ls_data *data, const char *function);

/* The names are the file's, unless data or caller gave some. */
ls_status ls_network_learn_classes(ls_network *network, const ls_safetensors *file);
