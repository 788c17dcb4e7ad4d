/* The readers of what lies in a folder of checkpoints: manifests, which end with their own sum, and the lock's
 * entry. */
#include <string.h>

#include "base/hash.h"
#include "base/lock.h"
#include "fuzz.h"
#include "io/manifest.h"

enum { MOST = 1 << 16, SLACK = 1 << 22 };

/* The text with the end that makes it a whole manifest. */
static size_t with_sum(const uint8_t *text, size_t n, char *file)
{
    static const char begins[] = ",\n\"sha256\": \"", ends[] = "\"}\n";
    ls_context context;
    must(ls_context_init(&context, NULL) == LS_OK);
    ls_sha256 *hash = ls_sha256_begin(&context);
    memcpy(file, text, n);
    memcpy(file + n, begins, sizeof begins - 1);
    n += sizeof begins - 1;
    ls_sha256_add(hash, text, n - (sizeof begins - 1));
    must(ls_sha256_end(hash, file + n) == LS_OK);
    memcpy(file + n + 64, ends, sizeof ends - 1);
    ls_context_destroy(&context);
    return n + 64 + sizeof ends - 1;
}

static void look_at(ls_context *context, const char *path, const ls_manifest *m)
{
    must(m->step >= 0 && m->epoch >= 0 && m->batch >= 0 && m->batch <= INT32_MAX);
    must(m->n_sections >= 1 && m->n_sections <= LS_SECTIONS);
    for (int i = 0; i < m->n_sections; i++)
        must(m->sections[i].name && m->sections[i].bytes >= 0 && strlen(m->sections[i].sha256) == 64);
    for (const ls_note *lists[] = {m->settings, m->notes}, **list = lists; list < lists + 2; list++)
        for (const ls_note *note = *list; note->name; note++)
            must(ls_note_find(*list, note->name) == note->value && strlen(note->value) < MOST);
    must(!ls_note_find(m->notes, "\xff")); /* no name that JSON could have */
    ls_sections_check(context, path, m->sections, m->n_sections);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char file[MOST + 128];
    if (size < 1 || size > MOST)
        return 0;
    if (data[0] % 4 == 3) {
        memcpy(file, data + 1, size - 1);
        file[size - 1] = 0;
        ls_lock_stale(file);
        return 0;
    }
    bool raw = data[0] & 1;
    size_t n = raw ? size - 1 : with_sum(data + 1, size - 1, file);
    const char *path = fuzz_file(raw ? (const char *)data + 1 : file, n);
    ls_manifest m;
    ls_context context;
    fuzz_begin(&context, 16 * n + SLACK);
    ls_status status = ls_manifest_read(&context, path, &m);
    must((status == LS_OK) == (m.text != NULL));
    if (status == LS_OK)
        look_at(&context, path, &m);
    ls_manifest_free(&context, &m);
    fuzz_end(&context);
    return 0;
}
