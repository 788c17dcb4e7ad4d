#include "optim/groups.h"

#include <fnmatch.h>
#include <string.h>
#include <lockstep_train.h>

#include "base/number.h"
#include "optim/schedule.h"

const char *ls_group_wrong(const ls_param_group *group, const ls_optim *options)
{
    if (!group)
        return "the group is NULL";
    if (!ls_is_rate(ls_or_usual(group->lr, 1)) || !ls_is_rate(ls_or_usual(group->weight_decay, 1)))
        return "lr and weight_decay, which are factors, must be below 1e30, and above 0 or -1, which is 0";
    if (group->no_decay && group->weight_decay != 0)
        return "no_decay leaves no factor of weight_decay";
    if (group->lr == 0 && group->weight_decay == 0 && !group->no_decay)
        return "it changes nothing: lr and weight_decay are factors, of which 0 is 1 and -1 is 0; ls_module_freeze "
               "holds "
               "parameters still";
    if (group->weight_decay > 0 && options->weight_decay == 0)
        return "weight_decay is a factor on the trainer's, which is 0: give that by ls_optim.weight_decay";
    return NULL;
}

bool ls_group_has(const ls_group_rule *rule, const char *name, int rank)
{
    return (!rule->group.vectors || rank <= 1) && fnmatch(rule->pattern, name, 0) == 0;
}

bool ls_group_is_same(const ls_group_rule *a, const ls_group_rule *b)
{
    return a->group.vectors == b->group.vectors && strcmp(a->pattern, b->pattern) == 0;
}

static ls_factors factors_of(const ls_param_group *group)
{
    return (ls_factors){.lr = ls_or_usual(group->lr, 1),
                        .weight_decay = group->no_decay ? 0 : ls_or_usual(group->weight_decay, 1)};
}

ls_factors ls_group_factors(const ls_group_rule rules[], int n, const char *name, int rank)
{
    ls_factors product = {1, 1};
    for (int i = 0; i < n; i++)
        if (ls_group_has(&rules[i], name, rank)) {
            const ls_factors factors = factors_of(&rules[i].group);
            product = (ls_factors){product.lr * factors.lr, product.weight_decay * factors.weight_decay};
        }
    return product;
}

char *ls_group_text(ls_context *context, const ls_group_rule rules[], int n)
{
    char *text = ls_copy_string(context, "", "the groups");
    for (int i = 0; i < n && text; i++) {
        const ls_factors factors = factors_of(&rules[i].group);
        char lr[32], decay[32];
        char *longer = ls_format(context, "the groups", "%s%s%s%s: lr %s, weight_decay %s", text, i ? "; " : "",
                                 rules[i].group.vectors ? "vectors of " : "", rules[i].pattern,
                                 ls_number_text(factors.lr, lr), ls_number_text(factors.weight_decay, decay));
        ls_release(context, text);
        text = longer;
    }
    return text;
}
