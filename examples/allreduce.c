/* Several ways to sum tensors that lie on K devices and to leave the sum on each, written out over copies between
 * devices. All are checked, and timed side by side.
 * allreduce [DEVICES [NUMBERS]]: 4 devices and a million numbers unless told otherwise. */
#include "arguments.h"
#include <lockstep.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static ls_tensor *here(ls_tensor *from, ls_tensor *to)
{
    return ls_to(from, ls_device_of(to));
}

static void flat(ls_tensor *data[], int n) /* all to the first, and from there to all */
{
    for (int i = 1; i < n; i++)
        ls_add_to(data[0], here(data[i], data[0]));
    for (int i = 1; i < n; i++)
        ls_assign(data[i], data[0]);
}

static void tree(ls_tensor *data[], int n) /* neighbours, then pairs of neighbours, and the same way back */
{
    int gap = 1;
    for (; gap < n; gap *= 2)
        for (int i = 0; i + gap < n; i += 2 * gap)
            ls_add_to(data[i], here(data[i + gap], data[i]));
    for (gap /= 2; gap >= 1; gap /= 2)
        for (int i = 0; i + gap < n; i += 2 * gap)
            ls_assign(data[i + gap], data[i]);
}

/* The rest cut each tensor into K pieces of rows: ls_row shares the numbers of a row, so rows are pieces here. */
static void ring(ls_tensor *data[], int n)
{
    for (int step = 0; step < n - 1; step++) /* piece p goes around, from p to p - 1, and is whole there */
        for (int p = 0; p < n; p++) {
            int from = (p + step) % n, to = (from + 1) % n;
            ls_tensor *sum = ls_row(data[to], p);
            ls_add_to(sum, here(ls_row(data[from], p), sum));
        }
    for (int step = 0; step < n - 1; step++)
        for (int p = 0; p < n; p++) {
            int from = (p + n - 1 + step) % n, to = (from + 1) % n;
            ls_assign(ls_row(data[to], p), ls_row(data[from], p));
        }
}

/* For powers of two: each pair at distance n/2 halves the pieces between them, then at n/4, ...; and doubles them
 * again. Device i ends the first half with piece i. */
static void halving_doubling(ls_tensor *data[], int n)
{
    for (int gap = n / 2; gap >= 1; gap /= 2)
        for (int i = 0; i < n; i++)
            for (int p = 0; p < n; p++) /* i keeps the pieces that agree with it in this bit and those above */
                if ((p & ~(gap - 1)) == (i & ~(gap - 1)))
                    ls_add_to(ls_row(data[i], p), here(ls_row(data[i ^ gap], p), data[i]));
    for (int gap = 1; gap < n; gap *= 2)
        for (int i = 0; i < n; i++)
            for (int p = 0; p < n; p++) /* and gets those that its partner has whole */
                if ((p & ~(gap - 1)) == ((i ^ gap) & ~(gap - 1)))
                    ls_assign(ls_row(data[i], p), ls_row(data[i ^ gap], p));
}

typedef void algorithm(ls_tensor *data[], int n);
static const struct {
    const char *name;
    algorithm *run;
} algorithms[] = {{"flat", flat}, {"tree", tree}, {"ring", ring}, {"halving, doubling", halving_doubling}};

/* Small whole numbers, whose sums are exact: here every order must give the same. */
static double expected(int n, int64_t i)
{
    return n * (n + 1) / 2.0 + (double)n * (double)(i % 5);
}

static bool right(ls_tensor *const data[], int n, int64_t numbers)
{
    float *values = malloc((size_t)numbers * sizeof *values);
    bool good = values;
    for (int d = 0; d < n && good; d++) {
        good = ls_read(data[d], values, numbers) == LS_OK;
        for (int64_t i = 0; i < numbers && good; i++)
            good = (double)values[i] == expected(n, i);
    }
    free(values);
    return good;
}

static bool try(ls_session *s, int a, ls_devices devices, int64_t columns)
{
    int n = devices.n, scope = ls_enter(s);
    int64_t numbers = n * columns;
    ls_tensor *data[LS_MAX_DEVICES];
    ls_timer timer = {0};
    uint64_t moved = 0;
    bool good = true;
    float *values = malloc((size_t)numbers * sizeof *values);
    for (int trial = 0; trial < 4 && good && values; trial++) { /* the first one warms up */
        for (int d = 0; d < n; d++) {
            for (int64_t i = 0; i < numbers; i++)
                values[i] = (float)(d + 1 + i % 5);
            data[d] = ls_clone(ls_values(s, values, LS_SHAPE(n, columns)), devices.at[d]);
        }
        uint64_t before = ls_bytes_moved(s); /* waits */
        ls_timer measured = {0};
        ls_timer_start(&measured);
        algorithms[a].run(data, n);
        ls_wait(s);
        ls_timer_stop(&measured);
        moved = ls_bytes_moved(s) - before;
        if (trial)
            timer = (ls_timer){timer.total + measured.total, 0, timer.laps + 1};
        good = right(data, n, numbers);
    }
    free(values);
    printf("%-18s %8.3f ms, %11.0f bytes moved: %s\n", algorithms[a].name, 1e3 * ls_timer_avg(&timer), (double)moved,
           good ? "right on every device" : "WRONG");
    ls_leave(s, scope);
    return good;
}

int main(int argc, char **argv)
{
    int k = 4, numbers = 1000000;
    read_arguments(argc, argv,
                   "Ways to sum NUMBERS (1000000) that lie on each of DEVICES (4). It prints, and writes no file.",
                   (argument[]){{"DEVICES", .count = &k}, {"NUMBERS", .count = &numbers}}, 2);
    ls_session *s = ls_open(NULL);
    ls_devices devices = ls_try_devices(s, k);
    bool good = !ls_failed(s);
    printf("all-reduce over %s\n", ls_devices_str(s, devices));
    for (int a = 0; a < 4 && good; a++) {
        if (algorithms[a].run == halving_doubling && (k & (k - 1)))
            printf("%-18s needs a power of two\n", algorithms[a].name);
        else
            good = try(s, a, devices, (numbers + k - 1) / k);
    }
    if (ls_failed(s))
        fprintf(stderr, "allreduce: %s\n", ls_message(s));
    return ls_close(s) == LS_OK && good ? 0 : 1;
}
