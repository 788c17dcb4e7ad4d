/* What a trainer remembers, as checkpoints see it: the weights, then the statistics, on the host of every rank. */
#pragma once

#include "model/network.h"

float *ls_remembered_new(ls_context *context, const ls_network *network);   /* room for it; NULL without memory */
void ls_remembered_put(const ls_network *network, int copy, float *values); /* there, of that copy */
void ls_remembered_get(ls_network *network, int copy, const float *values); /* from there, into that copy */
void ls_remembered_take(struct ls_trainer *trainer, float *values); /* in place of what there was; NULL: nothing */
