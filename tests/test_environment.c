/* Whatever a program has set around the library, the numbers and the files are the same: one run of the whole public
 * interface, again under each setting. */
#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fenv.h>
#include <limits.h>
#include <locale.h>
#include <lockstep.h>
#include <lockstep_checkpoint.h>
#include <lockstep_data.h>
#include <lockstep_profile.h>
#include <lockstep_weights.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "not_run.h"
#include "training.h"

enum { IMAGES = 22, CHANNELS = 2, SIDE = 12, CLASSES = 3, BATCH = 5, MOST_NUMBERS = 256 };

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { SMALL_STACK = 1 << 20 };
#else
enum { SMALL_STACK = 64 << 10 };
#endif

/* ---- One run ----------------------------------------------------------------------------------------------------- */

/* What a run tells: numbers, and the first that went wrong. Files lie in its folder. */
typedef struct run {
    char folder[256], text[8192], wrong[1200];
    double numbers[MOST_NUMBERS];
    int n;
} run;

/* Static, as the stack may be small. One run at a time. */
static uint8_t pixels[IMAGES * CHANNELS * SIDE * SIDE], labels[IMAGES];
static float values[1 << 14], logits[IMAGES * CLASSES];

static void note(run *r, double number)
{
    if (r->n < MOST_NUMBERS)
        r->numbers[r->n++] = number;
}

/* By its bits: a conversion could be what the setting changes. */
static void note_float(run *r, float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    note(r, bits);
}

static void tell(run *r, const char *text)
{
    const size_t length = strlen(r->text), more = strlen(text);
    if (length + more < sizeof r->text)
        memcpy(r->text + length, text, more + 1);
}

static void note_values(run *r, ls_tensor *tensor)
{
    int64_t n = 1;
    for (int i = 0; i < ls_rank(tensor); i++)
        n *= ls_dim(tensor, i);
    if (ls_read(tensor, values, n) == LS_OK)
        for (int64_t i = 0; i < n; i++)
            note_float(r, values[i]);
    tell(r, ls_str(tensor));
}

/* The name of a file of this run; one of two buffers that take turns. */
static const char *in_folder(const run *r, const char *name)
{
    static char paths[2][400];
    static int turn;
    char *path = paths[turn++ % 2];
    strcpy(path, r->folder);
    strcat(path, "/");
    return strcat(path, name);
}

static void end(run *r, ls_session *s)
{
    if (ls_failed(s) && !*r->wrong)
        strcpy(r->wrong, ls_message(s));
    ls_close(s);
}

/* y = x * w / 3. Like the backward pass, it leaves its thread as the library must not compute. */
static void third(const ls_custom_call *call, const float *const in[], float *out)
{
    for (int i = 0; i < call->rows * call->in[0][0]; i++)
        out[i] = in[0][i] * in[1][0] / 3;
    fesetround(FE_UPWARD);
}

/* The same, with more on the stack than a caller's may hold. */
static void roomy_third(const ls_custom_call *call, const float *const in[], float *out)
{
    volatile float room[SMALL_STACK / sizeof(float)];
    for (size_t i = 0; i < sizeof room / sizeof *room; i++)
        room[i] = in[1][0];
    const float copy = room[call->rows];
    third(call, (const float *const[]){in[0], &copy}, out);
}

static void third_backward(const ls_custom_call *call, const float *const in[], const float *out, const float *dout,
                           float *const din[])
{
    (void)out;
    for (int i = 0; i < call->rows * call->in[0][0]; i++) {
        if (din[0])
            din[0][i] = dout[i] * in[1][0] / 3;
        if (din[1])
            din[1][0] += dout[i] * in[0][i] / 3;
    }
    fesetround(FE_UPWARD);
}

static const ls_custom thirds = {
    .name = "third", .inputs = 2, .parameters = 2, .forward = third, .backward = third_backward};
static const ls_custom roomy_thirds = {
    .name = "third", .inputs = 2, .parameters = 2, .forward = roomy_third, .backward = third_backward};

