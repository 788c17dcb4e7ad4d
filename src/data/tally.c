#include "data/tally.h"
#include "base/environment.h"

#include <stdio.h>
#include <string.h>

typedef struct range {
    float least, most;
} range;

static range range_of_bytes(const uint8_t *values, size_t n)
{
    uint8_t least = values[0], most = values[0];
    for (size_t i = 1; i < n; i++) {
        least = values[i] < least ? values[i] : least;
        most = values[i] > most ? values[i] : most;
    }
    return (range){least, most};
}

static range range_of_floats(const float *values, size_t n)
{
    range r = {values[0], values[0]};
    for (size_t i = 1; i < n; i++) {
        r.least = values[i] < r.least ? values[i] : r.least;
        r.most = values[i] > r.most ? values[i] : r.most;
    }
    return r;
}

static void count_values(const ls_data *data, ls_data_counts *counts)
{
    const ls_images *of = &data->of;
    const size_t plane = (size_t)of->height * (size_t)of->width, planes = (size_t)of->channels;
    range all = {0};
    for (size_t row = 0; row < (size_t)data->rows; row++) {
        bool plain = plane > 1; /* of features each is a plane */
        for (size_t k = row * planes; k < (row + 1) * planes; k++) {
            range r = of->floats ? range_of_floats((const float *)of->values + k * plane, plane)
                                 : range_of_bytes((const uint8_t *)of->values + k * plane, plane);
            plain = plain && r.least == r.most;
            all.least = k == 0 || r.least < all.least ? r.least : all.least;
            all.most = k == 0 || r.most > all.most ? r.most : all.most;
        }
        if (plain && counts->plain++ == 0)
            counts->first_plain = (int64_t)row;
    }
    const double unit = of->floats ? 1 : 255;
    counts->least = all.least / unit;
    counts->most = all.most / unit;
}

static void count_labels(const ls_data *data, ls_data_tally *tally)
{
    ls_data_counts *counts = &tally->counts;
    for (int64_t i = 0; i < data->rows; i++)
        tally->of_class[ls_images_label(&data->of, i)]++;
    counts->fewest = data->rows;
    for (int k = 0; k < data->of.classes; k++) {
        const int64_t n = tally->of_class[k];
        counts->fewest = n < counts->fewest ? n : counts->fewest;
        counts->largest = n > counts->largest ? n : counts->largest;
        counts->empty += n == 0;
    }
}

const ls_data_tally *ls_tally_of(ls_data *data)
{
    if (!data || ls_data_whole(data, "a count of the data") != LS_OK)
        return NULL;
    if (data->tally)
        return data->tally;
    const bool labelled = ls_images_labelled(&data->of);
    ls_data_tally *tally = ls_alloc(data->context, 1, sizeof *tally, "a count of the data");
    if (tally && labelled)
        tally->of_class =
            ls_alloc(data->context, (size_t)data->of.classes, sizeof *tally->of_class, "a count of the data");
    if (!tally || (labelled && !tally->of_class)) {
        ls_release(data->context, tally);
        return NULL;
    }
    count_values(data, &tally->counts);
    if (labelled) {
        tally->classes = data->of.classes;
        count_labels(data, tally);
    }
    return data->tally = tally;
}

const char *ls_tally_class(const ls_data *data, int label, char text[], size_t size)
{
    const char *name = ls_data_class(data, label);
    if (!name)
        snprintf(text, size, "%d", label);
    return name ? name : text;
}

ls_status ls_data_count(ls_data *data, ls_data_counts *counts)
{
    LS_OWN_ENVIRONMENT;
    if (!data || !counts)
        return data ? ls_raise(data->context, LS_BAD_ARGUMENT, "ls_data_count: counts is NULL") : LS_BAD_ARGUMENT;
    const ls_data_tally *tally = ls_tally_of(data);
    if (tally)
        *counts = tally->counts;
    return ls_context_status(data->context);
}

/* 6742 as "6,742". */
static const char *grouped(int64_t n, char text[32])
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)n), at = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

/* "10 classes (T-shirt ... Boot)". */
static char *classes_text(const ls_data *data)
{
    const int n = data->of.classes;
    const char *first = ls_data_class(data, 0), *last = ls_data_class(data, n - 1);
    if (!first)
        return ls_format(data->context, "a summary", "%d class%s", n, n == 1 ? "" : "es");
    if (n == 1)
        return ls_format(data->context, "a summary", "1 class (%s)", first);
    return ls_format(data->context, "a summary", "%d classes (%s%s%s)", n, first, n == 2 ? ", " : " ... ", last);
}

/* "1x28x28". */
static const char *sizes_text(const ls_images *of, char text[64])
{
    const int size[] = {of->channels, of->height, of->width};
    int length = 0;
    for (int i = 0; i < of->rank - 1; i++)
        length += snprintf(text + length, 64 - (size_t)length, "%s%d", i ? "x" : "", size[i]);
    return text;
}

static char *summary_of(const ls_data *data, const ls_data_counts *counts)
{
    char fewest[32], largest[32], sizes[64];
    char *text = ls_format(data->context, "a summary", "%lld images %s, values %.5g to %.5g", (long long)data->rows,
                           sizes_text(&data->of, sizes), counts->least, counts->most);
    if (!text || !ls_images_labelled(&data->of))
        return text;
    char *classes = classes_text(data);
    const bool alike = counts->fewest == counts->largest;
    char *whole = !classes ? NULL
                           : ls_format(data->context, "a summary", "%s, %s, %s%s%s each", text, classes,
                                       grouped(counts->fewest, fewest), alike ? "" : " to ",
                                       alike ? "" : grouped(counts->largest, largest));
    ls_release(data->context, classes);
    ls_release(data->context, text);
    return whole;
}

const char *ls_data_summary(ls_data *data)
{
    LS_OWN_ENVIRONMENT;
    if (!ls_tally_of(data))
        return NULL;
    if (!data->tally->summary)
        data->tally->summary = summary_of(data, &data->tally->counts);
    return data->tally->summary;
}
