/* A child of fork() has neither the threads of its parent's sessions nor what these held: each call on them is an error
 * there and comes back, and the parent goes on as if there were no child. */
#include "files.h"

#include <lockstep.h>
#include <lockstep_profile.h>
#include <lockstep_checkpoint.h>
#include <lockstep_lifetime.h>
#include <lockstep_train.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "not_run.h"
#include "model/network.h"
#include "exec/stream.h"
#include "train/job.h"
#include "training.h"

enum { IMAGES = 22, SIDE = 6, CLASSES = 3, STEPS = 8, TOO_LONG = 60 /* seconds */ };

typedef struct run {
    ls_session *s;
    ls_data *data;
    ls_module *net;
    ls_trainer *trainer;
    ls_checkpoints *kept;
    ls_profile *profile;
    ls_tensor *w;
    int steps;
} run;

static void begin(run *r, const char *folder)
{
    uint8_t images[IMAGES * SIDE * SIDE], labels[IMAGES];
    test_make_images(images, sizeof images, labels, IMAGES, CLASSES);
    *r = (run){.s = ls_open(&(ls_options){.shard = 2})};
    r->data = ls_data_from_memory(r->s, images, labels, IMAGES, 1, SIDE, SIDE, CLASSES,
                                  &(ls_loader){.batch = 5, .shuffle = true});
    r->net = ls_sequential(
        r->s, LS_LIST(ls_nn_conv2d(r->s, 4, 3, NULL), ls_nn_fn(r->s, ls_flatten), ls_nn_linear(r->s, CLASSES)));
    ls_module_initialize(r->net, ls_parse_devices(r->s, "cpu:0,cpu:1"), &(ls_init){.like = r->data});
    r->trainer = ls_trainer_new(r->net, LS_ADAM, &(ls_optim){.lr = 0.01});
    r->kept = ls_checkpoints_open(r->trainer, r->data, test_path(folder), NULL);
    r->profile = ls_profile_start(r->trainer, 0);
    r->w = ls_track(ls_clone(ls_randn(r->s, "w", 0.1, LS_SHAPE(4, 3)), ls_cpu(0)));
}

static void train(run *r, int steps, char digits[65])
{
    test_train(r->s, r->net, r->trainer, r->data, &r->steps, steps);
    if (digits)
        ls_module_fingerprint(r->net, digits);
}

/* gcc's thread sanitizer does not hold all of its own locks over fork(): one that another thread has stays locked in
 * the child (its depot of stacks, once in some thousand runs), and it has no threads there. */
static void not_under_the_thread_sanitizer(void)
{
#ifdef __SANITIZE_THREAD__
    test_not_run("the thread sanitizer may hang in a child of a process with threads");
#endif
}

/* As a child finds it whose parent's threads were at work. */
static void hold_locks(const run *r, bool hold)
{
    pthread_mutex_t *locks[] = {&r->s->context.lock, &r->trainer->lock, &r->trainer->network->engine->lock,
                                &r->s->streams->lock};
    for (int i = 0; i < 4; i++)
        hold ? pthread_mutex_lock(locks[i]) : pthread_mutex_unlock(locks[3 - i]);
}

/* What the child found wrong is its exit status: the number of the call; 0: nothing. */
#define REFUSED(call) (number++, (call) != LS_BAD_ARGUMENT ? _exit(number) : (void)0)
#define NOTHING(call) (number++, (call) ? _exit(number) : (void)0)

