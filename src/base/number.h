/* A number and a shape as text. */
#pragma once

#include <lockstep.h>

/* With as few digits, from six on, as tell it from every other number. */
const char *ls_number_text(double value, char text[32]);

/* "(2, 5)"; "(images, 5)" where the first size is open. */
const char *ls_shape_text(char *text, size_t size, const ls_shape *shape);
