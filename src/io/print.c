#include "io/print.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "device/devices.h"

enum { SHOWN = 10, EDGE = 3 }; /* of a dimension; when longer, so many at each end */

typedef struct text {
    ls_context *context;
    char *at;
    size_t length, room;
    bool failed;
} text;

__attribute__((format(printf, 2, 3))) static void put(text *t, const char *format, ...)
{
    char piece[64];
    va_list arguments;
    va_start(arguments, format);
    size_t n = (size_t)vsnprintf(piece, sizeof piece, format, arguments);
    va_end(arguments);
    if (t->length + n + 1 > t->room && !t->failed) {
        size_t room = 2 * t->room + 256;
        char *larger = ls_alloc(t->context, room, 1, "a tensor's text");
        if (larger && t->at)
            memcpy(larger, t->at, t->length);
        ls_release(t->context, t->at);
        t->at = larger;
        t->room = room;
        t->failed = !larger;
    }
    if (t->failed)
        return;
    memcpy(t->at + t->length, piece, n + 1);
    t->length += n;
}

static void put_values(text *t, const float *values, const ls_shape *shape, int dimension)
{
    const int rank = shape->rank < LS_MAX_RANK ? shape->rank : LS_MAX_RANK; /* as it is, which compilers do not know */
    if (dimension >= rank) {
        put(t, "%.5g", (double)values[0]);
        return;
    }
    int64_t n = shape->dim[dimension], inner = 1;
    for (int i = dimension + 1; i < rank; i++)
        inner *= shape->dim[i];
    put(t, "[");
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) {
            put(t, dimension + 1 < rank ? ",\n" : ", ");
            for (int k = 0; k <= dimension && dimension + 1 < rank; k++)
                put(t, " ");
        }
        if (n > SHOWN && i == EDGE) {
            put(t, "...");
            i = n - EDGE - 1;
        } else {
            put_values(t, values + i * inner, shape, dimension + 1);
        }
    }
    put(t, "]");
}

char *ls_print(ls_context *context, const float *values, const ls_shape *shape, ls_device device)
{
    text t = {.context = context};
    if (values)
        put_values(&t, values, shape, 0);
    else
        put(&t, "empty");
    char where[32];
    ls_device_write(where, sizeof where, device);
    put(&t, " on %s", where);
    return t.at;
}
