/* Parts that are loaded when they are needed, because they stand on libraries that not every machine has. */
#ifndef LS_BASE_PLUGIN_H
#define LS_BASE_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

/* Loads lockstep-NAME.so from beside the program or the library, where it is built and where it is installed. `open_to_all`: its
 * symbols are the process's. Never unloaded; loading again gives the same. NULL with the reason in `why`. */
void *ls_plugin_load(const char *name, bool open_to_all, char *why, size_t size);

#endif
