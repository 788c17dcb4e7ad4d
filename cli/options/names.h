/* An option's list of names or patterns, with commas between them. */
#pragma once

enum { MOST_NAMES = 128 };

typedef struct name_list {
    char text[1024];
    const char *list[MOST_NAMES + 1]; /* into the text; ends with NULL */
} name_list;

/* 0, or STATUS_USAGE once a line is said. NULL is no names. */
int names_split(const char *option, const char *text, name_list *names);
