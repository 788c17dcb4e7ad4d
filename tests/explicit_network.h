/* A small network of explicit parameters, as the book writes its own: draw, replicas of it on devices, the loss, an
 * all-reduce. */
#ifndef TEST_EXPLICIT_NETWORK_H
#define TEST_EXPLICIT_NETWORK_H

#include <lockstep.h>
#include <lockstep_nn.h>

enum { W1, b1, W2, b2, W3, N };
enum { CLASSES = 3, HIDDEN = 5 };

typedef struct params {
    ls_tensor *at[N];
} params;

/* For images of one channel, whose `maps` maps have `pooled` numbers each behind the pool. */
static inline params draw(ls_session *s, int maps, int pooled)
{
    return (params){.at = {[W1] = ls_randn(s, "W1", 0.5, LS_SHAPE(maps, 1, 3, 3)),
                           [b1] = ls_named(ls_full(s, 0.1, LS_SHAPE(maps)), "b1"),
                           [W2] = ls_randn(s, "W2", 0.5, LS_SHAPE(maps * pooled, HIDDEN)),
                           [b2] = ls_named(ls_zeros(s, LS_SHAPE(HIDDEN)), "b2"),
                           [W3] = ls_randn(s, "W3", 0.5, LS_SHAPE(CLASSES, HIDDEN))}};
}

static inline params replica_on(const params *from, ls_device device)
{
    params copy;
    for (int i = 0; i < N; i++)
        copy.at[i] = ls_track(ls_clone(from->at[i], device));
    return copy;
}

static inline ls_tensor *features(ls_tensor *X, const params *p)
{
    ls_tensor *maps = ls_relu(ls_conv2d(X, p->at[W1], p->at[b1], NULL));
    return ls_flatten(ls_avg_pool2d(maps, &(ls_pool){.kernel = 2}));
}

static inline ls_tensor *classify(ls_tensor *x, const params *p)
{
    return ls_linear(ls_tanh(ls_add(ls_matmul(x, p->at[W2]), p->at[b2])), p->at[W3], NULL);
}

static inline ls_tensor *net(ls_tensor *X, void *replica)
{
    return classify(features(X, replica), replica);
}

static inline ls_tensor *loss_of(ls_tensor *X, ls_tensor *y, params *p)
{
    return ls_sum(ls_cross_entropy(net(X, p), y));
}

static inline void allreduce(ls_tensor *data[], int n)
{
    for (int gap = 1; gap < n; gap *= 2)
        for (int i = 0; i + gap < n; i += 2 * gap)
            ls_add_to(data[i], ls_to(data[i + gap], ls_device_of(data[i])));
    for (int i = 1; i < n; i++)
        ls_assign(data[i], data[0]);
}

#endif
