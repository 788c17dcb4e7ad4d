/* One run of training, from the first step to the results. */
#pragma once

#include "live/progress.h"
#include "options/outputs.h"
#include "record/log.h"
#include "record/origin.h"
#include "run/run.h"
#include "text/say.h"

#include <lockstep_checkpoint.h>

typedef struct training {
    run run;
    origin origin;
    ls_data *train, *test;
    ls_data *validation; /* held out of train; NULL: none */
    ls_trainer *trainer;
    ls_optim optim;
    run_log *log;
    struct record *record; /* for --report; NULL without */
    struct trace *trace;   /* for --trace; NULL without */
    progress bar;
    loads_watch devices;   /* for the bar */
    int64_t rows, batches; /* of one epoch */
    int64_t steps;         /* of the whole run */
    int64_t begun;         /* steps handed in */
    int64_t done;          /* of them in this epoch */
    int64_t epoch, epochs; /* the one that runs, from 1; how many the run will start */
    double seconds;        /* of training in the epochs before */
    double epoch_seconds;  /* in this one, before epoch_start and, once it is over, in all */
    double epoch_start;
    int64_t epoch_rows; /* handed in this epoch */
    /* Over this epoch's finished steps. */
    double loss_sum;
    int64_t correct, reported;
    double last_loss;
    int64_t finished;      /* steps of the whole run */
    int64_t first_step;    /* begun by an earlier process */
    int64_t finished_rows; /* images of the steps that this one finished */
    double spent_before;   /* seconds of training, of earlier ones */
    int64_t tested;        /* passes over the test images that are done */
    double test_seconds;   /* that the last one took; 0 before the first */
    double test_acc;
    double val_acc, val_loss;      /* NaN without validation */
    double best_acc;               /* of all epochs so far, first reached in best_epoch; 0 before there is one */
    double best_test_acc;          /* of that epoch */
    int64_t best_epoch, best_step; /* the step that it ended with */
    int64_t taken;                 /* the step of the weights, where they are not the last ones any more; else 0 */
    bool chance_said;              /* that it only guesses */
    bool ended_early;              /* --patience ended it: steps and epochs are those that were made */
    bool evaluated;                /* test_acc is of the weights as they are */
    char result[384];              /* the line with the accuracy, of a run that is complete */
    ls_checkpoints *checkpoints;
    int64_t saved_step;         /* of the last checkpoint; -1 before */
    bool saved_before;          /* the folder has a whole one, as far as is known */
    double saved_at;            /* on the steady clock */
    bool save_now;              /* it is time, as all ranks know */
    bool told;                  /* the results are, as far as that could be */
    outputs_lost lost;          /* what a run with results could not write */
    char not_saved[MOST_WORDS]; /* why the last checkpoint was not written; "" where it was, or none was asked for */
} training;

/* Takes the reports of the steps that finished since the last call. */
void take_reports(training *t);

/* A log that cannot be written says so once, and costs the run its status at the end. Whatever waits for a reader is
 * named. */
void training_end_line(training *t);

/* How many steps and epochs the run has, as it goes on from there: with batches of another size than before, what it
 * has behind it and what is left of its epochs. */
void count_steps(training *t, const ls_checkpoint *from);
