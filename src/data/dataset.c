#include "data/dataset.h"
#include "data/cifar.h"
#include "data/folder.h"
#include "data/mnist.h"
#include "data/npy.h"

#include <stdlib.h>
#include <string.h>

/* A format: of the first two kinds the set that it has, of arrays a function; a folder has none of them. */
typedef struct format {
    const char *name;
    const ls_mnist *mnist;
    const ls_cifar *cifar;
    ls_status (*read)(ls_context *context, const char *directory, ls_part part, ls_images *images);
} format;

static const format formats[] = {{"fashion-mnist", &ls_mnist_fashion, NULL, NULL},
                                 {"mnist", &ls_mnist_digits, NULL, NULL},
                                 {"cifar10", NULL, &ls_cifar_10, NULL},
                                 {"cifar100", NULL, &ls_cifar_100, NULL},
                                 {"npy", NULL, NULL, ls_npy_read},
                                 {"folder", NULL, NULL, NULL}};
enum { FORMATS = sizeof formats / sizeof *formats };

static const format *find(ls_context *context, const char *name)
{
    char known[128] = "";
    for (int i = 0; i < FORMATS; i++) {
        if (name && strcmp(formats[i].name, name) == 0)
            return &formats[i];
        strcat(strcat(known, i ? ", " : ""), formats[i].name);
    }
    ls_raise(context, LS_BAD_ARGUMENT, "ls_data_open: '%.64s' is no data set's name; there are %s",
             name ? name : "(null)", known);
    return NULL;
}

static char *directory_of(ls_context *context, const format *f, ls_part part, const char *named)
{
    if (f->mnist)
        return ls_mnist_directory(context, f->mnist, part, named);
    named = ls_data_directory(named);
    if (named)
        return ls_copy_string(context, named, "a path");
    ls_raise(context, LS_IO, "%s: its folder is not named; set ls_loader.directory or $LOCKSTEP_DATA", f->name);
    return NULL;
}

static ls_status read_part(ls_context *context, const format *f, const char *directory, ls_part part,
                           const ls_loader *loader, ls_images *images)
{
    return f->mnist   ? ls_mnist_read(context, f->mnist, directory, part, images)
           : f->cifar ? ls_cifar_read(context, f->cifar, directory, part, images)
           : f->read  ? f->read(context, directory, part, images)
                      : ls_folder_read(context, directory, part, loader, images);
}

ls_data *ls_dataset_open(ls_context *context, uint64_t seed, const char *name, ls_part part, const ls_loader *loader)
{
    if (ls_context_status(context) != LS_OK)
        return NULL;
    if (part != LS_TRAIN && part != LS_TEST) {
        ls_raise(context, LS_BAD_ARGUMENT, "ls_data_open: part %d is neither LS_TRAIN nor LS_TEST", (int)part);
        return NULL;
    }
    const format *f = find(context, name);
    char *directory = f ? directory_of(context, f, part, loader ? loader->directory : NULL) : NULL;
    ls_images images = {.values = NULL};
    ls_file_list files = {.n = 0};                 /* apart: a reader begins its images anew */
    ls_status status = ls_context_status(context); /* a search that ran out of memory may have found another place */
    context->opened = &files;
    if (status == LS_OK)
        status = read_part(context, f, directory, part, loader, &images);
    context->opened = NULL;
    images.files = files;
    ls_release(context, directory);
    if (status == LS_OK)
        return ls_data_new(context, seed, &images, loader);
    ls_images_release(context, &images);
    return NULL;
}
