/* One training step of LeNet in plain C, without the library and with its bits. Read this first: all else is the same
 * step, fast and on many devices. tests/cli/one_step.sh compares the two; by hand, from the same weights and images:
 *
 *     cc -O2 -ffp-contract=off one_step.c -o one_step -lm
 *     lockstep train --steps 20 --save before.safetensors
 *     lockstep train --weights before.safetensors --limit 64 --epochs 1 --no-shuffle --conv direct --devices cpu:0 \
 *         --save theirs.safetensors
 *     ./one_step before.safetensors train-images-idx3-ubyte train-labels-idx1-ubyte ours.safetensors
 *     cmp ours.safetensors theirs.safetensors
 *
 * Adding floats rounds, so the order of a sum's additions decides its bits. Two rules give the order of every sum:
 *   - Within an image a sum is one chain, over channels, then rows, then columns.
 *   - The library computes 16 images side by side, one in each lane of a vector. So a sum over images is 16 sums, that
 *     of lane l over the images l, l + 16, l + 32 .., and at the end the lanes are added, always in the same way.
 * Neither knows how many devices there are, or how wide their vectors. src/device/op.h has the order of each operation.
 * Up to 64 images are one shard; the gradients of several would be added in a tree (src/comm/tree.h). By itself the
 * library computes the 5 x 5 convolution by Winograd's algorithm, whose sums are others (src/device/winograd.h);
 * --conv direct is what stands here.
 *
 * fmaf(a, b, c) is a * b + c rounded once. The compiler fuses nothing else (-ffp-contract=off), and other functions of
 * the C library whose results differ from one to the next are not used. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 16, MOST = 64, CLASSES = 10 };
static const float LEARNING_RATE = 0.2f;
static int images; /* in the batch */

/* What a layer gives: for each image `channels` maps of side x side numbers, [image][channel][row][column]. */
typedef struct maps {
    int channels, side;
    float *numbers;
} maps;

static float *at(maps m, int image, int channel, int row, int column)
{
    return &m.numbers[((image * m.channels + channel) * m.side + row) * m.side + column];
}

/* A convolution with windows of k x k, a stride of 1 and no padding. A linear layer is one too, of k = 1 and maps of a
 * single number. */
typedef struct layer {
    int in, out, k, by_input; /* w is [out][in][k][k], or where `by_input` [in][out], as in the product x w */
    int weights;
    float *w, *b, *dw, *db; /* the gradients dw and db lie as w and b do */
} layer;

static int weight(const layer *l, int o, int c, int i, int j)
{
    return ((l->by_input ? c * l->out + o : o * l->in + c) * l->k + i) * l->k + j;
}

/* First a[0] + a[8], a[1] + a[9] .., then the same with halves of 4, 2 and 1. Adding 0 leaves no -0. */
static float sum_of_lanes(float a[LANES])
{
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            a[i] += a[i + half];
    return a[0] + 0.0f;
}

/* ---- Forward ---- */

/* y = conv(x, w) + b, or relu of it. The bias begins the sum, and products join it one by one. */
static void forward(const layer *l, maps y, maps x, int relu)
{
    for (int image = 0; image < images; image++)
        for (int o = 0; o < l->out; o++)
            for (int row = 0; row < y.side; row++)
                for (int column = 0; column < y.side; column++) {
                    float sum = l->b[o];
                    for (int c = 0; c < l->in; c++)
                        for (int i = 0; i < l->k; i++)
                            for (int j = 0; j < l->k; j++)
                                sum = fmaf(l->w[weight(l, o, c, i, j)], *at(x, image, c, row + i, column + j), sum);
                    *at(y, image, o, row, column) = relu && sum < 0 ? 0 : sum;
                }
}

/* y = the means of x's windows of 2 x 2, row by row. */
static void pool(maps y, maps x)
{
    for (int image = 0; image < images; image++)
        for (int c = 0; c < y.channels; c++)
            for (int row = 0; row < y.side; row++)
                for (int column = 0; column < y.side; column++) {
                    const float *top = at(x, image, c, 2 * row, 2 * column), *bottom = top + x.side;
                    *at(y, image, c, row, column) = (top[0] + top[1] + bottom[0] + bottom[1]) * 0.25f;
                }
}

/* ---- Loss ---- */

/* exp and log differ from one C library to the next. These are Lockstep's (src/base/math.h): series in double, rounded
 * to float. ln 2 is cut in two, so that n * LN2_HIGH is exact. */