/* Every layer there is, and own operations where ONNX need not know them. */
static ls_tensor *layers(ls_module *self, ls_tensor *x)
{
    fesetround(FE_UPWARD); /* as third leaves it */
    x = ls_relu(ls_module_call(self, "norm", ls_module_call(self, "conv", x)));
    ls_tensor *wide = ls_module_call(self, "second", x);
    x = ls_add(ls_multiply(wide, ls_sigmoid(x)), ls_scale(x, 0.1));
    x = ls_concat((ls_tensor *[]){ls_max_pool2d(x, &(ls_pool){.kernel = 2}), ls_avg_pool2d(x, &(ls_pool){.kernel = 2})},
                  2);
    x = ls_tanh(ls_module_call(self, "linear", ls_module_call(self, "dropout", ls_flatten(x))));
    if (!ls_module_user(self))
        return x;
    ls_tensor *w = ls_module_parameter(self, "w", LS_SHAPE(1));
    return ls_add(x, ls_custom_op(&roomy_thirds, (ls_tensor *[]){x, w}));
}

/* A metric, which leaves its thread so too. */
static ls_tensor *surprises(ls_tensor *outputs, ls_tensor *y, void *user)
{
    (void)user;
    fesetround(FE_UPWARD);
    return ls_cross_entropy(outputs, y);
}

static ls_module *network(ls_session *s, bool custom)
{
    ls_module *net = ls_block(s, layers, custom ? pixels : NULL);
    ls_module_append(net, "conv", ls_nn_conv2d(s, 4, 5, &(ls_conv){.padding = 2}));
    ls_module_append(net, "norm", ls_nn_batch_norm(s));
    ls_module_append(net, "second", ls_nn_conv2d(s, 4, 3, &(ls_conv){.padding = 1}));
    ls_module_append(net, "dropout", ls_nn_dropout(s, 0.3));
    ls_module_append(net, "linear", ls_nn_linear(s, CLASSES));
    return net;
}

/* A way to train: its own rule, schedule and initialisation. */
typedef struct way {
    const char *name;
    ls_optimizer kind;
    ls_init init;
    ls_optim how;
    ls_augment augment;
    double smoothing;
    bool custom;
} way;

static const way ways[] = {
    {.name = "sgd",
     .how = {.lr = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 1e-3, .schedule = LS_COSINE, .warmup = 3},
     .augment = {.flip = true, .crop = 1, .erase = 0.3},
     .smoothing = 0.1},
    {.name = "adam",
     .kind = LS_ADAM,
     .init = {.kind = LS_XAVIER},
     .how = {.lr = 0.01, .weight_decay = 1e-2, .schedule = LS_STEP_SCHEDULE, .clip_norm = 0.7},
     .custom = true},
    {.name = "adamw",
     .kind = LS_ADAMW,
     .init = {.kind = LS_HE},
     .how = {.lr = 0.003, .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-7, .weight_decay = 0.1, .warmup = 2, .full_batch = 7}},
    {.name = "constant", .init = {.scale = 0.3}, .how = {.lr = 0.125, .clip_norm = 0.1}, .smoothing = 1.0 / 3},
};

enum { BREAK = 6, STEPS = 12 };

