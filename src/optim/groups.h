/* Groups of parameters that a trainer updates otherwise than the rest: patterns of names, with factors. */
#pragma once

#include <lockstep.h>
#include <lockstep_train.h>

#include "base/context.h"

typedef struct ls_group_rule {
    const char *pattern; /* of fnmatch */
    ls_param_group group;
} ls_group_rule;

/* What is wrong with a group of a trainer with these options; NULL where nothing is. */
const char *ls_group_wrong(const ls_param_group *group, const ls_optim *options);

/* Whether a parameter of that name, and of so many dimensions, is in the group. */
bool ls_group_has(const ls_group_rule *rule, const char *name, int rank);
/* Whether two rules are of the same parameters, whatever these are. */
bool ls_group_is_same(const ls_group_rule *a, const ls_group_rule *b);

/* What rate and weight decay are multiplied by. */
typedef struct ls_factors {
    double lr, weight_decay;
} ls_factors;
/* Of a parameter: the product over the groups that have it. */
ls_factors ls_group_factors(const ls_group_rule rules[], int n, const char *name, int rank);

/* The rules in words, "" without any: "head.*: lr 10, weight_decay 1; vectors of *: lr 1, weight_decay 0"; to be
 * released. NULL when memory runs out. */
char *ls_group_text(ls_context *context, const ls_group_rule rules[], int n);
