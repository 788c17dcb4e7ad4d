#include "base/number.h"

#include <stdio.h>
#include <stdlib.h>

const char *ls_number_text(double value, char text[32])
{
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, 32, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    return text;
}
