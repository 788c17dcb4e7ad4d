/* The learning rate of a step. */
#pragma once

#include <lockstep.h>

/* The members of ls_optim that a schedule takes. */
typedef enum ls_schedule_member {
    LS_TAKES_TOTAL = 1,
    LS_TAKES_START = 2,
    LS_TAKES_END = 4,
    LS_TAKES_GAMMA = 8,
    LS_TAKES_PERIOD = 16,
    LS_TAKES_GROWTH = 32 /* period_factor */
} ls_schedule_member;

const char *ls_schedule_name(ls_schedule schedule); /* "cosine" */
bool ls_schedule_takes(ls_schedule schedule, ls_schedule_member member);
/* What is wrong with the schedule's options; NULL where nothing is. */
const char *ls_schedule_wrong(const ls_optim *options);
bool ls_is_rate(double lr);

/* Where the options say 0. */
double ls_schedule_start(const ls_optim *options);
double ls_schedule_end(const ls_optim *options);
int64_t ls_schedule_period(const ls_optim *options);

/* Of step `step`, counted from 0, where the schedule scales `lr`: the formulas stand at ls_optim. */
double ls_learning_rate(const ls_optim *options, double lr, int64_t step);
