/* Figures of other programs, as they are recorded in tests/reference, and how far numbers are from them. */
#ifndef TEST_RECORDED_H
#define TEST_RECORDED_H

#include "tensors.h"

#include <jansson.h>
#include <math.h>

/* The list `key` of a file of tests/reference, alone in it. To be given back with json_decref of *whole. */
static inline const json_t *recorded_list(const char *path, const char *key, json_t **whole)
{
    json_error_t error;
    *whole = json_load_file(path, 0, &error);
    assert_non_null(*whole);
    const json_t *list = json_object_get(*whole, key);
    assert_true(json_array_size(list) > 0);
    return list;
}

/* The numbers of a list, to be freed; NULL where there is none. */
static inline double *recorded_numbers(const json_t *object, const char *key, int *n)
{
    const json_t *list = json_object_get(object, key);
    *n = (int)json_array_size(list);
    double *values = json_is_array(list) ? calloc((size_t)*n + 1, sizeof *values) : NULL;
    for (int i = 0; i < *n; i++)
        values[i] = json_number_value(json_array_get(list, (size_t)i));
    return values;
}

/* The largest difference, relative to the largest number. */
static inline double off_by(ls_tensor *tensor, const double *wanted, int n)
{
    float *values = test_read(tensor);
    double most = 0, largest = 0;
    assert_int_equal(test_numbers_of(tensor), n);
    for (int i = 0; i < n; i++) {
        most = fmax(most, fabs(values[i] - wanted[i]));
        largest = fmax(largest, fabs(wanted[i]));
        assert_false(isnan(values[i]));
    }
    free(values);
    return most / largest;
}

/* A tensor of these numbers on the first core, tracked. */
static inline ls_tensor *tracked_numbers(ls_session *s, const double *values, ls_shape shape)
{
    ls_tensor *made = ls_zeros(s, shape);
    const int64_t n = test_numbers_of(made);
    float *floats = calloc((size_t)n + 1, sizeof *floats);
    for (int64_t i = 0; i < n; i++)
        floats[i] = (float)values[i];
    made = ls_track(ls_clone(ls_values(s, floats, shape), ls_cpu(0)));
    free(floats);
    return made;
}

#endif
