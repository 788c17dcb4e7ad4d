#include "support.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu/select.h"

#if LOCKSTEP_EMULATED_AVX512
const ls_backend *ls_lanes_emulated(void);
#endif

uint64_t test_u64(test_random *random)
{
    /* splitmix64 */
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

double test_uniform(test_random *random)
{
    return (double)(test_u64(random) >> 11) * 0x1p-52 - 1;
}

double test_normal(test_random *random)
{
    /* The sum of twelve uniform numbers of 16 bits, and of what makes its last bits as many as a double's. */
    int64_t sum = 0;
    for (int i = 0; i < 3; i++) {
        const uint64_t draw = test_u64(random);
        sum += (int64_t)((draw & 0xffff) + (draw >> 16 & 0xffff) + (draw >> 32 & 0xffff) + (draw >> 48));
    }
    return (double)(sum - 6 * 0xffff) * 0x1p-16 + test_uniform(random) * 0x1p-17;
}

void test_fill_normal(test_random *random, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)test_normal(random);
    }
}

float test_salt(test_random *random, float x, int finite)
{
    static const float mild[] = {0.0f, -0.0f, 0x1p-149f, -0x1p-149f, 1e-39f, -1e-39f, 1, -1};
    static const float wild[] = {NAN, INFINITY, -INFINITY, FLT_MAX};
    uint64_t draw = test_u64(random);
    if (draw % 8 == 0) {
        return mild[draw / 8 % 8];
    }
    return !finite && draw % 257 == 1 ? wild[draw / 257 % 4] : x;
}

static void *zeroed(size_t bytes)
{
    size_t whole = (bytes + 127) / 64 * 64;
    void *memory = aligned_alloc(64, whole);
    assert_non_null(memory);
    memset(memory, 0, whole);
    return memory;
}

float *test_floats(size_t n)
{
    return zeroed(n * sizeof(float));
}

double *test_doubles(size_t n)
{
    return zeroed(n * sizeof(double));
}

double test_distance(const double *a, const double *b, size_t n)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        norm += b[i] * b[i];
    }
    return sqrt(difference / norm);
}

double test_distance_float(const float *a, const double *b, size_t n)
{
    double *wide = test_doubles(n);
    for (size_t i = 0; i < n; i++) {
        wide[i] = a[i];
    }
    double distance = test_distance(wide, b, n);
    free(wide);
    return distance;
}

int test_same_bits(float a, float b)
{
    uint32_t x, y; /* a call of memcmp takes several times as long */
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return x == y || (isnan(a) && isnan(b));
}

int test_groups(int count)
{
    return (count + LS_LANES - 1) / LS_LANES;
}

int test_windows(int size, int kernel, int stride, int padding)
{
    return (size + 2 * padding - kernel) / stride + 1;
}

size_t test_numbers(const ls_operand *shape)
{
    return (size_t)shape->c * shape->h * shape->w;
}

size_t test_lane_numbers(const ls_operand *shape, int count)
{
    return test_groups(count) * test_numbers(shape) * LS_LANES;
}

/* Where the lanes layout has number `i` of an image. */
static size_t lane_at(size_t numbers, int image, size_t i)
{
    return (image / LS_LANES * numbers + i) * LS_LANES + image % LS_LANES;
}

void test_pack(float *lanes, const float *images, const ls_operand *shape, int count, float padding)
{
    size_t numbers = test_numbers(shape);
    for (int image = 0; image < test_groups(count) * LS_LANES; image++) {
        for (size_t i = 0; i < numbers; i++) {
            lanes[lane_at(numbers, image, i)] = image < count ? images[image * numbers + i] : padding;
        }
    }
}

void test_unpack(float *images, const float *lanes, const ls_operand *shape, int count)
{
    size_t numbers = test_numbers(shape);
    for (int image = 0; image < count; image++) {
        for (size_t i = 0; i < numbers; i++) {
            images[image * numbers + i] = lanes[lane_at(numbers, image, i)];
        }
    }
}

void test_pad(float *lanes, const ls_operand *shape, int count, test_random *random)
{
    size_t numbers = test_numbers(shape);
    for (int image = count; image < test_groups(count) * LS_LANES; image++) {
        for (size_t i = 0; i < numbers; i++) {
            lanes[lane_at(numbers, image, i)] = random ? (float)(1000 * test_uniform(random)) : 0;
        }
    }
}

ls_operand test_activation(test_random *random, int c, int h, int w, int count)
{
    ls_operand x = {NULL, c, h, w};
    x.data = test_floats(test_lane_numbers(&x, count));
    test_fill_normal(random, x.data, test_lane_numbers(&x, count));
    test_pad(x.data, &x, count, NULL);
    return x;
}

