/* The card's operations in the lanes' layout against a core's, bit for bit: their kernels run on the host by
 * tests/emulated, several shards of a batch to a launch. What a core gives for each shard by itself is what counts. */
#include "op_table.h"

#include <lockstep.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/lanes/lanes.h"

enum { LARGEST = 150000, MUCH = 2000000 }; /* products of a case, of all shards; of the one that matters most */

/* A case, and the images of its shards. */
typedef struct launch {
    test_case one; /* of `all` */
    row all;       /* the row with the images of all shards */
    ls_cuda_shards shards;
} launch;

static int images_of(const launch *l, int shard)
{
    return ls_cuda_images_in(&l->shards, shard);
}

static row row_of(const launch *l, int shard)
{
    row r = l->all;
    r.count = images_of(l, shard);
    return r;
}

/* What a launch asks of the driver itself. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind way, cudaStream_t stream)
{
    (void)way, (void)stream;
    memcpy(to, from, bytes);
    return cudaSuccess;
}

/* ---- Operands ---- */

/* Of activations each shard has its part; of what a shard's sums give, or BatchNorm saved of them, a vector; rows are
 * those of all images in order. */
typedef struct operand {
    kind what;
    int by_shard;
    float *memory, *data;
    size_t n, step; /* numbers of all; from a shard to the next */
} operand;

static operand operand_new(const launch *l, kind what, int by_shard)
{
    const row first = row_of(l, 0), last = row_of(l, l->shards.shards - 1);
    operand made = {.what = what, .by_shard = by_shard};
    if (what == NONE)
        return made;
    made.step = size_of(&first, what);
    if (!by_image(what) && what != ROWS)
        made.step += 3; /* a bucket has other weights between */
    made.n = by_shard ? (l->shards.shards - 1) * made.step + size_of(&last, what) : size_of(&first, what);
    made.memory = test_floats(made.n + 2 * LS_LANES);
    made.data = made.memory + (by_image(what) ? 0 : 1);
    return made;
}

static float *shard_of(const operand *o, int shard)
{
    return o->data ? o->data + (o->by_shard ? shard * o->step : 0) : NULL;
}

static float number(test_random *random, const test_case *one, kind what, float normal)
{
    switch (what == STATISTICS || what == NORM_SUMS ? ORDINARY : one->values) {
    case SALTED:
        return test_salt(random, normal, !by_image(what));
    case TINY:
        return by_image(what) ? normal * 1e-39f : normal;
    case FAINT:
        return test_salt(random, normal, 1) * 1e-30f;
    default:
        return normal;
    }
}

static void fill(const launch *l, operand *o, test_random *random)
{
    test_fill_normal(random, o->data, o->n);
    for (size_t i = 0; i < o->n; i++)
        o->data[i] = number(random, &l->one, o->what, operand_number(&l->one, o->what, o->data[i]));
    for (int shard = 0; shard < (o->by_shard ? l->shards.shards : 1); shard++) {
        const row r = row_of(l, shard);
        float *const data = shard_of(o, shard);
        const size_t n = size_of(&r, o->what);
        for (size_t i = 0; i < n; i++)
            data[i] = counted_number(o->what, data[i], i, n);
        if (by_image(o->what)) {
            const ls_operand shape = shape_of(&r, o->what);
            test_pad(data, &shape, r.count, is_slope(o->what) ? NULL : random);
        }
    }
}

typedef struct operands {
    operand in[LS_MAX_IN], out[LS_MAX_OUT];
} operands;

/* What BatchNorm saved is a shard's own, and so may totals be. */
static int is_a_shards(ls_op op, kind what)
{
    return by_image(what) || what == NORM_SUMS ||
           (what == STATISTICS &&
            (op == LS_OP_BATCH_NORM_BACKWARD || op == LS_OP_NORM_SLOPES || op == LS_OP_NORM_DATA));
}

static void free_all(operand *o, int n)
{
    for (int k = 0; k < n; k++)
        free(o[k].memory);
}

static long launches;

/* ---- Calls ---- */

/* The images' samples from one on. */
static ls_samples samples_from(const test_batch *batch, int first, int count, size_t numbers, int input)
{
    ls_samples s = batch->samples;
    s.count = count;
    s.index += first;
    s.labels += first * s.labels_each;
    s.changes = s.changes ? s.changes + first : NULL;
    s.rows[input] += first * numbers;
    return s;
}

