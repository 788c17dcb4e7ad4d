#include "io/dtypes.h"

#include <string.h>

typedef float from(const unsigned char *bytes);

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t two_bytes(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8;
}

/* Five bits of exponent and ten of fraction; an exponent of 0 has multiples of 2^-24. */
static float from_f16(const unsigned char *bytes)
{
    enum { FRACTION = 0x3ff, EXPONENT = 0x1f, BIAS = 127 - 15 };
    const uint32_t half = two_bytes(bytes), sign = (half & 0x8000) << 16;
    const uint32_t exponent = half >> 10 & EXPONENT, fraction = half & FRACTION;
    if (exponent == 0) {
        const float value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    return from_bits(sign | (exponent == EXPONENT ? 0xff : exponent + BIAS) << 23 | fraction << 13);
}

static float from_bf16(const unsigned char *bytes)
{
    return from_bits(two_bytes(bytes) << 16);
}

static float from_f32(const unsigned char *bytes)
{
    float value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

static float from_f64(const unsigned char *bytes)
{
    return (float)ls_dtype_double(bytes, 0);
}

static const struct dtype {
    const char *name;
    int bytes;
    from *floats; /* NULL: not read */
} DTYPES[] = {{"BOOL", 1, NULL},      {"U8", 1, NULL},  {"I8", 1, NULL},      {"F8_E5M2", 1, NULL},
              {"F8_E4M3", 1, NULL},   {"I16", 2, NULL}, {"U16", 2, NULL},     {"F16", 2, from_f16},
              {"BF16", 2, from_bf16}, {"I32", 4, NULL}, {"U32", 4, NULL},     {"F32", 4, from_f32},
              {"I64", 8, NULL},       {"U64", 8, NULL}, {"F64", 8, from_f64}, {"C64", 8, NULL}};

static const struct dtype *find(const char *name)
{
    for (size_t i = 0; i < sizeof DTYPES / sizeof *DTYPES; i++)
        if (strcmp(DTYPES[i].name, name) == 0)
            return &DTYPES[i];
    return NULL;
}

int ls_dtype_bytes(const char *name)
{
    const struct dtype *dtype = find(name);
    return dtype ? dtype->bytes : 0;
}

bool ls_dtype_is_read(const char *name)
{
    const struct dtype *dtype = find(name);
    return dtype && dtype->floats;
}

void ls_dtype_floats(const char *name, const unsigned char *bytes, int64_t n, float *values)
{
    const struct dtype *dtype = find(name);
    for (int64_t i = 0; i < n; i++)
        values[i] = dtype->floats(bytes + i * dtype->bytes);
}

double ls_dtype_double(const unsigned char *bytes, int64_t i)
{
    double value;
    memcpy(&value, bytes + i * (int64_t)sizeof value, sizeof value);
    return value;
}
