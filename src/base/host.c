#include "base/host.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void ls_host_name(char name[LS_HOST_NAME])
{
    memset(name, 0, LS_HOST_NAME);
    if (gethostname(name, LS_HOST_NAME - 1) != 0 || !*name)
        strcpy(name, "?");
}

void ls_host_boot(char boot[LS_HOST_BOOT])
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    memset(boot, 0, LS_HOST_BOOT);
    if (!file || fscanf(file, "%39s", boot) != 1)
        strcpy(boot, "?");
    if (file)
        fclose(file);
}