static void want(const launch *l, const test_batch *batch, const operands *all)
{
    const ls_op op = l->one.attributes.op;
    const ls_operand image = shape_of(&l->all, X);
    for (int shard = 0; shard < l->shards.shards; shard++) {
        const row r = row_of(l, shard);
        const ls_samples samples =
            samples_from(batch, shard * l->shards.images, r.count, test_numbers(&image), l->one.attributes.input);
        ls_op_call call = {.attributes = &l->one.attributes, .samples = &samples};
        for (int k = 0; k < LS_MAX_IN; k++) {
            call.in[k] = shape_of(&r, operands_of[op].in[k]);
            call.in[k].data = shard_of(&all->in[k], shard);
        }
        for (int k = 0; k < LS_MAX_OUT; k++) {
            call.out[k] = shape_of(&r, operands_of[op].out[k]);
            call.out[k].data = shard_of(&all->out[k], shard);
        }
        test_run(test_fastest(), &call);
    }
}

/* `over`: which operand the first output lies over, -1 for none. */
static void launch_on_card(const launch *l, const test_batch *batch, operands *all, int over)
{
    const ls_op op = l->one.attributes.op;
    const row first = row_of(l, 0);
    ls_cuda_shards shards = l->shards;
    ls_op_call call = {
        .attributes = &l->one.attributes, .samples = &batch->samples, .groups = ls_cuda_all_groups(&shards)};
    for (int k = 0; k < LS_MAX_IN; k++) {
        call.in[k] = shape_of(&first, operands_of[op].in[k]);
        call.in[k].data = all->in[k].data;
        shards.in_step[k] = all->in[k].by_shard ? all->in[k].step : 0;
    }
    for (int k = 0; k < LS_MAX_OUT; k++) {
        call.out[k] = shape_of(&first, operands_of[op].out[k]);
        call.out[k].data = all->out[k].data;
        shards.out_step[k] = all->out[k].step;
    }
    if (over >= 0)
        call.in[over].data = memcpy(all->out[0].data, all->in[over].data, all->in[over].n * sizeof(float));
    static const size_t of_cards[] = {48 << 10, 99 << 10, 227 << 10}; /* tiles change no bits */
    shards.shared = of_cards[launches % 3];
    shards.one = &batch->samples.one;
    shards.step = &batch->samples.step;
    const size_t scratch = ls_cuda_lanes_scratch(&call, &shards) / sizeof(float);
    float *const memory = test_floats(scratch + 1);
    memset(memory, 0xff, (scratch + 1) * sizeof *memory);
    call.scratch = memory;
    ls_cuda_lanes[op](&call, &shards, NULL);
    assert_int_equal(((unsigned char *)(memory + scratch))[0], 0xff);
    free(memory);
}

static void compare(const launch *l, int k, const operand *want_it, const operand *got)
{
    char text[256];
    describe(&l->one, text, sizeof text);
    for (int shard = 0; shard < l->shards.shards && makes_output(&l->one, k); shard++) {
        const row r = row_of(l, shard);
        const ls_operand shape = shape_of(&r, got->what);
        const size_t numbers = test_numbers(&shape), n = size_of(&r, got->what);
        const float *a = shard_of(want_it, shard), *b = shard_of(got, shard);
        for (size_t i = 0; i < n; i++) {
            const int image = by_image(got->what) ? (int)(i / LS_LANES / numbers * LS_LANES + i % LS_LANES) : 0;
            if (image < r.count && !test_same_bits(a[i], b[i]))
                fail_msg("%s: shard %d of %d: out[%d] number %zu: %a, not %a", text, shard, l->shards.shards, k, i,
                         (double)b[i], (double)a[i]);
            if (image >= r.count && is_slope(got->what) && b[i] != 0)
                fail_msg("%s: shard %d of %d: out[%d] number %zu of a lane without an image: %a, not 0", text, shard,
                         l->shards.shards, k, i, (double)b[i]);
        }
    }
    for (size_t i = 0; i < LS_LANES; i++)
        if (got->what != NONE && got->data[got->n + i] != 0)
            fail_msg("%s: out[%d] is overrun", text, k);
}

static void make_outputs(const launch *l, operands *all)
{
    for (int k = 0; k < LS_MAX_OUT; k++) {
        all->out[k] = operand_new(l, operands_of[l->one.attributes.op].out[k], 1);
        if (all->out[k].data)
            memset(all->out[k].data, 0x5a, all->out[k].n * sizeof(float));
    }
}

