/* The averages of a network's weights, which its trainer keeps beside the moments, in place of its values. */
#pragma once

#include "train/job.h"

/* The network has its own values again, where it has averages; what was recorded with these is dropped. The trainer
 * waits. */
void ls_average_give_back(struct ls_trainer *trainer);
