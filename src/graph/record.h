/* Recording: while a module's forward runs, its operations are appended to the session's recording. */
#ifndef LS_GRAPH_RECORD_H
#define LS_GRAPH_RECORD_H

#include "graph/graph.h"

typedef struct ls_recording {
    ls_graph *graph;
    char path[512]; /* of the module whose forward runs: "resnet_block2.0", "" at the root */
} ls_recording;

/* The path kept for the session's life, for messages that come later. */
const char *ls_recorded_path(ls_session *session);

/* BatchNorm over x with parameters weight and bias and running statistics, all four made under the recording's path. */
ls_tensor *ls_record_batch_norm(ls_tensor *x, const char *path, float eps);
ls_tensor *ls_record_dropout(ls_tensor *x, const char *path, double rate);

/* A parameter under `path`: defined by the first recording of a network, looked up by later ones. */
ls_tensor *ls_record_parameter(ls_session *session, const char *path, const char *name, int rank,
                               const int64_t shape[]);

/* The loss and the metrics of logits: returns the loss of each image. */
ls_tensor *ls_record_cross_entropy(ls_tensor *logits);
void ls_record_metrics(ls_tensor *logits, ls_tensor *loss);
void ls_record_rows(ls_tensor *logits);

#endif
