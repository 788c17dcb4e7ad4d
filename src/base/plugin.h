/* Parts that are loaded when they are needed, because they stand on libraries that not every machine has. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* A function of a plugin, to be cast to what it is. */
typedef void ls_plugin_entry(void);

/* Loads lockstep-NAME.so from beside the program or the library, where it is built and where it is installed, and finds
 * its function `entry`. `open_to_all`: its symbols are the process's. Never unloaded; loading again gives the same.
 * NULL with the reason in `why`. */
ls_plugin_entry *ls_plugin_load(const char *name, const char *entry, bool open_to_all, char *why, size_t size);

/* What a plugin's table of functions begins with. */
typedef struct ls_plugin {
    const char *version; /* the library's that it was built with */
    size_t size;         /* of the table, and of what else the two share */
} ls_plugin;

/* Each plugin with a table has this function, which returns it. */
__attribute__((visibility("default"))) const ls_plugin *lockstep_plugin(void);

/* Loads a plugin with a table, whose size has to be `expected`. NULL with the reason in `why`, such as another
 * version. */
const ls_plugin *ls_plugin_table(const char *name, size_t expected, char *why, size_t size);
