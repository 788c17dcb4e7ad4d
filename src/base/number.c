#include "base/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

ls_status ls_no_numbers(float *values, int64_t n, ls_status status)
{
    for (int64_t i = 0; values && i < n; i++)
        values[i] = NAN;
    return status;
}

const char *ls_number_text(double value, char text[32])
{
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, 32, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    return text;
}

const char *ls_shape_text(char *text, size_t size, const ls_shape *shape)
{
    size_t length = (size_t)snprintf(text, size, "(");
    for (int i = 0; i < shape->rank && i < LS_MAX_RANK && length < size; i++)
        if (i == 0 && shape->dim[0] < 0)
            length += (size_t)snprintf(text + length, size - length, "images");
        else
            length += (size_t)snprintf(text + length, size - length, "%s%lld", i ? ", " : "", (long long)shape->dim[i]);
    if (length < size)
        snprintf(text + length, size - length, ")");
    return text;
}
