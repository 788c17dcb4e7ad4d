#include "base/names.h"

#include <string.h>

#include "base/random.h"

enum { FIRST_ROWS = 64 };

static ls_name **row_of(const ls_names *names, uint64_t hash)
{
    return &names->rows[hash & (names->n_rows - 1)];
}

/* As many rows as names, for one name more. */
static bool make_rows(ls_context *context, ls_names *names)
{
    if (names->n < names->n_rows)
        return true;
    const ls_names before = *names;
    const size_t n = before.n_rows ? 2 * before.n_rows : FIRST_ROWS;
    ls_name **rows = ls_alloc(context, n, sizeof *rows, "names");
    if (!rows)
        return false;
    names->rows = rows;
    names->n_rows = n;
    for (size_t i = 0; i < before.n_rows; i++)
        for (ls_name *name = before.rows[i], *next; name; name = next) {
            ls_name **row = row_of(names, name->hash);
            next = name->next;
            name->next = *row;
            *row = name;
        }
    ls_release(context, before.rows);
    return true;
}

/* Found or made; NULL when memory runs out. */
static ls_name *name_of(ls_context *context, ls_names *names, const char *text)
{
    const uint64_t hash = ls_hash_name(text);
    for (ls_name *name = names->n_rows ? *row_of(names, hash) : NULL; name; name = name->next)
        if (name->hash == hash && strcmp(name->text, text) == 0)
            return name;
    if (!make_rows(context, names))
        return NULL;
    const size_t length = strlen(text) + 1;
    ls_name *name = ls_alloc(context, 1, sizeof *name + length, "a name");
    if (!name)
        return NULL;
    ls_name **row = row_of(names, hash);
    *name = (ls_name){.next = *row, .hash = hash};
    memcpy(name->text, text, length);
    *row = name;
    names->n++;
    return name;
}

const char *ls_names_intern(ls_context *context, ls_names *names, const char *text)
{
    ls_name *name = *text ? name_of(context, names, text) : NULL;
    if (!name)
        return "";
    name->stays = true;
    return name->text;
}

const char *ls_names_hold(ls_context *context, ls_names *names, const char *text)
{
    ls_name *name = *text ? name_of(context, names, text) : NULL;
    if (!name)
        return "";
    name->holders++;
    return name->text;
}

void ls_names_drop(ls_context *context, ls_names *names, const char *text)
{
    if (!*text)
        return;
    ls_name *name = (ls_name *)(uintptr_t)(text - offsetof(ls_name, text));
    if (name->stays || --name->holders > 0)
        return;
    ls_name **at = row_of(names, name->hash);
    while (*at != name)
        at = &(*at)->next;
    *at = name->next;
    names->n--;
    ls_release(context, name);
}

void ls_names_free(ls_context *context, ls_names *names)
{
    for (size_t i = 0; i < names->n_rows; i++)
        for (ls_name *name = names->rows[i], *next; name; name = next) {
            next = name->next;
            ls_release(context, name);
        }
    ls_release(context, names->rows);
    *names = (ls_names){.n = 0};
}
