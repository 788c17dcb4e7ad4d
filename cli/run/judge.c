#include "run/judge.h"
#include "text/say.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *judge_class(const judge *j, int label, char text[16])
{
    const char *name = ls_data_class(j->test, label);
    snprintf(text, 16, "%d", label);
    return name ? name : text;
}

static int guess_of(const float *logits, int classes)
{
    int guess = 0;
    for (int i = 1; i < classes; i++)
        if (logits[i] > logits[guess])
            guess = i;
    return guess;
}

double judge_probability(const float *logits, int classes, int of)
{
    double sum = 0;
    for (int i = 0; i < classes; i++)
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
    size_t size = (size_t)j->about.channels * (size_t)j->about.width * (size_t)j->about.height;
    unsigned char *kept = j->n_worst == JUDGE_WORST ? j->worst[JUDGE_WORST - 1].pixels : malloc(size);
    if (!kept)
        return false;
    if (j->n_worst < JUDGE_WORST)
        j->n_worst++;
    memmove(&j->worst[at + 1], &j->worst[at], (size_t)(j->n_worst - 1 - at) * sizeof *j->worst);
    for (size_t i = 0; i < size; i++) /* of floats what is below 0 or above 1 is cut off */
        kept[i] = (unsigned char)lrintf(255 * fminf(fmaxf(pixels[i], 0), 1));
    j->worst[at] = *image;
    j->worst[at].pixels = kept;
    return true;
}

static bool judge_batch(judge *j, const float *logits, const float *images, const float *labels, int64_t rows,
                        int64_t image_numbers)
{
    const int classes = j->about.classes;
    for (int64_t i = 0; i < rows; i++, logits += classes) {
        int label = (int)labels[i], guess = guess_of(logits, classes);
        j->taken[label * classes + guess]++;
        j->correct += label == guess;
        judge_image image = {.index = j->rows + i,
                             .label = label,
                             .guess = guess,
                             .sure = judge_probability(logits, classes, guess),
                             .of_label = judge_probability(logits, classes, label)};
        if (label != guess && !consider(j, &image, images + i * image_numbers))
            return false;
    }
    j->rows += rows;
    return true;
}

int judge_network(judge *j, ls_module *net, ls_data *test)
{
    *j = (judge){.test = test};
    ls_data_about(test, &j->about);
    const size_t rows = (size_t)j->about.rows, classes = (size_t)j->about.classes;
    float *logits = malloc(rows * classes * sizeof *logits), *images = NULL, *labels = NULL;
    j->taken = calloc(classes * classes, sizeof *j->taken);
    bool memory = logits && j->taken;
    if (memory)
        ls_module_predict(net, test, logits, j->about.classes);
    ls_data_seek(test, 0, 0);
    for (ls_batch batch; memory && ls_data_next(test, &batch);) {
        int64_t n = ls_rows(batch.X), numbers = ls_dim(batch.X, 1) * ls_dim(batch.X, 2) * ls_dim(batch.X, 3);
        if (!images) { /* the first batch is the largest */
            images = malloc((size_t)(n * numbers) * sizeof *images);
            labels = malloc((size_t)n * sizeof *labels);
        }
        memory = images && labels;
        if (memory && ls_read(batch.X, images, n * numbers) == LS_OK && ls_read(batch.y, labels, n) == LS_OK)
            memory = judge_batch(j, logits + (size_t)j->rows * classes, images, labels, n, numbers);
    }
    free(logits);
    free(images);
    free(labels);
    if (!memory)
        return failed("--report", "no memory for %zu test images", rows);
    return ls_failed(ls_session_of(test)) ? session_failed(ls_session_of(test), "--report") : 0;
}

void judge_free(judge *j)
{
    for (int i = 0; i < j->n_worst; i++)
        free(j->worst[i].pixels);
    free(j->taken);
}
