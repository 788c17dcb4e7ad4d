#include "judge.h"
#include "say.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *judge_class(int label)
{
    static const char *const names[JUDGE_CLASSES] = {"T-shirt", "Trouser", "Pullover", "Dress", "Coat",
                                                     "Sandal",  "Shirt",   "Sneaker",  "Bag",   "Boot"};
    return names[label];
}

static int guess_of(const float *logits)
{
    int guess = 0;
    for (int i = 1; i < JUDGE_CLASSES; i++)
        if (logits[i] > logits[guess])
            guess = i;
    return guess;
}

static double probability(const float *logits, int of)
{
    double sum = 0;
    for (int i = 0; i < JUDGE_CLASSES; i++)
        sum += exp((double)logits[i] - logits[of]);
    return 1 / sum;
}

/* Keeps the image if it is among the worst; equal ones by their place in the set. False without memory. */
static bool consider(judge *j, const judge_image *image, const float *pixels)
{
    int at = j->n_worst;
    while (at > 0 && image->of_label < j->worst[at - 1].of_label)
        at--;
    if (at == JUDGE_WORST)
        return true;
    size_t size = (size_t)j->width * (size_t)j->height;
    unsigned char *kept = j->n_worst == JUDGE_WORST ? j->worst[JUDGE_WORST - 1].pixels : malloc(size);
    if (!kept)
        return false;
    if (j->n_worst < JUDGE_WORST)
        j->n_worst++;
    memmove(&j->worst[at + 1], &j->worst[at], (size_t)(j->n_worst - 1 - at) * sizeof *j->worst);
    for (size_t i = 0; i < size; i++)
        kept[i] = (unsigned char)lrintf(255 * pixels[i]);
    j->worst[at] = *image;
    j->worst[at].pixels = kept;
    return true;
}

static bool judge_batch(judge *j, const float *logits, const float *images, const float *labels, int64_t rows,
                        int64_t image_numbers)
{
    for (int64_t i = 0; i < rows; i++, logits += JUDGE_CLASSES) {
        int label = (int)labels[i], guess = guess_of(logits);
        j->taken[label][guess]++;
        j->correct += label == guess;
        judge_image image = {.index = j->rows + i,
                             .label = label,
                             .guess = guess,
                             .sure = probability(logits, guess),
                             .of_label = probability(logits, label)};
        if (label != guess && !consider(j, &image, images + i * image_numbers))
            return false;
    }
    j->rows += rows;
    return true;
}

int judge_network(judge *j, ls_module *net, ls_data *test)
{
    int64_t rows = ls_data_rows(test);
    float *logits = malloc((size_t)rows * JUDGE_CLASSES * sizeof *logits), *images = NULL, *labels = NULL;
    bool memory = logits != NULL;
    *j = (judge){0};
    if (memory)
        ls_predict(net, test, logits, JUDGE_CLASSES);
    ls_seek(test, 0, 0);
    for (ls_batch batch; memory && ls_next(test, &batch);) {
        int64_t n = ls_rows(batch.X), numbers = ls_dim(batch.X, 1) * ls_dim(batch.X, 2) * ls_dim(batch.X, 3);
        if (!images) { /* the first batch is the largest */
            j->height = (int)ls_dim(batch.X, 2);
            j->width = (int)ls_dim(batch.X, 3);
            images = malloc((size_t)(n * numbers) * sizeof *images);
            labels = malloc((size_t)n * sizeof *labels);
        }
        memory = images && labels;
        if (memory && ls_read(batch.X, images, n * numbers) == LS_OK && ls_read(batch.y, labels, n) == LS_OK)
            memory = judge_batch(j, logits + j->rows * JUDGE_CLASSES, images, labels, n, numbers);
    }
    free(logits);
    free(images);
    free(labels);
    if (!memory)
        return failed("--report", "no memory for %lld test images", (long long)rows);
    return ls_failed(ls_session_of(test)) ? session_failed(ls_session_of(test), "--report") : 0;
}

void judge_free(judge *j)
{
    for (int i = 0; i < j->n_worst; i++)
        free(j->worst[i].pixels);
}
