/* What looks like a mistake in a data set that can be trained on all the same. */
#include "base/environment.h"
#include "data/tally.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MOST_LISTED = 5, MOST_TEXT = 512, FEW_CHANNELS = 4 };
static const double far_out = 20;      /* normalised images stay below it */
static const double narrow = 1.0 / 15; /* of 12 bits in 16 there are 1/16 */
static const double other_range = 3;   /* times as wide */

typedef struct teller {
    void (*told)(const char *line, void *user);
    void *user;
} teller;

static void tell(const teller *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void tell(const teller *to, const char *format, ...)
{
    char line[MOST_TEXT + 256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    to->told(line, to->user);
}

/* Of a class that the data may not know. */
static int64_t images_of(const ls_data_tally *tally, int k)
{
    return k < tally->classes ? tally->of_class[k] : 0;
}

/* No image of `without` is of class k, but one of `with` is, where that is not NULL. */
static bool lacks(const ls_data_tally *without, const ls_data_tally *with, int k)
{
    return images_of(without, k) == 0 && (!with || images_of(with, k) > 0);
}

/* Names the classes that lack images, the first few of them; returns how many. */
static int list_lacking(const ls_data *data, const ls_data_tally *without, const ls_data_tally *with,
                        char text[MOST_TEXT])
{
    int n = 0;
    size_t length = 0;
    text[0] = '\0';
    for (int k = 0; k < data->of.classes; k++) {
        char number[16];
        if (!lacks(without, with, k) || n++ >= MOST_LISTED)
            continue;
        snprintf(text + length, MOST_TEXT - length, "%s%.64s", n > 1 ? ", " : "",
                 ls_tally_class(data, k, number, sizeof number));
        length += strlen(text + length);
    }
    if (n > MOST_LISTED)
        snprintf(text + length, MOST_TEXT - length, ", ...");
    return n;
}

static void doubt_layout(const ls_data *data, const teller *to)
{
    const ls_images *of = &data->of;
    const bool few = of->height > FEW_CHANNELS && of->width <= FEW_CHANNELS;
    const bool squares = of->height == of->channels && of->width < of->height; /* of many channels */
    if (of->rank == LS_MAX_RANK && of->channels > FEW_CHANNELS && (few || squares))
        tell(to,
             "images of %d channels, %d high and %d wide: does the array lie as (N, H, W, C)? It is read as (N, C, H, "
             "W); "
             "save images.transpose(0, 3, 1, 2)",
             of->channels, of->height, of->width);
}

static void doubt_range(const ls_data *data, const ls_data_counts *counts, const teller *to)
{
    if (data->of.floats && (counts->most > far_out || counts->least < -far_out))
        tell(to,
             "float images are taken as they are, and these hold %.5g to %.5g, where networks learn from about 0 to 1: "
             "%s",
             counts->least, counts->most,
             counts->least >= 0 && counts->most <= 255 ? "divide them by 255, or save them as uint8"
                                                       : "scale them before saving");
    else if (counts->most - counts->least < narrow)
        tell(to,
             "all values lie between %.5g and %.5g, where networks learn from about 0 to 1: were they divided twice, "
             "or do "
             "they have fewer bits than their type?",
             counts->least, counts->most);
}

/* Images of the classes that another part lacks. */
static int64_t images_of_lacking(const ls_data *data, const ls_data_tally *without, const ls_data_tally *with)
{
    int64_t n = 0;
    for (int k = 0; k < data->of.classes; k++)
        n += lacks(without, with, k) ? images_of(with, k) : 0;
    return n;
}

static void doubt_empty(const ls_data *data, const ls_data_tally *tally, const ls_data_tally *test, const teller *to)
{
    char list[MOST_TEXT], also[64] = "";
    const int n = list_lacking(data, tally, NULL, list);
    const int64_t tested = test ? images_of_lacking(data, tally, test) : 0;
    if (tested)
        snprintf(also, sizeof also, ", but %lld test image%s", (long long)tested, tested == 1 ? "" : "s");
    tell(to, "%d of %d classes %s no image%s%s: %s", n, data->of.classes, n == 1 ? "has" : "have",
         data->rows < data->of.rows ? " within the limit" : "", also, list);
}

static void doubt_classes(const ls_data *data, const ls_data_tally *tally, const ls_data_tally *test, const teller *to)
{
    char number[16];
    const bool limited = data->rows < data->of.rows, named = ls_data_class(data, 0) != NULL;
    int first = 0;
    if (!tally->classes)
        return;
    while (tally->of_class[first] == 0)
        first++;
    if (tally->counts.empty == data->of.classes - 1)
        tell(to, "all images are of one class (%.64s), so that a network is right without having learnt anything%s",
             ls_tally_class(data, first, number, sizeof number),
             limited ? "; more of them than the limit may have others"
             : named ? "; each class has a folder of its own"
                     : "");
    else if (first > 0 && !named && (!limited || tally->counts.empty == first))
        tell(to,
             "no image is of a class below %d: do the labels count from %d? They count from 0; subtract %d, or the "
             "network "
             "has answers that are never right",
             first, first, first);
    else if (tally->counts.empty)
        doubt_empty(data, tally, test, to);
}

static void doubt_plain(const ls_data *data, const ls_data_counts *counts, const char *kind, const teller *to)
{
    if (counts->plain)
        tell(to, "%lld of %lld %simages %s of one value all over, the first is image %lld: were they saved right?",
             (long long)counts->plain, (long long)data->rows, kind, counts->plain == 1 ? "is" : "are",
             (long long)counts->first_plain);
}

static void doubt_turned(const ls_images *of, const char *kind, const teller *to)
{
    if (of->turned)
        tell(to,
             "%lld of %lld %simages have a note by the camera to turn them, which is not followed, the first is image "
             "%lld: "
             "turn their pixels, such as with `mogrify -auto-orient`",
             (long long)of->turned, (long long)of->rows, kind, (long long)of->first_turned);
}

static bool same_images(const ls_data *a, const ls_data *b)
{
    return a != b && a->rows == b->rows && ls_data_bytes(a) == ls_data_bytes(b) && a->of.floats == b->of.floats &&
           memcmp(a->of.values, b->of.values, ls_data_bytes(a)) == 0;
}

static bool same_range(const ls_data_counts *a, const ls_data_counts *b)
{
    const double width = a->most - a->least, other = b->most - b->least;
    return width <= other_range * other && other <= other_range * width && (a->least < 0) == (b->least < 0);
}

static void compare(const ls_data *train, const ls_data_tally *a, const ls_data *test, const ls_data_tally *b,
                    const teller *to)
{
    char list[MOST_TEXT];
    if (!same_range(&a->counts, &b->counts))
        tell(to,
             "the training images hold values from %.5g to %.5g, the test images from %.5g to %.5g; prepare both alike",
             a->counts.least, a->counts.most, b->counts.least, b->counts.most);
    const int n = test->rows == test->of.rows ? list_lacking(train, b, a, list) : 0;
    if (n)
        tell(to, "%d class%s training images, but no test image: %s", n, n == 1 ? " has" : "es have", list);
    if (same_images(train, test))
        tell(to, "the test images are the training images: the test accuracy says nothing of new ones");
}

ls_status ls_data_doubts(ls_data *train, ls_data *test, void (*told)(const char *line, void *user), void *user)
{
    LS_OWN_ENVIRONMENT;
    ls_data *first = train ? train : test;
    if (!first || !told)
        return first ? ls_raise(first->context, LS_BAD_ARGUMENT, "ls_data_doubts: told is NULL") : LS_BAD_ARGUMENT;
    const teller to = {told, user};
    const ls_data_tally *a = train ? ls_tally_of(train) : NULL, *b = test ? ls_tally_of(test) : NULL;
    if ((train && !a) || (test && !b))
        return ls_context_status(first->context);
    doubt_layout(first, &to);
    doubt_range(first, train ? &a->counts : &b->counts, &to);
    if (train) { /* what is only tested may be of any classes */
        doubt_classes(train, a, b, &to);
        doubt_plain(train, &a->counts, "", &to);
        doubt_turned(&train->of, "", &to);
    }
    if (train && test)
        compare(train, a, test, b, &to);
    if (test) {
        doubt_plain(test, &b->counts, "test ", &to);
        doubt_turned(&test->of, "test ", &to);
    }
    return LS_OK;
}
