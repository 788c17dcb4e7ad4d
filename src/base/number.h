/* A number as text. */
#pragma once

/* With as few digits, from six on, as tell it from every other number. */
const char *ls_number_text(double value, char text[32]);