static void use_parents(run *r, int number)
{
    float values[512];
    char digits[65];
    ls_batch b;
    ls_report report;
    ls_metrics metrics;
    ls_device_times times;
    ls_profile_sum sum;
    ls_checkpoint loaded;
    int64_t bytes;
    uint64_t self_test;
    NOTHING(!ls_failed(r->s));
    NOTHING(strstr(ls_message(r->s), "this session belongs to process ") != ls_message(r->s));
    REFUSED(ls_wait(r->s));
    NOTHING(ls_catch(r->s, LS_BAD_ARGUMENT));
    REFUSED(ls_fail(r->s, LS_IO, "no"));
    NOTHING(ls_enter(r->s) != -1);
    ls_leave(r->s, 1);
    NOTHING(ls_data_next(r->data, &b));
    NOTHING(ls_module_forward(r->net, NULL));
    REFUSED(ls_trainer_step(r->trainer));
    NOTHING(ls_trainer_next_report(r->trainer, &report));
    NOTHING(ls_trainer_voted(r->trainer));
    NOTHING(ls_trainer_lr(r->trainer) > 0);
    REFUSED(ls_trainer_set_lr(r->trainer, 1));
    ls_trainer_balanced(r->trainer, NULL);
    REFUSED(ls_trainer_device_times(r->trainer, 0, &times));
    REFUSED(ls_trainer_check_batches(r->trainer, r->data));
    REFUSED(ls_trainer_memory_needed(r->trainer, r->data, &bytes));
    REFUSED(ls_trainer_verify(r->trainer));
    NOTHING(ls_trainer_new(r->net, LS_SGD, NULL));
    REFUSED(ls_profile_stop(r->profile));
    NOTHING(ls_profile_start(r->trainer, 0));
    ls_profile_total(r->profile, &sum);
    REFUSED(ls_trainer_use_average(r->trainer, true));
    REFUSED(ls_checkpoint_save(r->kept, NULL));
    REFUSED(ls_checkpoint_wait(r->kept));
    NOTHING(ls_checkpoint_load(r->kept, &loaded));
    NOTHING(ls_checkpoints_open(r->trainer, r->data, test_folder, NULL));
    REFUSED(ls_module_evaluate(r->net, r->data, &metrics));
    NOTHING(ls_module_accuracy(r->net, r->data) > 0);
    REFUSED(ls_module_predict(r->net, r->data, values, CLASSES));
    REFUSED(ls_module_save(r->net, test_path("child.safetensors")));
    REFUSED(ls_module_load(r->net, test_path("child.safetensors")));
    REFUSED(ls_module_export_onnx(r->net, test_path("child.onnx")));
    REFUSED(ls_module_fingerprint(r->net, digits));
    NOTHING(ls_module_checksum(r->net));
    NOTHING(ls_module_param(r->net, "0.weight", ls_cpu(0)));
    REFUSED(ls_module_read_parameter(r->net, "0.bias", values, 4));
    REFUSED(ls_module_write_parameter(r->net, "0.bias", values, 4));
    REFUSED(ls_module_initialize(r->net, (ls_devices){.n = 1, .at = {{LS_CPU, 0}}}, NULL));
    REFUSED(ls_read(r->w, values, 12));
    ls_item(r->w);
    ls_str(r->w);
    NOTHING(ls_grad(r->w));
    NOTHING(ls_clone(r->w, ls_cpu(0)));
    NOTHING(ls_scale(r->w, 2));
    NOTHING(ls_zeros(r->s, LS_SHAPE(2)));
    REFUSED(ls_backward(r->w));
    REFUSED(ls_sgd_step(&r->w, 1, 0.1, 1));
    REFUSED(ls_add_to(r->w, r->w));
    ls_bytes_moved(r->s);
    ls_self_test(r->s, (ls_devices){.n = 1, .at = {{LS_CPU, 0}}}, &self_test);
    NOTHING(ls_device_count(r->s, LS_CPU));
    NOTHING(ls_all_devices(r->s).n);
    ls_devices_str(r->s, r->trainer->network->devices);
    ls_module_summary(r->net);
    NOTHING(ls_hold(r->w) != r->w);
    ls_drop(r->w);
    REFUSED(ls_module_end(r->net));
    REFUSED(ls_end(r->kept));
    REFUSED(ls_end(r->trainer));
    REFUSED(ls_end(r->data));
    REFUSED(ls_close(r->s));
}

/* A child's exit status; a signal's number above 1000. */
static int end_of(pid_t child)
{
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    return WIFSIGNALED(how) ? 1000 + WTERMSIG(how) : WEXITSTATUS(how);
}

static void the_parents_session(void **state)
{
    (void)state;
    not_under_the_thread_sanitizer();
    run r;
    char whole[65] = "", digits[65] = "";
    begin(&r, "whole");
    train(&r, STEPS, whole);
    assert_int_equal(ls_close(r.s), LS_OK);

    begin(&r, "kept");
    train(&r, STEPS / 2, NULL);
    ls_checkpoint_save(r.kept, NULL);
    train(&r, STEPS / 2 + 2, NULL); /* in flight */
    hold_locks(&r, true);
    const pid_t child = fork();
    if (child == 0) {
        alarm(TOO_LONG);
        use_parents(&r, 0);
        _exit(0);
    }
    hold_locks(&r, false);
    assert_int_equal(end_of(child), 0);
    train(&r, STEPS, digits);
    assert_string_equal(digits, whole);
    size_t n;
    free(test_read_file("kept/lock", &n)); /* it is still this process's */
    assert_true(n > 0);
    assert_int_equal(ls_checkpoint_wait(r.kept), LS_OK);
    assert_int_equal(ls_close(r.s), LS_OK);
}

/* The child's own session has the same bits, beside its parent's. */
static void a_session_of_the_childs(void **state)
{
    (void)state;
    not_under_the_thread_sanitizer();
    run r, own;
    char whole[65] = "";
    begin(&r, "parents");
    train(&r, STEPS, whole);
    const pid_t child = fork();
    if (child == 0) {
        char digits[65] = "";
        alarm(TOO_LONG);
        begin(&own, "childs");
        train(&own, STEPS, digits);
        ls_checkpoints_open(own.trainer, own.data, test_path("parents"), NULL);
        const bool busy = ls_catch(own.s, LS_BUSY);
        _exit(!busy ? 1 : ls_close(own.s) != LS_OK ? 2 : strcmp(digits, whole) != 0 ? 3 : 0);
    }
    assert_int_equal(end_of(child), 0);
    assert_int_equal(ls_close(r.s), LS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_parents_session),
        cmocka_unit_test(a_session_of_the_childs),
    };
    return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
