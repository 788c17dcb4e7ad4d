/* A convolution by oneDNN, its operands in the blocked formats that it likes best. What fails ends the program. */
#ifndef BENCH_ONEDNN_PEER_H
#define BENCH_ONEDNN_PEER_H

#include "convolutions.h"

/* Before the first of them, once: no wider instructions than these ("avx2", "avx512"). */
void peer_begin(const char *isa);

typedef struct peer peer;
/* Direction 0 is forward, 1 towards the data, 2 to the weights; directly, or as oneDNN itself chooses. A linear layer
 * is a convolution of one tap here as it is for us. */
peer *peer_new(const layer *l, int direction, int images, bool chooses);
double peer_time(peer *p); /* of one run, in processor time */
void peer_free(peer *p);

#endif
