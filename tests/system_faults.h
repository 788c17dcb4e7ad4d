/* System calls that fail, or kill the process, at a chosen one; and a record of those that were made. A program is
 * linked with --wrap for each of them (lockstep_wrap_files in tests/CMakeLists.txt); only what changes files counts. */
#ifndef TEST_SYSTEM_FAULTS_H
#define TEST_SYSTEM_FAULTS_H

#include <stdbool.h>

enum { TEST_KILL = -1 };

/* The call with this number from now on (from 1; 0: none) fails with `error`, or the process gets SIGKILL in front of
 * it. */
void test_fault(int number, int error);
bool test_fault_met(void);         /* whether there were so many calls */
const char *test_fault_call(void); /* which failed: "fsync"; empty: none yet */
bool test_fault_passes(
    void); /* whether a run may go on as if it had not been: nothing that was to reach the disk is at stake */
void test_short_writes(bool on); /* every write takes seven bytes at most, and every other one is interrupted first */

/* From now on what is done to files in this folder, named without a link, is recorded: "write NAME", "sync NAME",
 * "rename NAME NAME", "remove NAME", "make NAME" (a folder), a line each, in order. Names are relative to the folder,
 * which is ".", and without numbers of processes. */
void test_record(const char *folder);
const char *test_recorded(void); /* the lines; ends the recording */

#endif
