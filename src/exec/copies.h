/* Numbers copied and added, by tasks of the devices that they lie on. */
#pragma once

#include "exec/stream.h"

/* n floats from one place in an array to a place in another. */
typedef struct ls_copying {
    ls_array *from, *to;
    size_t from_offset, to_offset, n;
    bool within; /* for the library itself: not among what ls_bytes_moved tells */
} ls_copying;

ls_status ls_copy(ls_session *session, const ls_copying *c); /* between any devices */
ls_status ls_add_up(ls_session *session, const ls_copying *c);

/* n floats of an array from *offset on, where `device` computes: the array itself, or a copy, which begins at *offset
 * then. Held. NULL after a failure. */
ls_array *ls_numbers_at(ls_session *session, ls_array *array, size_t *offset, size_t n, ls_device device);
