#include "data/augment.h"
#include "base/math.h"
#include "base/random.h"

#include <math.h>

static const double LEAST_AREA = 0.02, AREAS = 0.31; /* of the image's: from, and how much above */
static const double LOG_LEAST_RATIO = -1.2039728043259361, LOG_RATIOS = 2.3978952727983707; /* ln 0.3, ln 11 */

/* One of 0 to n - 1. */
static int32_t pick(const ls_derived *from, uint64_t i, int n)
{
    return (int32_t)(ls_derived_uniform(from, i) * n);
}

static int32_t side(double length, int most)
{
    double rounded = floor(length + 0.5);
    return rounded < 1 ? 1 : rounded > most ? most : (int32_t)rounded;
}

static void erase(const ls_derived *from, int height, int width, ls_change *change)
{
    double area = (double)height * width * (LEAST_AREA + AREAS * ls_derived_uniform(from, 4));
    double ratio = (double)ls_expf((float)(LOG_LEAST_RATIO + LOG_RATIOS * ls_derived_uniform(from, 5)));
    change->height = side(sqrt(area * ratio), height);
    change->width = side(sqrt(area / ratio), width);
    change->top = pick(from, 6, height - change->height + 1);
    change->left = pick(from, 7, width - change->width + 1);
}

ls_change ls_augment_draw(const ls_augment *augment, uint64_t seed, uint32_t sample, int64_t epoch, int height,
                          int width)
{
    ls_random_stream stream = {seed, LS_FOR_AUGMENT, sample, (uint64_t)epoch};
    ls_derived from = ls_random_derive(&stream);
    ls_change change = {0};
    if (augment->crop > 0) {
        change.down = pick(&from, 0, 2 * augment->crop + 1) - augment->crop;
        change.right = pick(&from, 1, 2 * augment->crop + 1) - augment->crop;
    }
    if (augment->flip)
        change.flip = ls_derived_uniform(&from, 2) < 0.5;
    if (augment->erase > 0 && ls_derived_uniform(&from, 3) < augment->erase)
        erase(&from, height, width, &change);
    return change;
}
