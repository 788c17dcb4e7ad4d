#include "record/record.h"
#include "text/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

record *record_new(const char *name)
{
    record *r = calloc(1, sizeof *r);
    if (r && name && !(r->name = strdup(name))) {
        free(r);
        return NULL;
    }
    if (r && r->name)
        utf8_clean(r->name);
    if (r)
        r->losses = 14695981039346656037u; /* FNV-1a's start */
    return r;
}

void record_free(record *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->n_settings; i++) {
        free(r->settings[i].name);
        free(r->settings[i].value);
    }
    free(r->settings);
    free(r->epochs);
    free(r->name);
    free(r);
}

/* `list` with room for one more than `n`; NULL without memory. Grows at powers of two. */
static void *grown(void *list, int n, size_t size)
{
    return n & (n - 1) ? list : realloc(list, (n ? 2 * (size_t)n : 1) * size);
}

bool record_set(record *r, const char *name, const char *value)
{
    record_setting *list = r->n_settings < RECORD_SETTINGS ? grown(r->settings, r->n_settings, sizeof *list) : NULL;
    if (!list)
        return false;
    r->settings = list;
    list[r->n_settings] = (record_setting){strdup(name), strdup(value ? value : "")};
    record_setting *added = &list[r->n_settings++];
    if (added->name)
        utf8_clean(added->name);
    if (added->value)
        utf8_clean(added->value);
    return added->name && added->value;
}

bool record_add_epoch(record *r, const record_epoch *epoch)
{
    record_epoch *list = grown(r->epochs, r->n_epochs, sizeof *list);
    if (!list)
        return false;
    r->epochs = list;
    list[r->n_epochs++] = *epoch;
    return true;
}

void record_step(record *r, int64_t step, double loss)
{
    unsigned char bytes[sizeof loss];
    history_step(&r->history, step, loss, 0, 0);
    memcpy(bytes, &loss, sizeof loss);
    for (size_t i = 0; i < sizeof loss; i++)
        r->losses = (r->losses ^ bytes[i]) * 1099511628211u;
}

const char *record_text(const record *r, const char *name)
{
    for (int i = 0; i < r->n_settings; i++)
        if (strcmp(r->settings[i].name, name) == 0)
            return r->settings[i].value;
    return "";
}

double record_number(const record *r, const char *name)
{
    const char *text = record_text(r, name);
    char *end;
    double value = strtod(text, &end);
    return end == text || *end ? NAN : value;
}

double record_batches(const record *r)
{
    double batch = record_number(r, "batch"), batches = batch > 0 ? ceil(record_number(r, "images") / batch) : NAN;
    if (isfinite(batches) && batches >= 1)
        return batches;
    return r->n_epochs && r->epochs[0].step > 0 ? (double)r->epochs[0].step : 1;
}

bool record_validates(const record *r)
{
    for (int i = 0; i < r->n_epochs; i++)
        if (!isnan(r->epochs[i].val_acc))
            return true;
    return false;
}

double record_test_acc(const record *r)
{
    const int64_t batches = (int64_t)record_batches(r);
    const bool best = strcmp(record_text(r, "keep"), "best") == 0;
    const record_epoch *kept = NULL;
    for (int i = 0; best && i < r->n_epochs; i++) {
        const record_epoch *e = &r->epochs[i];
        if (e->step % batches == 0 && (!kept || e->val_acc > kept->val_acc)) /* what --steps left is not judged */
            kept = e;
    }
    if (!kept && r->n_epochs)
        kept = &r->epochs[r->n_epochs - 1];
    return kept ? kept->test_acc : NAN;
}

static double seconds_in_all(const record *r)
{
    double sum = 0;
    for (int i = 0; i < r->n_epochs; i++)
        sum += r->epochs[i].sec;
    return sum;
}

double record_seconds(const record *r)
{
    return r->n_epochs ? seconds_in_all(r) / r->n_epochs : NAN;
}

double record_speed(const record *r)
{
    double images = 0, seconds = seconds_in_all(r);
    for (int i = 0; i < r->n_epochs; i++)
        images += r->epochs[i].img_per_s * r->epochs[i].sec;
    return seconds > 0 ? images / seconds : NAN;
}
