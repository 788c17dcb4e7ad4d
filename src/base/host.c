#include "base/host.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Each by way of an array of its own: of a parameter gcc's sanitizers warn that it could be NULL. */

void ls_host_name(char name[LS_HOST_NAME])
{
    char found[LS_HOST_NAME] = "";
    if (gethostname(found, sizeof found - 1) != 0 || !*found)
        strcpy(found, "?");
    memcpy(name, found, sizeof found);
}

void ls_host_boot(char boot[LS_HOST_BOOT])
{
    char found[LS_HOST_BOOT] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!file || fscanf(file, "%39s", found) != 1)
        strcpy(found, "?");
    if (file)
        fclose(file);
    memcpy(boot, found, sizeof found);
}
