#include "built.h"

#include <string.h>

built *begin(bool training)
{
    static built b;
    b = (built){.session = ls_open(NULL), .backend = *ls_backend_ref()};
    b.backend.shifts = b.backend.accumulates = 1;
    ls_flat_init(&b.flat, &b.session->context);
    b.graph = ls_graph_new(b.session, &b.backend, &b.flat, training);
    assert_non_null(b.graph);
    return &b;
}

void end(built *b)
{
    ls_graph_free(b->graph);
    ls_flat_destroy(&b->flat);
    ls_close(b->session);
}

ls_value *node(built *b, int c, int h, int w, ls_attributes how, ls_value *const in[LS_MAX_IN])
{
    ls_value *y = ls_graph_value(b->graph, LS_IN_ARENA, c, h, w, true);
    ls_node *made = ls_graph_node(b->graph, how.op, "layer");
    made->attributes = how;
    made->out[0] = y;
    for (int k = 0; k < LS_MAX_IN; k++) {
        made->in[k] = in[k];
        y->needs_gradient |= in[k] && in[k]->needs_gradient;
    }
    return y;
}

ls_value *input(built *b, int c, int h, int w, bool tracked)
{
    ls_value *x = NODE(b, c, h, w, INPUT);
    x->needs_gradient = tracked;
    return x;
}

ls_value *weight(built *b, int numbers)
{
    char name[16];
    snprintf(name, sizeof name, "%d", b->flat.n_views);
    return ls_graph_view(b->graph, ls_flat_add(&b->flat, name, 1, (int64_t[]){numbers}, true, false));
}

ls_value *norm(built *b, ls_value *x, ls_op op)
{
    ls_value *gamma = weight(b, x->c), *beta = weight(b, x->c);
    return node(b, x->c, x->h, x->w, (ls_attributes){.op = op}, (ls_value *[LS_MAX_IN]){x, gamma, beta});
}

/* ---- Spelling ---------------------------------------------------------------------------------------------------- */

void put(built *b, const char *format, ...)
{
    va_list arguments;
    const size_t at = strlen(b->text);
    va_start(arguments, format);
    vsnprintf(b->text + at, sizeof b->text - at, format, arguments);
    va_end(arguments);
}

static char letter(const ls_value *value)
{
    return (char)(value->id < 26 ? 'a' + value->id : 'A' + value->id - 26);
}

void put_value(built *b, const ls_value *value)
{
    if (!value)
        put(b, "-");
    else if (value->base)
        put(b, "%c'%c", letter(value->base), letter(value));
    else if (value->place != LS_IN_GRADIENTS)
        put(b, "%c", letter(value));
    else
        for (int i = 0; i < value->id; i++)
            if (b->graph->values[i]->place == LS_IN_WEIGHTS && b->graph->values[i]->offset == value->offset)
                put(b, "d%c", letter(b->graph->values[i]));
}

static void put_values(built *b, ls_value *const values[], int most)
{
    int n = most;
    while (n > 0 && !values[n - 1])
        n--;
    for (int k = 0; k < n; k++) {
        put(b, k ? "," : "");
        put_value(b, values[k]);
    }
}

/* The nodes from `first` on. */
const char *spelled(built *b, int first)
{
    *b->text = '\0';
    for (int i = first; i < b->graph->n_nodes; i++) {
        const ls_node *n = &b->graph->nodes[i];
        const ls_attributes *a = &n->attributes;
        put(b, i > first ? " " : "");
        put_values(b, n->out, LS_MAX_OUT);
        put(b, "=%s%s%s%s", ls_op_name(a->op), a->fused_add ? "+add" : "", a->fused_relu ? "+relu" : "",
            a->fused_clamp ? "+clamp" : "");
        if (a->op == LS_OP_SCALE)
            put(b, "*%g", a->factor);
        if (a->op == LS_OP_VIEW)
            put(b, "@%d", -a->shift[0]);
        put(b, "(");
        put_values(b, n->in, LS_MAX_IN);
        put(b, ")");
    }
    return b->text;
}

/* Inputs are not of interest: they stand first, and stay. */
int behind_inputs(const ls_graph *graph)
{
    int i = 0;
    while (i < graph->n_nodes && graph->nodes[i].attributes.op == LS_OP_INPUT)
        i++;
    return i;
}
