/* Attention, row by row of one image after another. */
#include "base/math.h"
#include "base/random.h"
#include "device/ref/ref.h"

/* One head of one image. */
typedef struct head {
    const ls_op_call *call;
    const ls_operand *q, *k, *v;
    int group, lane, image, head, shared; /* shared: the head of k and v */
} head;

static float *at(const head *a, const ls_operand *x, int channel, int row, int column)
{
    return ls_ref_at(x, a->group, channel, row, column) + a->lane;
}

static float product(const head *a, const ls_operand *x, int row, const ls_operand *y, int key)
{
    float sum = 0;
    for (int i = 0; i < x->w; i++)
        sum = fmaf(*at(a, x, a->head, row, i), *at(a, y, a->shared, key, i), sum);
    return sum;
}

static float score(const head *a, int row, int key)
{
    return product(a, a->q, row, a->k, key) * a->call->attributes->factor;
}

static float rest_of(const head *a)
{
    return 1.0f / (1.0f - a->call->attributes->rate);
}

static int is_dropped(const head *a, int row, int key)
{
    const ls_samples *samples = a->call->samples;
    const ls_attributes *how = a->call->attributes;
    if (how->rate == 0)
        return 0;
    const uint64_t sample = samples->index[a->group * LS_LANES + a->lane];
    const ls_random_stream stream = {samples->seed, LS_FOR_DROPOUT, how->key ^ sample, samples->step};
    const uint64_t place = ((uint64_t)a->head * a->q->h + row) * a->k->h + key;
    return ls_random_uniform(&stream, place) < how->rate;
}

static void attend(const head *a, int row, int seen)
{
    const ls_operand *y = &a->call->out[0], *saved = &a->call->out[1];
    const int heads = a->q->c;
    float x[LS_KEY_BLOCK], m = 0, s = 0;
    for (int i = 0; i < y->w; i++)
        *at(a, y, a->head, row, i) = 0;
    for (int first = 0; first < seen; first += LS_KEY_BLOCK) {
        const int n = seen - first < LS_KEY_BLOCK ? seen - first : LS_KEY_BLOCK;
        for (int j = 0; j < n; j++)
            x[j] = score(a, row, first + j);
        float b = first ? m : x[0];
        for (int j = 0; j < n; j++)
            b = x[j] > b ? x[j] : b;
        const float r = first ? ls_expf(m - b) : 1;
        s = s * r;
        for (int i = 0; i < y->w; i++)
            *at(a, y, a->head, row, i) *= r;
        for (int j = 0; j < n; j++) {
            const float e = ls_expf(x[j] - b), w = is_dropped(a, row, first + j) ? 0 : e;
            s = s + e;
            for (int i = 0; i < y->w; i++) {
                float *acc = at(a, y, a->head, row, i);
                *acc = fmaf(w, *at(a, a->v, a->shared, first + j, i), *acc);
            }
        }
        m = b;
    }
    const float inv = seen ? 1 / s : 0;
    for (int i = 0; i < y->w; i++)
        *at(a, y, a->head, row, i) *= inv * rest_of(a);
    *at(a, saved, a->head, row, 0) = m;
    *at(a, saved, heads + a->head, row, 0) = inv;
    *at(a, saved, 2 * heads + a->head, row, 0) = (float)seen;
}

/* The head of a lane, of one image or of none. */
static head head_of(const ls_op_call *call, const ls_operand *q, int group, int number, int lane)
{
    return (head){.call = call,
                  .q = q,
                  .k = q + 1,
                  .v = q + 2,
                  .group = group,
                  .lane = lane,
                  .image = lane < ls_ref_lanes(call, group),
                  .head = number,
                  .shared = number / (q->c / q[1].c)};
}

void ls_ref_attention(const ls_op_call *call)
{
    const ls_operand *q = &call->in[0], *k = &call->in[1], *lengths = &call->in[3];
    for (int group = 0; group < call->groups; group++)
        for (int number = 0; number < q->c; number++)
            for (int lane = 0; lane < LS_LANES; lane++) {
                const head a = head_of(call, q, group, number, lane);
                const float *length = lengths->data ? at(&a, lengths, 0, 0, 0) : NULL;
                const int before = !a.image ? 0 : length ? ls_attention_keys(*length, k->h) : k->h;
                for (int row = 0; row < q->h; row++)
                    attend(&a, row, ls_attention_seen(call->attributes->causal, length && q->h == k->h, before, row));
            }
}

static void add_slopes(const head *a, int row)
{
    const ls_operand *dy = &a->call->in[0], *y = &a->call->in[4], *saved = &a->call->in[5];
    const ls_operand *dq = &a->call->out[0], *dk = &a->call->out[1], *dv = &a->call->out[2];
    const int heads = a->q->c;
    const float m = *at(a, saved, a->head, row, 0), inv = *at(a, saved, heads + a->head, row, 0);
    const int seen = a->image ? ls_attention_keys(*at(a, saved, 2 * heads + a->head, row, 0), a->k->h) : 0;
    float d = 0;
    for (int i = 0; i < y->w; i++)
        d = fmaf(*at(a, dy, a->head, row, i), *at(a, y, a->head, row, i), d);
    for (int key = 0; key < seen; key++) {
        const int dropped = is_dropped(a, row, key);
        const float p = ls_expf(score(a, row, key) - m) * inv;
        const float g = dropped ? 0 : product(a, dy, row, a->v, key) * rest_of(a);
        const float w = dropped ? 0 : p * rest_of(a), z = p * (g - d);
        for (int i = 0; i < dq->w; i++) {
            float *to_q = at(a, dq, a->head, row, i), *to_k = at(a, dk, a->shared, key, i);
            *to_q = fmaf(z, *at(a, a->k, a->shared, key, i), *to_q);
            *to_k = fmaf(z, *at(a, a->q, a->head, row, i), *to_k);
        }
        for (int i = 0; i < dv->w; i++) {
            float *to = at(a, dv, a->shared, key, i);
            *to = fmaf(w, *at(a, dy, a->head, row, i), *to);
        }
    }
}

static void fill(const ls_op_call *call, const ls_operand *x, float factor, int clear)
{
    for (size_t i = 0; i < ls_ref_size(call, x); i++)
        x->data[i] = clear ? 0 : x->data[i] * factor;
}

/* For a key the heads that share it come one after another, and each head's rows; for a row the keys do. */
void ls_ref_attention_backward(const ls_op_call *call)
{
    const ls_operand *q = &call->in[1];
    for (int k = 0; k < 3; k++)
        fill(call, &call->out[k], 0, 1);
    for (int group = 0; group < call->groups; group++)
        for (int number = 0; number < q->c; number++)
            for (int lane = 0; lane < LS_LANES; lane++) {
                const head a = head_of(call, q, group, number, lane);
                for (int row = 0; row < q->h; row++)
                    add_slopes(&a, row);
            }
    for (int k = 0; k < 2; k++)
        fill(call, &call->out[k], call->attributes->factor, 0);
}
