#include "io/onnx.h"

#if LOCKSTEP_HAVE_PROTOBUF_C

#include "base/file.h"
#include "io/onnx_operation.h"
#include "io/onnx_recurrent.h"

/* Of the format, and of its operators: what programs since the end of 2020 read. */
enum { FORMAT = 7, OPERATORS = 13 };

typedef struct writer {
    ls_onnx_graph graph;
    const ls_trace *trace;
    char **values; /* [trace->n] names; NULL of what is no part of the model */
    char *inputs[LS_MAX_INPUTS];
} writer;

/* A weight that is no parameter of the network, but numbers of its program's. */
static char *constant(writer *w, const ls_tensor *t)
{
    if (t->trace_role != LS_ROLE_WEIGHT)
        return NULL; /* the images that the call was recorded with */
    char *name = ls_onnx_name(&w->graph, "/constant_%d", t->traced);
    return ls_onnx_floats(&w->graph, name, ls_array_of(t)->data + t->offset, t->shape.dim, t->shape.rank);
}

static char *computed(writer *w, const ls_tensor *t)
{
    ls_tensor *operands[LS_MAX_IN];
    char *in[LS_MAX_IN] = {NULL};
    if (ls_onnx_is_part_of_recurrent(w->trace, t))
        return NULL;
    ls_onnx_operands(t, operands);
    for (int k = 0; k < LS_MAX_IN; k++)
        if (operands[k])
            in[k] = w->values[operands[k]->traced];
    return ls_onnx_output(ls_onnx_operation(&w->graph, t, in));
}

static char *value_of(writer *w, const ls_tensor *t)
{
    switch (t->kind) {
    case LS_TENSOR_INPUT:
        return w->inputs[t->input];
    case LS_TENSOR_PARAMETER:
        return ls_onnx_parameter(&w->graph, t->view);
    case LS_TENSOR_ARRAY:
        return constant(w, t);
    case LS_TENSOR_COMPUTED:
        return computed(w, t);
    default:
        return NULL; /* the call itself */
    }
}

/* The graph's inputs, or its output: n floats of those shapes, whose first size is open. */
static Ls__ValueInfoProto **described(writer *w, char *const names[], ls_tensor *const tensors[], int n)
{
    struct description {
        Ls__ValueInfoProto info;
        Ls__TypeProto type;
        Ls__TypeProto__Tensor tensor;
        Ls__TensorShapeProto shape;
        Ls__TensorShapeProto__Dimension *dims[LS_MAX_RANK], dim[LS_MAX_RANK];
    } *all = ls_onnx_room(&w->graph, (size_t)n * sizeof *all);
    Ls__ValueInfoProto **list = all ? ls_onnx_room(&w->graph, (size_t)n * sizeof *list) : NULL;
    for (int k = 0; list && k < n; k++) {
        const ls_shape *shape = &tensors[k]->shape;
        struct description *d = &all[k];
        ls__value_info_proto__init(&d->info);
        ls__type_proto__init(&d->type);
        ls__type_proto__tensor__init(&d->tensor);
        ls__tensor_shape_proto__init(&d->shape);
        for (int i = 0; i < shape->rank; i++) {
            ls__tensor_shape_proto__dimension__init(&d->dim[i]);
            d->dims[i] = &d->dim[i];
            d->dim[i].value_case = i ? LS__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE
                                     : LS__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            if (i)
                d->dim[i].dim_value = shape->dim[i];
            else
                d->dim[i].dim_param = (char *)"batch";
        }
        d->shape.n_dim = (size_t)shape->rank;
        d->shape.dim = d->dims;
        d->tensor.elem_type = LS__TENSOR_PROTO__DATA_TYPE__FLOAT;
        d->tensor.shape = &d->shape;
        d->type.value_case = LS__TYPE_PROTO__VALUE_TENSOR_TYPE;
        d->type.tensor_type = &d->tensor;
        d->info.name = names[k];
        d->info.type = &d->type;
        list[k] = &d->info;
    }
    return list;
}

static ls_status make_graph(writer *w, const char *name)
{
    ls_context *context = w->graph.context;
    const ls_trace *trace = w->trace;
    Ls__GraphProto *message = &w->graph.message;
    w->values = ls_onnx_room(&w->graph, (size_t)trace->n * sizeof *w->values);
    const struct ls_forward *forward = &trace->call->forward;
    int n_inputs = 0;
    for (; n_inputs < LS_MAX_INPUTS && forward->inputs[n_inputs]; n_inputs++)
        w->inputs[n_inputs] =
            n_inputs ? ls_onnx_name(&w->graph, "input%d", n_inputs) : ls_onnx_name(&w->graph, "input");
    for (int i = 0; i < trace->n && w->values && ls_context_status(context) == LS_OK; i++)
        w->values[i] = value_of(w, trace->order[i]);
    char *output = ls_onnx_name(&w->graph, "output");
    message->input = described(w, w->inputs, forward->inputs, n_inputs);
    message->output = described(w, &output, &forward->output, 1);
    if (ls_context_status(context) != LS_OK)
        return ls_context_status(context);
    message->node[message->n_node - 1]->output[0] = output; /* a forward ends with what it computed last */
    message->name = (char *)name;
    message->n_input = (size_t)n_inputs;
    message->n_output = 1;
    return LS_OK;
}

typedef struct sink {
    ProtobufCBuffer buffer; /* first */
    ls_replace *replace;
} sink;

static void append(ProtobufCBuffer *buffer, size_t count, const uint8_t *bytes)
{
    ls_replace_write(((sink *)buffer)->replace, bytes, count); /* a failure is ls_replace_end's to report */
}

static ls_status write_model(ls_context *context, const char *path, Ls__GraphProto *graph)
{
    Ls__OperatorSetIdProto operators = LS__OPERATOR_SET_ID_PROTO__INIT, *list[] = {&operators};
    operators.version = OPERATORS;
    Ls__ModelProto model = LS__MODEL_PROTO__INIT;
    model.ir_version = FORMAT;
    model.producer_name = (char *)"lockstep";
    model.producer_version = (char *)ls_version();
    model.n_opset_import = 1;
    model.opset_import = list;
    model.graph = graph;
    size_t bytes = ls__model_proto__get_packed_size(&model);
    if (bytes > INT32_MAX)
        return ls_raise(context, LS_UNSUPPORTED,
                        "%s: the model would have %zu bytes, and an ONNX file has at most 2 GiB", path, bytes);
    ls_replace *replace = ls_replace_begin(context, path);
    if (!replace)
        return ls_context_status(context);
    sink to = {{append}, replace};
    ls__model_proto__pack_to_buffer(&model, &to.buffer);
    return ls_replace_end(replace);
}

ls_status ls_onnx_save(ls_context *context, const char *path, const ls_trace *trace, const ls_named_array *parameters,
                       int n_parameters, const char *name)
{
    writer w = {.trace = trace};
    ls_status status = ls_onnx_graph_init(&w.graph, context, parameters, n_parameters);
    if (status == LS_OK)
        status = make_graph(&w, name);
    if (status == LS_OK)
        status = write_model(context, path, &w.graph.message);
    ls_onnx_graph_free(&w.graph);
    return status;
}

#else

ls_status ls_onnx_save(ls_context *context, const char *path, const ls_trace *trace, const ls_named_array *parameters,
                       int n_parameters, const char *name)
{
    (void)trace;
    (void)parameters;
    (void)n_parameters;
    (void)name;
    return ls_raise(context, LS_UNSUPPORTED,
                    "%s: this library was built without protobuf-c, and cannot write ONNX files", path);
}

#endif
