#include "base/context.h"

#if LOCKSTEP_HAVE_PROTOBUF_C

#include "io/onnx_graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the format's numbers are little-endian; other machines must swap");

enum { LEAST_NODES = 64, LEAST_INITIALIZERS = 64, LONGEST_NAME = 2048 };

typedef struct ls_onnx_room {
    struct ls_onnx_room *next;
    max_align_t bytes[];
} room;

ls_status ls_onnx_graph_init(ls_onnx_graph *graph, ls_context *context, const ls_named_array *parameters,
                             int n_parameters)
{
    *graph = (ls_onnx_graph){.context = context, .parameters = parameters, .n_parameters = n_parameters};
    ls__graph_proto__init(&graph->message);
    graph->placed = ls_onnx_room(graph, (size_t)n_parameters * sizeof *graph->placed);
    return graph->placed ? LS_OK : LS_OUT_OF_MEMORY;
}

void ls_onnx_graph_free(ls_onnx_graph *graph)
{
    ls_release(graph->context, graph->message.node);
    ls_release(graph->context, graph->message.initializer);
    for (room *r = graph->rooms, *next; r; r = next) {
        next = r->next;
        ls_release(graph->context, r);
    }
    graph->rooms = NULL;
}

void *ls_onnx_room(ls_onnx_graph *graph, size_t bytes)
{
    room *r = ls_alloc(graph->context, 1, sizeof *r + bytes, "an ONNX model");
    if (!r)
        return NULL;
    r->next = graph->rooms;
    graph->rooms = r;
    return r->bytes;
}

static char *copy(ls_onnx_graph *graph, const char *text)
{
    char *kept = ls_onnx_room(graph, strlen(text) + 1);
    return kept ? strcpy(kept, text) : NULL;
}

static bool is_parameter(const ls_onnx_graph *graph, const char *name)
{
    for (int i = 0; i < graph->n_parameters; i++)
        if (strcmp(graph->parameters[i].name, name) == 0)
            return true;
    return false;
}

char *ls_onnx_name(ls_onnx_graph *graph, const char *format, ...)
{
    char text[LONGEST_NAME];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text / 2, format, arguments);
    va_end(arguments);
    for (size_t end = strlen(text); is_parameter(graph, text) && end + 1 < sizeof text; end++)
        memcpy(text + end, "_", 2);
    return copy(graph, text);
}

ls_onnx_node *ls_onnx_add(ls_onnx_graph *graph, const char *layer, const char *op_type, char *const in[], int n)
{
    Ls__GraphProto *message = &graph->message;
    ls_onnx_node *node = ls_onnx_room(graph, sizeof *node);
    char **names = ls_onnx_room(graph, (size_t)(n + 1) * sizeof *names);
    Ls__NodeProto **nodes = ls_grow(graph->context, message->node, (int)message->n_node, &graph->node_capacity,
                                    LEAST_NODES, sizeof(Ls__NodeProto *), "an ONNX model");
    if (!nodes)
        return NULL;
    message->node = nodes;
    char *output = ls_onnx_name(graph, "%s%s/%s_%zu", *layer ? "/" : "", layer, op_type, message->n_node);
    if (!node || !names || !output)
        return NULL;
    for (int i = 0; i < n; i++)
        if (!(names[i] = in[i]))
            return NULL;
    names[n] = output;
    ls__node_proto__init(node);
    node->op_type = (char *)op_type; /* written, and not written to */
    node->name = output;
    node->n_input = (size_t)n;
    node->input = names;
    node->n_output = 1;
    node->output = names + n;
    return message->node[message->n_node++] = node;
}

char *ls_onnx_output(const ls_onnx_node *node)
{
    return node ? node->output[0] : NULL;
}

enum { MOST_ATTRIBUTES = 6 };

static Ls__AttributeProto *attribute(ls_onnx_graph *graph, ls_onnx_node *node, const char *name)
{
    Ls__AttributeProto *new = node ? ls_onnx_room(graph, sizeof *new) : NULL;
    if (new && !node->attribute)
        node->attribute = ls_onnx_room(graph, MOST_ATTRIBUTES * sizeof *node->attribute);
    if (!new || !node->attribute)
        return NULL;
    if (node->n_attribute == MOST_ATTRIBUTES) {
        ls_raise(graph->context, LS_INTERNAL, "an ONNX node has more attributes than were thought of");
        return NULL;
    }
    ls__attribute_proto__init(new);
    new->name = (char *)name;
    return node->attribute[node->n_attribute++] = new;
}

