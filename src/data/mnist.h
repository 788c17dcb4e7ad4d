/* MNIST (Y. LeCun, C. Cortes, C. Burges) and Fashion-MNIST (H. Xiao, K. Rasul, R. Vollgraf, 2017), which has its form:
 * 60000 and 10000 grey images of 28 x 28, ten classes, in four idx files. */
#pragma once

#include "data/data.h"

typedef struct ls_mnist ls_mnist;
extern const ls_mnist ls_mnist_digits, ls_mnist_fashion;

/* Where the part lies: in `named`, or where that is NULL in $LOCKSTEP_DATA if that is set (then only there), else in
 * the system's data folder, else in the user's cache. NULL, with an error that says where it was looked for, where it
 * does not. To be released by the caller. */
char *ls_mnist_directory(ls_context *context, const ls_mnist *set, ls_part part, const char *named);

/* $XDG_CACHE_HOME or ~/.cache, then lockstep/ and the set's name. NULL where neither variable names an absolute path
 * (nothing is raised) or without memory. To be released by the caller. */
char *ls_mnist_cache(ls_context *context, const ls_mnist *set);

/* Reads a part; what is in *images after a failure is to be released too. */
ls_status ls_mnist_read(ls_context *context, const ls_mnist *set, const char *directory, ls_part part,
                        ls_images *images);
