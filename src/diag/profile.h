/* Where the steps of a trainer have spent their time: what measure.h took down, added up. */
#pragma once

#include "train/measure.h"

/* `backward`: the step belongs to the backward pass. */
ls_profile_row ls_profile_row_of(const ls_plan_step *step, const ls_tally *all, bool backward, const ls_flat *flat);

/* Room for so many spans of each worker; and, once all is at rest, in order, from a step's begin on. */
ls_status ls_profile_reserve_spans(struct ls_profile *profile, int64_t spans, bool on_cards);
void ls_profile_arrange_spans(struct ls_profile *profile);
void ls_profile_free_spans(struct ls_profile *profile);
