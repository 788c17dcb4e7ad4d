#include "training/average.h"
#include "run/ranks.h"

#include <lockstep_train.h>

bool average_use(const training *t, bool on)
{
    return t->optim.ema == 0 || ls_trainer_use_average(t->trainer, on) == LS_OK;
}

const char *average_rescue(const training *t, bool sound)
{
    if (t->optim.ema == 0 || t->taken)
        return "";
    const bool wanted = sound && ls_cluster_ranks(ranks_cluster()) == 1;
    if (average_use(t, wanted))
        return wanted ? "" : " (not averaged)";
    ls_catch(t->run.session, ls_status_of(t->run.session));
    return " (not averaged)";
}
