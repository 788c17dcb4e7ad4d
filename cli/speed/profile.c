#include "speed/profile.h"
#include "options/choice.h"
#include "text/say.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const directions[] = {"forward", "data", "weight"}; /* by ls_direction */

/* ---- What is measured ---- */

typedef struct figures {
    ls_profile_sum sum;
    ls_profile_row *rows; /* the longest first */
    int n;
} figures;

static int longer_first(const void *a, const void *b)
{
    double x = ((const ls_profile_row *)a)->seconds, y = ((const ls_profile_row *)b)->seconds;
    return (x < y) - (x > y);
}

/* 0, or the status to exit with once a line is said. The rows are the caller's to free. */
static int read_figures(const run *r, const ls_profile *profile, figures *f)
{
    *f = (figures){.n = ls_profile_rows(profile)};
    f->rows = calloc((size_t)f->n + 1, sizeof *f->rows);
    if (!f->rows)
        return failed("bench", "no memory for a table of %d rows", f->n);
    ls_profile_total(profile, &f->sum);
    for (int i = 0; i < f->n; i++)
        ls_profile_at(profile, i, &f->rows[i]);
    if (ls_failed(r->session)) {
        free(f->rows);
        return session_failed(r->session, "bench");
    }
    qsort(f->rows, (size_t)f->n, sizeof *f->rows, longer_first);
    return 0;
}

/* Adds up the rows of each operation in the first of them; returns how many there are. */
static int add_up_operations(ls_profile_row *rows, int n)
{
    int operations = 0;
    for (int i = 0; i < n; i++) {
        int k = 0;
        while (k < operations &&
               (strcmp(rows[k].operation, rows[i].operation) != 0 || rows[k].direction != rows[i].direction))
            k++;
        if (k == operations) {
            rows[operations++] = rows[i];
            continue;
        }
        rows[k].calls += rows[i].calls;
        rows[k].seconds += rows[i].seconds;
        rows[k].flops += rows[i].flops;
        rows[k].bytes += rows[i].bytes;
    }
    qsort(rows, (size_t)operations, sizeof *rows, longer_first);
    return operations;
}

typedef struct part {
    const char *name, *key;
    double seconds; /* of all cores */
} part;
enum { PARTS = 6 };

static bool on_cards(const run *r)
{
    return run_is_on(r, LS_CUDA);
}

static void list_parts(const run *r, const ls_profile_sum *sum, part parts[PARTS])
{
    parts[0] = (part){"operations", "operations_seconds", sum->operations};
    parts[1] = (part){"gathering and converting images", "gathering_seconds", sum->gathering};
    parts[2] = (part){"reducing and updating", "reducing_seconds", sum->reducing};
    parts[3] =
        (part){on_cards(r) ? "copies to the cards and back" : "between operations", "between_seconds", sum->between};
    parts[4] = (part){"waiting for work", "waiting_seconds", sum->waiting};
    parts[5] = (part){"taken by other programs", "elsewhere_seconds", sum->elsewhere};
}

static double all_seconds(const ls_profile_sum *sum)
{
    return sum->seconds * sum->cores;
}

/* Without what other programs took of it. */
static double own_seconds(const ls_profile_sum *sum)
{
    return all_seconds(sum) - sum->elsewhere;
}

/* ---- As a table ---- */

static void shape_text(char *text, size_t size, const ls_profile_row *row)
{
    const int *in = row->in, *out = row->out;
    bool same = memcmp(in, out, sizeof row->in) == 0;
    int at = snprintf(text, size, "%dx%dx%d", in[0], in[1], in[2]);
    if (!same || row->kernel)
        at += snprintf(text + at, size - (size_t)at, " > %dx%dx%d", out[0], out[1], out[2]);
    if (row->kernel > 1 || row->kernel_w > 1 || row->stride > 1)
        at += snprintf(text + at, size - (size_t)at, ", %dx%d", row->kernel, row->kernel_w);
    if (row->stride > 1)
        at += snprintf(text + at, size - (size_t)at, " by %d", row->stride);
    if (row->groups > 1)
        snprintf(text + at, size - (size_t)at, " in %d", row->groups);
}

static void print_head(const char *name, const char *shape)
{
    printf("\n%-22s %-31s %-15s %-7s %5s %9s %7s %8s %7s %6s %7s\n", name, shape, "operation", "pass", "calls", "ms",
           "share", "GFLOP/s", "peak", "GB/s", "memory");
}

/* The operation's name as far as the pass beside it does not say it. */
static int kind_length(const char *operation)
{
    static const char *const ends[] = {"_data", "_weight", "_backward"};
    size_t length = strlen(operation);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t end = strlen(ends[i]);
        if (length > end && strcmp(operation + length - end, ends[i]) == 0)
            return (int)(length - end);
    }
    return (int)length;
}

static void print_rate(int width, double work, double seconds, double most)
{
    if (work > 0 && seconds > 0)
        printf(" %*.1f", width, work / seconds / 1e9);
    else
        printf(" %*s", width, "-");
    if (work > 0 && seconds > 0 && most > 0)
        printf(" %5.0f %%", 100 * work / seconds / most);
    else
        printf(" %7s", "-");
}

static void print_row(const char *name, const char *shape, const ls_profile_row *row, const ls_profile_sum *sum,
                      const ls_speed *speed)
{
    printf("%-22.22s %-31.31s %-15.*s %-7s %5.0f %9.3f %5.1f %%", name, shape, kind_length(row->operation),
           row->operation, directions[row->direction], (double)row->calls / (double)sum->steps,
           1e3 * row->seconds / (double)sum->steps, 100 * row->seconds / own_seconds(sum));
    print_rate(8, row->flops, row->seconds, speed->flops);
    print_rate(6, row->bytes, row->seconds, speed->bytes);
    printf("\n");
}

