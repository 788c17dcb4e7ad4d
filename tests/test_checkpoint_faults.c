/* Checkpoints while the system fails: every call that changes files fails or is the process's last, every allocation
 * fails. The checkpoint before stays, and the run goes on from it or from the new one. */
#include "checkpoint_run.h"
#include "not_run.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "system_faults.h"

#if LOCKSTEP_HAVE_JANSSON && LOCKSTEP_HAVE_CRYPTO

/* What reaches the disk before what: no name before its content, the manifest after the arrays that it vouches for, and
 * what is old goes once the new checkpoint is whole. A folder that is new is on the disk before what is in it. */
static void every_name_follows_its_content(void **state)
{
    (void)state;
    how h = usual;
    h.keep = 1;
    run r;
    test_record(test_folder);
    begin(&r, &h);
    assert_string_equal(test_recorded(), "make kept\nsync .\nwrite kept/lock\n");
    for (int turn = 1; turn <= 3; turn++) { /* the second is the first that another one gives way to */
        char expected[1024] = "";
        int length = 0;
        for (int i = 0; i < 2; i++) {
            char name[64];
            snprintf(name, sizeof name, "kept/checkpoint-%06d.%s", turn, i ? "json" : "safetensors");
            length += snprintf(expected + length, sizeof expected - (size_t)length,
                               "write %s.tmp\nsync %s.tmp\nrename %s.tmp %s\nsync kept\n", name, name, name, name);
        }
        if (turn > 1)
            snprintf(expected + length, sizeof expected - (size_t)length,
                     "remove kept/checkpoint-%06d.json\nremove kept/checkpoint-%06d.safetensors\n", turn - 1, turn - 1);
        train(&r, turn);
        test_record(test_folder);
        ls_checkpoint_save(r.kept, NULL);
        assert_int_equal(ls_checkpoint_wait(r.kept), LS_OK);
        assert_string_equal(test_recorded(), expected);
    }
    assert_int_equal(end(&r), LS_OK);
}

/* Saves step 6 over a checkpoint of step 3. */
static ls_status save_second(run *r)
{
    begin(r, &usual);
    if (!load(r))
        return ls_status_of(r->s);
    train(r, 6);
    ls_checkpoint_save(r->kept, NULL);
    return ls_checkpoint_wait(r->kept);
}

static void every_system_call_fails(void **state)
{
    (void)state;
    static const int errors[] = {ENOSPC, EIO, EROFS, EACCES, EINVAL};
    for (int e = 0; e < 5; e++)
        for (int n = 1, done = 0; !done; n++) {
            save_at(&usual, 3, 0);
            run r;
            test_fault(n, errors[e]);
            ls_status status = save_second(&r);
            done = !test_fault_met();
            if ((status != LS_OK && status != LS_IO) || (status == LS_OK && !test_fault_passes()))
                fail_msg("call %d, %s, failing with %s: %s", n, test_fault_call(), strerror(errors[e]),
                         ls_message(r.s));
            test_fault(0, 0);
            if (status == LS_OK)
                assert_int_equal(r.steps, 6);
            else
                assert_non_null(strstr(ls_message(r.s), test_folder)); /* the file is named */
            /* Taken back, the run goes on and saves again. */
            if (r.kept && ls_catch(r.s, LS_IO) && r.steps) {
                train(&r, 7);
                assert_int_equal(ls_checkpoint_save(r.kept, NULL), LS_OK);
                assert_int_equal(ls_checkpoint_wait(r.kept), LS_OK);
            }
            end(&r);
            int from = assert_goes_on(&usual);
            assert_true(from == 3 || from == 6 || from == 7);
            assert_true(status != LS_OK || from == 6);
            empty_folder();
        }
}

static void short_writes(void **state)
{
    (void)state;
    test_short_writes(true);
    save_at(&usual, 3, 6);
    test_short_writes(false);
    assert_int_equal(assert_goes_on(&usual), 6);
}

static void killed_at_every_system_call(void **state)
{
    (void)state;
    reference(&usual);
    int last = 3; /* the old checkpoint up to some call, and the new one from there on */
    for (int n = 1, done = 0; !done; n++) {
        save_at(&usual, 3, 0);
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            run r;
            test_fault(n, TEST_KILL);
            _exit(save_second(&r) == LS_OK && end(&r) == LS_OK ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        done = !WIFSIGNALED(status);
        assert_true(done ? WEXITSTATUS(status) == 0 : WTERMSIG(status) == SIGKILL);
        int from = assert_goes_on(&usual);
        assert_true((from == 3 || from == 6) && from >= last);
        last = from;
        empty_folder();
    }
    assert_int_equal(last, 6);
}

static void every_allocation_fails(void **state)
{
    (void)state;
    save_at(&usual, 3, 0);
    int done = 0;
    for (int n = 1; !done; n++) {
        ls_allocator allocator = test_allocator(n);
        how h = usual;
        h.allocator = &allocator;
        run r = {.s = NULL};
        begin(&r, &h);
        if (r.s && !ls_failed(r.s)) {
            load(&r);
            train(&r, r.steps + 1);
            ls_checkpoint_save(r.kept, NULL);
            ls_checkpoint_wait(r.kept);
        }
        ls_status status = r.s ? ls_close(r.s) : LS_OUT_OF_MEMORY;
        assert_true(status == LS_OK || status == LS_OUT_OF_MEMORY);
        assert_int_equal(test_allocations.live, 0);
        done = test_allocations.count < n;
        assert_true(done || status == LS_OUT_OF_MEMORY);
        assert_true(assert_goes_on(&usual) >= 3);
        if (n > 400)
            n += 7; /* the steps' own, which other tests fail one by one */
        empty_folder();
        save_at(&usual, 3, 0);
    }
}

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, test_folder_make, test_folder_remove)
    const struct CMUnitTest tests[] = {
        test(every_name_follows_its_content), test(every_system_call_fails), test(short_writes),
        test(killed_at_every_system_call),    test(every_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return test_none_run("this build has no checkpoints");
}

#endif
