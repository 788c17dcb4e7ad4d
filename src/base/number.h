/* Options that are 0 for their usual value; a number and a shape as text. */
#pragma once

#include <lockstep.h>

/* Of an option that is 0 for its usual value and -1 for an explicit 0. */
static inline double ls_or_usual(double given, double usual)
{
    return given == -1 ? 0 : given != 0 ? given : usual;
}

/* What a failure leaves where numbers were to be written, which may be NULL: NaN. Gives the status. */
ls_status ls_no_numbers(float *values, int64_t n, ls_status status);

/* With as few digits, from six on, as tell it from every other number. */
const char *ls_number_text(double value, char text[32]);

/* "(2, 5)"; "(images, 5)" where the first size is open. */
const char *ls_shape_text(char *text, size_t size, const ls_shape *shape);
