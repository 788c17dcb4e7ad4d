#include "device/unit.h"

void ls_unit_close(ls_unit *unit)
{
    if (unit)
        unit->type->close(unit);
}

void *ls_unit_alloc(ls_unit *unit, size_t count, size_t size, const char *what)
{
    size_t bytes;
    void *memory = NULL;
    if (!__builtin_mul_overflow(count, size, &bytes))
        memory = unit->type->allocate(unit, bytes);
    if (!memory)
        ls_raise(unit->context, LS_OUT_OF_MEMORY, "no memory for %s (%zu x %zu bytes) on %s", what, count, size,
                 unit->name);
    return memory;
}

void ls_unit_release(ls_unit *unit, void *memory)
{
    if (memory)
        unit->type->release(unit, memory);
}

ls_status ls_unit_check(const ls_unit *unit)
{
    if (unit->status == LS_OK)
        return LS_OK;
    return ls_raise(unit->context, unit->status, "%s: %s", unit->name, unit->message);
}

ls_status ls_unit_finish(ls_unit *unit, bool *finite)
{
    if (!unit->type->finish(unit) && finite)
        *finite = false;
    if (unit->gpu_trace)
        unit->traced(unit);
    return ls_unit_check(unit);
}
