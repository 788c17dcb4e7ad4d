#include "options/value.h"
#include "options/number.h"
#include "text/say.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define REAL_LIMIT 1e30 /* the library's */

/* Finds `text` among the choices; NULL, and a usage error said, where it is not there. */
static const choice *choose(const char *option, const choice *choices, const char *text)
{
    char list[128] = "";
    for (const choice *c = choices; c->name; c++) {
        if (strcmp(c->name, text) == 0)
            return c;
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", *list ? ", " : "", c->name);
    }
    wrong_usage(option, "'%s' is none of: %s", text, list);
    return NULL;
}

static int read_count(const char *option, const row *r, const char *text, int64_t *value)
{
    if (number_count(text, r->least, r->most, value))
        return 0;
    if (r->most == INT64_MAX)
        return wrong_usage(option, "'%s' is not a whole number of at least %lld", text, (long long)r->least);
    return wrong_usage(option, "'%s' is not a whole number from %lld to %lld", text, (long long)r->least,
                       (long long)r->most);
}

/* A number, or a name that stands for one. */
static int read_count_or_choice(const char *option, const row *r, const char *text, int64_t *value)
{
    if (number_count(text, r->least, r->most, value))
        return 0;
    const choice *found = choose(option, r->choices, text);
    if (found)
        *value = found->value;
    return found ? 0 : STATUS_USAGE;
}

/* 0.1 is a share; 500 are images. */
static int read_part(const char *option, const char *text, double *value)
{
    int64_t count;
    if (number_count(text, 1, INT_MAX, &count)) {
        *value = (double)count;
        return 0;
    }
    if (number_real(text, 1, value) && *value > 0 && *value < 1)
        return 0;
    return wrong_usage(option, "'%s' is neither a number of images nor a share above 0 and below 1, such as 0.1", text);
}

static int read_init(const char *option, const char *text, settings *chosen)
{
    ls_init init = {.kind = LS_NORMAL, .scale = 0.01};
    if (strcmp(text, "xavier") == 0)
        init.kind = LS_XAVIER;
    else if (strcmp(text, "he") == 0)
        init.kind = LS_HE;
    else if (strncmp(text, "normal:", 7) == 0) {
        if (!number_real(text + 7, REAL_LIMIT, &init.scale) || init.scale == 0)
            return wrong_usage(option, "'%s': the deviation is not a number above 0 and below %g", text, REAL_LIMIT);
    } else if (strcmp(text, "normal") != 0)
        return wrong_usage(option, "'%s' is none of: normal:DEVIATION, xavier, he", text);
    chosen->init = init;
    chosen->init_text = strcmp(text, "normal") == 0 ? settings_usual.init_text : text;
    return 0;
}

/* 500 is steps; 90s, 10m and 2h are times. */
static int read_every(const char *option, const char *text, settings *chosen)
{
    static const struct unit {
        char letter;
        int seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}};
    char digits[24];
    size_t length = strlen(text);
    chosen->every_steps = 0;
    chosen->every_seconds = 0;
    for (size_t i = 0; length > 1 && length < sizeof digits && i < sizeof units / sizeof *units; i++) {
        int64_t count;
        snprintf(digits, sizeof digits, "%.*s", (int)length - 1, text);
        if (text[length - 1] == units[i].letter && number_count(digits, 1, INT_MAX, &count)) {
            chosen->every_seconds = (double)count * units[i].seconds;
            return 0;
        }
    }
    if (number_count(text, 1, INT64_MAX, &chosen->every_steps))
        return 0;
    return wrong_usage(option, "'%s' is neither a number of steps nor a time such as 90s, 10m, 2h", text);
}

/* Options beside the settings of a run that they set, where these have other names. */
static const char *const set_by[][2] = {{"weight-decay", "weight_decay"},
                                        {"clip-norm", "clip_norm"},
                                        {"ema-warmup", "ema_warmup"},
                                        {"label-smoothing", "label_smoothing"},
                                        {"start-factor", "start_factor"},
                                        {"end-factor", "end_factor"},
                                        {"period-factor", "period_factor"},
                                        {"ema-buffers", "ema_buffers"},
                                        {"after-warmup", "after_warmup"},
                                        {"last-batch", "full_batch"},
                                        {"last-batch", "drop_last"},
                                        {"no-shuffle", "shuffle"},
                                        {"bn", "batch_norm"},
                                        {"freeze", "frozen"},
                                        {"no-decay", "groups"},
                                        {"epochs", "total"},
                                        {"steps", "total"},
                                        {"limit", "data"},
                                        {"dataset", "data"}};
enum { SET_BY = sizeof set_by / sizeof *set_by };

