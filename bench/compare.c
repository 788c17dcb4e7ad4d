/* Every convolution of both networks beside oneDNN's: bench_compare [--images N] [--seconds S] [WORD]
 *
 * For each layer and direction one line, with AVX-512 and with AVX2 where the machine has them: GFLOP/s of direct
 * convolution's arithmetic, ours (Winograd where the networks take it) and oneDNN's, and how many times as fast ours
 * is. oneDNN has its blocked formats, and the better of its direct algorithm and what it chooses itself. One thread,
 * processor time; the three take turns, and the best run of each counts. WORD picks the layers whose name contains it.
 *
 * oneDNN fixes its instruction set and its threads at the first use: each instruction set is a process of its own,
 * asked for one line at a time, so that they too take turns. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/cpu/select.h"
#include "device/cpu/speed.h"
#include "onednn_peer.h"

enum { DIRECTIONS = 3, ISAS = 2 };

static const char *const directions[DIRECTIONS] = {"forward", "data", "weight"};
static const ls_op direct[DIRECTIONS] = {LS_OP_CONV, LS_OP_CONV_DATA, LS_OP_CONV_WEIGHT};
static const ls_op winograd[DIRECTIONS] = {LS_OP_WINOGRAD, LS_OP_WINOGRAD_DATA, LS_OP_WINOGRAD_WEIGHT};

static const struct {
    const char *name;
    ls_isa isa;
} isas[ISAS] = {{"avx512", LS_ISA_AVX512}, {"avx2", LS_ISA_AVX2}};

typedef struct options {
    int images;
    double seconds;
    const char *word;
} options;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* ---- A process for one instruction set ---- */

typedef struct result {
    double ours, theirs, peak; /* operations a second */
} result;

static result measure(const ls_backend *backend, const layer *l, int direction, const options *o)
{
    double best[3] = {INFINITY, INFINITY, INFINITY}, spent = 0.0;
    bench_call ours;
    begin_convolution(&ours, backend, l, suits_winograd(l) ? winograd[direction] : direct[direction], o->images);
    peer *theirs[2] = {peer_new(l, direction, o->images, false), peer_new(l, direction, o->images, true)};
    for (int round = 0; round < 4 || spent < o->seconds; round++)
        for (int k = 0; k < 3; k++) {
            const double time = k ? peer_time(theirs[k - 1]) : time_call(&ours);
            best[k] = round ? fmin(best[k], time) : best[k]; /* the first run of each warms up */
            spent += time;
        }
    const double work = ls_op_flops(&ours.call) * o->images;
    end_call(&ours);
    peer_free(theirs[0]);
    peer_free(theirs[1]);
    return (result){work / best[0], work / fmin(best[1], best[2]), ls_cpu_peak(backend)};
}

/* Answers questions from `in` until it ends. */
static int serve(int isa, int in, int out, const options *o)
{
    const ls_backend *backend = ls_cpu_backend(isas[isa].isa);
    int question[2];
    peer_begin(isas[isa].name);
    while (read(in, question, sizeof question) == sizeof question) {
        result r = measure(backend, &convolutions[question[0]], question[1], o);
        if (write(out, &r, sizeof r) != sizeof r)
            return 1;
    }
    return 0;
}

/* ---- The table ---- */

typedef struct server {
    pid_t process; /* 0: the machine lacks the instruction set */
    int to, from;
} server;

/* Begins this program anew, for oneDNN's threads are counted as it is loaded. */
static server start(int isa, const options *o)
{
    int to[2], from[2];
    server s = {0};
    char text[5][32];
    if (!ls_cpu_backend(isas[isa].isa))
        return s;
    if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC)) /* another process would keep them open */
        fail("bench_compare");
    fflush(stdout);
    s = (server){fork(), to[1], from[0]};
    if (s.process < 0)
        fail("bench_compare");
    if (s.process > 0) {
        close(to[0]);
        close(from[1]);
        return s;
    }
    fcntl(to[0], F_SETFD, 0);
    fcntl(from[1], F_SETFD, 0);
    setenv("OMP_NUM_THREADS", "1", 1);
    snprintf(text[0], sizeof text[0], "%d", isa);
    snprintf(text[1], sizeof text[1], "%d", to[0]);
    snprintf(text[2], sizeof text[2], "%d", from[1]);
    snprintf(text[3], sizeof text[3], "%d", o->images);
    snprintf(text[4], sizeof text[4], "%g", o->seconds);
    execl("/proc/self/exe", "bench_compare", "--serve", text[0], text[1], text[2], "--images", text[3], "--seconds",
          text[4], (char *)NULL);
    _exit(127);
}

static result ask(const server *s, int layer_number, int direction)
{
    result r;
    const int question[2] = {layer_number, direction};
    if (write(s->to, question, sizeof question) != sizeof question || read(s->from, &r, sizeof r) != sizeof r) {
        fprintf(stderr, "bench_compare: the measuring process has ended\n");
        exit(1);
    }
    return r;
}

static void print_line(const server servers[ISAS], int i, int direction, double peak[ISAS])
{
    printf("%-20s %-8s", convolutions[i].name, directions[direction]);
    for (int k = 0; k < ISAS; k++)
        if (servers[k].process) {
            result r = ask(&servers[k], i, direction);
            printf("   %8.1f %8.1f %6.2f", r.ours / 1e9, r.theirs / 1e9, r.ours / r.theirs);
            peak[k] = fmax(peak[k], r.peak);
        }
    printf("\n");
    fflush(stdout);
}

static void print_table(const options *o)
{
    server servers[ISAS];
    double peak[ISAS] = {0};
    for (int k = 0; k < ISAS; k++)
        servers[k] = start(k, o);
    printf("GFLOP/s, %d images  ", o->images);
    for (int k = 0; k < ISAS; k++)
        if (servers[k].process)
            printf("   %6s: ours   oneDNN  times", isas[k].name);
    printf("\n");
    for (int i = 0; i < CONVOLUTIONS; i++)
        for (int direction = 0; direction < DIRECTIONS; direction++)
            if (!o->word || strstr(convolutions[i].name, o->word))
                print_line(servers, i, direction, peak);
    printf("%-29s", "peak of multiply-adds");
    for (int k = 0; k < ISAS; k++)
        if (servers[k].process) {
            printf("   %8.1f %15s", peak[k] / 1e9, "");
            close(servers[k].to);
            waitpid(servers[k].process, NULL, 0);
        }
    printf("\n");
}

int main(int argc, char **argv)
{
    options o = {.images = 64, .seconds = 0.3};
    int isa = -1, in = 0, out = 0;
    for (int i = 1; i < argc; i++) {
        if (i + 3 < argc && !strcmp(argv[i], "--serve")) {
            isa = atoi(argv[i + 1]);
            in = atoi(argv[i + 2]);
            out = atoi(argv[i + 3]);
            i += 3;
        } else if (i + 1 < argc && !strcmp(argv[i], "--images"))
            o.images = atoi(argv[++i]);
        else if (i + 1 < argc && !strcmp(argv[i], "--seconds"))
            o.seconds = atof(argv[++i]);
        else
            o.word = argv[i];
    }
    if (o.images < 1 || isa >= ISAS) {
        fprintf(stderr, "bench_compare: at least one image\n");
        return 2;
    }
    if (isa >= 0)
        return serve(isa, in, out, &o);
    print_table(&o);
    return 0;
}