static const double LN2_HIGH = 0x1.62e42feep-1, LN2_LOW = 0x1.a39ef35793c76p-33;

/* For x up to 0. x = n ln 2 + r, exp(x) = 2^n exp(r), and exp(r) by its Taylor series to r^11 / 11!. */
static float exponential(float x)
{
    static const double factorial[] = {39916800, 3628800, 362880, 40320, 5040, 720, 120, 24, 6, 2, 1, 1};
    if (x < -104)
        return 0;
    int n = (int)((double)x * 0x1.71547652b82fep0 - 0.5);
    double r = (double)x - n * LN2_HIGH - n * LN2_LOW, sum = 0;
    for (int i = 0; i < 12; i++)
        sum = sum * r + 1 / factorial[i];
    return (float)ldexp(sum, n);
}

/* For x from 1 on. x = 2^n m with m around 1, f = m - 1, s = f / (2 + f): log(m) = 2 atanh(s), by fdlibm's series. */
static float logarithm(float x)
{
    static const double series[] = {
        1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01, 2.222219843214978396e-01,
        2.857142874366239149e-01, 3.999999999940941908e-01, 6.666666666666735130e-01, 0};
    int n;
    double m = frexp(x, &n), sum = 0; /* m from 1/2 to 1 */
    if (m <= 0x1.6a09e667f3bcdp-1) {  /* sqrt(1/2) */
        m *= 2;
        n--;
    }
    double f = m - 1, s = f / (2 + f), half = 0.5 * f * f;
    for (int i = 0; i < 8; i++)
        sum = sum * (s * s) + series[i];
    return (float)(n * LN2_HIGH - ((half - (s * (half + sum) + n * LN2_LOW)) - f));
}

/* Softmax cross-entropy. Gives the mean loss, and in dz the gradient of each image's own loss: softmax(z), less 1 at
 * the label. What is summed over images becomes a mean at the end: the loss here, the gradients in `update`. */
static double cross_entropy(maps dz, maps z, const unsigned char *labels)
{
    float lanes[LANES] = {0};
    for (int image = 0; image < images; image++) {
        const float *logits = at(z, image, 0, 0, 0);
        float *d = at(dz, image, 0, 0, 0), largest = logits[0], sum = 0;
        for (int c = 1; c < CLASSES; c++)
            largest = logits[c] > largest ? logits[c] : largest;
        for (int c = 0; c < CLASSES; c++)
            sum += d[c] = exponential(logits[c] - largest);
        for (int c = 0; c < CLASSES; c++)
            d[c] = d[c] / sum - (c == labels[image] ? 1 : 0);
        lanes[image % LANES] += logarithm(sum) - (logits[labels[image]] - largest);
    }
    return (double)sum_of_lanes(lanes) / images;
}

/* ---- Backward: dx is the gradient of x. Those of weights and biases are sums over all images ---- */

/* dw at one weight: the sum of dy times the number of x that the weight met there. An image of 64 places or more is
 * summed by itself before it joins its lane; else a lane is one chain. */
static float weight_gradient(maps x, maps dy, int o, int c, int i, int j)
{
    float lanes[LANES] = {0};
    int by_image = dy.side * dy.side >= 64;
    for (int image = 0; image < images; image++) {
        float *lane = &lanes[image % LANES], sum = by_image ? 0 : *lane;
        for (int row = 0; row < dy.side; row++)
            for (int column = 0; column < dy.side; column++)
                sum = fmaf(*at(dy, image, o, row, column), *at(x, image, c, row + i, column + j), sum);
        *lane = by_image ? *lane + sum : sum;
    }
    return sum_of_lanes(lanes);
}

/* db at one bias: the sum of dy, of which each row is summed by itself before it joins its lane. */
static float bias_gradient(maps dy, int o)
{
    float lanes[LANES] = {0};
    for (int image = 0; image < images; image++)
        for (int row = 0; row < dy.side; row++) {
            float sum = 0;
            for (int column = 0; column < dy.side; column++)
                sum += *at(dy, image, o, row, column);
            lanes[image % LANES] += sum;
        }
    return sum_of_lanes(lanes);
}

static void parameter_gradients(layer *l, maps x, maps dy)
{
    for (int o = 0; o < l->out; o++) {
        l->db[o] = bias_gradient(dy, o);
        for (int c = 0; c < l->in; c++)
            for (int i = 0; i < l->k; i++)
                for (int j = 0; j < l->k; j++)
                    l->dw[weight(l, o, c, i, j)] = weight_gradient(x, dy, o, c, i, j);
    }
}

