/* Linked into the program beside system_faults.c: what it does to files in $RECORD_FOLDER is in $RECORD_TO once it has ended. */
#include <stdio.h>
#include <stdlib.h>

#include "system_faults.h"

__attribute__((constructor)) static void begin(void)
{
    const char *folder = getenv("RECORD_FOLDER");
    if (folder)
        test_record(folder);
}

__attribute__((destructor)) static void end(void)
{
    const char *to = getenv("RECORD_TO");
    FILE *file = to ? fopen(to, "w") : NULL;
    if (!file)
        return;
    fputs(test_recorded(), file);
    fclose(file);
}
