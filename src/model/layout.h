/* What of a network is frozen, and a layout of its parameters to suit. */
#pragma once

#include "model/network.h"

/* Refuses by name what cannot be frozen as it was asked for. The network is defined. */
ls_status ls_layout_check(const ls_network *network);

/* What is frozen, in words, "" where nothing is; to be released. NULL when memory runs out. */
char *ls_layout_frozen_text(const ls_network *network);