ls_operand test_vector(test_random *random, size_t n)
{
    ls_operand x = {test_floats(n), (int)n, 1, 1};
    test_fill_normal(random, x.data, n);
    return x;
}

test_batch test_batch_new(int count, size_t image_bytes, int classes)
{
    test_batch batch = {.images = zeroed(count * image_bytes),
                        .labels = zeroed(count * sizeof(int32_t)),
                        .index = zeroed(count * sizeof(uint32_t))};
    for (size_t i = 0; i < count * image_bytes; i++) {
        batch.images[i] = (uint8_t)(i * 31 + i / 256);
    }
    for (int i = 0; i < count; i++) {
        batch.index[i] = (uint32_t)(count - 1 - i);
        batch.labels[i] = i * 7 % classes;
    }
    batch.samples = (ls_samples){.images = batch.images,
                                 .labels = batch.labels,
                                 .labels_each = 1,
                                 .index = batch.index,
                                 .count = count,
                                 .seed = 11,
                                 .step = 3,
                                 .one = 1};
    return batch;
}

void test_batch_label(test_batch *batch, int places, int classes, int ignored)
{
    const int n = batch->samples.count * places;
    free(batch->labels);
    batch->samples.labels = batch->labels = zeroed((size_t)n * sizeof(int32_t));
    batch->samples.labels_each = places;
    for (int i = 0; i < n; i++)
        batch->labels[i] = ignored && i % 5 == 3 ? -1 : i * 7 % classes;
}

void test_batch_take_floats(test_batch *batch, size_t image_numbers)
{
    test_random random = {.state = 17};
    batch->floats = test_floats((size_t)batch->samples.count * image_numbers);
    test_fill_normal(&random, batch->floats, (size_t)batch->samples.count * image_numbers);
    batch->samples.images = batch->floats;
    batch->samples.floats = true;
    batch->samples.image_bytes *= sizeof(float);
}

static int32_t below(test_random *random, int n)
{
    return (int32_t)(test_u64(random) % (uint64_t)n);
}

void test_batch_change(test_batch *batch, int h, int w)
{
    test_random random = {.state = 23};
    batch->changes = zeroed((size_t)batch->samples.count * sizeof *batch->changes);
    for (int i = 0; i < batch->samples.count; i++) {
        ls_change *change = &batch->changes[i];
        *change = (ls_change){.flip = below(&random, 2),
                              .down = below(&random, 2 * h + 1) - h, /* at the ends nothing of it is left */
                              .right = below(&random, 2 * w + 1) - w};
        if (below(&random, 2)) {
            change->height = 1 + below(&random, h);
            change->width = 1 + below(&random, w);
            change->top = below(&random, h - change->height + 1);
            change->left = below(&random, w - change->width + 1);
        }
    }
    batch->samples.changes = batch->changes;
}

void test_batch_free(test_batch *batch)
{
    free(batch->images);
    free(batch->floats);
    free(batch->changes);
    free(batch->labels);
    free(batch->index);
}

enum { GUARD = 64 };

void test_run(const ls_backend *backend, ls_op_call *call)
{
    call->groups = test_groups(call->samples->count);
    size_t bytes = backend->scratch ? backend->scratch(call) : 0;
    unsigned char *scratch = zeroed(bytes + GUARD);
    memset(scratch, 0xff, bytes + GUARD); /* NaN in every float */
    call->scratch = scratch;
    backend->kernel[call->attributes->op](call);
    for (int i = 0; i < GUARD; i++) {
        if (scratch[bytes + i] != 0xff) {
            fail_msg("%s of %s overruns its scratch", ls_op_name(call->attributes->op), backend->name);
        }
    }
    free(scratch);
    call->scratch = NULL;
}

int test_backends(const ls_backend *found[8])
{
    static const ls_isa caps[] = {LS_ISA_PLAIN, LS_ISA_NEON, LS_ISA_AVX2, LS_ISA_AVX512};
    int n = 0;
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        const ls_backend *backend = ls_cpu_backend(caps[i]);
        int known = !backend || strcmp(backend->name, ls_backend_ref()->name) == 0;
        for (int j = 0; j < n; j++) {
            known =
                known || strcmp(backend->name, found[j]->name) == 0; /* a cap above what the machine has falls back */
        }
        if (!known) {
            found[n++] = backend;
        }
    }
#if LOCKSTEP_EMULATED_AVX512
    found[n++] = ls_lanes_emulated();
#endif
    return n;
}

const ls_backend *test_fastest(void)
{
    const ls_backend *fastest = ls_cpu_backend(LS_ISA_AUTO);
    return fastest ? fastest : ls_backend_ref();
}
