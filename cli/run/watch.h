/* The watchdog: ends the process when nothing goes on for a time, and names the rank that does not go on. It runs in a
 * thread of its own from before MPI starts until the process ends. */
#pragma once

#include <lockstep.h>

/* `rank` and `ranks` as the launcher says. Nothing is watched with 0 seconds. */
void watch_start(double seconds, int rank, int ranks);
void watch_cluster(ls_cluster *cluster); /* NULL before its end */
void watch_session(const ls_session *session);
const char *watch_phase(const char *phase); /* what begins now, a text that stays; returns what was */
void watch_step(int64_t finished);
/* This rank failed alone, said so, and is about to leave the others: they are told, and leave too. */
void watch_end(void);
