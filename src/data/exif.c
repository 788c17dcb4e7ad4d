#include "data/exif.h"

#include <stdint.h>
#include <string.h>

enum { APP1 = 0xe1, SCAN = 0xda, ORIENTATION = 0x0112, ENTRY = 12, SHORT = 3 };

/* A number of 2 or 4 bytes; of the last byte first where `little`. The bytes are there. */
static uint32_t number(const unsigned char *at, int bytes, bool little)
{
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | at[little ? bytes - 1 - i : i];
    return value;
}

/* A TIFF file: byte order, 42, and the place of its first directory, which is a count and so many entries. */
static bool is_turned(const unsigned char *tiff, size_t count)
{
    const bool little = count >= 8 && memcmp(tiff, "II", 2) == 0;
    if (count < 8 || (!little && memcmp(tiff, "MM", 2) != 0) || number(tiff + 2, 2, little) != 42)
        return false;
    size_t at = number(tiff + 4, 4, little);
    if (at > count - 2)
        return false;
    uint32_t entries = number(tiff + at, 2, little);
    for (at += 2; entries > 0 && count - at >= ENTRY; entries--, at += ENTRY)
        if (number(tiff + at, 2, little) == ORIENTATION && number(tiff + at + 2, 2, little) == SHORT) {
            const uint32_t value = number(tiff + at + 8, 2, little);
            return value >= 2 && value <= 8;
        }
    return false;
}

/* Segments up to the first scan: 0xff, what it is, and its length with the two bytes of that. */
bool ls_exif_turned(const unsigned char *bytes, size_t count)
{
    static const char name[6] = "Exif\0";
    for (size_t at = 2; at + 4 <= count && bytes[at] == 0xff && bytes[at + 1] != SCAN;) {
        const size_t length = number(bytes + at + 2, 2, false);
        const unsigned char *content = bytes + at + 4;
        if (length < 2 || length > count - at - 2)
            return false;
        if (bytes[at + 1] == APP1 && length >= 2 + sizeof name && memcmp(content, name, sizeof name) == 0)
            return is_turned(content + sizeof name, length - 2 - sizeof name);
        at += 2 + length;
    }
    return false;
}
