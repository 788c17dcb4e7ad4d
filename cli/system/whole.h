/* Files that are whole or not there: written under another name beside their own, and renamed at the end. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* Whether files can be made in `folder`: 0, or a failure of `option` once a line is said. */
int check_folder(const char *option, const char *folder);

/* The same for a folder that is made where it is not there, in one that is. */
int check_new_folder(const char *option, const char *folder);
int make_folder(const char *option, const char *folder);

/* Whether a file can be made under this path, or replaced. */
int check_new_file(const char *option, const char *path);
int check_new_file_in(const char *option, const char *folder, const char *name); /* the folder is there */

/* folder/name begun; false with errno where that fails. `path` is freed by the end. */
typedef struct whole_file {
    FILE *file; /* which remembers why a write failed; it stays where it was begun */
    int fd, error;
    char *path, *temporary;
} whole_file;
bool whole_begin(whole_file *f, const char *folder, const char *name);
bool whole_begin_at(whole_file *f, const char *path);

/* Under its name, and on the disk; where anything failed, before or now, nothing is left: false, with errno. */
bool whole_end(whole_file *f, bool good);
