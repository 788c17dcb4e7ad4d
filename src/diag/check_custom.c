/* A user's own operation against finite differences: its backward must be the slope of its forward. */
#include <math.h>
#include <string.h>

#include "base/environment.h"
#include "base/random.h"
#include "graph/record.h"
#include "io/onnx_text.h"

/* Steps and inputs are multiples of 1/1024, so that x + h and x - h are exact. Inputs keep further from zero than a
 * step reaches: that is where operations have their kinks. */
enum { DIRECTIONS = 8, GRID = 1024, STEP = 32, AWAY = 128 };

typedef struct checking {
    ls_session *session;
    const ls_custom *op;
    ls_custom_call call;
    size_t n[LS_CUSTOM_INPUTS], n_out;
    float *in[LS_CUSTOM_INPUTS], *moved, *direction, *din[LS_CUSTOM_INPUTS], *again[LS_CUSTOM_INPUTS];
    float *out, *dout, *shifted;
} checking;

static ls_random_stream stream_for(const checking *c, int k, uint64_t what)
{
    return (ls_random_stream){.seed = c->session->options.seed,
                              .purpose = LS_FOR_WEIGHTS,
                              .name = ls_hash_name(c->op->name) ^ ls_hash_name("ls_check_custom"),
                              .epoch = what << 8 | (uint64_t)k};
}

static void fill(const checking *c, float *values, size_t n, int k)
{
    ls_random_stream stream = stream_for(c, k, 0);
    for (size_t i = 0; i < n; i++) {
        double x = ls_random_normal(&stream, i);
        values[i] = (float)(copysign(floor(fabs(x) * GRID) + AWAY, x) / GRID);
    }
}

/* Rows or a parameter's numbers; 0 where there would be none or too many. */
static size_t numbers(const int sizes[3], int rows)
{
    int64_t n = rows;
    for (int i = 0; i < 3; i++)
        if (sizes[i] < 1 || __builtin_mul_overflow(n, sizes[i], &n) || n > 1 << 26)
            return 0;
    return (size_t)n;
}

static float *room(checking *c, size_t n)
{
    return ls_alloc(&c->session->context, n, sizeof(float), "a check of an own operation");
}

static ls_status prepare(checking *c, const int shapes[][3], int rows)
{
    ls_context *context = &c->session->context;
    const ls_custom *op = c->op;
    size_t largest = 0;
    for (int k = 0; k < op->inputs; k++) {
        bool parameter = op->parameters >> k & 1;
        memcpy(c->call.in[k], shapes[k], sizeof c->call.in[k]);
        c->n[k] = numbers(shapes[k], parameter ? 1 : rows);
        if (!c->n[k] || (parameter && (shapes[k][1] != 1 || shapes[k][2] != 1)))
            return ls_raise(context, LS_BAD_SHAPE, "ls_custom_check: shapes[%d] is {%d, %d, %d} with %d rows: %s", k,
                            shapes[k][0], shapes[k][1], shapes[k][2], rows,
                            parameter ? "a parameter is {numbers, 1, 1}" : "all must be at least 1, and not too large");
        largest = c->n[k] > largest ? c->n[k] : largest;
    }
    memcpy(c->call.out, c->call.in[0], sizeof c->call.out);
    bool fits = !op->shape || op->shape(&c->call);
    c->n_out = fits ? numbers(c->call.out, rows) : 0;
    if (!c->n_out)
        return ls_raise(context, LS_BAD_SHAPE, "ls_custom_check: %s: its shape rule refuses the inputs", op->name);
    c->call.rows = rows;
    for (int k = 0; k < op->inputs; k++) {
        c->in[k] = room(c, c->n[k]);
        c->din[k] = room(c, c->n[k]);
        c->again[k] = room(c, c->n[k]);
        if (c->in[k])
            fill(c, c->in[k], c->n[k], k);
    }
    c->moved = room(c, largest);
    c->direction = room(c, largest);
    c->out = room(c, c->n_out);
    c->dout = room(c, c->n_out);
    c->shifted = room(c, c->n_out);
    if (c->dout)
        fill(c, c->dout, c->n_out, LS_CUSTOM_INPUTS);
    return ls_status_of(c->session);
}

