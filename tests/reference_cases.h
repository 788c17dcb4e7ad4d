/* Cases that a generator of tests/reference recorded. */
#ifndef TEST_REFERENCE_CASES_H
#define TEST_REFERENCE_CASES_H

#include "tensors.h"

#include <jansson.h>
#include <stdio.h>

/* Runs each case of tests/reference/NOUN.json, of which there are so many, in one session. */
static inline void run_reference_cases(const char *noun, size_t count,
                                       void (*run)(ls_session *session, const json_t *one))
{
    char path[512];
    json_error_t error;
    snprintf(path, sizeof path, REFERENCE "/%s.json", noun);
    json_t *whole = json_load_file(path, 0, &error);
    assert_non_null(whole);
    ls_session *s = ls_open(NULL);
    size_t i;
    const json_t *one, *all = json_object_get(whole, noun);
    assert_int_equal(json_array_size(all), count);
    json_array_foreach(all, i, one) run(s, one);
    json_decref(whole);
    assert_int_equal(ls_close(s), LS_OK);
}

#endif
