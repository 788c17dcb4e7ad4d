/* A run as a report tells it: its settings, its losses, its epochs. Filled while it trains, or read from its log. */
#pragma once

#include "record/history.h"

#include <stddef.h>

typedef struct record_setting {
    char *name, *value; /* as in the log; a null is "" */
} record_setting;

typedef struct record_epoch {
    int64_t epoch, step; /* the step that it ended with */
    double train_loss, train_acc, test_acc, sec, img_per_s;
    double val_acc; /* NaN without validation */
} record_epoch;

typedef struct record {
    char *name; /* of the log; NULL: the run that just ended */
    record_setting *settings;
    int n_settings;
    record_epoch *epochs;
    int n_epochs;
    history history;
    uint64_t losses; /* a hash of all losses' bits */
} record;

record *record_new(const char *name); /* NULL without memory */
void record_free(record *r);

enum { RECORD_SETTINGS = 1000 }; /* the most that a run can have */

/* Each is false without memory, the first also beyond RECORD_SETTINGS. */
bool record_set(record *r, const char *name, const char *value);
bool record_add_epoch(record *r, const record_epoch *epoch);
void record_step(record *r, int64_t step, double loss);

const char *record_text(const record *r, const char *name); /* "" where it is not there */
bool record_validates(const record *r);                     /* some epoch has its accuracy */
double record_test_acc(const record *r);                    /* of the weights that the run kept; NaN without epochs */
double record_number(const record *r, const char *name);    /* NaN where it is none */
double record_batches(const record *r);                     /* steps to an epoch; 1 where nothing tells */
double record_seconds(const record *r);                     /* of training, the mean over the epochs; NaN without any */
double record_speed(const record *r);                       /* images per second over the epochs; NaN without any */

/* Reads a log; NULL once a line is said. What a run that was ended in the middle of a line left of it is not read. */
record *record_read(const char *path);
bool record_reader_built(void);
