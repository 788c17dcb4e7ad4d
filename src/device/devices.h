/* Devices, checked and written. */
#pragma once

#include <lockstep.h>

/* Raises LS_NO_DEVICE, or LS_BAD_ARGUMENT, for what is no device of this process. */
ls_status ls_check_device(ls_session *session, ls_device device, const char *function);

/* "cpu(0)", "gpu(0)", and of a card that is several devices "gpu(0.1)"; from any thread. Returns as snprintf. */
int ls_device_write(char *text, size_t size, ls_device device);
