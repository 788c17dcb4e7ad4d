/* Ranks that are threads of one process, with a wire between them; what arrives waits for its receiver. A slot that is
 * used again before it is done, and a message that is changed while it is under way, fail the test. */
#ifndef TEST_THREAD_WIRE_H
#define TEST_THREAD_WIRE_H

#include <lockstep.h>
#include <lockstep_cluster.h>

enum { WIRE_RANKS = 8 };

/* At first true: a message is under way until its receiver has it, who has every other one at the second or third look
 * only. False: it is sent at once. */
extern bool wire_late;

/* Once any rank has come to its send of this number, counted from 1 among those of steps, all that steps send and wait
 * for fails; 0: never. */
extern int wire_fails;

/* Runs each rank in a thread of its own with its cluster, which is ended afterwards; fails the test where a message is
 * left that nobody received. */
void wire_run(int ranks, void (*run)(ls_cluster *cluster, int rank, void *user), void *user);

/* The same, where a rank's cluster is what `start` makes of its wire. */
void wire_start(int ranks, ls_cluster *(*start)(const ls_wire *wire, int rank, void *user), void *of_start,
                void (*run)(ls_cluster *cluster, int rank, void *user), void *user);

/* The same for ranks that fail in the middle: returns how many messages were left. */
int wire_run_torn(int ranks, void (*run)(ls_cluster *cluster, int rank, void *user), void *user);

void wire_break(const ls_cluster *cluster); /* from now on all that any rank sends, receives and waits for fails */

int wire_receiving(const ls_cluster *cluster); /* slots that wait for a message */

/* Rank 0 of 2 starts on a wire that fails at the first send, or at the first test: LS_IO. Returns how many slots would
 * still receive, into memory that is gone. */
int wire_failed_start(bool at_send);

#endif
