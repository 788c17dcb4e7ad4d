/* Cards of several ranks that exchange numbers without the hosts: every rank has one that stands for it, the one that
 * has its network's master copy. */
#pragma once

#include "cluster/cluster.h"
#include "device/executor.h"

enum { LS_WHY = 160 };

/* NULL where the plugin cannot be had, with why. */
const ls_links *ls_links_load(char *why, size_t size);

/* Connects an executor of each rank, where every rank has one, no card is two ranks', and NCCL can be had. `executor`
 * is NULL where this rank has none, and *why says why, or is empty where it has no cards at all. *why becomes how they
 * are connected, or why not, on all ranks the same, and empty where nobody has cards. Every rank makes this call. False
 * where they are not connected; a failure of the wire is the context's. */
bool ls_link_connect(ls_cluster *cluster, ls_context *context, ls_executor *executor, char why[LS_WHY]);
