/* Convolutions by cuDNN's graph interface. The engine is chosen by shape: the first of cuDNN's heuristics that always
 * adds in the same order and is as exact as the dtype says. So one version of cuDNN on one model of card gives the same
 * bits every time. */
#include <stdlib.h>
#include <string.h>

#include "device/cuda/card.h"

#if CUDNN_VERSION < 90800 /* which cannot be told of a card that is not here, and is not */
#define CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP CUDNN_ATTR_EXECUTION_PLAN_HANDLE
#define CUDNN_ATTR_ENGINEHEUR_DEVICEPROP     CUDNN_ATTR_ENGINEHEUR_MODE
#endif

enum { DESCRIPTORS = 16, CONFIGS = 32, NOTES = CUDNN_NUMERICAL_NOTE_TYPE_COUNT };

typedef cudnnBackendDescriptor_t descriptor;

/* What belongs to one convolution: all descriptors, destroyed together. */
typedef struct ls_card_conv_plan {
    struct ls_card_conv_plan *next;
    ls_card_direction direction;
    ls_cuda_conv conv;
    descriptor made[DESCRIPTORS];
    int n_made;
    descriptor plan; /* NULL: there is no engine */
    int64_t bytes;   /* of its workspace */
} conv_plan;

/* ---- Making descriptors: the first failure makes all that follows fail ---- */

typedef struct maker {
    conv_plan *plan;
    cudnnStatus_t status;
} maker;

static void destroy(descriptor d)
{
    if (d)
        cudnnBackendDestroyDescriptor(d);
}

static descriptor make(maker *m, cudnnBackendDescriptorType_t type)
{
    descriptor d = NULL;
    if (m->status == CUDNN_STATUS_SUCCESS)
        m->status = m->plan->n_made < DESCRIPTORS ? cudnnBackendCreateDescriptor(type, &d) : CUDNN_STATUS_ALLOC_FAILED;
    if (d)
        m->plan->made[m->plan->n_made++] = d;
    return d;
}

static void set(maker *m, descriptor d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
                const void *values)
{
    if (m->status == CUDNN_STATUS_SUCCESS)
        m->status = cudnnBackendSetAttribute(d, name, type, n, values);
}

static void finalize(maker *m, descriptor d)
{
    if (m->status == CUDNN_STATUS_SUCCESS)
        m->status = cudnnBackendFinalize(d);
}

