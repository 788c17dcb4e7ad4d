#include "base/plugin.h"

#include "base/file.h"

#include <dlfcn.h>
#include <lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Paths are long, and the stack of the caller's thread may be small. */
typedef struct paths {
    char folder[4096], file[4500];
} paths;

/* The folder that this code was loaded from, the library's or the program's. */
static bool find_folder(char *folder, size_t size)
{
    static const char here;
    Dl_info info;
    ssize_t length = -1;
    /* A program's name may be relative to where it was started; the system knows better. */
    if (dladdr(&here, &info) && info.dli_fname && strstr(info.dli_fname, "liblockstep.so"))
        length = snprintf(folder, size, "%s", info.dli_fname);
    else
        length = readlink("/proc/self/exe", folder, size - 1);
    if (length <= 0 || length >= (ssize_t)size)
        return false;
    folder[length] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    return slash != NULL;
}

/* A handle of dlopen's. */
static void *load_from(paths *at, const char *name, bool open_to_all, char *why, size_t size)
{
    /* Beside the library or the program, and above a folder of programs that stands beside it in a build. */
    static const char *const places[] = {"%s/lockstep-%s.so", "%s/lockstep/lockstep-%s.so",
                                         LOCKSTEP_LIBDIR_FROM_BINDIR "/lockstep/lockstep-%s.so",
                                         "%s/../lockstep-%s.so"};
    snprintf(why, size, "there is no lockstep-%s.so beside this program", name);
    if (!find_folder(at->folder, sizeof at->folder))
        return NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(at->file, sizeof at->file, places[i], at->folder, name);
        if (!ls_file_is_there(at->file))
            continue;
        void *loaded = dlopen(at->file, RTLD_NOW | RTLD_NODELETE | (open_to_all ? RTLD_GLOBAL : RTLD_LOCAL));
        if (loaded)
            return loaded;
        snprintf(why, size, "%s", dlerror());
        return NULL;
    }
    return NULL;
}

static void *load(const char *name, bool open_to_all, char *why, size_t size)
{
    paths *at = malloc(sizeof *at);
    if (!at) {
        snprintf(why, size, "no memory to look for lockstep-%s.so", name);
        return NULL;
    }
    void *loaded = load_from(at, name, open_to_all, why, size);
    free(at);
    return loaded;
}

static const char another_version[] = "lockstep-%s.so is of another version";

ls_plugin_entry *ls_plugin_load(const char *name, const char *entry, bool open_to_all, char *why, size_t size)
{
    ls_plugin_entry *found = NULL;
    void *loaded = load(name, open_to_all, why, size);
    if (!loaded)
        return NULL;
    *(void **)&found = dlsym(loaded, entry); /* as POSIX has it: an object pointer that is a function's */
    if (!found)
        snprintf(why, size, another_version, name);
    return found;
}

const ls_plugin *ls_plugin_table(const char *name, size_t expected, char *why, size_t size)
{
    typedef const ls_plugin *open_table(void);
    open_table *open = (open_table *)ls_plugin_load(name, "lockstep_plugin", false, why, size);
    const ls_plugin *table = open ? open() : NULL;
    if (table && table->size == expected && strcmp(table->version, ls_version()) == 0)
        return table;
    if (open)
        snprintf(why, size, another_version, name);
    return NULL;
}
