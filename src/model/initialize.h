/* Shapes and first values of a network; ls_module_initialize gave it its devices before. */
#pragma once

#include "model/network.h"

/* Tells an initialized network the shapes of its inputs: the first time it gets its parameters and their values, later
 * the shapes must be the same. */
ls_status ls_network_define(ls_network *network, const ls_input_shapes *shapes, const char *function);
/* Its two halves: the parameters' names and places, then their memory and first values. */
ls_status ls_network_record(ls_network *network, const ls_input_shapes *shapes, const char *function);
ls_status ls_network_fill(ls_network *network);
void ls_network_forget(ls_network *network); /* undoes both, before anything was made with the network */

/* The master copy's values and the replicas', beside the host's; and their end. */
ls_status ls_network_take_master(ls_network *network);
void ls_network_drop_master(ls_network *network);
/* Has its master copy on the first device's card from here on, connected with the other ranks'. Waits. */
ls_status ls_network_move_master(ls_network *network);
