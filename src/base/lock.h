/* A folder that one process at a time may use. The holder's host, process, its start and job stand in the folder's file
 * `lock`.
 *
 * Who is stale: the kernel's lock on the file goes with its holder, however that ended, so on a file system of this
 * machine a free lock decides. On one that several machines share it may know nothing of the others; there the entry
 * decides too. It is stale where its process is known to be gone (this host, and another boot or no such process), or
 * where it bears this run's own job number, which a batch system gives out again only after the run before has ended.
 *
 * A holder that was killed keeps the kernel's lock until it is gone altogether: that is waited for, some seconds at
 * most. */
#pragma once

#include "base/context.h"

typedef struct ls_lock ls_lock;

/* Locks an existing folder. NULL after a failure: LS_BUSY, naming the holder, or what the system refused. */
ls_lock *ls_lock_take(ls_context *context, const char *directory);
void ls_lock_give(ls_lock *lock); /* frees it; NULL is fine */

/* Whether an entry's holder is known to be gone, on a file system that several machines share. For tests: `entry` is
 * the file's text. */
bool ls_lock_stale(const char *entry);