/* dx is the sum of dy times the weight over all places that this number of x had a part in: fewer at a map's edge. */
static void input_gradient(const layer *l, maps dx, maps dy)
{
    for (int image = 0; image < images; image++)
        for (int c = 0; c < l->in; c++)
            for (int row = 0; row < dx.side; row++)
                for (int column = 0; column < dx.side; column++) {
                    float sum = 0;
                    for (int o = 0; o < l->out; o++)
                        for (int i = 0; i < l->k; i++)
                            for (int j = 0; j < l->k; j++) {
                                int y = row - i, x = column - j;
                                if (y >= 0 && y < dy.side && x >= 0 && x < dy.side)
                                    sum = fmaf(l->w[weight(l, o, c, i, j)], *at(dy, image, o, y, x), sum);
                            }
                    *at(dx, image, c, row, column) = sum + 0.0f; /* no -0 */
                }
}

/* Of the pool of x and of the relu in front of it, which lets nothing back where it gave 0. */
static void pool_gradient(maps dx, maps x, maps dy)
{
    for (int image = 0; image < images; image++)
        for (int c = 0; c < x.channels; c++)
            for (int row = 0; row < x.side; row++)
                for (int column = 0; column < x.side; column++) {
                    float share = *at(dy, image, c, row / 2, column / 2) * 0.25f;
                    *at(dx, image, c, row, column) = *at(x, image, c, row, column) > 0 ? share : 0;
                }
}

/* Of a relu alone, in place; y is what it gave. */
static void relu_gradient(maps dy, maps y)
{
    for (int i = 0; i < images * y.channels; i++)
        dy.numbers[i] = y.numbers[i] > 0 ? dy.numbers[i] : 0;
}

/* ---- The step ---- */

/* Room for all numbers but the weights, taken one after another. */
static float *numbers(int n)
{
    static float room[3 << 20];
    static int taken;
    return &room[(taken += n) - n];
}

static maps new_maps(int channels, int side)
{
    return (maps){channels, side, numbers(images * channels * side * side)};
}

static layer new_layer(int in, int out, int k, int by_input)
{
    int weights = in * out * k * k;
    return (layer){in, out, k, by_input, weights, NULL, NULL, numbers(weights), numbers(out)};
}

/* Fills the layers' gradients and gives the mean loss. */
static double forward_and_backward(layer *conv1, layer *conv2, layer *linear3, layer *linear4,
                                   const unsigned char *pixels, const unsigned char *labels)
{
    /* conv2 has windows for 9 x 9 numbers. The pool reads 8 x 8 of them, and the others are not computed. To flatten
     * moves nothing. */
    maps x = new_maps(1, 28), y1 = new_maps(20, 26), p1 = new_maps(20, 13), y2 = new_maps(50, 8), p2 = new_maps(50, 4);
    maps flat = {50 * 4 * 4, 1, p2.numbers}, y3 = new_maps(128, 1), z = new_maps(CLASSES, 1);
    for (int i = 0; i < images * 28 * 28; i++)
        x.numbers[i] = (float)pixels[i] / 255.0f;
    forward(conv1, y1, x, 1);
    pool(p1, y1);
    forward(conv2, y2, p1, 1);
    pool(p2, y2);
    forward(linear3, y3, flat, 1);
    forward(linear4, z, y3, 0);

    maps dy1 = new_maps(20, 26), dp1 = new_maps(20, 13), dy2 = new_maps(50, 8), dp2 = new_maps(50, 4);
    maps dflat = {50 * 4 * 4, 1, dp2.numbers}, dy3 = new_maps(128, 1), dz = new_maps(CLASSES, 1);
    double loss = cross_entropy(dz, z, labels);
    parameter_gradients(linear4, y3, dz);
    input_gradient(linear4, dy3, dz);
    relu_gradient(dy3, y3);
    parameter_gradients(linear3, flat, dy3);
    input_gradient(linear3, dflat, dy3);
    pool_gradient(dy2, y2, dp2);
    parameter_gradients(conv2, p1, dy2);
    input_gradient(conv2, dp1, dy2);
    pool_gradient(dy1, y1, dp1);
    parameter_gradients(conv1, x, dy1);
    return loss;
}

