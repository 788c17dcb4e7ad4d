#include "base/plugin.h"

#include "base/file.h"

#include <dlfcn.h>
#include <lockstep.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The folder that this code was loaded from, the library's or the program's. */
static bool own_folder(char *folder, size_t size)
{
    static const char here;
    Dl_info info;
    char path[4096];
    ssize_t length = -1;
    /* A program's name may be relative to where it was started; the system knows better. */
    if (dladdr(&here, &info) && info.dli_fname && strstr(info.dli_fname, "liblockstep.so"))
        length = snprintf(path, sizeof path, "%s", info.dli_fname);
    else
        length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0 || length >= (ssize_t)sizeof path)
        return false;
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    if (!slash)
        return false;
    *slash = '\0';
    return snprintf(folder, size, "%s", path) < (int)size;
}

/* A handle of dlopen's. */
static void *load(const char *name, bool open_to_all, char *why, size_t size)
{
    /* Beside the library or the program, and above a folder of programs that stands beside it in a build. */
    static const char *const places[] = {"%s/lockstep-%s.so", "%s/lockstep/lockstep-%s.so",
                                         LOCKSTEP_LIBDIR_FROM_BINDIR "/lockstep/lockstep-%s.so",
                                         "%s/../lockstep-%s.so"};
    char folder[4096] = "", path[4500];
    snprintf(why, size, "there is no lockstep-%s.so beside this program", name);
    for (size_t i = 0; i < sizeof places / sizeof *places && (*folder || own_folder(folder, sizeof folder)); i++) {
        snprintf(path, sizeof path, places[i], folder, name);
        if (!ls_file_is_there(path))
            continue;
        void *loaded = dlopen(path, RTLD_NOW | RTLD_NODELETE | (open_to_all ? RTLD_GLOBAL : RTLD_LOCAL));
        if (loaded)
            return loaded;
        snprintf(why, size, "%s", dlerror());
        return NULL;
    }
    return NULL;
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