/* Trains on to a step, from the newest checkpoint where there is one, and keeps one. */
static void train(run *r, const way *w, int from, int to)
{
    ls_session *s = ls_open(&(ls_options){.seed = 3, .shard = 2});
    ls_data *data = ls_data_from_memory(s, pixels, labels, IMAGES, CHANNELS, SIDE, SIDE, CLASSES,
                                        &(ls_loader){.batch = BATCH, .shuffle = true, .augment = w->augment});
    ls_module *net = network(s, w->custom);
    ls_init init = w->init;
    init.like = data;
    ls_optim how = w->how;
    how.total = STEPS;
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0,cpu:1"), &init);
    ls_trainer *trainer = ls_trainer_new(net, w->kind, &how);
    const ls_note own[] = {{"ours", "0.5"}, {NULL, NULL}};
    ls_checkpoints *kept =
        ls_checkpoints_open(trainer, data, in_folder(r, w->name), &(ls_checkpoint_options){.settings = own});
    ls_checkpoint loaded = {.step = 0};
    if (ls_checkpoint_load(kept, &loaded) != (from > 0) || loaded.step != from)
        strcpy(r->wrong, "the checkpoint was not found");
    int done = from;
    for (ls_batch b; done < to && !ls_failed(s);)
        if (ls_data_next(data, &b)) {
            ls_backward(ls_cross_entropy_smooth(ls_module_forward(net, b.X), b.y, w->smoothing));
            ls_trainer_step(trainer);
            done++;
        }
    ls_checkpoint_save(kept, own);
    ls_checkpoint_wait(kept);
    for (ls_report report; ls_trainer_next_report(trainer, &report);) {
        note(r, report.loss);
        note(r, report.norm);
    }
    ls_metrics metrics = {0};
    ls_module_evaluate(net, data, &metrics);
    note(r, metrics.loss);
    note(r, ls_module_accuracy(net, data));
    double surprise = 0;
    ls_module_measure(net, data, surprises, NULL, &surprise, 1);
    note(r, surprise);
    char digits[65] = "", name[64];
    ls_module_fingerprint(net, digits);
    tell(r, digits);
    tell(r, ls_module_summary(net));
    snprintf(name, sizeof name, "%s-%d.safetensors", w->name, to);
    ls_module_save(net, in_folder(r, name));
    ls_module_load(net, in_folder(r, name));
    ls_file_fingerprint(s, in_folder(r, name), digits);
    tell(r, digits);
    ls_module_predict(net, data, logits, CLASSES);
    snprintf(name, sizeof name, "%s-%d.npy", w->name, to);
    ls_save_npy(s, in_folder(r, name), logits, IMAGES, CLASSES);
    snprintf(name, sizeof name, "%s-%d.onnx", w->name, to);
    if (!w->custom && ls_module_export_onnx(net, in_folder(r, name)) != LS_OK)
        ls_catch(s, LS_UNSUPPORTED); /* built without it */
    end(r, s);
}

static ls_tensor *explicit_net(ls_tensor *X, void *w)
{
    return ls_softmax(ls_matmul(ls_flatten(X), w));
}

/* Tensors without a network: what is drawn, computed, updated and printed. */
static void compute(run *r)
{
    ls_session *s = ls_open(&(ls_options){.seed = 5});
    ls_tensor *w = ls_track(ls_clone(ls_randn(s, "w", 0.1, LS_SHAPE(4, 3)), ls_cpu(0)));
    ls_tensor *x = ls_clone(ls_uniform(s, "x", LS_SHAPE(5, 4)), ls_cpu(0));
    ls_tensor *y = ls_scale(ls_softmax(ls_matmul(x, w)), 0.7);
    ls_backward(ls_mean(ls_mse(y, ls_clone(ls_full(s, 0.1, LS_SHAPE(5, 3)), ls_cpu(0)))));
    note_values(r, ls_grad(w));
    ls_sgd_step(&w, 1, 0.1, 3);
    note_values(r, w);
    note_values(r, ls_mean_each(ls_tanh(x)));
    ls_tensor *sum = ls_arange(s, 0.1, LS_SHAPE(3)), *little = ls_full(s, 0x1p-30, LS_SHAPE(3));
    ls_add_to(sum, little);
    note_values(r, sum);
    note_values(r, ls_scale(ls_full(s, 0x1p-126, LS_SHAPE(2)), 0.25)); /* a denormal */
    note(r, ls_item(ls_mean(ls_arange(s, 1.0 / 3, LS_SHAPE(7)))));
    note(r, ls_custom_check(s, &thirds, (const int[][3]){{3, 1, 1}, {1, 1, 1}}, 4));
    ls_data *data = ls_data_from_memory(s, pixels, labels, IMAGES, CHANNELS, SIDE, SIDE, CLASSES, NULL);
    ls_tensor *replica = ls_clone(ls_randn(s, "r", 0.1, LS_SHAPE(CHANNELS * SIDE * SIDE, CLASSES)), ls_cpu(0));
    note(r, ls_accuracy_fn(explicit_net, (void *[]){replica}, data, ls_parse_devices(s, "cpu:0")));
    uint64_t self_test = 0;
    ls_self_test(s, ls_parse_devices(s, "cpu:0"), &self_test);
    note(r, (double)(self_test >> 11));
    note(r, (double)(ls_data_checksum(data) >> 11));
    tell(r, ls_devices_str(s, ls_parse_devices(s, "cpu:0-15")));
    ls_scale(x, 1e300); /* a message with a number in it */
    tell(r, ls_message(s));
    ls_catch(s, LS_BAD_ARGUMENT);
    ls_nn_dropout(s, 1.5);
    tell(r, ls_message(s));
    ls_catch(s, LS_BAD_ARGUMENT);
    end(r, s);
}