static void let_go(checking *c)
{
    ls_context *context = &c->session->context;
    for (int k = 0; k < LS_CUSTOM_INPUTS; k++) {
        ls_release(context, c->in[k]);
        ls_release(context, c->din[k]);
        ls_release(context, c->again[k]);
    }
    ls_release(context, c->moved);
    ls_release(context, c->direction);
    ls_release(context, c->out);
    ls_release(context, c->dout);
    ls_release(context, c->shifted);
}

/* The functions find results all zero, as in training: one that adds to them is right. */
static void forward(const checking *c, const float *const in[], float *out)
{
    memset(out, 0, c->n_out * sizeof *out);
    c->op->forward(&c->call, in, out);
    ls_environment_renew();
}

static void backward(const checking *c, const float *const in[], float *const din[])
{
    for (int k = 0; k < c->op->inputs; k++)
        memset(din[k], 0, c->n[k] * sizeof *din[k]);
    c->op->backward(&c->call, in, c->out, c->dout, din);
    ls_environment_renew();
}

static double dot(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* sum(dout * (f(x + h v) - f(x - h v))) / 2h along the direction v of input k. */
static double slope(checking *c, int k, double h)
{
    const float *in[LS_CUSTOM_INPUTS] = {c->in[0], c->in[1], c->in[2]};
    double sum = 0;
    in[k] = c->moved;
    for (int sign = 1; sign >= -1; sign -= 2) {
        for (size_t i = 0; i < c->n[k]; i++)
            c->moved[i] = c->in[k][i] + (float)(sign * h) * c->direction[i];
        forward(c, in, c->shifted);
        sum += sign * dot(c->dout, c->shifted, c->n_out);
    }
    return sum / (2 * h);
}

/* The largest difference along some directions of one input, in units of the slopes' root mean square: a single
 * direction's slope may be near zero by chance. */
static double error_of(checking *c, int k)
{
    double largest = 0, given = 0, measured = 0, h = (double)STEP / GRID;
    for (int d = 0; d < DIRECTIONS; d++) {
        ls_random_stream stream = stream_for(c, k, 1 + (uint64_t)d);
        for (size_t i = 0; i < c->n[k]; i++)
            c->direction[i] = ls_random_u32(&stream, i) & 1 ? 1.0f : -1.0f;
        double a = dot(c->din[k], c->direction, c->n[k]);
        double b = (4 * slope(c, k, h / 2) - slope(c, k, h)) / 3; /* what remains of the error is of h^4 */
        if (!isfinite(a) || !isfinite(b))
            return NAN;
        largest = fmax(largest, fabs(a - b));
        given += a * a;
        measured += b * b;
    }
    return largest > 0 ? largest / sqrt(fmax(given, measured) / DIRECTIONS) : 0;
}

/* Whether both functions repeat themselves to the bit. Leaves `out` and `din`. */
static bool repeats(checking *c)
{
    const float *const in[LS_CUSTOM_INPUTS] = {c->in[0], c->in[1], c->in[2]};
    const char *restless = NULL;
    forward(c, in, c->out);
    forward(c, in, c->shifted);
    if (memcmp(c->out, c->shifted, c->n_out * sizeof *c->out) != 0)
        restless = "";
    backward(c, in, c->din);
    backward(c, in, c->again);
    for (int k = 0; k < c->op->inputs && !restless; k++)
        if (memcmp(c->din[k], c->again[k], c->n[k] * sizeof *c->din[k]) != 0)
            restless = "'s backward";
    if (restless)
        ls_raise(&c->session->context, LS_BAD_ARGUMENT,
                 "ls_custom_check: %s%s gives different bits for equal arguments", c->op->name, restless);
    return !restless;
}

/* ---- The forms for others ---- */

/* Whether its lines for ONNX can be read. */
static bool onnx_reads(const checking *c)
{
    ls_context *context = &c->session->context;
    ls_onnx_steps *steps = c->op->onnx ? ls_alloc(context, 1, sizeof *steps, "a check of an own operation") : NULL;
    int line = 0;
    const char *wrong = steps ? ls_onnx_read_text(c->op->onnx, c->op->inputs, steps, &line) : NULL;
    if (wrong)
        ls_raise(context, LS_BAD_ARGUMENT, "ls_custom_check: %s: line %d of its onnx: %s", c->op->name, line, wrong);
    ls_release(context, steps);
    return ls_context_status(context) == LS_OK;
}

/* How far the tensor's numbers, which go to `read`, are from what they should be, relative to the largest of those. */
static double off(ls_tensor *tensor, const float *wanted, float *read, size_t n)
{
    double largest = 0, difference = 0;
    if (ls_read(tensor, read, (int64_t)n) != LS_OK)
        return NAN;
    for (size_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs((double)wanted[i]));
        difference = isfinite(read[i]) ? fmax(difference, fabs((double)read[i] - (double)wanted[i])) : INFINITY;
    }
    return difference > 0 ? difference / largest : 0;
}

