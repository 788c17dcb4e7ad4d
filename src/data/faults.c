#include "data/faults.h"

#include <string.h>

ls_status ls_faults_begin(ls_faults *faults, ls_context *context, const ls_loader *loader)
{
    *faults = (ls_faults){.context = context, .loader = loader};
    if (ls_context_init(&faults->aside, &context->allocator) == LS_OK)
        return ls_context_status(context);
    return ls_raise(context, LS_OUT_OF_MEMORY, "no memory to look at a data set's files");
}

static void tell(const ls_faults *faults, const char *line)
{
    if (faults->loader && faults->loader->told)
        faults->loader->told(line, faults->loader->user);
}

ls_status ls_faults_take(ls_faults *faults)
{
    ls_context *aside = &faults->aside;
    if (aside->status == LS_OK)
        return ls_context_status(faults->context);
    if (aside->status != LS_BAD_FILE && aside->status != LS_IO)
        return ls_raise(faults->context, aside->status, "%s", aside->message);
    if (++faults->count == 1) { /* alone it is the failure itself */
        faults->status = aside->status;
        memcpy(faults->first, aside->message, sizeof faults->first);
    } else if (faults->count <= LS_FAULTS_TOLD) {
        if (faults->count == 2)
            tell(faults, faults->first);
        tell(faults, aside->message);
    }
    aside->status = LS_OK;
    return ls_context_status(faults->context);
}

ls_status ls_faults_raise(ls_faults *faults, const char *path)
{
    if (faults->count == 1)
        return ls_raise(faults->context, faults->status, "%s", faults->first);
    if (faults->count > 1)
        return ls_raise(faults->context, LS_BAD_FILE, "%s: %lld faults in its files, the first of them: %s", path,
                        (long long)faults->count, faults->first);
    return ls_context_status(faults->context);
}

void ls_faults_end(ls_faults *faults)
{
    ls_context_destroy(&faults->aside);
}