/* Plain SGD: the gradients' mean over the images, times the learning rate, is taken off. */
static void update(float *w, const float *dw, int n)
{
    for (int i = 0; i < n; i++)
        w[i] = fmaf(-LEARNING_RATE, dw[i] / (float)images, w[i]);
}

/* ---- Files ---- */

static void fail(const char *where, const char *what)
{
    fprintf(stderr, "one_step: %s: %s\n", where, what);
    exit(1);
}

/* The whole file, with a 0 behind it. */
static char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    long end = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    char *bytes = end >= 0 ? calloc((size_t)end + 1, 1) : NULL;
    if (!bytes || fseek(file, 0, SEEK_SET) != 0 || fread(bytes, 1, (size_t)end, file) != (size_t)end)
        fail(path, "cannot be read");
    fclose(file);
    *size = (size_t)end;
    return bytes;
}

/* A tensor where it lies in a safetensors file: the header's length in 8 bytes, a header in JSON, then the numbers. */
static float *tensor(char *file, size_t size, const char *name, int n)
{
    char key[16];
    snprintf(key, sizeof key, "\"%s\":{", name);
    char *entry = size > 8 ? strstr(file + 8, key) : NULL, *place = entry ? strstr(entry, "\"data_offsets\":[") : NULL;
    unsigned long long begin = 0, end = 0;
    uint64_t header = 0;
    if (place && sscanf(place, "\"data_offsets\":[%llu,%llu]", &begin, &end) == 2)
        memcpy(&header, file, sizeof header); /* little-endian, as the machine */
    if (header > size - 8 || end > size - 8 - header || begin > end || end - begin != n * sizeof(float))
        fail(name, "the weights have no such tensor of LeNet's size");
    return (float *)(file + 8 + header + begin);
}

/* The first bytes of a file in MNIST's format: behind a header that ends with as many sizes as its fourth byte says. */
static void read_idx(const char *path, int dimensions, unsigned char *to, size_t bytes)
{
    unsigned char header[16];
    size_t length = 4 + 4 * (size_t)dimensions;
    FILE *file = fopen(path, "rb");
    if (!file || fread(header, 1, length, file) != length || memcmp(header, "\0\0\x08", 3) != 0 ||
        header[3] != dimensions || fread(to, 1, bytes, file) != bytes)
        fail(path, "cannot be read, has too few, or is compressed (gunzip it)");
    fclose(file);
}

int main(int argc, char **argv)
{
    images = argc == 6 ? atoi(argv[5]) : MOST;
    if (argc < 5 || argc > 6 || images < 1 || images > MOST) {
        fprintf(stderr,
                "usage: one_step WEIGHTS IMAGES LABELS NEW [COUNT]\n"
                "A step of LeNet on the first COUNT images (64). Prints the loss, writes the new weights to NEW.\n");
        return 2;
    }
    static unsigned char pixels[MOST * 28 * 28], labels[MOST];
    read_idx(argv[2], 3, pixels, (size_t)images * 28 * 28);
    read_idx(argv[3], 1, labels, (size_t)images);
    for (int i = 0; i < images; i++)
        if (labels[i] >= CLASSES)
            fail(argv[3], "has other labels than LeNet's 0 to 9");
    size_t size;
    char *file = read_file(argv[1], &size);
    static const char *const names[][2] = {{"W1", "b1"}, {"W2", "b2"}, {"W3", "b3"}, {"W4", "b4"}};
    layer l[] = {new_layer(1, 20, 3, 0), new_layer(20, 50, 5, 0), new_layer(800, 128, 1, 1),
                 new_layer(128, CLASSES, 1, 1)};
    for (int i = 0; i < 4; i++) {
        l[i].w = tensor(file, size, names[i][0], l[i].weights);
        l[i].b = tensor(file, size, names[i][1], l[i].out);
    }
    double loss = forward_and_backward(&l[0], &l[1], &l[2], &l[3], pixels, labels);
    for (int i = 0; i < 4; i++) {
        update(l[i].w, l[i].dw, l[i].weights);
        update(l[i].b, l[i].db, l[i].out);
    }
    FILE *out = fopen(argv[4], "wb"); /* the same file, with new numbers in their places */
    if (!out || fwrite(file, 1, size, out) != size || fclose(out) != 0)
        fail(argv[4], "cannot be written");
    free(file);
    printf("loss %.17g\n", loss);
    return 0;
}
