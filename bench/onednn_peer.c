#include "onednn_peer.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/timer.h"

static void check(dnnl_status_t status, const char *what)
{
    if (status == dnnl_success)
        return;
    fprintf(stderr, "bench: oneDNN says %d to %s\n", (int)status, what);
    exit(1);
}
#define CHECK(call) check(call, #call)
#include "onednn.h"

enum { OPERANDS = 4 };

struct peer {
    dnnl_primitive_t primitive;
    dnnl_stream_t stream;
    dnnl_memory_t memory[OPERANDS];
    void *data[OPERANDS];
    dnnl_exec_arg_t arguments[OPERANDS];
    int n;
};

void peer_begin(const char *isa)
{
    CHECK(dnnl_set_max_cpu_isa(strcmp(isa, "avx512") == 0 ? dnnl_cpu_isa_avx512_core : dnnl_cpu_isa_avx2));
    CHECK(dnnl_engine_create(&engine, dnnl_cpu, 0));
}

/* An operand as the primitive wants it, filled with numbers. */
static void add_operand(peer *p, const_dnnl_primitive_desc_t how, dnnl_query_t query, int argument)
{
    described wanted = dnnl_primitive_desc_query_md(how, query, 0);
    size_t bytes = dnnl_memory_desc_get_size(wanted);
    int i = p->n++;
    p->data[i] = bench_numbers(bytes / sizeof(float));
    CHECK(dnnl_memory_create(&p->memory[i], wanted, engine, p->data[i]));
    p->arguments[i] = (dnnl_exec_arg_t){argument, p->memory[i]};
}

peer *peer_new(const layer *l, int direction, int images, bool chooses)
{
    const dnnl_alg_kind_t algorithm = chooses ? dnnl_convolution_auto : dnnl_convolution_direct;
    const geometry g = {.stride = {l->stride, l->stride}, .padding = {l->padding, l->padding}};
    const int rows = rows_out(l);
    peer *p = calloc(1, sizeof *p);
    if (!p)
        check(dnnl_out_of_memory, "a peer");
    description x = describe(4, (dnnl_dims_t){images, l->c, l->h, l->h}, dnnl_format_tag_any),
                y = describe(4, (dnnl_dims_t){images, l->o, rows, rows}, dnnl_format_tag_any),
                w = describe(4, (dnnl_dims_t){l->o, l->c, l->kernel, l->kernel}, dnnl_format_tag_any),
                b = describe(1, (dnnl_dims_t){l->o}, dnnl_a);
    dnnl_primitive_desc_t forward = conv_forward(of(&x), of(&w), of(&b), of(&y), &g, algorithm), how = forward;
    if (direction == 0) {
        add_operand(p, how, dnnl_query_src_md, DNNL_ARG_SRC);
        add_operand(p, how, dnnl_query_weights_md, DNNL_ARG_WEIGHTS);
        p->data[p->n] = bench_numbers((size_t)l->o);
        CHECK(dnnl_memory_create(&p->memory[p->n], of(&b), engine, p->data[p->n]));
        p->arguments[p->n] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, p->memory[p->n]};
        p->n++;
        add_operand(p, how, dnnl_query_dst_md, DNNL_ARG_DST);
    } else if (direction == 1) {
        how = conv_data(of(&x), of(&w), of(&y), &g, algorithm, forward);
        add_operand(p, how, dnnl_query_diff_dst_md, DNNL_ARG_DIFF_DST);
        add_operand(p, how, dnnl_query_weights_md, DNNL_ARG_WEIGHTS);
        add_operand(p, how, dnnl_query_diff_src_md, DNNL_ARG_DIFF_SRC);
    } else {
        how = conv_weights(of(&x), of(&w), NULL, of(&y), &g, algorithm, forward);
        add_operand(p, how, dnnl_query_src_md, DNNL_ARG_SRC);
        add_operand(p, how, dnnl_query_diff_dst_md, DNNL_ARG_DIFF_DST);
        add_operand(p, how, dnnl_query_diff_weights_md, DNNL_ARG_DIFF_WEIGHTS);
    }
    CHECK(dnnl_primitive_create(&p->primitive, how));
    CHECK(dnnl_stream_create(&p->stream, engine, dnnl_stream_default_flags));
    if (how != forward)
        CHECK(dnnl_primitive_desc_destroy(how));
    CHECK(dnnl_primitive_desc_destroy(forward));
    forget(&x);
    forget(&y);
    forget(&w);
    forget(&b);
    return p;
}

double peer_time(peer *p)
{
    const double begin = ls_thread_seconds();
    CHECK(dnnl_primitive_execute(p->primitive, p->stream, p->n, p->arguments));
    CHECK(dnnl_stream_wait(p->stream));
    return ls_thread_seconds() - begin;
}

void peer_free(peer *p)
{
    CHECK(dnnl_primitive_destroy(p->primitive));
    CHECK(dnnl_stream_destroy(p->stream));
    for (int i = 0; i < p->n; i++) {
        CHECK(dnnl_memory_destroy(p->memory[i]));
        free(p->data[i]);
    }
    free(p);
}
