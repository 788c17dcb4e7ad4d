/* PNG and SVG files drawn by cairo, where the program is built with it. */
#pragma once

#include "report/pen.h"

/* "1.16.0"; NULL where the program is built without. */
const char *pictures_version(void);

typedef void picture_draw(pen *p, double width, double height, const void *what);

/* White paper of `width` by `height`, drawn on by `draw`. The PNG has PICTURE_SCALE as many pixels each way, for sharp
 * screens. */
enum { PICTURE_SCALE = 2 };
bool picture_png(FILE *file, double width, double height, picture_draw *draw, const void *what);
bool picture_svg(FILE *file, double width, double height, picture_draw *draw, const void *what);

/* Pixels [channels][height][width] as the URI of a PNG, "data:image/png;base64,...": three channels are red, green and
 * blue; of any other number the first one is shown. */
bool picture_uri(FILE *file, const unsigned char *pixels, int channels, int width, int height);
