/* oneDNN 2 and 3 behind one face, as far as the oracle and the benchmark share it: the former has operation descriptors
 * and descriptions of memory by value, the latter neither. Whoever includes this says before what CHECK(call) does with
 * a failure. */
#ifndef LOCKSTEP_TESTS_ONEDNN_H
#define LOCKSTEP_TESTS_ONEDNN_H

#include <oneapi/dnnl/dnnl.h>

static dnnl_engine_t engine;

typedef struct geometry {
    dnnl_dims_t stride, kernel, padding, dilation;
} geometry;

#if DNNL_VERSION_MAJOR >= 3

typedef dnnl_memory_desc_t description;
typedef const_dnnl_memory_desc_t described;

static inline described of(const description *d)
{
    return *d;
}

static inline description describe(int ndims, const dnnl_dims_t dims, dnnl_format_tag_t tag)
{
    description made;
    CHECK(dnnl_memory_desc_create_with_tag(&made, ndims, dims, dnnl_f32, tag));
    return made;
}

static inline void forget(description *d)
{
    CHECK(dnnl_memory_desc_destroy(*d));
}

static inline dnnl_primitive_desc_t conv_forward(described x, described w, described b, described y, const geometry *g,
                                                 dnnl_alg_kind_t how)
{
    dnnl_primitive_desc_t made;
    CHECK(dnnl_convolution_forward_primitive_desc_create(&made, engine, dnnl_forward_training, how, x, w, b, y,
                                                         g->stride, g->dilation, g->padding, g->padding, NULL));
    return made;
}

static inline dnnl_primitive_desc_t conv_data(described dx, described w, described dy, const geometry *g,
                                              dnnl_alg_kind_t how, dnnl_primitive_desc_t hint)
{
    dnnl_primitive_desc_t made;
    CHECK(dnnl_convolution_backward_data_primitive_desc_create(&made, engine, how, dx, w, dy, g->stride, g->dilation,
                                                               g->padding, g->padding, hint, NULL));
    return made;
}

static inline dnnl_primitive_desc_t conv_weights(described x, described dw, described db, described dy,
                                                 const geometry *g, dnnl_alg_kind_t how, dnnl_primitive_desc_t hint)
{
    dnnl_primitive_desc_t made;
    CHECK(dnnl_convolution_backward_weights_primitive_desc_create(&made, engine, how, x, dw, db, dy, g->stride,
                                                                  g->dilation, g->padding, g->padding, hint, NULL));
    return made;
}

#else

typedef dnnl_memory_desc_t description;
typedef const dnnl_memory_desc_t *described;

static inline described of(const description *d)
{
    return d;
}

static inline description describe(int ndims, const dnnl_dims_t dims, dnnl_format_tag_t tag)
{
    description made;
    CHECK(dnnl_memory_desc_init_by_tag(&made, ndims, dims, dnnl_f32, tag));
    return made;
}

static inline void forget(description *d)
{
    (void)d;
}

static inline dnnl_primitive_desc_t prepared(const_dnnl_op_desc_t operation, dnnl_primitive_desc_t hint)
{
    dnnl_primitive_desc_t made;
    CHECK(dnnl_primitive_desc_create(&made, operation, NULL, engine, hint));
    return made;
}

static inline dnnl_primitive_desc_t conv_forward(described x, described w, described b, described y, const geometry *g,
                                                 dnnl_alg_kind_t how)
{
    dnnl_convolution_desc_t operation;
    CHECK(dnnl_convolution_forward_desc_init(&operation, dnnl_forward_training, how, x, w, b, y, g->stride, g->padding,
                                             g->padding));
    return prepared(&operation, NULL);
}

static inline dnnl_primitive_desc_t conv_data(described dx, described w, described dy, const geometry *g,
                                              dnnl_alg_kind_t how, dnnl_primitive_desc_t hint)
{
    dnnl_convolution_desc_t operation;
    CHECK(dnnl_convolution_backward_data_desc_init(&operation, how, dx, w, dy, g->stride, g->padding, g->padding));
    return prepared(&operation, hint);
}

static inline dnnl_primitive_desc_t conv_weights(described x, described dw, described db, described dy,
                                                 const geometry *g, dnnl_alg_kind_t how, dnnl_primitive_desc_t hint)
{
    dnnl_convolution_desc_t operation;
    CHECK(
        dnnl_convolution_backward_weights_desc_init(&operation, how, x, dw, db, dy, g->stride, g->padding, g->padding));
    return prepared(&operation, hint);
}

#endif

#endif
