#include "tensor/flat.h"

#include <string.h>

enum { LEAST_VIEWS = 32, BLOCK = 16 };

void ls_flat_init(ls_flat *flat, ls_context *context)
{
    *flat = (ls_flat){.context = context};
}

void ls_flat_destroy(ls_flat *flat)
{
    for (int i = 0; i < flat->n_views; i++)
        ls_release(flat->context, flat->views[i].name);
    ls_release(flat->context, flat->views);
    ls_release(flat->context, flat->buckets);
    *flat = (ls_flat){.context = flat->context};
}

int ls_flat_add(ls_flat *flat, const char *name, int rank, const int64_t shape[], bool trainable, bool joined)
{
    ls_view *views = ls_grow(flat->context, flat->views, flat->n_views, &flat->capacity, LEAST_VIEWS, sizeof *views,
                             "the list of parameters");
    if (!views)
        return -1;
    flat->views = views;
    size_t numbers = 1;
    ls_view view = {.rank = rank, .trainable = trainable};
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
    size_t *end = trainable ? &flat->trainable : &flat->state;
    if (!joined)
        *end = (*end + BLOCK - 1) / BLOCK * BLOCK;
    view.offset = *end;
    view.numbers = numbers;
    view.name = ls_copy_string(flat->context, name, "a parameter's name");
    if (!view.name)
        return -1;
    *end += numbers;
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

static bool begins_block(const ls_view *view)
{
    return view->trainable && view->offset % BLOCK == 0;
}

ls_status ls_flat_close(ls_flat *flat)
{
    flat->trainable = (flat->trainable + BLOCK - 1) / BLOCK * BLOCK;
    flat->state = (flat->state + BLOCK - 1) / BLOCK * BLOCK;
    flat->buckets = ls_alloc(flat->context, (size_t)flat->n_views + 1, sizeof *flat->buckets, "the list of buckets");
    if (!flat->buckets)
        return LS_OUT_OF_MEMORY;
    size_t end = flat->trainable;
    for (int i = flat->n_views - 1; i >= 0; i--) {
        const ls_view *view = &flat->views[i];
        if (!begins_block(view) || (end - view->offset < LS_BUCKET_FLOATS && view->offset > 0))
            continue;
        flat->buckets[flat->n_buckets++] = (ls_bucket){view->offset, end};
        end = view->offset;
    }
    flat->closed = true;
    return LS_OK;
}
