/* System calls of the library that fail, or kill the process, at a chosen one. The test's program is linked with --wrap for each of
 * them (tests/CMakeLists.txt); only what changes files counts. */
#ifndef TEST_SYSTEM_FAULTS_H
#define TEST_SYSTEM_FAULTS_H

#include <stdbool.h>

enum { TEST_KILL = -1 };

/* The call with this number from now on (from 1; 0: none) fails with `error`, or the process gets SIGKILL in front of it. */
void test_fault(int number, int error);
bool test_fault_met(void);       /* whether there were so many calls */
void test_short_writes(bool on); /* every write takes seven bytes at most, and every other one is interrupted first */

#endif