/* Float images from .npy files, which this program wrote. */
static void read_arrays(run *r)
{
    ls_session *s = ls_open(NULL);
    ls_data *data = ls_data_open(s, "npy", LS_TRAIN, &(ls_loader){.directory = test_path("arrays"), .batch = 2});
    ls_batch b;
    if (ls_data_next(data, &b))
        note_values(r, b.X);
    end(r, s);
}

static void *whole_run(void *argument)
{
    run *r = argument;
    mkdir(r->folder, 0777);
    chmod(r->folder, 0700);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        train(r, &ways[i], 0, BREAK);
        train(r, &ways[i], BREAK, STEPS);
    }
    compute(r);
    read_arrays(r);
    return NULL;
}

/* ---- Two runs compared ------------------------------------------------------------------------------------------- */

static run first;

static void compare_files(const char *expected, const char *found)
{
    size_t n[2];
    unsigned char *bytes[2] = {test_read_file(expected, &n[0]), test_read_file(found, &n[1])};
    if (n[0] != n[1] || memcmp(bytes[0], bytes[1], n[0]) != 0)
        fail_msg("%s differs from %s", found, expected);
    free(bytes[0]);
    free(bytes[1]);
}

/* Both folders hold the same files, which their owner can read and write. */
static int compare_folders(const char *expected, const char *found)
{
    int files = 0;
    struct dirent **names = NULL;
    int n = scandir(test_path(expected), &names, NULL, alphasort), others;
    assert_true(n > 2);
    struct dirent **there = NULL;
    others = scandir(test_path(found), &there, NULL, alphasort);
    assert_int_equal(others, n);
    for (int i = 0; i < n; i++) {
        char a[400], b[400];
        struct stat about;
        assert_string_equal(names[i]->d_name, there[i]->d_name);
        snprintf(a, sizeof a, "%s/%s", expected, names[i]->d_name);
        snprintf(b, sizeof b, "%s/%s", found, names[i]->d_name);
        assert_int_equal(stat(test_path(b), &about), 0);
        if (*names[i]->d_name != '.') {
            assert_int_equal(about.st_mode & 0600, 0600);
            if (S_ISDIR(about.st_mode))
                files += compare_folders(a, b);
            else
                compare_files(a, b), files++;
        }
        free(names[i]);
        free(there[i]);
    }
    free(names);
    free(there);
    return files;
}

static void assert_same(const run *r)
{
    if (*r->wrong)
        fail_msg("%s", r->wrong);
    assert_true(r->n > 100 && r->n < MOST_NUMBERS);
    assert_int_equal(r->n, first.n);
    for (int i = 0; i < r->n; i++)
        if (memcmp(&r->numbers[i], &first.numbers[i], sizeof *r->numbers) != 0)
            fail_msg("number %d is %a, and was %a", i, r->numbers[i], first.numbers[i]);
    assert_string_equal(r->text, first.text);
    assert_true(compare_folders("first", strrchr(r->folder, '/') + 1) >= 20);
}

