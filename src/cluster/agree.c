/* Whether all ranks have come as far, and with the same settings. */
#include <stdio.h>
#include <string.h>

#include "base/environment.h"
#include "base/session.h"
#include "cluster/cluster.h"

enum { LS_WORDS = 960 }; /* fits a context's message */

/* This rank's text: its failure, then names and values in turn, each ended by a zero byte. Returns its length; NULL
 * counts only. */
static size_t write_text(char *text, const char *failure, const ls_setting settings[], int n)
{
    size_t length = 0;
    for (int i = -1; i < 2 * n; i++) {
        const char *part = i < 0 ? failure : i % 2 ? settings[i / 2].value : settings[i / 2].name;
        part = part ? part : "";
        if (text)
            memcpy(text + length, part, strlen(part) + 1);
        length += strlen(part) + 1;
    }
    return length;
}

static void name_rank(const ls_cluster *cluster, int rank, char *name, size_t size)
{
    snprintf(name, size, "rank %d on host %s", rank, cluster->hosts[rank]);
}

/* The first rank that failed is named, unless all of them say the same. */
static ls_status refuse_failure(ls_cluster *cluster, const char *all, const size_t begin[])
{
    int first = -1, alike = 0;
    for (int r = 0; r < cluster->ranks; r++)
        if (first < 0 && all[begin[r]])
            first = r;
    if (first < 0)
        return LS_OK;
    const char *failure = all + begin[first];
    for (int r = 0; r < cluster->ranks; r++)
        alike += strcmp(all + begin[r], failure) == 0;
    char name[128];
    name_rank(cluster, first, name, sizeof name);
    if (alike == cluster->ranks)
        return ls_raise(&cluster->context, LS_BAD_ARGUMENT, "%s", failure);
    return ls_raise(&cluster->context, LS_BAD_ARGUMENT, "%s: %s", name, failure);
}

/* The first setting, and the first rank, that differs from rank 0's, in words; false where there is none. */
static bool find_difference(const ls_cluster *cluster, const char *all, const size_t begin[], char words[LS_WORDS])
{
    for (int r = 1; r < cluster->ranks; r++) {
        const char *a = all, *a_end = all + begin[1], *b = all + begin[r], *b_end = all + begin[r + 1];
        char rank[128];
        name_rank(cluster, r, rank, sizeof rank);
        bool alike = true; /* so far, the names */
        for (bool name = false; alike && a < a_end && b < b_end; name = !name) {
            const char *next_a = a + strlen(a) + 1, *next_b = b + strlen(b) + 1;
            alike = !name || strcmp(a, b) == 0;
            if (alike && name && strcmp(next_a, next_b) != 0) {
                snprintf(words, LS_WORDS, "%s differs: %.300s on %s, %.300s on rank 0", a, *next_b ? next_b : "none",
                         rank, *next_a ? next_a : "none");
                return true;
            }
            a = next_a;
            b = next_b;
        }
        if (!alike || a < a_end || b < b_end) {
            snprintf(words, LS_WORDS, "%s lists other settings than rank 0", rank);
            return true;
        }
    }
    return false;
}

/* All ranks' texts, to be released: rank r's from begin[r] on, up to begin[r + 1]. NULL after a failure. */
static char *gather_texts(ls_cluster *cluster, ls_context *context, const char *failure, const ls_setting settings[],
                          int n, size_t begin[])
{
    size_t total = 0;
    begin[cluster->rank] = write_text(NULL, failure, settings, n);
    ls_status status = ls_cluster_gather_each(cluster, context, begin, sizeof *begin);
    for (int r = 0; r <= cluster->ranks; r++) {
        const size_t length = begin[r];
        begin[r] = total;
        total += length;
    }
    char *all = status == LS_OK ? ls_alloc(context, total, 1, "the ranks' settings") : NULL;
    if (!all)
        return NULL;
    write_text(all + begin[cluster->rank], failure, settings, n);
    if (ls_cluster_gather(cluster, context, all, begin) == LS_OK)
        return all;
    ls_release(context, all);
    return NULL;
}

ls_status ls_cluster_agree(ls_cluster *cluster, const char *failure, const ls_setting settings[], int n)
{
    LS_OWN_ENVIRONMENT;
    if (!cluster || ls_cluster_status(cluster) != LS_OK)
        return ls_cluster_status(cluster);
    ls_context *context = &cluster->context;
    if (cluster->ranks == 1)
        return failure && *failure ? ls_raise(context, LS_BAD_ARGUMENT, "%s", failure) : LS_OK;
    size_t *begin = ls_alloc(context, (size_t)cluster->ranks + 1, sizeof *begin, "the ranks' settings");
    if (!begin)
        return LS_OUT_OF_MEMORY;
    char words[LS_WORDS], *all = gather_texts(cluster, context, failure, settings, n, begin);
    if (all && refuse_failure(cluster, all, begin) == LS_OK && find_difference(cluster, all, begin, words))
        ls_raise(context, LS_BAD_ARGUMENT, "%s", words);
    ls_release(context, all);
    ls_release(context, begin);
    return ls_cluster_status(cluster);
}

ls_status ls_cluster_agree_settings(ls_session *session, const ls_setting settings[], int n)
{
    ls_cluster *cluster = session->options.cluster;
    ls_context *context = &session->context;
    size_t *begin = ls_alloc(context, (size_t)cluster->ranks + 1, sizeof *begin, "the ranks' settings");
    char words[LS_WORDS], *all = begin ? gather_texts(cluster, context, NULL, settings, n, begin) : NULL;
    if (all && find_difference(cluster, all, begin, words)) {
        ls_raise(context, LS_DIFFERS, "%s; give all ranks the same", words);
        atomic_store(&session->together, true);
    }
    ls_release(context, all);
    ls_release(context, begin);
    return ls_status_of(session);
}

ls_status ls_cluster_agree_error(ls_session *session)
{
    ls_cluster *cluster = session->options.cluster;
    ls_context *context = &session->context;
    char message[sizeof context->message] = "";
    int first = 0;
    if (ls_cluster_ranks(cluster) == 1 || ls_context_is_parents(context))
        return ls_status_of(session);
    cluster->statuses[cluster->rank] = (int32_t)ls_status_of(session);
    if (ls_cluster_gather_each(cluster, context, cluster->statuses, sizeof *cluster->statuses) != LS_OK)
        return ls_status_of(session);
    while (first < cluster->ranks && cluster->statuses[first] == LS_OK)
        first++;
    if (first == cluster->ranks)
        return LS_OK;
    if (first == cluster->rank)
        snprintf(message, sizeof message, "%s", ls_message(session));
    if (ls_cluster_gather_from(cluster, context, first, message, sizeof message) != LS_OK)
        return ls_status_of(session);
    char name[128];
    name_rank(cluster, first, name, sizeof name);
    ls_raise(context, (ls_status)cluster->statuses[first], "%s%s%s", first ? name : "", first ? ": " : "", message);
    atomic_store(&session->together, true);
    return ls_status_of(session);
}
