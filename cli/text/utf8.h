/* Text that came from outside, such as file names, need not be UTF-8; what is written for others must be. */
#pragma once

/* Length of the UTF-8 sequence at `s`, 0 where it is none (overlong, surrogate, cut short, beyond U+10FFFF). */
int utf8_length(const unsigned char *s);

/* Puts ? in place of every byte that is no part of a sequence, and of control characters. */
void utf8_clean(char *text);

/* Characters of cleaned text, which is how many columns it takes but for wide and combining ones. */
int utf8_characters(const char *text);
