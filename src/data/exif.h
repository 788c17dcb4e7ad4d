/* What a camera noted in a JPEG of how it was held. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Whether a JPEG file's pixels are to be turned or mirrored before they are shown: Exif's tag 0x0112 in its first
 * directory is 2 to 8. False for whatever is not as it should be. */
bool ls_exif_turned(const unsigned char *bytes, size_t count);