static ls_shape shape_of(const int sizes[3], bool parameter, int rows)
{
    return parameter                        ? LS_SHAPE(sizes[0])
           : sizes[1] == 1 && sizes[2] == 1 ? LS_SHAPE(rows, sizes[0])
                                            : LS_SHAPE(rows, sizes[0], sizes[1], sizes[2]);
}

static double error_there(checking *c)
{
    ls_session *s = c->session;
    const ls_custom *op = c->op;
    ls_tensor *in[LS_CUSTOM_INPUTS] = {NULL};
    for (int k = 0; k < op->inputs; k++) {
        const ls_shape shape = shape_of(c->call.in[k], op->parameters >> k & 1, c->call.rows);
        in[k] = ls_clone(ls_values(s, c->in[k], shape), ls_gpu(0));
        if (op->cuda_backward)
            ls_track(in[k]);
    }
    ls_tensor *y = ls_custom_op(op, in);
    double error = off(y, c->out, c->shifted, c->n_out);
    if (!op->cuda_backward || !y)
        return error;
    ls_backward_from(y, ls_clone(ls_values(s, c->dout, shape_of(c->call.out, false, c->call.rows)), ls_gpu(0)));
    for (int k = 0; k < op->inputs; k++)
        error = fmax(error, off(ls_grad(in[k]), c->din[k], c->again[k], c->n[k]));
    return error;
}

/* How far the functions for cards are from those for cores, on the first card; 0 where there is none. */
static double error_on_card(checking *c)
{
    if (!c->op->cuda_forward || ls_device_count(c->session, LS_CUDA) < 1)
        return 0;
    const int scope = ls_enter(c->session);
    const double error = error_there(c);
    ls_leave(c->session, scope);
    return ls_failed(c->session) ? NAN : error;
}

static double check(checking *c)
{
    ls_context *context = &c->session->context;
    const ls_custom *op = c->op;
    if (!onnx_reads(c) || !repeats(c))
        return NAN;
    double largest = 0;
    for (int k = 0; k < op->inputs; k++) {
        double error = error_of(c, k);
        if (isnan(error)) {
            ls_raise(context, LS_NOT_FINITE,
                     "ls_custom_check: %s: its output or its gradient of input %d is not finite", op->name, k);
            return NAN;
        }
        largest = fmax(largest, error);
    }
    const double there = error_on_card(c);
    return isnan(there) ? NAN : fmax(largest, there);
}

double ls_custom_check(ls_session *session, const ls_custom *op, const int shapes[][3], int rows)
{
    LS_OWN_ENVIRONMENT;
    if (!session || ls_failed(session))
        return NAN;
    const char *wrong = ls_wrong_custom(op);
    if (wrong || !shapes || rows < 1) {
        ls_raise(&session->context, LS_BAD_ARGUMENT, "ls_custom_check: %s",
                 wrong ? wrong : "needs the inputs' shapes and at least one row");
        return NAN;
    }
    if (!op->backward) {
        ls_raise(&session->context, LS_UNSUPPORTED, "ls_custom_check: %s has no backward", op->name);
        return NAN;
    }
    checking c = {.session = session, .op = op, .call = {.user = op->user}};
    double error = prepare(&c, shapes, rows) == LS_OK ? check(&c) : NAN;
    let_go(&c);
    return error;
}
