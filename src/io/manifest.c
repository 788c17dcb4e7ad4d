#include "io/manifest.h"
#include "base/file.h"
#include "base/hash.h"
#include "io/safetensors_names.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if LOCKSTEP_HAVE_JANSSON

#include <jansson.h>

enum { LONGEST = 1 << 20, DIGITS = 64 };
static const char sum_begins[] = ",\n\"sha256\": \"", sum_ends[] = "\"}\n";
enum { TAIL = sizeof sum_begins - 1 + DIGITS + sizeof sum_ends - 1 };

static ls_status sum_of(ls_context *context, const char *text, size_t length, char digits[65])
{
    ls_sha256 *hash = ls_sha256_begin(context);
    ls_status status = ls_sha256_add(hash, text, length);
    ls_status ended = ls_sha256_end(hash, digits);
    return !hash ? ls_context_status(context) : status == LS_OK ? ended : status;
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

static json_t *object_of(const ls_note *notes)
{
    json_t *object = json_object();
    for (; notes && notes->name; notes++)
        if (json_object_set_new(object, notes->name, json_string(notes->value ? notes->value : "")) != 0) {
            json_decref(object);
            return NULL;
        }
    return object;
}

static json_t *list_of(const ls_section *sections, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        if (json_array_append_new(list, json_pack("{s:s,s:I,s:s}", "name", sections[i].name, "bytes",
                                                  (json_int_t)sections[i].bytes, "sha256", sections[i].sha256)) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* The text without its end, "\n}"; jansson's to free. */
static char *text_of(const ls_manifest *m)
{
    json_t *whole = json_object();
    json_t *position = json_pack("{s:I,s:I,s:I}", "step", (json_int_t)m->step, "epoch", (json_int_t)m->epoch, "batch",
                                 (json_int_t)m->batch);
    int lacking = 0; /* as below */
    if (m->age != m->step)
        lacking += json_object_set_new(position, "age", json_integer(m->age));
    if (m->averaged != m->age)
        lacking += json_object_set_new(position, "averaged", json_integer(m->averaged));
    if (m->lr >= 0)
        lacking += json_object_set_new(position, "lr", json_real(m->lr));
    if (lacking) {
        json_decref(position);
        position = NULL;
    }
    /* Setting takes its value also when it fails, and fails without one. */
    int failures = json_object_set_new(whole, "lockstep checkpoint", json_integer(LS_MANIFEST_FORMAT)) +
                   json_object_set_new(whole, "position", position) +
                   json_object_set_new(whole, "settings", object_of(m->settings)) +
                   json_object_set_new(whole, "notes", object_of(m->notes)) +
                   json_object_set_new(whole, "sections", list_of(m->sections, m->n_sections));
    char *text = failures ? NULL : json_dumps(whole, JSON_INDENT(1));
    json_decref(whole);
    if (text)
        text[strlen(text) - 2] = 0;
    return text;
}

ls_status ls_manifest_write(ls_context *context, const char *path, const ls_manifest *manifest)
{
    char digits[65];
    char *text = text_of(manifest);
    if (!text)
        return ls_raise(context, LS_BAD_ARGUMENT,
                        "%s: cannot be written: a setting or note is not UTF-8, or there is no memory", path);
    size_t length = strlen(text);
    ls_status status = length + TAIL > LONGEST
                           ? ls_raise(context, LS_BAD_ARGUMENT, "%s: cannot be written: the notes are too long", path)
                           : sum_of(context, text, length, digits);
    ls_replace *replace = status == LS_OK ? ls_replace_begin(context, path) : NULL;
    if (replace) {
        ls_replace_write(replace, text, length);
        ls_replace_write(replace, sum_begins, sizeof sum_begins - 1);
        ls_replace_write(replace, digits, DIGITS);
        ls_replace_write(replace, sum_ends, sizeof sum_ends - 1);
        status = ls_replace_end(replace);
    } else if (status == LS_OK) {
        status = ls_context_status(context);
    }
    json_free_t release; /* the process may have given the library an allocator */
    json_get_alloc_funcs(NULL, &release);
    release(text);
    return status;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

static ls_status damaged(ls_context *context, const char *path, const char *how)
{
    return ls_raise(context, LS_BAD_FILE, "%s: damaged: %s", path, how);
}

static ls_status check_sum(ls_context *context, const char *path, const char *text, size_t length)
{
    char digits[65];
    if (length <= TAIL)
        return damaged(context, path, length ? "it is cut off" : "it is empty");
    const char *tail = text + length - TAIL;
    if (memcmp(tail, sum_begins, sizeof sum_begins - 1) != 0 ||
        memcmp(text + length - (sizeof sum_ends - 1), sum_ends, sizeof sum_ends - 1) != 0)
        return damaged(context, path, "it does not end with its SHA-256; it is cut off or was changed");
    ls_status status = sum_of(context, text, length - TAIL, digits);
    if (status == LS_OK && memcmp(tail + sizeof sum_begins - 1, digits, DIGITS) != 0)
        return damaged(context, path, "its SHA-256 differs");
    return status;
}

static char *read_text(ls_context *context, const char *path, size_t *length)
{
    int64_t size;
    int fd = ls_file_open(context, path, &size);
    if (fd < 0)
        return NULL;
    char *text = NULL;
    if (size > LONGEST)
        damaged(context, path, "it is too long for a manifest");
    else
        text = ls_alloc(context, (size_t)size + 1, 1, "a checkpoint's manifest");
    if (text && ls_file_read(context, fd, path, 0, text, (size_t)size) != LS_OK) {
        ls_release(context, text);
        text = NULL;
    }
    close(fd);
    *length = (size_t)size;
    return text;
}

/* An object of strings as a list that ends with a name NULL; NULL where it is none. */
static ls_note *notes_of(ls_context *context, json_t *object)
{
    const char *name;
    json_t *value;
    ls_note *notes = json_is_object(object)
                         ? ls_alloc(context, json_object_size(object) + 1, sizeof *notes, "a checkpoint's notes")
                         : NULL;
    int n = 0;
    if (notes)
        json_object_foreach(object, name, value)
        {
            notes[n].name = name;
            notes[n++].value = json_is_string(value) ? json_string_value(value) : "";
        }
    return notes;
}

/* Steps and epochs are counted on from, and a batch is an int: what is larger than any run is damage. */
enum { MOST_BATCH = INT32_MAX };
static const int64_t most_steps = (int64_t)1 << 53;

static bool read_integer(const json_t *object, const char *name, int64_t most, int64_t *value)
{
    const json_t *number = json_object_get(object, name);
    *value = json_integer_value(number);
    return json_is_integer(number) && *value >= 0 && *value <= most;
}

/* Left out where the moments are as old as the run, and the average as they are. */
static bool read_ages(const json_t *position, ls_manifest *m)
{
    m->age = m->step;
    if (json_object_get(position, "age") && !read_integer(position, "age", m->step, &m->age))
        return false;
    m->averaged = m->age;
    return !json_object_get(position, "averaged") || read_integer(position, "averaged", m->step, &m->averaged);
}

/* Left out where it is the settings'. */
static bool read_rate(const json_t *position, ls_manifest *m)
{
    const json_t *rate = json_object_get(position, "lr");
    m->lr = rate ? json_number_value(rate) : -1;
    return !rate || (json_is_number(rate) && m->lr >= 0 && m->lr < 1e30);
}

static bool read_sections(const json_t *list, ls_manifest *m)
{
    m->n_sections = (int)json_array_size(list);
    if (m->n_sections < 1 || json_array_size(list) > LS_SECTIONS)
        return false;
    for (int i = 0; i < m->n_sections; i++) {
        ls_section *section = &m->sections[i];
        const json_t *entry = json_array_get(list, (size_t)i);
        const char *digits = json_string_value(json_object_get(entry, "sha256"));
        section->name = json_string_value(json_object_get(entry, "name"));
        if (!section->name || ls_saved_name_fault(section->name) || !digits || strlen(digits) != DIGITS ||
            strspn(digits, "0123456789abcdef") != DIGITS || !read_integer(entry, "bytes", INT64_MAX, &section->bytes))
            return false;
        memcpy(section->sha256, digits, DIGITS + 1);
    }
    return true;
}

static ls_status read_content(ls_context *context, const char *path, json_t *whole, ls_manifest *m)
{
    const json_t *format = json_object_get(whole, "lockstep checkpoint"),
                 *position = json_object_get(whole, "position");
    if (!json_is_integer(format))
        return damaged(context, path, "it is no checkpoint's manifest");
    if (json_integer_value(format) != LS_MANIFEST_FORMAT)
        return ls_raise(context, LS_UNSUPPORTED, "%s: it is of format %lld, this library reads %d", path,
                        (long long)json_integer_value(format), LS_MANIFEST_FORMAT);
    m->settings = notes_of(context, json_object_get(whole, "settings"));
    m->notes = notes_of(context, json_object_get(whole, "notes"));
    if (ls_context_status(context) != LS_OK)
        return ls_context_status(context);
    if (!m->settings || !m->notes || !read_integer(position, "step", most_steps, &m->step) ||
        !read_integer(position, "epoch", most_steps, &m->epoch) ||
        !read_integer(position, "batch", MOST_BATCH, &m->batch) || !read_ages(position, m) || !read_rate(position, m) ||
        !read_sections(json_object_get(whole, "sections"), m))
        return damaged(context, path, "it lacks a member, or has one out of range");
    return LS_OK;
}

ls_status ls_manifest_read(ls_context *context, const char *path, ls_manifest *manifest)
{
    size_t length;
    *manifest = (ls_manifest){.text = NULL};
    char *text = read_text(context, path, &length);
    if (!text)
        return ls_context_status(context);
    ls_status status = check_sum(context, path, text, length);
    if (status == LS_OK) {
        json_error_t error = {.line = 0}; /* which the library does not fill in whole */
        manifest->text = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
        if (manifest->text)
            status = read_content(context, path, manifest->text, manifest);
        else if (json_error_code(&error) <= json_error_out_of_memory) /* or nothing else to blame */
            status = ls_raise(context, LS_OUT_OF_MEMORY, "%s: no memory for its content", path);
        else
            status = damaged(context, path, "it is no JSON");
    }
    ls_release(context, text);
    if (status != LS_OK)
        ls_manifest_free(context, manifest);
    return status;
}

void ls_manifest_free(ls_context *context, ls_manifest *manifest)
{
    if (!manifest->text)
        return;
    ls_release(context, (void *)manifest->settings);
    ls_release(context, (void *)manifest->notes);
    json_decref(manifest->text);
    *manifest = (ls_manifest){.text = NULL};
}

#else

ls_status ls_manifest_write(ls_context *context, const char *path, const ls_manifest *manifest)
{
    (void)manifest;
    return ls_raise(context, LS_UNSUPPORTED, "%s: this library was built without a JSON library", path);
}

ls_status ls_manifest_read(ls_context *context, const char *path, ls_manifest *manifest)
{
    *manifest = (ls_manifest){.text = NULL};
    return ls_raise(context, LS_UNSUPPORTED, "%s: this library was built without a JSON library", path);
}

void ls_manifest_free(ls_context *context, ls_manifest *manifest)
{
    (void)context, (void)manifest;
}

#endif
