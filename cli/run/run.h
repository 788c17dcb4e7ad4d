/* What train, eval and predict begin alike: session, devices, data, network. */
#pragma once

#include "options/settings.h"

#include <lockstep_cluster.h>
#include <lockstep_data.h>

typedef struct run {
    const settings *chosen;
    ls_cluster *cluster;
    ls_session *session;
    ls_devices devices;
    ls_devices *ranks_devices; /* [ranks] of each; NULL before they are known */
    /* "[cpu(0), cpu(1)]", of several ranks "4 x [cpu(0)]" or "[cpu(0), cpu(1)] + 2 x [cpu(0)]" */
    char devices_text[256];
    char model[64];
    ls_data_info about; /* of the data that the network was made for */
    ls_module *net;
    uint64_t self_test; /* what a tiny step comes to on these devices */
} run;

/* Options that go with some optimizers only. 0, or the status once a line is said. */
int check_optimizer(const settings *chosen);

/* Opens the session, of that cluster's or none's ranks, finds the devices, and settles what depends on them (--shard).
 * Each of these returns 0, or the status to exit with once a line is said. */
int run_open(run *r, settings *chosen, ls_cluster *cluster);

/* Finds out which devices the other ranks have, once all are here. */
int run_meet(run *r);
int run_device_count(const run *r);                /* over all ranks */
bool run_is_on(const run *r, ls_device_type type); /* some of this rank's devices are of that type */

/* Where `--model` is not given, the name that the weights file carries. */
int run_model_of_weights(run *r);

/* Says a line that the library tells. */
void tell_line(const char *line, void *user);

ls_data *run_data(run *r, ls_part part); /* NULL once a line is said */

/* Notes what looks like a mistake in the data (NULL: there are none). It comes before the network is made, whose
 * failure it may explain. */
int run_doubt(run *r, ls_data *train, ls_data *test);
void run_describe(const run *r, ls_data *data); /* says in a line what they are */

/* Makes the network for data like these, with values from --init, and from --weights where they are given. */
int run_network(run *r, const ls_data *like);

/* Makes the network that the weights are of, with as many classes and for such images: as --input says, else the file,
 * else `usual` (NULL: one of them has to). */
int run_network_of_weights(run *r, const ls_shape *usual);

/* Says which of its devices the run has lost since, and why. */
void run_say_lost(const run *r);

/* Closes the session; what fails only now is said. Returns `status`, or the failure where `status` is 0. */
int run_close(run *r, int status);

/* Whether the library was built with a feature, as ls_features names it. */
bool run_has(const char *feature);
