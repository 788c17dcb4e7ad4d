#include "nn/freezing.h"

#include <fnmatch.h>
#include <string.h>

/* A rule that frees what nothing has frozen says nothing. */
static void append(ls_freezing *to, ls_freeze_rule rule)
{
    if (rule.frozen || to->n)
        to->rules[to->n++] = rule;
}

const ls_freezing *ls_freezing_with(ls_session *session, const ls_freezing *was, const char *pattern, bool frozen)
{
    const int n = was ? was->n : 0;
    ls_freezing *is = ls_session_alloc(session, 1, sizeof *is + ((size_t)n + 1) * sizeof *is->rules, "what is frozen");
    const char *kept = is ? ls_intern(session, pattern) : NULL;
    if (!kept)
        return NULL;
    for (int i = 0; i < n; i++)
        if (strcmp(was->rules[i].pattern, pattern) != 0)
            append(is, was->rules[i]);
    append(is, (ls_freeze_rule){kept, frozen});
    return is;
}

/* What the rules say of each view; to be released. NULL after a failure. */
static bool *find(ls_session *session, const ls_freezing *freezing, const ls_flat *flat)
{
    bool *told = ls_alloc(&session->context, (size_t)flat->n_views, sizeof *told, "what is frozen");
    for (int k = 0; freezing && told && k < freezing->n; k++) {
        const ls_freeze_rule *rule = &freezing->rules[k];
        bool any = false;
        for (int i = 0; i < flat->n_views; i++)
            if (fnmatch(rule->pattern, flat->views[i].name, 0) == 0) {
                told[i] = rule->frozen;
                any = true;
            }
        if (any)
            continue;
        ls_raise(&session->context, LS_BAD_ARGUMENT,
                 "ls_module_freeze: no parameter is called \"%s\"; the first one is \"%s\", and * stands for any part "
                 "of a name",
                 rule->pattern, flat->n_views ? flat->views[0].name : "");
        ls_release(&session->context, told);
        return NULL;
    }
    return told;
}

/* The view that is computed together with view i, or itself. */
static int partner(const ls_flat *flat, int i)
{
    if (flat->views[i].joined)
        return i - 1;
    return i + 1 < flat->n_views && flat->views[i + 1].joined ? i + 1 : i;
}

ls_status ls_freezing_mark(ls_session *session, const ls_freezing *freezing, ls_flat *flat, bool *changes)
{
    bool *told = find(session, freezing, flat);
    *changes = false;
    for (int i = 0; told && i < flat->n_views; i++) {
        const bool frozen = told[i] && told[partner(flat, i)];
        *changes |= flat->views[i].frozen != frozen;
        flat->views[i].frozen = frozen;
    }
    ls_release(&session->context, told);
    return ls_status_of(session);
}

ls_status ls_freezing_check(ls_session *session, const ls_freezing *freezing, const ls_flat *flat)
{
    bool *told = find(session, freezing, flat);
    for (int i = 0; told && i < flat->n_views; i++)
        if (told[i] && !told[partner(flat, i)])
            ls_raise(&session->context, LS_BAD_ARGUMENT,
                     "ls_module_freeze: %s is frozen and %s is not; of a BatchNorm freeze both or neither",
                     flat->views[i].name, flat->views[partner(flat, i)].name);
    ls_release(&session->context, told);
    return ls_status_of(session);
}

char *ls_freezing_text(ls_context *context, const ls_freezing *freezing)
{
    char *text = ls_copy_string(context, "", "what is frozen");
    for (int i = 0; freezing && i < freezing->n && text; i++) {
        const ls_freeze_rule *rule = &freezing->rules[i];
        char *longer = ls_format(context, "what is frozen", "%s%s%s%s", text, i ? ", " : "", rule->frozen ? "" : "not ",
                                 rule->pattern);
        ls_release(context, text);
        text = longer;
    }
    return text;
}