static void run(const launch *l)
{
    const ls_op op = l->one.attributes.op;
    test_random random = {.state = (uint64_t)launches * 1000 + op};
    test_batch batch = batch_of(&l->one);
    const ls_operand image = shape_of(&l->all, X);
    float *const rows = test_floats(test_numbers(&image) * (size_t)l->all.count);
    test_fill_normal(&random, rows, test_numbers(&image) * (size_t)l->all.count);
    batch.samples.rows[l->one.attributes.input] = rows;
    operands all = {0};
    for (int k = 0; k < LS_MAX_IN; k++) {
        const kind what = operands_of[op].in[k];
        if (what == NONE || !present(&l->one, what, k))
            continue;
        all.in[k] = operand_new(l, what, is_a_shards(op, what));
        fill(l, &all.in[k], &random);
    }
    make_outputs(l, &all);
    want(l, &batch, &all);
    for (int over = -1; over < LS_MAX_IN; over++) {
        const kind what = over < 0 ? NONE : operands_of[op].in[over];
        if (over >= 0 && (!(ls_op_overwrites(op) >> over & 1) || !all.in[over].data || !by_image(what) ||
                          all.in[over].n != all.out[0].n))
            continue;
        operands own = all;
        for (int k = 0; k < LS_MAX_IN; k++) /* another garbage in lanes without an image must not show */
            for (int shard = 0; shard < l->shards.shards && by_image(own.in[k].what) && !is_slope(own.in[k].what);
                 shard++) {
                const row r = row_of(l, shard);
                const ls_operand shape = shape_of(&r, own.in[k].what);
                test_pad(shard_of(&own.in[k], shard), &shape, r.count, &random);
            }
        make_outputs(l, &own);
        launch_on_card(l, &batch, &own, over);
        for (int k = 0; k < LS_MAX_OUT; k++)
            compare(l, k, &all.out[k], &own.out[k]);
        free_all(own.out, LS_MAX_OUT);
        launches++;
    }
    free_all(all.in, LS_MAX_IN);
    free_all(all.out, LS_MAX_OUT);
    free(rows);
    test_batch_free(&batch);
}

/* ---- The table ---- */

/* A row with these shards: three of them in every variant, the fullest and the plainest with each kind of numbers. */
static void run_row(const row *r, ls_op op, int shards, int images, int last)
{
    for (int variant = 0; variant < 8 * VALUES; variant++) {
        const int relu = variant & 1, add = variant >> 1 & 1, bias = variant >> 2 & 1, values = variant / 8;
        const int full = relu == takes_relu(op) && add == takes_add(op) && bias == takes_bias(op);
        const int none = !relu && !add && !bias;
        launch l = {.all = *r, .shards = {.shards = shards, .images = images, .last = last}};
        l.all.count = (shards - 1) * images + last;
        if ((relu && !takes_relu(op)) || (add && !takes_add(op)) || (bias && !takes_bias(op)) ||
            (shards != 3 && !(full && values == ORDINARY)) || (values != ORDINARY && !full && !none) ||
            work_of(&l.all) > (shards == 3 && full && values == ORDINARY ? MUCH : LARGEST))
            continue;
        l.one = case_of(&l.all, op, relu, add, bias, values);
        run(&l);
    }
}

/* Plans for cards join no pool to a convolution, and the user's own functions are called elsewhere (cuda/own.c). */
static int is_for_cores(ls_op op)
{
    return op == LS_OP_CONV_POOL || op == LS_OP_CONV_POOL_WEIGHT || op == LS_OP_CUSTOM || op == LS_OP_CUSTOM_BACKWARD;
}

static void operations_have_a_cores_bits(void **state)
{
    (void)state;
    for (int family = 0; family < FAMILIES; family++)
        for (int k = 0; families[family][k] != LS_OP_COUNT; k++) {
            const ls_op op = families[family][k];
            const long before = launches;
            assert_true((ls_cuda_lanes[op] == NULL) == is_for_cores(op));
            if (is_for_cores(op))
                continue;
            for (size_t i = 0; i < op_rows; i++) {
                const row *r = &op_table[i];
                if (r->family != family || !suits(r, op))
                    continue;
                run_row(r, op, 1, r->count, r->count);
                run_row(r, op, 3, r->count, (r->count + 1) / 2);
                run_row(r, op, 1, 64, 64);
                run_row(r, op, 4, 64, 5);
            }
            print_message("%s: %ld launches\n", ls_op_name(op), launches - before);
            assert_true(launches > before);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(operations_have_a_cores_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
