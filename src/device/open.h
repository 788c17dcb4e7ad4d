/* Which executor a device has: a core's or a card's. */
#pragma once

#include "device/executor.h"

/* The executor of a device, by options->isa and dtype. NULL after a failure. */
ls_executor *ls_executor_open(ls_context *context, const ls_options *options, ls_device device);

/* Equal for devices that have one executor between them: those of one core, or of one card. */
int ls_executor_number(ls_device device);
