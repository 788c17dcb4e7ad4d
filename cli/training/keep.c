#include "training/keep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <lockstep_weights.h>

int keep_check(const training *t)
{
    char why[MOST_WORDS];
    const char *path = t->run.chosen->save;
    if (!path || ls_module_check_save(t->run.net, path) == LS_OK)
        return 0;
    return failed("--save", "%s%s", session_words(t->run.session, why, sizeof why),
                  ls_status_of(t->run.session) == LS_IO ? "; make room there, or name another place" : "");
}

/* The step of the weights as they are. */
static long long step_of(const training *t)
{
    return (long long)(t->taken ? t->taken : t->finished);
}

/* A failure to save is told in `why` and is none of the session's. */
static bool save(const training *t, const char *path, char why[MOST_WORDS])
{
    if (ls_module_save(t->run.net, path) == LS_OK)
        return true;
    session_words(t->run.session, why, MOST_WORDS);
    ls_catch(t->run.session, ls_status_of(t->run.session));
    return false;
}

/* A name in the folder that nothing has yet. */
static bool save_in(const training *t, const char *folder, char path[PATH_MAX])
{
    struct stat about;
    char why[MOST_WORDS];
    for (int n = 0, length; n < 1000; n++) {
        length = snprintf(path, PATH_MAX, "%s/%s-step-%lld-%ld.%d.safetensors", folder, t->run.model, step_of(t),
                          (long)getpid(), n);
        if (length >= PATH_MAX)
            return false;
        if (lstat(path, &about) != 0)
            return save(t, path, why);
    }
    return false;
}

/* The user's cache: $XDG_CACHE_HOME or ~/.cache, and in it a folder of ours. NULL where there is none. */
static const char *cache_folder(char folder[PATH_MAX])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const bool named = cache && *cache == '/';
    if (!named && !(home && *home == '/'))
        return NULL;
    int length = snprintf(folder, PATH_MAX, named ? "%s" : "%s/.cache", named ? cache : home);
    if (length >= PATH_MAX - (int)sizeof "/lockstep")
        return NULL;
    mkdir(folder, 0700);
    strcat(folder, "/lockstep");
    mkdir(folder, 0777);
    return folder; /* where it could not be made, saving fails */
}

/* Any place is better than none. */
static bool save_elsewhere(const training *t, char path[PATH_MAX])
{
    char cache[PATH_MAX];
    const char *temporary = getenv("TMPDIR");
    const char *const folders[] = {t->run.chosen->checkpoint, cache_folder(cache),
                                   temporary && *temporary ? temporary : NULL, P_tmpdir};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (folders[i] && save_in(t, folders[i], path))
            return true;
    *path = '\0';
    return false;
}

void keep_weights(const training *t, keeping *kept)
{
    const char *path = t->run.chosen->save;
    *kept = (keeping){.option = NULL};
    if (path && save(t, path, kept->why))
        snprintf(kept->path, sizeof kept->path, "%s", path);
    else if (path)
        kept->option = "--save";
    if (*t->not_saved && kept->option) {
        note("note: a checkpoint was not written: %s", t->not_saved);
    } else if (*t->not_saved) {
        kept->option = "--checkpoint";
        snprintf(kept->why, sizeof kept->why, "%s", t->not_saved);
    }
    if (kept->option && !*kept->path)
        save_elsewhere(t, kept->path);
}

const char *keep_words(const training *t, const keeping *kept, char *text, size_t size)
{
    *text = '\0';
    if (kept->option)
        snprintf(text, size, "; %s: %s", kept->option, kept->why);
    size_t length = strlen(text);
    if (*kept->path)
        snprintf(text + length, size - length, "; the weights of step %lld%s are in %s", step_of(t), kept->about,
                 kept->path);
    else if (kept->option)
        snprintf(text + length, size - length, "; the weights are lost: no other place takes them either");
    return text;
}
