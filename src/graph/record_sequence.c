/* Recording of what sequences are computed with. */
#include "base/environment.h"
#include "graph/record.h"

ls_tensor *ls_as_rank(ls_tensor *x, int rank)
{
    const int64_t *from = x->shape.dim + (rank < x->shape.rank ? 2 : 1);
    const ls_shape shape = rank == 4 ? (ls_shape){4, {x->shape.dim[0], 1, from[0], from[1]}}
                                     : (ls_shape){3, {x->shape.dim[0], from[0], from[1]}};
    return ls_record_shaped(LS_OP_COUNT, &x, 1, &shape);
}

ls_tensor *ls_batch_matmul(ls_tensor *a, ls_tensor *b)
{
    LS_OWN_ENVIRONMENT;
    static const char *const name = "ls_batch_matmul";
    if (!ls_operands((ls_tensor *[]){a, b}, 2, name))
        return NULL;
    const ls_shape *x = &a->shape, *y = &b->shape;
    const int rank = x->rank;
    bool fits = (rank == 3 || rank == 4) && y->rank == rank && b->kind != LS_TENSOR_PARAMETER;
    for (int i = 0; fits && i < rank - 2; i++)
        fits = x->dim[i] == y->dim[i];
    if (!fits || x->dim[rank - 1] != y->dim[rank - 2])
        return ls_bad_shapes((ls_tensor *[]){a, b}, "a, b", name,
                             "a must be (images, rows, inner) and b (images, inner, columns), both perhaps with equal "
                             "sizes between");
    ls_tensor *in[] = {rank == 3 ? ls_as_rank(a, 4) : a, rank == 3 ? ls_as_rank(b, 4) : b};
    if (!in[0] || !in[1])
        return NULL;
    ls_shape shape = in[0]->shape;
    shape.dim[3] = y->dim[rank - 1];
    ls_tensor *product = ls_record_shaped(LS_OP_BATCH_MATMUL, in, 2, &shape);
    return product && rank == 3 ? ls_as_rank(product, 3) : product;
}

ls_tensor *ls_embedding(ls_tensor *ids, ls_tensor *table)
{
    LS_OWN_ENVIRONMENT;
    static const char *const name = "ls_embedding";
    ls_tensor *in[] = {ids, table};
    if (!ls_operands(in, 2, name))
        return NULL;
    const ls_shape *rows = ls_weight_shape(table);
    if (ids->shape.rank != 2 || !rows || rows->rank != 2)
        return ls_bad_shapes(in, "ids, table", name,
                             "ids must be (images, tokens), and the table a parameter (rows, features)");
    if (rows->dim[0] > LS_TABLE_ROWS)
        return ls_bad_shapes(in, "ids, table", name,
                             "ids are floats, so the table can have no more than 16777216 rows");
    const ls_shape shape = {3, {ids->shape.dim[0], ids->shape.dim[1], rows->dim[1]}};
    return ls_record_shaped(LS_OP_EMBEDDING, in, 2, &shape);
}