const char *option_of_setting(const char *name)
{
    for (int i = 0; i < SET_BY && strcmp(name, "data") != 0; i++) /* which is an option too */
        if (strcmp(name, set_by[i][1]) == 0)
            return set_by[i][0];
    return name;
}

/* A comma stands between two names. */
static int check_list(const char *option, const char *text)
{
    const size_t length = strlen(text);
    if (!length)
        return wrong_usage(option, "its value is empty");
    if (*text != ',' && text[length - 1] != ',' && !strstr(text, ",,"))
        return 0;
    return wrong_usage(option, "'%s' has an empty name beside a comma", text);
}

static int allow(const char *option, const char *setting, settings *chosen)
{
    if (chosen->n_allow_changed == MOST_ALLOWED)
        return wrong_usage(option, "is given more than %d times", MOST_ALLOWED);
    chosen->allow_changed[chosen->n_allow_changed++] = setting;
    return 0;
}

/* One name, or several with commas. They are the settings' own, or the options' that set them: all that it sets. */
static int read_names(const char *option, char *text, settings *chosen)
{
    int status = 0;
    for (char *name = strtok(text, ","); name && !status; name = strtok(NULL, ",")) {
        bool sets = strcmp(name, "classes") == 0;
        chosen->allow_classes = chosen->allow_classes || sets;
        for (int i = 0; i < SET_BY && !status; i++)
            if (strcmp(name, set_by[i][0]) == 0) {
                status = allow(option, set_by[i][1], chosen);
                sets = true;
            }
        if (!sets)
            status = allow(option, name, chosen);
    }
    return status;
}

/* 3x32x32 */
static int read_sizes(const char *option, char *text, ls_shape *image)
{
    char *rest = NULL;
    int64_t size;
    *image = LS_SHAPE(1);
    bool good = *text && text[strlen(text) - 1] != 'x' && !strstr(text, "xx") && *text != 'x';
    for (char *at = strtok_r(text, "x", &rest); at && good; at = strtok_r(NULL, "x", &rest)) {
        good = image->rank < LS_MAX_RANK && number_count(at, 1, INT_MAX, &size);
        if (good)
            image->dim[image->rank++] = size;
    }
    return good && image->rank == LS_MAX_RANK ? 0
                                              : wrong_usage(option, "needs three sizes of at least 1, such as 1x28x28");
}

static int read_checks(const char *option, const choice *choices, char *text, settings *chosen)
{
    for (char *name = strtok(text, ","); name; name = strtok(NULL, ",")) {
        if (!choose(option, choices, name))
            return STATUS_USAGE;
        if (chosen->n_skipped == MOST_ALLOWED)
            return wrong_usage(option, "is given more than %d times", MOST_ALLOWED);
        chosen->skipped[chosen->n_skipped++] = name;
    }
    return 0;
}

int read_value(const row *r, char *text, settings *chosen)
{
    char option[32];
    void *place = (char *)chosen + r->place;
    snprintf(option, sizeof option, "--%s", r->name);
    if ((r->kind == KIND_LIST || r->kind == KIND_NAMES || r->kind == KIND_CHECKS) && check_list(option, text) != 0)
        return STATUS_USAGE;
    switch (r->kind) {
    case KIND_TEXT:
    case KIND_LIST:
        if (!*text)
            return wrong_usage(option, "its value is empty");
        if (r->choices && !choose(option, r->choices, text))
            return STATUS_USAGE;
        *(const char **)place = text;
        return 0;
    case KIND_COUNT:
        return r->choices ? read_count_or_choice(option, r, text, place) : read_count(option, r, text, place);
    case KIND_SEED:
        if (!number_unsigned(text, place))
            return wrong_usage(option, "'%s' is not a whole number from 0 to 18446744073709551615", text);
        return 0;
    case KIND_REAL:
        if (!number_real(text, REAL_LIMIT, place))
            return wrong_usage(option, "'%s' is not a number of at least 0 and below %g", text, REAL_LIMIT);
        return 0;
    case KIND_PART:
        return read_part(option, text, place);
    case KIND_FLAG:
        *(bool *)place = true;
        return 0;
    case KIND_CHOICE: {
        const choice *found = choose(option, r->choices, text);
        if (!found)
            return STATUS_USAGE;
        *(int *)place = found->value;
        return 0;
    }
    case KIND_INIT:
        return read_init(option, text, chosen);
    case KIND_EVERY:
        return read_every(option, text, chosen);
    case KIND_SIZES:
        return read_sizes(option, text, place);
    case KIND_NAMES:
        return read_names(option, text, chosen);
    case KIND_CHECKS:
        return read_checks(option, r->choices, text, chosen);
    case KIND_HELP:
        break;
    }
    return 0;
}
