/* Fashion-MNIST (H. Xiao, K. Rasul, R. Vollgraf, 2017): 60000 and 10000 grey images of 28 x 28, ten classes. */
#ifndef LS_DATA_FASHION_MNIST_H
#define LS_DATA_FASHION_MNIST_H

#include "data/data.h"

/* NULL after a failure. `loader` may be NULL. Without a directory in it: $LOCKSTEP_DATA where that is set (then only
 * there), else the system's data folder, else the user's cache. */
ls_data *ls_data_open_fashion_mnist(ls_context *context, uint64_t seed, ls_part part, const ls_loader *loader);

/* Where the part lies; NULL, with an error that says where it was looked for, where it does not. To be released by the caller. */
char *ls_data_directory(ls_context *context, ls_part part, const char *named);

/* $XDG_CACHE_HOME or ~/.cache, then lockstep/fashion-mnist. NULL where neither variable names an absolute path (nothing
 * is raised) or without memory. To be released by the caller. */
char *ls_data_cache(ls_context *context);

#endif
