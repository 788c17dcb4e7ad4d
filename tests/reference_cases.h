/* Cases that a generator of tests/reference recorded, and how far numbers are from theirs. */
#ifndef TEST_REFERENCE_CASES_H
#define TEST_REFERENCE_CASES_H

#include "tensors.h"

#include <jansson.h>
#include <lockstep_nn.h>
#include <math.h>
#include <stdio.h>

/* Runs each case of tests/reference/NOUN.json, of which there are so many, in one session. */
static inline void run_reference_cases(const char *noun, size_t count, const ls_options *options,
                                       void (*run)(ls_session *session, const json_t *one))
{
    char path[512];
    json_error_t error;
    snprintf(path, sizeof path, REFERENCE "/%s.json", noun);
    json_t *whole = json_load_file(path, 0, &error);
    assert_non_null(whole);
    ls_session *s = ls_open(options);
    size_t i;
    const json_t *one, *all = json_object_get(whole, noun);
    assert_int_equal(json_array_size(all), count);
    json_array_foreach(all, i, one) run(s, one);
    json_decref(whole);
    assert_int_equal(ls_close(s), LS_OK);
}

static inline const char *recorded_name(const json_t *one)
{
    return json_string_value(json_object_get(one, "name"));
}

/* The numbers of a list, to be freed; NULL where there is none. */
static inline double *recorded_numbers(const json_t *one, const char *key, int *n)
{
    const json_t *list = json_object_get(one, key);
    *n = (int)json_array_size(list);
    double *values = json_is_array(list) ? calloc((size_t)*n + 1, sizeof *values) : NULL;
    for (int i = 0; i < *n; i++)
        values[i] = json_number_value(json_array_get(list, (size_t)i));
    return values;
}

/* Gives the parameters of these names the numbers recorded under them. */
static inline void write_recorded(ls_module *net, const json_t *start, const char *const names[], int count)
{
    for (int i = 0; i < count; i++) {
        int n;
        double *values = recorded_numbers(start, names[i], &n);
        float *floats = calloc((size_t)n + 1, sizeof *floats);
        for (int k = 0; k < n; k++)
            floats[k] = (float)values[k];
        assert_int_equal(ls_module_write_parameter(net, names[i], floats, n), LS_OK);
        free(floats);
        free(values);
    }
}

static inline ls_shape recorded_shape(const json_t *one, const char *key)
{
    const json_t *list = json_object_get(one, key);
    ls_shape shape = {.rank = (int)json_array_size(list)};
    for (int i = 0; i < shape.rank; i++)
        shape.dim[i] = json_integer_value(json_array_get(list, (size_t)i));
    return shape;
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

/* Number i is ((by * i + more) % of - less) / share. */
static inline ls_tensor *numbers_by(ls_session *s, ls_shape shape, int by, int more, int of, int less, int share)
{
    int64_t n = 1;
    for (int i = 0; i < shape.rank; i++)
        n *= shape.dim[i];
    float *values = calloc((size_t)n + 1, sizeof *values);
    for (int64_t i = 0; i < n; i++)
        values[i] = (float)((int)((by * i + more) % of) - less) / (float)share;
    ls_tensor *made = ls_clone(ls_values(s, values, shape), ls_cpu(0));
    free(values);
    return made;
}

/* That y was computed, and has the shape under "to", which is returned. */
static inline ls_shape assert_recorded_shape(ls_session *s, const ls_tensor *y, const json_t *one)
{
    const ls_shape to = recorded_shape(one, "to");
    if (ls_failed(s))
        fail_msg("%s: %s", recorded_name(one), ls_message(s));
    assert_int_equal(ls_rank(y), to.rank);
    for (int i = 0; i < to.rank; i++)
        assert_int_equal(ls_dim(y, i), to.dim[i]);
    return to;
}

/* The largest difference, relative to the largest number. */
static inline double off_from(const float *values, const double *wanted, int n)
{
    double most = 0, largest = 0;
    for (int i = 0; i < n; i++) {
        most = fmax(most, fabs(values[i] - wanted[i]));
        largest = fmax(largest, fabs(wanted[i]));
        assert_false(isnan(values[i]));
    }
    return most / largest;
}

static inline double off_by(ls_tensor *tensor, const double *wanted, int n)
{
    assert_int_equal(test_numbers_of(tensor), n);
    float *values = test_read(tensor);
    const double off = off_from(values, wanted, n);
    free(values);
    return off;
}

/* The same from the numbers under the key. */
static inline double off_by_recorded(ls_tensor *tensor, const json_t *one, const char *key)
{
    int n;
    double *wanted = recorded_numbers(one, key, &n);
    assert_non_null(wanted);
    const double off = off_by(tensor, wanted, n);
    free(wanted);
    return off;
}

#endif
