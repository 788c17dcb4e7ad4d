/* What a data set's images and labels hold, counted when first asked for. */
#ifndef LS_DATA_TALLY_H
#define LS_DATA_TALLY_H

#include "data/data.h"

#include <lockstep_data.h>

typedef struct ls_tally {
    ls_data_counts counts;
    int64_t of_class[LS_MOST_CLASSES]; /* images */
    char *summary;                     /* once asked for */
} ls_tally;

const ls_tally *ls_tally_of(ls_data *data); /* NULL after a failure */
void ls_tally_free(ls_context *context, ls_tally *tally);

/* A class's name, or its number written to text[size]. */
const char *ls_tally_class(const ls_data *data, int label, char text[], size_t size);

#endif
