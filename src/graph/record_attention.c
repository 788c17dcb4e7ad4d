/* Recording of attention. */
#include <math.h>

#include "base/environment.h"
#include "base/number.h"
#include "base/random.h"
#include "graph/record.h"

static const char *const name = "ls_attention";

/* What is wrong with q, k and v, of three dimensions or of four; NULL: nothing. */
static const char *wrong_shapes(const ls_tensor *q, const ls_tensor *k, const ls_tensor *v)
{
    const ls_shape *x = &q->shape, *y = &k->shape, *z = &v->shape;
    const int rank = x->rank;
    if ((rank != 3 && rank != 4) || y->rank != rank || z->rank != rank || x->dim[0] != y->dim[0] ||
        x->dim[0] != z->dim[0] || y->dim[rank - 2] != z->dim[rank - 2] || x->dim[rank - 1] != y->dim[rank - 1])
        return "q must be (images, tokens, features), k (images, keys, features) and v (images, keys, any), or each "
               "(images, heads, ...)";
    if (rank == 4 && (y->dim[1] != z->dim[1] || y->dim[1] < 1 || x->dim[1] % y->dim[1] != 0))
        return "k and v must have equal heads, whose number divides that of q's";
    return y->dim[rank - 2] > LS_TABLE_ROWS ? "there must be no more than 16777216 keys" : NULL;
}

/* Whether these options are good for q and k; raises what is wrong. */
static bool good_options(ls_tensor *q, const ls_tensor *k, const ls_attention_options *o)
{
    const int64_t heads = k->shape.rank == 4 ? k->shape.dim[1] : 1;
    ls_session *session = q->session;
    if (!(o->dropout >= 0 && o->dropout < 1))
        ls_raise(&session->context, LS_BAD_ARGUMENT, "%s: dropout must be at least 0 and below 1", name);
    else if (o->dropout > 0 && !session->recording)
        ls_raise(&session->context, LS_BAD_ARGUMENT, "%s: dropout is for the forward function of a module", name);
    else if (!(ls_or_usual(o->scale, 1) >= 0) || !isfinite((float)o->scale))
        ls_raise(&session->context, LS_BAD_ARGUMENT,
                 "%s: scale must be a number above 0, 0 for 1/sqrt(features) or -1 for none", name);
    else if (o->kv_heads != 0 && o->kv_heads != heads)
        ls_raise(&session->context, LS_BAD_ARGUMENT, "%s: kv_heads is %d, and k has %lld heads", name, o->kv_heads,
                 (long long)heads);
    else if (!ls_are_lengths(o->lengths, q))
        ls_bad_shapes((ls_tensor *[]){q, o->lengths}, "q, lengths", name, "lengths must be (images) or (images, 1)");
    return !ls_failed(session);
}

ls_tensor *ls_attention(ls_tensor *q, ls_tensor *k, ls_tensor *v, const ls_attention_options *options)
{
    LS_OWN_ENVIRONMENT;
    const ls_attention_options o = options ? *options : (ls_attention_options){0};
    ls_tensor *in[] = {q, k, v, o.lengths};
    const int n = o.lengths ? 4 : 3;
    if (!ls_operands(in, n, name))
        return NULL;
    const char *wrong = k->kind == LS_TENSOR_PARAMETER || v->kind == LS_TENSOR_PARAMETER
                            ? "k and v must have images, and be no parameters"
                            : wrong_shapes(q, k, v);
    if (wrong)
        return ls_bad_shapes(in, "q, k, v", name, "%s", wrong);
    if (!good_options(q, k, &o))
        return NULL;
    const int rank = q->shape.rank;
    for (int i = 0; i < 3 && rank == 3; i++)
        if (!(in[i] = ls_as_rank(in[i], 4)))
            return NULL;
    ls_shape shape = in[0]->shape;
    shape.dim[3] = in[2]->shape.dim[3];
    ls_tensor *y = ls_record_shaped(LS_OP_ATTENTION, in, n, &shape);
    if (!y)
        return NULL;
    const ls_recording *recording = q->session->recording;
    ls_attributes *how = &y->computed.attributes;
    how->causal = o.causal;
    how->factor = (float)ls_or_usual(o.scale, 1 / sqrt((double)in[0]->shape.dim[3]));
    if (recording && recording->training && o.dropout > 0) {
        how->rate = (float)o.dropout;
        how->key = ls_hash_name(recording->path);
    }
    return rank == 3 ? ls_as_rank(y, 3) : y;
}