static descriptor tensor(maker *m, int64_t id, int half, const int64_t sizes[4], const int64_t strides[4])
{
    descriptor d = make(m, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const cudnnDataType_t type = half ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    const int64_t alignment = 16;
    set(m, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(m, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(m, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, sizes);
    set(m, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    set(m, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    finalize(m, d);
    return d;
}

/* Rows and columns of the activation that a view of it has; its strides are those of the whole. */
static descriptor activation(maker *m, int64_t id, int half, ls_cuda_shape s, int h, int w)
{
    const int64_t sizes[] = {s.images, s.c, h, w};
    const int64_t strides[] = {(int64_t)s.h * s.w * s.c, 1, (int64_t)s.w * s.c, s.c};
    return tensor(m, id, half, sizes, strides);
}

static descriptor weights(maker *m, int64_t id, int half, const ls_cuda_conv *v)
{
    const int64_t in = v->x.c / v->windows.groups; /* of fewer channels than x has cuDNN makes groups */
    const int64_t high = v->windows.rows.kernel, wide = v->windows.columns.kernel;
    const int64_t sizes[] = {v->y.c, in, high, wide}, strides[] = {high * wide * in, 1, wide * in, in};
    return tensor(m, id, half, sizes, strides);
}

static descriptor convolution(maker *m, const ls_cuda_conv *v, ls_cuda_axis down, ls_cuda_axis right)
{
    descriptor d = make(m, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    const int64_t axes = 2, before[] = {down.before, right.before}, after[] = {down.after, right.after};
    const ls_windows_axis *rows = &v->windows.rows, *columns = &v->windows.columns;
    const int64_t dilations[] = {rows->dilation, columns->dilation}, strides[] = {rows->stride, columns->stride};
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    set(m, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &axes);
    set(m, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(m, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(m, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, before);
    set(m, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, after);
    set(m, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilations);
    set(m, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, strides);
    finalize(m, d);
    return d;
}

/* How each direction's operation names its parts. */
typedef struct names {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t convolution, x, w, y, alpha, beta;
} names;

#define DATA_NAMES                                                                                                     \
    {                                                                                                                  \
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,                                                  \
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,         \
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,                 \
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA            \
    }

static const names names_of[] = {
    [LS_CARD_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [LS_CARD_DATA] = DATA_NAMES,
    [LS_CARD_MORE_DATA] = DATA_NAMES,
    [LS_CARD_WEIGHT] = {
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};

enum { X = 'x', W = 'w', Y = 'y' }; /* the tensors' numbers */

static descriptor operation(maker *m, ls_card_direction direction, const ls_cuda_conv *v, int half)
{
    const ls_cuda_axis down = ls_cuda_axis_of(v->x.h, v->y.h, &v->windows.rows),
                       right = ls_cuda_axis_of(v->x.w, v->y.w, &v->windows.columns);
    const names *n = &names_of[direction];
    const float one = 1, kept = direction == LS_CARD_MORE_DATA;
    descriptor x = activation(m, X, half, v->x, down.input, right.input), w = weights(m, W, half, v),
               y = activation(m, Y, half, v->y, v->y.h, v->y.w), how = convolution(m, v, down, right),
               d = make(m, n->type);
    set(m, d, n->convolution, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &how);
    set(m, d, n->x, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x);
    set(m, d, n->w, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &w);
    set(m, d, n->y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y);
    set(m, d, n->alpha, CUDNN_TYPE_FLOAT, 1, &one);
    set(m, d, n->beta, CUDNN_TYPE_FLOAT, 1, &kept);
    finalize(m, d);
    return d;
}

/* ---- Choosing an engine ---- */

/* The engines of the first algorithms add atomically, as these were documented, and bear no note that says so. */
static bool is_atomic(ls_card_direction direction, int64_t engine)
{
    const bool data = direction == LS_CARD_DATA || direction == LS_CARD_MORE_DATA;
    return (data && engine == 0) || (direction == LS_CARD_WEIGHT && (engine == 0 || engine == 3));
}

/* What an engine says of itself. */
typedef struct character {
    bool same;    /* results are the same every time */
    bool tensors; /* by tensor cores */
    bool late;    /* compiled when it is first used, which takes seconds, and another library */
} character;

/* What says that something cannot be had, and always will, leads to another engine. Any other failure may have passed
 * the next time, and that engine's bits would be others: it is the card's. */
static void note(ls_card *card, cudnnStatus_t status)
{
    const int category = CUDNN_STATUS_CATEGORY((int)status);
    const bool memory = status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                        status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
    if (status != CUDNN_STATUS_SUCCESS && category != CUDNN_STATUS_NOT_SUPPORTED && category != CUDNN_STATUS_BAD_PARAM)
        ls_card_fail(card, memory ? LS_OUT_OF_MEMORY : LS_INTERNAL, "choosing an engine of cuDNN's",
                     cudnnGetErrorString(status));
}

static character character_of(ls_card *card, descriptor config, const conv_plan *plan)
{
    character of = {.same = false};
    descriptor engine = NULL;
    cudnnBackendNumericalNote_t notes[NOTES];
    cudnnBackendBehaviorNote_t ways[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
    int64_t n = 0, n_ways = 0, n_numbers, number = 0;
    cudnnStatus_t status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n,
                                          &engine);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, NOTES,
                                          &n, notes);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                                          CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &n_ways, ways);
    if (status == CUDNN_STATUS_SUCCESS)
        status =
            cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &n_numbers, &number);
    note(card, status);
    if (status == CUDNN_STATUS_SUCCESS)
        of.same = !is_atomic(plan->direction, number);
    for (int64_t i = 0; i < n && i < NOTES; i++) {
        of.same &= notes[i] != CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
        of.tensors |= notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    }
    for (int64_t i = 0; i < n_ways && i < CUDNN_BEHAVIOR_NOTE_TYPE_COUNT; i++)
        of.late |= ways[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
    destroy(engine);
    return of;
}

/* The heuristics put an engine without tensor cores first for a strided 1x1 kernel, which takes nine times as long. */
static bool wants_tensor_cores(const conv_plan *plan)
{
    enum { MANY = 32 };
    return plan->conv.x.c >= MANY && plan->conv.y.c >= MANY;
}

/* Tells a descriptor which card it is for. */
static cudnnStatus_t tell_card(descriptor d, ls_card *card, cudnnBackendAttributeName_t by_handle,
                               cudnnBackendAttributeName_t by_properties)
{
    if (card->elsewhere)
        return cudnnBackendSetAttribute(d, by_properties, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &card->elsewhere);
    return cudnnBackendSetAttribute(d, by_handle, CUDNN_TYPE_HANDLE, 1, &card->dnn);
}

/* An execution plan of an engine, where it has one and its workspace is not too large. */
static descriptor plan_of(ls_card *card, descriptor config, int64_t *bytes)
{
    descriptor plan = NULL;
    int64_t n;
    cudnnStatus_t status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan);
    if (status == CUDNN_STATUS_SUCCESS)
        status = tell_card(plan, card, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                          1, &config);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendFinalize(plan);
    if (status == CUDNN_STATUS_SUCCESS)
        status =
            cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n, bytes);
    if (status == CUDNN_STATUS_SUCCESS && *bytes <= LS_CARD_DNN)
        return plan;
    note(card, status);
    destroy(plan);
    return NULL;
}

/* The first that will do of what one kind of heuristics proposes. */
static descriptor choose(ls_card *card, conv_plan *made, descriptor graph, cudnnBackendHeurMode_t mode)
{
    maker m = {.plan = made};
    descriptor heuristics = make(&m, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR), configs[CONFIGS] = {NULL}, plan = NULL;
    int64_t n = 0;
    set(&m, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    set(&m, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (card->elsewhere)
        set(&m, heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &card->elsewhere);
    finalize(&m, heuristics);
    for (int i = 0; i < CONFIGS && m.status == CUDNN_STATUS_SUCCESS; i++)
        m.status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i]);
    if (m.status == CUDNN_STATUS_SUCCESS)
        m.status = cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                            CONFIGS, &n, configs);
    for (int wanted = wants_tensor_cores(made); wanted >= 0 && !plan; wanted--)
        for (int64_t i = 0;
             m.status == CUDNN_STATUS_SUCCESS && i < n && i < CONFIGS && !plan && card->executor.status == LS_OK; i++) {
            const character of = character_of(card, configs[i], made);
            if (of.same && !of.late && (of.tensors || !wanted))
                plan = plan_of(card, configs[i], &made->bytes);
        }
    note(card, m.status);
    for (int i = 0; i < CONFIGS; i++)
        destroy(configs[i]);
    return plan;
}

static void build(ls_card *card, conv_plan *made)
{
    maker m = {.plan = made};
    descriptor op = operation(&m, made->direction, &made->conv, ls_card_half(card));
    descriptor graph = make(&m, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(&m, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &op);
    if (!card->elsewhere)
        set(&m, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &card->dnn);
    finalize(&m, graph);
    if (m.status == CUDNN_STATUS_SUCCESS)
        made->plan = choose(card, made, graph, CUDNN_HEUR_MODE_A);
    if (m.status == CUDNN_STATUS_SUCCESS && !made->plan && card->executor.status == LS_OK)
        made->plan = choose(card, made, graph, CUDNN_HEUR_MODE_FALLBACK);
    note(card, m.status);
}

/* ---- Running ---- */

static bool same_shape(ls_cuda_shape a, ls_cuda_shape b)
{
    return a.images == b.images && a.c == b.c && a.h == b.h && a.w == b.w;
}

static bool is_of(const conv_plan *plan, ls_card_direction direction, const ls_cuda_conv *v)
{
    return plan->direction == direction && same_shape(plan->conv.x, v->x) && same_shape(plan->conv.y, v->y) &&
           memcmp(&plan->conv.windows, &v->windows, sizeof v->windows) == 0; /* of ints alone */
}

static conv_plan *find(ls_card *card, ls_card_direction direction, const ls_cuda_conv *conv)
{
    for (conv_plan *plan = card->convs; plan; plan = plan->next)
        if (is_of(plan, direction, conv))
            return plan;
    conv_plan *plan = calloc(1, sizeof *plan);
    if (!plan) {
        ls_card_fail(card, LS_OUT_OF_MEMORY, "choosing an engine of cuDNN's", "no memory on the host");
        return NULL;
    }
    *plan = (conv_plan){.next = card->convs, .direction = direction, .conv = *conv};
    build(card, plan);
    return card->convs = plan;
}

void ls_card_convolve(ls_card *card, ls_card_direction direction, const ls_cuda_conv *conv, void *x, void *w, void *y,
                      void *workspace)
{
    const conv_plan *found = find(card, direction, conv);
    void *places[] = {x, w, y};
    const int64_t ids[] = {X, W, Y};
    descriptor pack = NULL;
    cudnnStatus_t status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, places);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, ids);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendFinalize(pack);
    if (status == CUDNN_STATUS_SUCCESS)
        status = found ? cudnnBackendExecute(card->dnn, found->plan, pack) : CUDNN_STATUS_ALLOC_FAILED;
    destroy(pack);
    if (status != CUDNN_STATUS_SUCCESS)
        ls_card_fail(card, LS_INTERNAL, "a convolution by cuDNN", cudnnGetErrorString(status));
}

bool ls_card_engine(ls_card *card, ls_card_direction direction, const ls_cuda_conv *conv, int64_t *bytes)
{
    const conv_plan *found = find(card, direction, conv);
    *bytes = found ? found->bytes : 0;
    return found && found->plan;
}

void ls_card_close_convs(ls_card *card)
{
    while (card->convs) {
        conv_plan *plan = card->convs;
        card->convs = plan->next;
        destroy(plan->plan);
        for (int i = plan->n_made - 1; i >= 0; i--)
            destroy(plan->made[i]);
        free(plan);
    }
}
