/* A trained network against the test images: which class it takes for which, and where it is most wrong. */
#pragma once

#include <lockstep.h>
#include <lockstep_data.h>

enum { JUDGE_WORST = 24 };

typedef struct judge_image {
    int64_t index; /* in the test set */
    int label, guess;
    double sure, of_label; /* the probabilities that it gave the guess and the label */
    unsigned char *pixels; /* channels * height * width */
} judge_image;

typedef struct judge {
    ls_data *test;
    ls_data_info about;
    int64_t *taken; /* [label][guess] */
    int64_t rows, correct;
    judge_image worst[JUDGE_WORST]; /* wrong ones, the label's probability rising */
    int n_worst;
} judge;

/* Reads all of `test`. 0, or the status to exit with once a line is said. */
int judge_network(judge *j, ls_module *net, ls_data *test);
void judge_free(judge *j);

/* Softmax: what logits give one of the classes, from 0 to 1. */
double judge_probability(const float *logits, int classes, int of);

/* The name of a class, or where it has none its number, written to text. */
const char *judge_class(const judge *j, int label, char text[16]);
