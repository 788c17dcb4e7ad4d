/* An executor whose calls a test sees, and any of which it may have fail, as a card's do: from then on the executor
 * does nothing more. */
#ifndef TEST_OBSERVED_H
#define TEST_OBSERVED_H

#include "device/executor.h"

/* Asked before each call, by the thread that makes it, with the name that ls_executor_type has for it; false: it
 * fails. */
typedef bool test_sees(void *user, ls_executor *executor, const char *call);

/* Until the executor is closed. */
void test_observe(ls_executor *executor, test_sees *sees, void *user);

#endif
