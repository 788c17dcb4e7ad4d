/* The operations and layers that random networks are made of: how one is drawn for a value, and how it is recorded. */
#ifndef TEST_NETWORKS_OPERATION_H
#define TEST_NETWORKS_OPERATION_H

#include "networks/recipe.h"

/* A forward function under way. */
typedef struct forward {
    ls_module *self;
    const recipe *recipe;
    const step *step;
    ls_tensor *const *values;
} forward;

struct operation {
    const char *name;
    const char *takes; /* numbers of sizes behind the images, such as "13"; "i": ids; "": another step's layer */
    bool (*draw)(recipe *r, step *p);                 /* says details and sizes; false where it does not fit */
    ls_tensor *(*record)(const forward *f);           /* NULL for layers, which are called */
    ls_module *(*make)(ls_session *s, const step *p); /* of a layer */
    ls_tensor *(*function)(ls_tensor *);              /* of each number, in place of the three above */
    ls_tensor *(*with)(ls_tensor *, double);
    bool bare; /* a layer without parameters */
};

/* Tables of operations end with one without a name. */
extern const operation number_operations[], map_operations[], norm_operations[], sequence_operations[],
    view_operations[], module_operations[];

const operation *operation_at(int i); /* of all tables; NULL behind the last */
int operation_count(void);
const operation *operation_named(const char *name);
ls_tensor *operation_record(const forward *f);

/* ---- For the tables ---- */

ls_tensor *operand(const forward *f, int k);
ls_tensor *parameter(const forward *f, int k); /* NULL where the step has fewer */
ls_tensor *lengths_of(const forward *f);       /* NULL: none */
const sizes *from_sizes(const recipe *r, const step *p);
void takes_parameter(recipe *r, step *p, ls_shape shape);
int divisor_of(recipe *r, int n);

#endif
