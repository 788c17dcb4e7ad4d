/* Linked into the program beside system_faults.c: what it does to files in $RECORD_FOLDER is in $RECORD_TO once it has
 * ended; and where $CLOCK is set, its clock stands still but for a second a batch that is trained on and two an
 * evaluation. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <lockstep.h>

#include "system_faults.h"

static atomic_int seconds = 1000;
static bool by_work;

__attribute__((constructor)) static void begin(void)
{
    const char *folder = getenv("RECORD_FOLDER");
    by_work = getenv("CLOCK") != NULL;
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

double __real_steady_seconds(void);
double __wrap_steady_seconds(void);
bool __real_ls_data_next(ls_data *data, ls_batch *batch);
bool __wrap_ls_data_next(ls_data *data, ls_batch *batch);
ls_status __real_ls_module_evaluate(ls_module *net, ls_data *data, ls_metrics *metrics);
ls_status __wrap_ls_module_evaluate(ls_module *net, ls_data *data, ls_metrics *metrics);

double __wrap_steady_seconds(void)
{
    return by_work ? (double)atomic_load(&seconds) : __real_steady_seconds();
}

bool __wrap_ls_data_next(ls_data *data, ls_batch *batch)
{
    atomic_fetch_add(&seconds, 1);
    return __real_ls_data_next(data, batch);
}

ls_status __wrap_ls_module_evaluate(ls_module *net, ls_data *data, ls_metrics *metrics)
{
    atomic_fetch_add(&seconds, 2);
    return __real_ls_module_evaluate(net, data, metrics);
}
