#include "io/classes.h"

#include <string.h>

#if LOCKSTEP_HAVE_JANSSON

#include <jansson.h>

static void clean(char *name)
{
    json_t *string = json_string(name);
    for (char *at = name; !string && *at; at++)
        *at = (unsigned char)*at < 0x80 ? *at : '?';
    json_decref(string);
}

static json_t *array_of(const ls_classes *classes)
{
    json_t *array = json_array();
    for (int i = 0; array && i < classes->n; i++)
        if (json_array_append_new(array, json_string(ls_classes_at(classes, i))) != 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

char *ls_classes_write(ls_context *context, const ls_classes *classes)
{
    json_free_t release;
    if (!classes->names)
        return NULL;
    json_get_alloc_funcs(NULL, &release);
    json_t *array = array_of(classes);
    char *text = array ? json_dumps(array, JSON_COMPACT) : NULL, *copy = NULL;
    if (text)
        copy = ls_copy_string(context, text, "the names of the classes");
    else
        ls_raise(context, LS_OUT_OF_MEMORY, "no memory for the names of %d classes", classes->n);
    if (text)
        release(text);
    json_decref(array);
    return copy;
}

ls_status ls_classes_read(ls_context *context, ls_classes *classes, const char *text)
{
    json_error_t error;
    json_t *array = text ? json_loads(text, 0, &error) : NULL;
    const size_t n = json_array_size(array);
    const char **names = n ? ls_alloc(context, n, sizeof *names, "the names of the classes") : NULL;
    bool good = names != NULL && n <= INT32_MAX;
    for (size_t i = 0; good && i < n; i++)
        good = (names[i] = json_string_value(json_array_get(array, i))) != NULL;
    ls_classes_set(context, classes, names, good ? (int)n : 0);
    classes->from_file = true;
    ls_release(context, names);
    json_decref(array);
    return ls_context_status(context);
}

#else /* there are no files */

static void clean(char *name)
{
    (void)name;
}

char *ls_classes_write(ls_context *context, const ls_classes *classes)
{
    (void)context, (void)classes;
    return NULL;
}

ls_status ls_classes_read(ls_context *context, ls_classes *classes, const char *text)
{
    (void)text;
    return ls_classes_set(context, classes, NULL, 0);
}

#endif

ls_status ls_classes_set(ls_context *context, ls_classes *classes, const char *const names[], int n)
{
    size_t length = 0;
    for (int i = 0; i < n; i++)
        length += strlen(names[i]) + 1;
    char *packed = n > 0 ? ls_alloc(context, length, 1, "the names of the classes") : NULL, *at = packed;
    if (n > 0 && !packed)
        return LS_OUT_OF_MEMORY;
    for (int i = 0; i < n; i++, at += strlen(at) + 1)
        clean(strcpy(at, names[i]));
    ls_classes_free(context, classes);
    *classes = (ls_classes){.names = packed, .n = n};
    return LS_OK;
}

void ls_classes_free(ls_context *context, ls_classes *classes)
{
    ls_release(context, classes->names);
    *classes = (ls_classes){.names = NULL};
}

const char *ls_classes_at(const ls_classes *classes, int i)
{
    const char *name = i >= 0 && i < classes->n ? classes->names : NULL;
    for (; name && i > 0; i--)
        name += strlen(name) + 1;
    return name;
}