static void start_in(run *r, const char *folder)
{
    memset(r, 0, sizeof *r);
    snprintf(r->folder, sizeof r->folder, "%s", test_path(folder));
}

/* A run on a thread of its own: `set` is done first, and `back` after it. */
typedef struct hostile {
    run run;
    bool (*set)(void);  /* false: this machine cannot */
    bool (*kept)(void); /* still as it was set */
    void (*back)(void);
    bool could, was_kept;
} hostile;

static void *hostile_run(void *argument)
{
    hostile *h = argument;
    h->could = h->set();
    if (h->could) {
        whole_run(&h->run);
        h->was_kept = !h->kept || h->kept();
    }
    if (h->back)
        h->back();
    return NULL;
}

static void run_under(const char *name, bool (*set)(void), bool (*kept)(void), void (*back)(void), size_t stack)
{
    static hostile h;
    h = (hostile){.set = set, .kept = kept, .back = back};
    start_in(&h.run, name);
    pthread_attr_t how;
    pthread_t thread;
    pthread_attr_init(&how);
    if (stack)
        assert_int_equal(pthread_attr_setstacksize(&how, stack), 0);
    assert_int_equal(pthread_create(&thread, &how, hostile_run, &h), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&how);
    if (!h.could)
        test_not_run("%s: this machine cannot", name);
    assert_same(&h.run);
    assert_true(h.was_kept);
}

/* ---- The settings ------------------------------------------------------------------------------------------------ */

static bool upward(void)
{
    return fesetround(FE_UPWARD) == 0;
}

static bool still_upward(void)
{
    return fegetround() == FE_UPWARD;
}

static bool downward(void)
{
    return fesetround(FE_DOWNWARD) == 0;
}

static bool still_downward(void)
{
    return fegetround() == FE_DOWNWARD;
}

static bool to_zero(void)
{
    return fesetround(FE_TOWARDZERO) == 0;
}

static bool still_to_zero(void)
{
    return fegetround() == FE_TOWARDZERO;
}

/* Denormals become zero, as operands and as results. */
#if defined __x86_64__
enum { DENORMALS = 0x8040 };

static bool flush(void)
{
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | DENORMALS);
    return true;
}

static bool still_flushes(void)
{
    return (__builtin_ia32_stmxcsr() & DENORMALS) == DENORMALS;
}
#elif defined __aarch64__
enum { DENORMALS = 1 << 24 };

static bool still_flushes(void)
{
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return control & DENORMALS;
}

static bool flush(void)
{
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    __asm__ volatile("msr fpcr, %0" : : "r"(control | DENORMALS));
    return still_flushes();
}
#else
static bool flush(void)
{
    return false;
}

static bool still_flushes(void)
{
    return false;
}
#endif

/* Made of the system's sources of locales, as it may have none installed. */
static bool commas(void)
{
    char command[600];
    snprintf(command, sizeof command, "localedef -c -i de_DE -f ISO-8859-1 '%s/commas' >'%s' 2>&1", test_folder,
             test_path("localedef.log"));
    if (system(command) > 1 << 8 || setenv("LOCPATH", test_folder, 1) != 0 || !setlocale(LC_ALL, "commas"))
        return false;
    return *localeconv()->decimal_point == ',';
}

static bool still_commas(void)
{
    char text[16];
    snprintf(text, sizeof text, "%.1f", 0.5);
    return strcmp(text, "0,5") == 0;
}

static void no_commas(void)
{
    setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
}

static mode_t before;

static bool hide_files(void)
{
    before = umask(0777);
    return true;
}

static bool still_hidden(void)
{
    return umask(before) == 0777;
}

/* A thread that asks for no other gets a small stack too, as under ulimit -s. */
static bool small_by_default(void)
{
    pthread_attr_t how;
    pthread_attr_init(&how);
    pthread_attr_setstacksize(&how, 20 << 10);
#ifdef __GLIBC__
    pthread_setattr_default_np(&how);
#endif
    pthread_attr_destroy(&how);
    return true;
}