/* The module, or the parameter where the network has no modules. */
static const char *name_of(const ls_profile_row *row)
{
    const char *name = *row->layer ? row->layer : row->parameter;
    return *name ? name : "-";
}

static void print_parts(const run *r, const ls_profile_sum *sum)
{
    part parts[PARTS];
    double steps = (double)sum->steps, all = all_seconds(sum), together = 0;
    const char *place = !on_cards(r) ? "core" : run_is_on(r, LS_CPU) ? "device" : "card";
    char title[64];
    list_parts(r, sum, parts);
    snprintf(title, sizeof title, "part of the step, all %ss together", place);
    printf("\n%-40s %12s %8s\n", title, "ms", "share");
    for (int i = 0; i < PARTS; i++) {
        printf("%-40s %12.3f %6.2f %%\n", parts[i].name, 1e3 * parts[i].seconds / steps, 100 * parts[i].seconds / all);
        together += parts[i].seconds;
    }
    printf("%-40s %12.3f %6.2f %%\n", "sum", 1e3 * together / steps, 100 * together / all);
    printf("a step by the clock: %.3f ms on %d %s%s; %.1f images/s\n", 1e3 * sum->seconds / steps, sum->cores, place,
           sum->cores > 1 ? "s" : "", (double)sum->images / sum->seconds);
    if (sum->elsewhere > 0.01 * all)
        printf("with the cores to itself it would take %.3f ms; %.1f images/s\n",
               1e3 * own_seconds(sum) / steps / sum->cores, (double)sum->images * sum->cores / own_seconds(sum));
    printf("reducing and updating that computing does not hide: %.3f ms of a step, %.2f %%\n",
           1e3 * sum->unhidden / steps, 100 * sum->unhidden / sum->seconds);
}

int profile_print(const run *r, const ls_profile *profile, const ls_speed *speed)
{
    figures f;
    int status = read_figures(r, profile, &f);
    if (status)
        return status;
    printf("%s on %s: %lld steps of %lld images, shard %lld, ", r->model, r->devices_text, (long long)f.sum.steps,
           (long long)r->chosen->batch, (long long)r->chosen->shard);
    if (on_cards(r))
        printf("dtype %s\n", choice_name(dtype_choices, r->chosen->dtype));
    else
        printf("conv %s, isa %s\na core's most: %.1f GFLOP/s in fused multiply-adds, %.1f GB/s from and to memory\n",
               choice_name(conv_choices, r->chosen->conv), ls_isa_name(r->session), speed->flops / 1e9,
               speed->bytes / 1e9);
    print_head("layer or parameter", "shape of an image");
    for (int i = 0; i < f.n; i++) {
        char shape[120];
        shape_text(shape, sizeof shape, &f.rows[i]);
        print_row(name_of(&f.rows[i]), shape, &f.rows[i], &f.sum, speed);
    }
    print_head("all together", "");
    int operations = add_up_operations(f.rows, f.n);
    for (int i = 0; i < operations; i++)
        print_row("", "", &f.rows[i], &f.sum, speed);
    print_parts(r, &f.sum);
    free(f.rows);
    return 0;
}

/* ---- As JSON ---- */

static void log_shape(run_log *log, const char *name, const int shape[3])
{
    char text[64];
    snprintf(text, sizeof text, "%dx%dx%d", shape[0], shape[1], shape[2]);
    log_text(log, name, text);
}

static void log_row(run_log *log, const ls_profile_row *row)
{
    log_item(log);
    log_text(log, "layer", row->layer);
    log_text(log, "parameter", row->parameter);
    log_text(log, "operation", row->operation);
    log_text(log, "direction", directions[row->direction]);
    log_shape(log, "in", row->in);
    log_shape(log, "out", row->out);
    log_integer(log, "kernel", row->kernel);
    log_integer(log, "stride", row->stride);
    log_integer(log, "padding", row->padding);
    log_integer(log, "kernel_w", row->kernel_w);
    log_integer(log, "groups", row->groups);
    log_bool(log, "fused_relu", row->fused_relu);
    log_bool(log, "fused_add", row->fused_add);
    log_bool(log, "fused_clamp", row->fused_clamp);
    log_integer(log, "calls", row->calls);
    log_number(log, "seconds", row->seconds);
    log_number(log, "flops", row->flops);
    log_number(log, "bytes", row->bytes);
    log_item_end(log);
}

int profile_log(run_log *log, const run *r, const ls_profile *profile, const ls_speed *speed)
{
    figures f;
    part parts[PARTS];
    int status = read_figures(r, profile, &f);
    if (status)
        return status;
    list_parts(r, &f.sum, parts);
    log_item(log);
    log_text(log, "model", r->model);
    log_text(log, "devices", r->devices_text);
    log_integer(log, "cores", f.sum.cores);
    log_integer(log, "steps", f.sum.steps);
    log_integer(log, "images", f.sum.images);
    log_number(log, "core_flops_per_second", speed->flops);
    log_number(log, "core_bytes_per_second", speed->bytes);
    log_number(log, "seconds", f.sum.seconds);
    for (int i = 0; i < PARTS; i++)
        log_number(log, parts[i].key, parts[i].seconds);
    log_number(log, "unhidden_seconds", f.sum.unhidden);
    log_list(log, "operations");
    for (int i = 0; i < f.n; i++)
        log_row(log, &f.rows[i]);
    log_list_end(log);
    log_item_end(log);
    free(f.rows);
    return 0;
}
