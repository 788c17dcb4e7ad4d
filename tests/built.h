/* A graph that a test builds, and how it is spelled as its nodes: `c=conv+relu(a,b)` makes value c. Values are letters
 * in the order they were made, `-` an operand or output that is not there, `db` the gradient of parameter b in the
 * shard's partial gradient, and a'c the numbers of a under the shape of c. */
#ifndef LOCKSTEP_TESTS_BUILT_H
#define LOCKSTEP_TESTS_BUILT_H

#include "support.h"

#include <lockstep.h>

#include "graph/graph.h"

typedef struct built {
    ls_session *session;
    ls_flat flat;
    ls_backend backend;
    ls_graph *graph;
    char text[2048];
} built;

#define NODE(b, c, h, w, how, ...)                                                                                     \
    node(b, c, h, w, (ls_attributes){.op = LS_OP_##how}, (ls_value *[LS_MAX_IN]){__VA_ARGS__})

/* The same of a window: its kernel, stride and padding follow the operation. */
#define WINDOW(b, c, h, w, how, k, s, p, ...)                                                                          \
    node(b, c, h, w, (ls_attributes){.op = LS_OP_##how, .kernel = k, .stride = s, .padding = p},                       \
         (ls_value *[LS_MAX_IN]){__VA_ARGS__})

built *begin(bool training);
void end(built *b);
ls_value *node(built *b, int c, int h, int w, ls_attributes how, ls_value *const in[LS_MAX_IN]);
ls_value *input(built *b, int c, int h, int w, bool tracked);
ls_value *weight(built *b, int numbers);
ls_value *norm(built *b, ls_value *x, ls_op op);
void put(built *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void put_value(built *b, const ls_value *value);
const char *spelled(built *b, int first);
int behind_inputs(const ls_graph *graph);

#endif
