#include "tensor/flat.h"

#include <stdio.h>
#include <string.h>

enum { LEAST_VIEWS = 32, BLOCK = 16, LONGEST_NAME = 768 };

void ls_flat_init(ls_flat *flat, ls_context *context)
{
    *flat = (ls_flat){.context = context};
}

void ls_flat_destroy(ls_flat *flat)
{
    for (int i = 0; i < flat->n_views; i++)
        ls_release(flat->context, flat->views[i].name);
    for (int i = 0; i < flat->n_aliases; i++) {
        ls_release(flat->context, flat->aliases[i].other);
        ls_release(flat->context, flat->aliases[i].first);
    }
    ls_release(flat->context, flat->aliases);
    ls_release(flat->context, flat->views);
    ls_release(flat->context, flat->buckets);
    *flat = (ls_flat){.context = flat->context};
}

static size_t aligned(size_t floats)
{
    return (floats + BLOCK - 1) / BLOCK * BLOCK;
}

/* At the end of a vector. */
static void place(ls_view *view, size_t *end)
{
    view->offset = view->joined ? *end : aligned(*end);
    *end = view->offset + view->numbers;
}

int ls_flat_add(ls_flat *flat, const char *name, int rank, const int64_t shape[], bool trainable, bool joined)
{
    ls_view *views = ls_grow(flat->context, flat->views, flat->n_views, &flat->capacity, LEAST_VIEWS, sizeof *views,
                             "the list of parameters");
    if (!views)
        return -1;
    flat->views = views;
    size_t numbers = 1;
    ls_view view = {.rank = rank, .trainable = trainable, .joined = joined};
    for (int i = 0; i < rank; i++) {
        view.shape[i] = shape[i];
        if (shape[i] < 1) {
            ls_raise(flat->context, LS_BAD_SHAPE, "parameter %s: dimension %d is %lld", name, i, (long long)shape[i]);
            return -1;
        }
        if (__builtin_mul_overflow(numbers, (size_t)shape[i], &numbers) || numbers > LS_MOST_NUMBERS) {
            ls_raise(flat->context, LS_BAD_SHAPE, "parameter %s: more than %d numbers; make several of it", name,
                     LS_MOST_NUMBERS);
            return -1;
        }
    }
    view.numbers = numbers;
    view.name = ls_copy_string(flat->context, name, "a parameter's name");
    if (!view.name)
        return -1;
    place(&view, trainable ? &flat->trainable : &flat->state);
    flat->views[flat->n_views] = view;
    return flat->n_views++;
}

int ls_flat_find(const ls_flat *flat, const char *name)
{
    for (int i = 0; i < flat->n_views; i++)
        if (strcmp(flat->views[i].name, name) == 0)
            return i;
    return -1;
}

static void cut_buckets(ls_flat *flat)
{
    size_t end = flat->trainable;
    flat->n_buckets = 0;
    for (int i = flat->n_views - 1; i >= 0; i--) {
        const ls_view *view = &flat->views[i];
        if (!ls_is_trained(view) || view->offset % BLOCK || (end - view->offset < LS_BUCKET_FLOATS && view->offset > 0))
            continue;
        flat->buckets[flat->n_buckets++] = (ls_bucket){view->offset, end};
        end = view->offset;
    }
}

void ls_flat_lay(ls_flat *flat)
{
    flat->trainable = flat->state = 0;
    for (int i = 0; i < flat->n_views; i++)
        if (!flat->views[i].trainable)
            place(&flat->views[i], &flat->state);
        else if (!flat->views[i].frozen)
            place(&flat->views[i], &flat->trainable);
    flat->state = aligned(flat->state);
    flat->parameters = flat->trainable = aligned(flat->trainable);
    for (int i = 0; i < flat->n_views; i++)
        if (flat->views[i].trainable && flat->views[i].frozen)
            place(&flat->views[i], &flat->parameters);
    flat->parameters = aligned(flat->parameters);
    cut_buckets(flat);
}

ls_status ls_flat_alias(ls_flat *flat, const char *other, const char *first)
{
    for (int i = 0; i < flat->n_aliases; i++)
        if (strcmp(flat->aliases[i].other, other) == 0)
            return LS_OK;
    ls_alias *aliases = ls_grow(flat->context, flat->aliases, flat->n_aliases, &flat->aliases_capacity, LEAST_VIEWS,
                                sizeof *aliases, "the names of parameters");
    if (!aliases)
        return LS_OUT_OF_MEMORY;
    flat->aliases = aliases;
    ls_alias made = {.other = ls_copy_string(flat->context, other, "a module's name"),
                     .first = ls_copy_string(flat->context, first, "a module's name")};
    if (made.other && made.first) {
        flat->aliases[flat->n_aliases++] = made;
        return LS_OK;
    }
    ls_release(flat->context, made.other);
    ls_release(flat->context, made.first);
    return LS_OUT_OF_MEMORY;
}

/* A place may lie below another module's further place: first names are looked for as often as there are aliases. */
static int find_by_aliases(const ls_flat *flat, const char *name, int depth)
{
    int found = ls_flat_find(flat, name);
    for (int i = 0; i < flat->n_aliases && found < 0 && depth > 0; i++) {
        char first[LONGEST_NAME];
        const size_t n = strlen(flat->aliases[i].other);
        if (strncmp(name, flat->aliases[i].other, n) != 0 || name[n] != '.')
            continue;
        snprintf(first, sizeof first, "%s%s", flat->aliases[i].first, name + n);
        found = find_by_aliases(flat, first, depth - 1);
    }
    return found;
}

int ls_flat_find_by_any(const ls_flat *flat, const char *name)
{
    enum { DEEPEST = 8 };
    return find_by_aliases(flat, name, DEEPEST);
}

double ls_flat_momentum_at(const ls_flat *flat, size_t offset)
{
    for (int i = 0; i < flat->n_views; i++)
        if (!flat->views[i].trainable && flat->views[i].offset == offset)
            return flat->views[i].momentum;
    return 0;
}

ls_status ls_flat_close(ls_flat *flat)
{
    flat->buckets = ls_alloc(flat->context, (size_t)flat->n_views + 1, sizeof *flat->buckets, "the list of buckets");
    if (!flat->buckets)
        return LS_OUT_OF_MEMORY;
    ls_flat_lay(flat);
    flat->closed = true;
    return LS_OK;
}
