#include "typed_arrays.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int write_entry(char *text, size_t room, const typed_array *array, size_t begin, bool first)
{
    char shape[100] = "";
    for (int i = 0; i < array->rank; i++)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%lld", i ? "," : "",
                 (long long)array->shape[i]);
    return snprintf(text, room, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                    first ? "{" : ",", array->name, array->dtype, shape, begin, begin + array->n_bytes);
}

void write_typed_arrays(const char *file, const typed_array *arrays, int n)
{
    const size_t room = 64 + 300 * (size_t)n;
    char *header = calloc(room, 1);
    size_t length = 0, data = 0;
    for (int i = 0; i < n; i++) {
        length += (size_t)write_entry(header + length, room - length, &arrays[i], data, i == 0);
        data += arrays[i].n_bytes;
        assert_true(length + 1 < room);
    }
    header[length++] = '}';
    unsigned char *whole = malloc(8 + length + data), *at = whole + 8 + length;
    for (int i = 0; i < 8; i++)
        whole[i] = (unsigned char)((uint64_t)length >> 8 * i);
    memcpy(whole + 8, header, length);
    for (int i = 0; i < n; at += arrays[i++].n_bytes)
        memcpy(at, arrays[i].bytes, arrays[i].n_bytes);
    test_write_file(file, whole, 8 + length + data);
    free(whole);
    free(header);
}

uint16_t half_of(float value)
{
    int exponent;
    const double fraction = frexp(fabs(value), &exponent); /* from 0.5 */
    const unsigned sign = signbit(value) ? 0x8000 : 0;
    return (uint16_t)(value == 0 ? sign
                                 : sign | (unsigned)(exponent + 14) << 10 | ((unsigned)(fraction * 2048) & 0x3ff));
}

uint16_t bfloat_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)(bits >> 16);
}
