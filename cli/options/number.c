#include "options/number.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool number_unsigned(const char *text, uint64_t *value)
{
    uint64_t sum = 0;
    if (!*text)
        return false;
    for (; *text; text++) {
        if (!isdigit((unsigned char)*text))
            return false;
        uint64_t digit = (uint64_t)(*text - '0');
        if (sum > (UINT64_MAX - digit) / 10)
            return false;
        sum = 10 * sum + digit;
    }
    *value = sum;
    return true;
}

bool number_count(const char *text, int64_t least, int64_t most, int64_t *value)
{
    uint64_t sum;
    if (!number_unsigned(text, &sum) || sum > (uint64_t)most || sum < (uint64_t)least)
        return false;
    *value = (int64_t)sum;
    return true;
}

bool number_real(const char *text, double limit, double *value)
{
    /* strtod alone would take blanks, signs, hexadecimal digits, inf and nan. */
    if (text[strspn(text, "0123456789.eE+-")] != '\0' || !(isdigit((unsigned char)*text) || *text == '.'))
        return false;
    char *end;
    errno = 0;
    double number = strtod(text, &end);
    if (end == text || *end || errno || !(number >= 0 && number < limit))
        return false;
    *value = number;
    return true;
}