static void large_by_default(void)
{
    pthread_attr_t how;
    pthread_attr_init(&how);
    pthread_attr_setstacksize(&how, 8 << 20);
#ifdef __GLIBC__
    pthread_setattr_default_np(&how);
#endif
    pthread_attr_destroy(&how);
}

/* A clock whose signal breaks off what waits, and lands on the caller's thread alone. */
static atomic_int rings, others;
static pid_t rung_thread;

static void ring(int number)
{
    (void)number;
    atomic_fetch_add(&rings, 1);
    const pid_t thread = (pid_t)syscall(SYS_gettid);
    if (thread != rung_thread && thread != getpid())
        atomic_fetch_add(&others, 1);
}

static bool ring_often(void)
{
    rung_thread = (pid_t)syscall(SYS_gettid);
    struct sigaction how = {.sa_handler = ring};
    const struct itimerval often = {{0, 500}, {0, 500}};
    return sigaction(SIGALRM, &how, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0;
}

static void ring_no_more(void)
{
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    signal(SIGALRM, SIG_IGN); /* also one that is under way */
}

static void rounding_up(void **state)
{
    (void)state;
    run_under("up", upward, still_upward, NULL, 0);
}

static void rounding_down(void **state)
{
    (void)state;
    run_under("down", downward, still_downward, NULL, 0);
}

static void rounding_to_zero(void **state)
{
    (void)state;
    run_under("zero", to_zero, still_to_zero, NULL, 0);
}

static void denormals_flushed(void **state)
{
    (void)state;
    run_under("flush", flush, still_flushes, NULL, 0);
}

static void decimal_commas(void **state)
{
    (void)state;
    run_under("decimal", commas, still_commas, no_commas, 0);
}

static void a_umask_that_takes_everything(void **state)
{
    (void)state;
    run_under("umask", hide_files, still_hidden, NULL, 0);
}

static void a_small_stack(void **state)
{
    (void)state;
    run_under("stack", small_by_default, NULL, large_by_default, SMALL_STACK);
}

static void signals_all_the_time(void **state)
{
    (void)state;
    run_under("signals", ring_often, NULL, ring_no_more, 0);
    assert_int_equal(others, 0);
}

/* ---- The run that they are compared with ------------------------------------------------------------------------- */

static void write_array(const char *name, const char *type, const char *shape, const void *bytes, size_t count)
{
    char file[256] = "\x93NUMPY\x01\x00\x76\x00";
    memset(file + 10, ' ', 118);
    const int n = snprintf(file + 10, 118, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);
    file[10 + n] = ' ';
    file[127] = '\n';
    file[9] = 0;
    memcpy(file + 128, bytes, count);
    test_write_file(name, file, 128 + count);
}

static int begin(void **state)
{
    if (test_folder_make(state) != 0)
        return -1;
    test_make_images(pixels, sizeof pixels, labels, IMAGES, CLASSES);
    mkdir(test_path("arrays"), 0777);
    const float images[8] = {0.1F, 0x1p-140F, 0.3F, 1, 0, 0.5F, 0.7F, 0.9F};
    const uint8_t classes[2] = {0, 1};
    write_array("arrays/X_train.npy", "<f4", "(2, 1, 2, 2)", images, sizeof images);
    write_array("arrays/y_train.npy", "|u1", "(2,)", classes, sizeof classes);
    start_in(&first, "first");
    whole_run(&first);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounding_up),      cmocka_unit_test(rounding_down),
        cmocka_unit_test(rounding_to_zero), cmocka_unit_test(denormals_flushed),
        cmocka_unit_test(decimal_commas),   cmocka_unit_test(a_umask_that_takes_everything),
        cmocka_unit_test(a_small_stack),    cmocka_unit_test(signals_all_the_time),
    };
    return cmocka_run_group_tests(tests, begin, test_folder_remove);
}
