#include "device/open.h"

#include "base/cores.h"
#include "device/cards.h"
#include "device/cpu/executor.h"

int ls_executor_number(ls_device device)
{
    return device.type == LS_CUDA ? LS_MAX_DEVICES + ls_card_number(device) : device.index % ls_core_count();
}

ls_executor *ls_executor_open(ls_context *context, const ls_options *options, ls_device device)
{
    if (device.type == LS_CUDA)
        return ls_card_open(context, options->dtype, ls_card_number(device));
    return ls_cpu_executor_open(context, options->isa, ls_executor_number(device));
}