void ls_onnx_int(ls_onnx_graph *graph, ls_onnx_node *node, const char *name, int64_t value)
{
    Ls__AttributeProto *new = attribute(graph, node, name);
    if (new) {
        new->type = LS__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
        new->i = value;
    }
}

void ls_onnx_float(ls_onnx_graph *graph, ls_onnx_node *node, const char *name, float value)
{
    Ls__AttributeProto *new = attribute(graph, node, name);
    if (new) {
        new->type = LS__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
        new->f = value;
    }
}

void ls_onnx_string(ls_onnx_graph *graph, ls_onnx_node *node, const char *name, const char *value)
{
    Ls__AttributeProto *new = attribute(graph, node, name);
    if (new) {
        new->type = LS__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
        new->s = (ProtobufCBinaryData){strlen(value), (uint8_t *)value}; /* written, and not written to */
    }
}

static int64_t *copy_ints(ls_onnx_graph *graph, const int64_t values[], int n)
{
    int64_t *kept = ls_onnx_room(graph, (size_t)n * sizeof *kept);
    for (int i = 0; kept && i < n; i++)
        kept[i] = values[i];
    return kept;
}

void ls_onnx_ints(ls_onnx_graph *graph, ls_onnx_node *node, const char *name, const int64_t values[], int n)
{
    int64_t *kept = copy_ints(graph, values, n);
    Ls__AttributeProto *new = kept ? attribute(graph, node, name) : NULL;
    if (new) {
        new->type = LS__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
        new->n_ints = (size_t)n;
        new->ints = kept;
    }
}

static char *initializer(ls_onnx_graph *graph, char *name, Ls__TensorProto__DataType type, const void *bytes,
                         size_t size, const int64_t dims[], int rank)
{
    Ls__GraphProto *message = &graph->message;
    Ls__TensorProto *tensor = name ? ls_onnx_room(graph, sizeof *tensor) : NULL;
    int64_t *shape = tensor ? copy_ints(graph, dims, rank) : NULL;
    Ls__TensorProto **initializers =
        shape ? ls_grow(graph->context, message->initializer, (int)message->n_initializer, &graph->initializer_capacity,
                        LEAST_INITIALIZERS, sizeof(Ls__TensorProto *), "an ONNX model")
              : NULL;
    if (!initializers)
        return NULL;
    message->initializer = initializers;
    ls__tensor_proto__init(tensor);
    tensor->name = name;
    tensor->data_type = (int32_t)type;
    tensor->n_dims = (size_t)rank;
    tensor->dims = shape;
    tensor->raw_data = (ProtobufCBinaryData){size, (uint8_t *)bytes}; /* written, and not written to */
    message->initializer[message->n_initializer++] = tensor;
    return name;
}

char *ls_onnx_parameter(ls_onnx_graph *graph, int view)
{
    const ls_named_array *array = &graph->parameters[view];
    char *name = (char *)array->name;
    if (graph->placed[view])
        return name;
    graph->placed[view] = true;
    return ls_onnx_floats(graph, name, array->values, array->shape, array->rank);
}

char *ls_onnx_floats(ls_onnx_graph *graph, char *name, const float *values, const int64_t dims[], int rank)
{
    size_t numbers = 1;
    for (int i = 0; i < rank; i++)
        numbers *= (size_t)dims[i];
    return initializer(graph, name, LS__TENSOR_PROTO__DATA_TYPE__FLOAT, values, numbers * sizeof *values, dims, rank);
}

char *ls_onnx_integers(ls_onnx_graph *graph, char *name, const int64_t values[], int n)
{
    const int64_t dims[] = {n}, *kept = copy_ints(graph, values, n);
    return kept ? initializer(graph, name, LS__TENSOR_PROTO__DATA_TYPE__INT64, kept, (size_t)n * sizeof *kept, dims, 1)
                : NULL;
}

#endif
