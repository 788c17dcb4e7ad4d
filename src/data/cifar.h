/* CIFAR-10 and CIFAR-100 (A. Krizhevsky, 2009) in their "binary version": records of one label or two, then 32 x 32
 * red, green and blue bytes, one plane after the other. */
#pragma once

#include "data/data.h"

typedef struct ls_cifar ls_cifar;
extern const ls_cifar ls_cifar_10, ls_cifar_100;

/* Reads a part from `directory`, or from the folder in it that the published archive holds; what is in *images after a
 * failure is to be released too. */
ls_status ls_cifar_read(ls_context *context, const ls_cifar *set, const char *directory, ls_part part,
                        ls_images *images);
