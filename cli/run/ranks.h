/* The ranks that mpirun or srun started: all go through a command together, and rank 0 alone prints and writes. */
#pragma once

#include "run/run.h"

/* Before anything is said: where a launcher started several ranks, failures are held back until all can compare
 * them. */
void ranks_expect(void);

/* Starts the ranks, if a launcher did. `status` is how far this rank came before; what it said then was held back. From
 * here on all ranks must come to ranks_agree. Returns `status`, or the one to exit with once a line is said. */
int ranks_start(settings *chosen, int status);
ls_cluster *ranks_cluster(void);

/* Whether every rank came here with status 0, the same settings, data and weights (NULL: a command without); a line is
 * said where not. Then each knows the others' devices. */
int ranks_agree(int command, run *r, const ls_data *train, const ls_data *validation, const ls_data *test, int status);

/* Says, once it is so, how many of a step's shards each rank has by its measured speed. */
void ranks_say_balance(ls_trainer *trainer);
/* Connects the ranks' GPUs, where there are any, and says how they exchange gradients; all ranks come here. */
void ranks_meet(ls_trainer *trainer, bool quiet);

/* From here on nobody waits for this rank any more, but for the end. */
void ranks_parted(void);

/* All ranks have come to the same end of the run, and what follows is said once. */
void ranks_end_together(void);

/* Closes the session and ends the ranks. One that fails while others wait for it tells them, so that they leave too,
 * and leaves. */
int ranks_close(run *r, int status);
