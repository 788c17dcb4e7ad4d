/* Opening and closing, and the data sets that a session owns. */
#include <stdio.h>
#include <string.h>

#include "base/session.h"
#include "data/data.h"
#include "data/fashion_mnist.h"
#include "device/cpu/select.h"
#include "parallel/network.h"

enum { DEFAULT_SHARD = 64, MAX_SHARD = 1 << 20 };

static ls_status check_options(ls_session *session)
{
    ls_context *context = &session->context;
    ls_options *o = &session->options;
    if (o->shard == 0)
        o->shard = DEFAULT_SHARD;
    if (o->shard < 1 || o->shard > MAX_SHARD)
        return ls_raise(context, LS_BAD_ARGUMENT, "ls_open: shard is %d; it must be from 1 to %d", o->shard, MAX_SHARD);
    if ((int)o->conv < LS_CONV_AUTO || (int)o->conv > LS_CONV_DIRECT)
        return ls_raise(context, LS_BAD_ARGUMENT, "ls_open: there is no such algorithm for convolutions");
    if ((int)o->isa < LS_ISA_AUTO || (int)o->isa > LS_ISA_REFERENCE)
        return ls_raise(context, LS_BAD_ARGUMENT, "ls_open: there is no such instruction set");
    if (!ls_cpu_backend(o->isa))
        return ls_raise(context, LS_NO_DEVICE,
                        "ls_open: this machine or this build does not have the instruction set asked for");
    return LS_OK;
}

ls_session *ls_open(const ls_options *options)
{
    ls_context context;
    if (ls_context_init(&context, options ? options->allocator : NULL) != LS_OK)
        return NULL;
    ls_session *session = ls_alloc(&context, 1, sizeof *session, "a session");
    ls_context_destroy(&context);
    if (!session)
        return NULL;
    if (ls_context_init(&session->context, options ? options->allocator : NULL) != LS_OK) {
        ls_release(&session->context, session);
        return NULL;
    }
    if (options)
        session->options = *options;
    check_options(session);
    return session;
}

ls_status ls_close(ls_session *session)
{
    if (!session)
        return LS_OUT_OF_MEMORY;
    ls_wait(session); /* work in flight reads what is freed first: data and operations younger than its trainer */
    ls_release_owned(session);
    ls_status status = ls_status_of(session);
    ls_context context = session->context; /* its allocator outlives the memory it stands in */
    ls_context_destroy(&session->context);
    ls_release(&context, session);
    return status;
}

/* ---- Data ---- */

static void release_data(void *data)
{
    ls_data_free(data);
}

ls_data *ls_fashion_mnist(ls_session *session, ls_part part, const ls_loader *loader)
{
    if (!session || ls_failed(session))
        return NULL;
    return ls_own(session, ls_data_open_fashion_mnist(&session->context, session->options.seed, part, loader),
                  release_data);
}

ls_data *ls_data_from_memory(ls_session *session, const uint8_t *images, const uint8_t *labels, int64_t rows,
                             int channels, int height, int width, int classes, const ls_loader *loader)
{
    if (!session || ls_failed(session))
        return NULL;
    ls_context *context = &session->context;
    int64_t size = 1, bytes;
    if (!images || !labels || rows < 1 || rows > INT32_MAX || channels < 1 || height < 1 || width < 1 || classes < 1 ||
        classes > 256 || __builtin_mul_overflow((int64_t)channels * height, (int64_t)width, &size) ||
        __builtin_mul_overflow(size, rows, &bytes)) {
        ls_raise(context, LS_BAD_ARGUMENT, "ls_data_from_memory: images (%lld, %d, %d, %d) with %d classes",
                 (long long)rows, channels, height, width, classes);
        return NULL;
    }
    for (int64_t i = 0; i < rows; i++)
        if (labels[i] >= classes) {
            ls_raise(context, LS_BAD_ARGUMENT, "ls_data_from_memory: label %lld is %d, there are %d classes",
                     (long long)i, labels[i], classes);
            return NULL;
        }
    uint8_t *own_images = ls_alloc(context, (size_t)bytes, 1, "the images"),
            *own_labels = ls_alloc(context, (size_t)rows, 1, "the labels");
    if (!own_images || !own_labels) {
        ls_release(context, own_images);
        ls_release(context, own_labels);
        return NULL;
    }
    memcpy(own_images, images, (size_t)bytes);
    memcpy(own_labels, labels, (size_t)rows);
    return ls_own(session,
                  ls_data_new(context, session->options.seed, own_images, own_labels, rows, channels, height, width,
                              classes, loader),
                  release_data);
}
