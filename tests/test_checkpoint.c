/* Checkpoints: a run goes on with the same bits from every step; whatever happens to the files, what is loaded is
 * whole, or there is a failure by name. */
#include "checkpoint_run.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/lock.h"
#include "io/folder.h"
#include "not_run.h"
#include "tensors.h"
#include "train/trainer.h"

#if LOCKSTEP_HAVE_JANSSON && LOCKSTEP_HAVE_CRYPTO

/* ---- Going on ---- */

static void from_every_step(void **state)
{
    (void)state;
    static const char *const devices[] = {"cpu:0", "cpu:0-1", "cpu:0-4"};
    static const ls_isa isas[] = {LS_ISA_AUTO, LS_ISA_PLAIN, LS_ISA_REFERENCE};
    for (int k = 0; k <= STEPS; k++)
        for (int rule = 0; rule < RULES; rule++) {
            how h = rules[rule];
            h.devices = devices[k % 3];
            run r;
            begin(&r, &h);
            train(&r, k);
            ls_checkpoint_save(r.kept, NULL);
            train(&r, k + 2); /* while it is written, and lost */
            assert_ok(&r);
            assert_int_equal(end(&r), LS_OK);
            h.devices = devices[(k + 1) % 3];
            h.isa = isas[k % 3];
            assert_int_equal(assert_goes_on(&h), k);
            empty_folder();
        }
}

static void several_saves_and_their_notes(void **state)
{
    (void)state;
    run r;
    how h = {.momentum = 0.9, .keep = 2};
    begin(&r, &h);
    assert_false(ls_checkpoints_found(r.kept));
    assert_false(ls_checkpoints_found(NULL));
    assert_false(ls_checkpoint_load(r.kept, NULL)); /* none yet, and no failure */
    assert_null(ls_checkpoint_note(r.kept, "sum"));
    for (int k = 1; k <= 7; k += 2) {
        char text[24];
        snprintf(text, sizeof text, "%d \"\xc3\xa9\"", k);
        train(&r, k);
        ls_checkpoint_save(r.kept, (ls_note[]){{"sum", text}, {"empty", NULL}, {NULL, NULL}});
    }
    assert_int_equal(ls_checkpoint_wait(r.kept), LS_OK);
    assert_int_equal(end(&r), LS_OK);
    begin(&r, &h);
    ls_checkpoint loaded;
    assert_true(ls_checkpoints_found(r.kept));
    assert_true(ls_checkpoint_load(r.kept, &loaded));
    assert_int_equal(loaded.step, 7);
    assert_int_equal(loaded.epoch, 1);
    assert_int_equal(loaded.batch, 2);
    assert_non_null(strstr(loaded.path, "kept/checkpoint-000004.json"));
    assert_string_equal(ls_checkpoint_note(r.kept, "sum"), "7 \"\xc3\xa9\"");
    assert_string_equal(ls_checkpoint_note(r.kept, "empty"), "");
    assert_null(ls_checkpoint_note(r.kept, "other"));
    assert_int_equal(r.lines, 0);
    assert_int_equal(end(&r), LS_OK);
    assert_int_equal(access(test_path("kept/checkpoint-000002.json"), F_OK), -1);
    assert_int_equal(access(test_path("kept/checkpoint-000002.safetensors"), F_OK), -1);
    assert_int_equal(access(test_path("kept/checkpoint-000003.json"), F_OK), 0);
    assert_int_equal(access(test_path("kept/lock"), F_OK), -1);
    assert_int_equal(assert_goes_on(&h), 7);
}

static void left_with_its_scope(void **state)
{
    (void)state;
    run r;
    begin(&r, &(how){.devices = "cpu:0-1"});
    int scope = ls_enter(r.s);
    ls_checkpoints *inner = ls_checkpoints_open(r.trainer, NULL, test_path("inner"), NULL);
    train(&r, 2);
    ls_checkpoint_save(inner, NULL);
    ls_leave(r.s, scope);
    assert_ok(&r);
    assert_int_equal(access(test_path("inner/checkpoint-000001.json"), F_OK), 0);
    assert_int_equal(access(test_path("inner/lock"), F_OK), -1);
    assert_int_equal(end(&r), LS_OK);
}

/* ---- What is refused ---- */

static void wrong_calls(void **state)
{
    (void)state;
    run r;
    ls_batch batch;
    assert_null(ls_checkpoints_open(NULL, NULL, "x", NULL));
    assert_int_equal(ls_checkpoint_save(NULL, NULL), LS_BAD_ARGUMENT);
    assert_int_equal(ls_checkpoint_wait(NULL), LS_BAD_ARGUMENT);
    assert_false(ls_checkpoint_load(NULL, NULL));
    begin(&r, &(how){0});
    assert_null(ls_checkpoints_open(r.trainer, r.data, "", NULL));
    assert_fails(&r, LS_BAD_ARGUMENT, "ls_checkpoints_open: needs a directory, and keep must be at least 0");
    begin(&r, &(how){0});
    assert_null(ls_checkpoints_open(r.trainer, r.data, "x", &(ls_checkpoint_options){.keep = -1}));
    assert_fails(&r, LS_BAD_ARGUMENT, "ls_checkpoints_open: needs a directory, and keep must be at least 0");
    begin(&r, &(how){.allow_changed = (const char *const[]){"lr", "colour", NULL}});
    assert_fails(&r, LS_BAD_ARGUMENT,
                 "no setting 'colour' that could be allowed to change; there are: numerics, model");
    begin(&r, &(how){.own = (ls_note[]){{"lr", "1"}, {NULL, NULL}}});
    assert_fails(&r, LS_BAD_ARGUMENT, "ls_checkpoints_open: the setting 'lr' is given twice, or the library's own");
    begin(&r, &(how){0});
    ls_data_next(r.data, &batch);
    ls_backward(test_losses(r.net, &batch));
    ls_checkpoint_save(r.kept, NULL);
    assert_fails(&r, LS_STALE, "ls_checkpoint_save: the network has gradients that no update has used");
    begin(&r, &(how){0});
    ls_data_next(r.data, &batch);
    ls_backward(test_losses(r.net, &batch));
    ls_checkpoint_load(r.kept, NULL);
    assert_fails(&r, LS_STALE, "ls_checkpoint_load: the network has gradients that no update has used");
    begin(&r, &(how){0});
    ls_checkpoint_save(r.kept, (ls_note[]){{"bytes", "\xff"}, {NULL, NULL}});
    ls_checkpoint_wait(r.kept);
    assert_fails(&r, LS_BAD_ARGUMENT, "cannot be written: a setting or note is not UTF-8, or there is no memory");
}

/* Moments that a failure had begin anew keep their age: Adam's corrections depend on it. */
static void begun_anew(void **state)
{
    (void)state;
    static const float bad[4] = {NAN};
    float good[4];
    char going_on[65], resumed[65];
    run r;
    begin(&r, &rules[2]);
    train(&r, 3);
    ls_module_read_parameter(r.net, "0.bias", good, 4);
    ls_module_write_parameter(r.net, "0.bias", bad, 4);
    train(&r, 4);
    assert_int_equal(ls_wait(r.s), LS_NOT_FINITE);
    assert_true(ls_catch(r.s, LS_NOT_FINITE));
    ls_module_write_parameter(r.net, "0.bias", good, 4);
    train(&r, 6);
    ls_checkpoint_save(r.kept, NULL);
    train(&r, 10);
    ls_module_fingerprint(r.net, going_on);
    assert_ok(&r);
    assert_int_equal(end(&r), LS_OK);
    begin(&r, &rules[2]);
    assert_true(load(&r));
    assert_int_equal(r.steps, 5);
    train(&r, 9);
    ls_module_fingerprint(r.net, resumed);
    assert_ok(&r);
    assert_int_equal(end(&r), LS_OK);
    assert_string_equal(resumed, going_on);
}

static void after_a_failed_step(void **state)
{
    (void)state;
    run r;
    how h = {.momentum = 0.9, .lr = 1e25};
    begin(&r, &h);
    train(&r, 1);
    ls_wait(r.s);
    bool failed = ls_failed(r.s);
    for (int k = 2; k <= STEPS && !failed; k++) {
        train(&r, k);
        ls_wait(r.s);
        failed = ls_failed(r.s);
    }
    assert_true(failed);
    assert_int_equal(ls_checkpoint_save(r.kept, NULL), LS_NOT_FINITE);
    assert_true(ls_catch(r.s, LS_NOT_FINITE));
    assert_int_equal(ls_checkpoint_save(r.kept, NULL), LS_OK); /* the last good weights, and no half-made momentum */
    assert_int_equal(ls_checkpoint_wait(r.kept), LS_OK);
    char before[65], after[65];
    ls_module_fingerprint(r.net, before);
    assert_int_equal(end(&r), LS_OK);
    begin(&r, &h);
    assert_true(load(&r));
    ls_module_fingerprint(r.net, after);
    assert_string_equal(after, before);
    assert_int_equal(end(&r), LS_OK);
}

/* The names of what differs, at most two; NULL: no more. */
static void assert_differing(const run *r, const char *first, const char *second)
{
    const char *const expected[] = {first, second, NULL}, *const *names = ls_checkpoint_differing(r->kept);
    int n = 0;
    for (; expected[n]; n++) {
        assert_non_null(names[n]);
        assert_string_equal(names[n], expected[n]);
    }
    assert_null(names[n]);
}

static void other_settings(void **state)
{
    (void)state;
    const ls_note own[] = {{"colour", "red"}, {NULL, NULL}};
    save_at(&(how){.momentum = 0.9}, 3, 6);
    static const struct {
        how h;
        const char *names[2], *words;
    } cases[] = {{{.momentum = 0.9, .lr = 0.2}, {"lr"}, "of a run with other settings: lr was 0.1 and is 0.2 now"},
                 {{.momentum = 0.9, .seed = 1}, {"seed"}, "of a run with other settings: seed was 0 and is 1 now"},
                 {{.momentum = 0.5}, {"momentum"}, "of a run with other settings: momentum was 0.9 and is 0.5 now"},
                 {{.momentum = 0.9, .batch = 4}, {"batch"}, "of a run with other settings: batch was 5 and is 4 now"},
                 {{.momentum = 0.9, .outputs = 5},
                  {NULL},
                  "parameter 0.weight has shape (4, 1, 3, 3), the network needs (5, 1, 3, 3)"},
                 {{.momentum = 0.9, .outputs = 5, .lr = 0.2}, /* to allow it would not help */
                  {NULL},
                  "of a run with other settings: lr was 0.1 and is 0.2 now"},
                 {{.lr = 0.2},
                  {"lr", "momentum"},
                  "of a run with other settings: lr was 0.1 and is 0.2 now, momentum was 0.9 and is 0 now"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run r;
        begin(&r, &cases[i].h);
        char before[65], after[65];
        ls_module_fingerprint(r.net, before);
        assert_false(load(&r));
        assert_int_equal(r.lines, 0);
        assert_non_null(strstr(ls_message(r.s), "checkpoint-000002.json"));
        assert_non_null(strstr(ls_message(r.s), cases[i].words));
        assert_differing(&r, cases[i].names[0], cases[i].names[1]);
        assert_true(ls_catch(r.s, LS_CHANGED));
        ls_module_fingerprint(r.net, after);
        assert_string_equal(before, after);
        assert_int_equal(end(&r), LS_OK);
    }
    run r;
    begin(&r, &(how){.momentum = 0.9, .own = own});
    assert_false(load(&r));
    assert_differing(&r, "colour", NULL);
    assert_fails(&r, LS_CHANGED, "of a run with other settings: colour was not set and is red now");
    const ls_note like_words[] = {{"colour", "red now, seed was"}, {NULL, NULL}};
    begin(&r, &(how){.momentum = 0.9, .own = like_words});
    assert_false(load(&r));
    assert_differing(&r, "colour", NULL);
    assert_fails(&r, LS_CHANGED, "colour was not set and is red now, seed was now");
    /* One that is off is as good as none: a program may have new ones, and goes on with checkpoints from before it
     * had. */
    const ls_note off[] = {{"colour", ""}, {NULL, NULL}};
    begin(&r, &(how){.momentum = 0.9, .own = off});
    assert_true(load(&r));
    assert_differing(&r, NULL, NULL);
    assert_int_equal(end(&r), LS_OK);
    /* Allowed by name; momentum that was not there begins anew, other batches go on behind what was seen. */
    static const char *const names[] = {"lr", "batch", "momentum", "colour", "total", NULL};
    begin(&r, &(how){.lr = 0.2, .batch = 4, .own = own, .allow_changed = names});
    ls_checkpoint loaded;
    assert_true(ls_checkpoint_load(r.kept, &loaded));
    assert_int_equal(loaded.step, 6);
    assert_int_equal(loaded.epoch, 1);
    assert_int_equal(loaded.batch, 2); /* 5 images were seen */
    r.steps = 6;
    train(&r, STEPS);
    ls_checkpoint_save(r.kept, NULL);
    assert_int_equal(ls_checkpoint_wait(r.kept), LS_OK);
    assert_int_equal(end(&r), LS_OK);
    /* The newest is of other settings now: told, and the one before is taken. */
    begin(&r, &(how){.momentum = 0.9});
    assert_true(load(&r));
    assert_int_equal(r.steps, 6);
    assert_int_equal(r.lines, 1);
    assert_non_null(strstr(r.told, "passed over: "));
    assert_non_null(strstr(
        r.told,
        "checkpoint-000003.json: of a run with other settings: lr was 0.2 and is 0.1 now, momentum was 0 and is 0.9 "
        "now, batch was 4 and is 5 now, colour was red and is not set now"));
    assert_int_equal(end(&r), LS_OK);
}

static bool newest_has(const char *tensor)
{
    size_t n;
    unsigned char *bytes = test_read_file("kept/checkpoint-000002.safetensors", &n);
    const bool there = memmem(bytes, n, tensor, strlen(tensor)) != NULL;
    free(bytes);
    return there;
}

/* Loads with other parts frozen than what is there had, and trains to the end. */
static void go_on_allowed(const how *frozen, bool has_moments)
{
    static const char *const names[] = {"frozen", "groups", "weight_decay", NULL};
    run r;
    int64_t age, averaged;
    how h = *frozen;
    begin(&r, &h);
    assert_false(load(&r));
    assert_caught(r.s, LS_CHANGED, "frozen was ");
    end(&r);
    h.allow_changed = names;
    begin(&r, &h);
    assert_true(load(&r) && r.steps == 6);
    assert_int_equal(ls_trainer_moments(r.trainer, &age, &averaged) != NULL, has_moments);
    train(&r, STEPS);
    assert_ok(&r);
    assert_int_equal(end(&r), LS_OK);
}

/* What is frozen has its values in a checkpoint, and no moments. Where it trains all begin anew; fewer go on. */
static void other_parts_frozen(void **state)
{
    (void)state;
    save_at(&rules[5], 3, 6);
    assert_true(newest_has("\"0.weight\"") && newest_has("\"velocity:4.weight\""));
    assert_true(newest_has("\"velocity:1.weight\"") && !newest_has("\"velocity:0.weight\""));
    go_on_allowed(&usual, false);
    how fewer = rules[5];
    fewer.frozen = "1.*";
    fewer.freed = NULL;
    go_on_allowed(&fewer, false);
    fewer.frozen = "[01].*";
    go_on_allowed(&fewer, true);
}

/* ---- Damage ---- */

static void flip(const char *name, size_t bit)
{
    int fd = open(test_path(name), O_RDWR);
    unsigned char byte;
    assert_int_equal(pread(fd, &byte, 1, (off_t)(bit / 8)), 1);
    byte ^= (unsigned char)(1 << bit % 8);
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)(bit / 8)), 1);
    close(fd);
}

static const char newest[] = "kept/checkpoint-000002.safetensors", manifest[] = "kept/checkpoint-000002.json";

/* Flips bits of a file of the second checkpoint, one at a time: what looks at it before it is loaded refuses each by
 * name. */
static void assert_refused(const char *name, size_t first, size_t end, size_t stride, const char *words)
{
    ls_context *context = test_context();
    for (size_t bit = first; bit < end; bit += stride) {
        ls_manifest m;
        flip(name, bit);
        ls_status status = ls_folder_check(context, test_path("kept"), 2, &m);
        flip(name, bit);
        assert_int_equal(status, LS_BAD_FILE);
        test_expect(LS_BAD_FILE, words);
    }
    test_context_done();
}

static void every_flipped_bit(void **state)
{
    (void)state;
    save_at(&usual, 3, 6);
    size_t n;
    free(test_read_file(manifest, &n));
    for (size_t bit = 0; bit < 8 * n; bit += 1021) {
        flip(manifest, bit);
        assert_passed_over("checkpoint-000002.json: damaged");
        flip(manifest, bit);
    }
    free(test_read_file(newest, &n));
    for (size_t bit = 0; bit < 8 * n; bit += 1021) {
        flip(newest, bit);
        assert_passed_over("damaged: the SHA-256 of its ");
        flip(newest, bit);
    }
    /* Every bit of the manifest and of the arrays' header, and ten thousand or all behind, by what decides when one
     * loads. */
    ls_manifest m;
    ls_context *context = test_context();
    assert_int_equal(ls_folder_check(context, test_path("kept"), 2, &m), LS_OK);
    size_t header = 8 * (size_t)m.sections[0].bytes, payload = 8 * n - header, stride = payload / 10000;
    ls_manifest_free(context, &m);
    test_context_done();
    assert_refused(newest, 0, header, 1, "damaged: the SHA-256 of its header is ");
    assert_refused(newest, header, 8 * n, stride ? stride : 1, "damaged: the SHA-256 of its ");
    free(test_read_file(manifest, &n));
    assert_refused(manifest, 0, 8 * n, 1, "checkpoint-000002.json: damaged: ");
    print_message("%zu bits of headers and %zu behind\n", header + 8 * n, payload / (stride ? stride : 1));
    assert_int_equal(assert_goes_on(&usual), 6);
}

static void every_length(void **state)
{
    (void)state;
    save_at(&usual, 3, 6);
    static const char *const names[] = {manifest, newest};
    for (int i = 0; i < 2; i++) {
        size_t n;
        unsigned char *bytes = test_read_file(names[i], &n);
        for (size_t length = 0; length < n; length += length < 10 || length + 90 > n ? 1 : n / 40) {
            assert_int_equal(truncate(test_path(names[i]), (off_t)length), 0);
            assert_passed_over("damaged: ");
            test_write_file(names[i], bytes, n);
        }
        unsigned char *longer = calloc(1, n + 5);
        memcpy(longer, bytes, n);
        test_write_file(names[i], longer, n + 5);
        assert_passed_over("damaged: ");
        test_write_file(names[i], bytes, n);
        free(longer);
        free(bytes);
    }
    assert_int_equal(assert_goes_on(&usual), 6);
}

static void what_is_missing_or_no_file(void **state)
{
    (void)state;
    save_at(&usual, 3, 6);
    size_t n;
    unsigned char *bytes = test_read_file(newest, &n);
    unlink(test_path(newest));
    assert_passed_over("missing, though its manifest is there");
    mkdir(test_path(newest), 0700);
    assert_passed_over("this is a directory; name a regular file");
    rmdir(test_path(newest));
    mkfifo(test_path(newest), 0700);
    assert_passed_over("this is a FIFO; name a regular file");
    unlink(test_path(newest));
    test_write_file(newest, bytes, n);
    free(bytes);
    /* A save that ended between its two files. */
    rename(test_path(manifest), test_path("elsewhere"));
    assert_passed_over("it has no manifest; its save did not end");
    symlink("nowhere", test_path(manifest));
    assert_passed_over("it has no manifest; its save did not end");
    unlink(test_path(manifest));
    rename(test_path("elsewhere"), test_path(manifest));
    assert_int_equal(assert_goes_on(&usual), 6);
    /* The manifest of one with the arrays of the other. */
    rename(test_path("kept/checkpoint-000001.safetensors"), test_path(newest));
    run r;
    begin(&r, &usual);
    assert_false(load(&r)); /* both are damaged now: none is left, and that is no failure */
    assert_ok(&r);
    assert_int_equal(r.lines, 2);
    assert_int_equal(end(&r), LS_OK);
    assert_int_equal(assert_goes_on(&usual), 0);
}

/* What the system refuses now may be whole: no other is taken in its place, and nothing is begun over it. */
static void what_cannot_be_read(void **state)
{
    (void)state;
    save_at(&usual, 3, 6);
    reference(&usual);
    assert_int_equal(chmod(test_path(newest), 0), 0);
    assert_int_equal(chmod(test_folder, 0755), 0);
    pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && (chown(test_path("kept"), 65534, 65534) != 0 ||
                               chown(test_path(manifest), 65534, 65534) != 0 || seteuid(65534) != 0))
            _exit(2);
        run r;
        begin(&r, &usual);
        bool good =
            !load(&r) && ls_status_of(r.s) == LS_IO && r.lines == 0 &&
            strstr(ls_message(r.s), "checkpoint-000002.safetensors: cannot be opened for reading: Permission denied");
        if (!good)
            print_message("%s%s\n", r.told, ls_message(r.s));
        _exit(good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(chmod(test_path(newest), 0644), 0);
    assert_int_equal(assert_goes_on(&usual), 6);
}

static void left_over(void **state)
{
    (void)state;
    save_at(&usual, 3, 6);
    test_write_file("kept/checkpoint-000003.safetensors.77.0.tmp", "half", 4);
    test_write_file("kept/checkpoint-000002.json.1.5.tmp", "", 0);
    test_write_file("kept/checkpoint-12.json", "not ours", 8);
    test_write_file("kept/checkpoint-9999999999999999999999.json", "not ours", 8);
    test_write_file("kept/notes.txt", "not ours", 8);
    assert_int_equal(assert_goes_on(&usual), 6);
    assert_int_equal(access(test_path("kept/checkpoint-000003.safetensors.77.0.tmp"), F_OK), -1);
    assert_int_equal(access(test_path("kept/checkpoint-000002.json.1.5.tmp"), F_OK), -1);
    assert_int_equal(access(test_path("kept/checkpoint-12.json"), F_OK), 0);
    assert_int_equal(access(test_path("kept/notes.txt"), F_OK), 0);
    /* Clocks do not matter: the older one has the later time. */
    struct timespec times[2] = {{4000000000, 0}, {4000000000, 0}};
    assert_int_equal(utimensat(AT_FDCWD, test_path("kept/checkpoint-000001.json"), times, 0), 0);
    assert_int_equal(assert_goes_on(&usual), 6);
}

/* A number is written in one way: nothing else is listed, counted on from, swept away or pruned. */
static void names_are_as_they_are_written(void **state)
{
    (void)state;
    static const char *const good[] = {"checkpoint-000007.json", "checkpoint-123456.json", "checkpoint-1234567.json",
                                       "checkpoint-000009.safetensors"},
                             *const others[] = {"checkpoint-0000008.json",
                                                "checkpoint-0123456.json",
                                                "checkpoint-00008.json",
                                                "checkpoint-8.json",
                                                "checkpoint-1234567890123456.json",
                                                "checkpoint-7654321.jsonx",
                                                "checkpoint-7654321json",
                                                "checkpoint-7654321.JSON",
                                                "checkpoint-765432x.json",
                                                "checkpoint-+7654321.json",
                                                "checkpoint- 765432.json",
                                                "checkpoint_7654321.json",
                                                "xcheckpoint-7654321.json",
                                                "checkpoint-0000008.json.1.2.tmp",
                                                "checkpoint-00008.json.1.2.tmp",
                                                "checkpoint-0123456.safetensors"};
    static const int64_t numbers[] = {1234567, 123456, 9, 7};
    const int n_others = (int)(sizeof others / sizeof *others);
    ls_context *context = test_context();
    int64_t *found, next;
    int n;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        test_write_file(good[i], "", 0);
    for (int i = 0; i < n_others; i++)
        test_write_file(others[i], "", 0);
    for (int all = 1; all >= 0; all--) { /* without those that have no manifest */
        assert_int_equal(ls_folder_list(context, test_folder, all, &found, &n), LS_OK);
        assert_int_equal(n, 3 + all);
        for (int i = 0, k = 0; i < 4; i++)
            assert_true(!(all || numbers[i] != 9) || found[k++] == numbers[i]);
        ls_release(context, found);
    }
    assert_int_equal(ls_folder_next(context, test_folder, &next), LS_OK);
    assert_int_equal(next, 1234568);
    assert_int_equal(ls_folder_sweep(context, test_folder), LS_OK);
    assert_int_equal(ls_folder_prune(context, test_folder, 1), LS_OK);
    assert_int_equal(test_files_in_folder(), n_others + 1);
    assert_int_equal(access(test_path("checkpoint-1234567.json"), F_OK), 0);
    test_context_done();
}

static void numbers_at_their_end(void **state)
{
    (void)state;
    save_at(&usual, 3, 0);
    static const char *const endings[] = {"json", "safetensors"};
    char from[64], to[64];
    for (int i = 0; i < 2; i++) {
        snprintf(from, sizeof from, "kept/checkpoint-000001.%s", endings[i]);
        snprintf(to, sizeof to, "kept/checkpoint-999999.%s", endings[i]);
        assert_int_equal(rename(test_path(from), test_path(to)), 0);
    }
    save_at(&usual, 6, 7); /* 1000000 and 1000001 */
    assert_int_equal(access(test_path("kept/checkpoint-1000001.json"), F_OK), 0);
    assert_int_equal(assert_goes_on(&usual), 7);
    test_write_file("kept/checkpoint-999999999999999.json", "", 0);
    run r;
    begin(&r, &usual);
    assert_fails(&r, LS_BAD_FILE, "kept: checkpoint-999999999999999 leaves no number for a next one; take it away");
}

/* The one that was loaded is not pruned away by damaged ones that are newer. */
static void damaged_ones_go_first(void **state)
{
    (void)state;
    how h = {.momentum = 0.9, .keep = 2};
    save_at(&h, 3, 6);
    flip(newest, 4000);
    run r;
    begin(&r, &h);
    assert_true(load(&r));
    train(&r, 9);
    ls_checkpoint_save(r.kept, NULL);
    assert_int_equal(ls_checkpoint_wait(r.kept), LS_OK);
    assert_int_equal(end(&r), LS_OK);
    assert_int_equal(access(test_path("kept/checkpoint-000001.json"), F_OK), 0);
    assert_int_equal(access(test_path(manifest), F_OK), -1);
    assert_int_equal(access(test_path("kept/checkpoint-000003.json"), F_OK), 0);
}

/* ---- The lock ---- */

static void one_run_a_folder(void **state)
{
    (void)state;
    run r, second;
    begin(&r, &usual);
    begin(&second, &usual);
    char words[64];
    snprintf(words, sizeof words, "another run uses this folder: process %ld on ", (long)getpid());
    assert_fails(&second, LS_BUSY, words);
    assert_int_equal(end(&r), LS_OK);
    /* One that was killed leaves its entry, and nobody is kept out. */
    pid_t child = fork();
    if (child == 0) {
        ls_context context;
        mkdir(test_path("kept"), 0700);
        ls_context_init(&context, NULL);
        if (ls_lock_take(&context, test_path("kept")))
            raise(SIGKILL);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(access(test_path("kept/lock"), F_OK), 0);
    assert_int_equal(begin(&r, &usual), LS_OK);
    assert_int_equal(end(&r), LS_OK);
    test_write_file("kept/lock", "what is this", 12);
    assert_int_equal(begin(&r, &usual), LS_OK);
    assert_int_equal(end(&r), LS_OK);
    mkdir(test_path("kept/lock"), 0700);
    begin(&r, &usual);
    assert_fails(&r, LS_IO, "kept/lock: cannot be written: Is a directory");
}

static void *leave_late(void *unused)
{
    (void)unused;
    nanosleep(&(struct timespec){0, 500000000}, NULL);
    raise(SIGKILL);
    return NULL;
}

/* A process that was killed has no command line any more, and its files still: nobody is kept out by that. */
static void a_holder_that_is_ending_is_waited_for(void **state)
{
    (void)state;
    mkdir(test_path("kept"), 0700);
    pid_t child = fork();
    if (child == 0) {
        ls_context context;
        pthread_t thread;
        ls_context_init(&context, NULL);
        if (!ls_lock_take(&context, test_path("kept")) || pthread_create(&thread, NULL, leave_late, NULL) != 0)
            _exit(1);
        pthread_exit(NULL); /* the thread lives on, with the files and without this one's memory */
    }
    char path[64], first;
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)child);
    for (bool there = true; there;) {
        FILE *file = fopen(path, "re");
        there = file && fread(&first, 1, 1, file) == 1;
        if (file)
            fclose(file);
    }
    assert_int_equal(access(test_path("kept/lock"), F_OK), 0);
    run r;
    assert_int_equal(begin(&r, &usual), LS_OK);
    assert_int_equal(end(&r), LS_OK);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

static void stale_entries(void **state)
{
    (void)state;
    ls_context *context = test_context();
    ls_lock *lock = ls_lock_take(context, test_folder);
    assert_non_null(lock);
    size_t n;
    char *own = (char *)test_read_file("lock", &n), host[80], boot[80], text[512];
    long process;
    unsigned long long start;
    assert_int_equal(sscanf(own, "host %79s process %ld start %llu boot %79s", host, &process, &start, boot), 4);
    assert_int_equal(process, getpid());
    assert_false(ls_lock_stale(own));
    assert_true(ls_lock_stale(""));
    assert_false(ls_lock_stale("what is this"));
#define ENTRY(HOST, START, BOOT, JOB)                                                                                  \
    (snprintf(text, sizeof text, "host %s\nprocess %ld\nstart %llu\nboot %s\njob %s\nsince x\n", HOST, process, START, \
              BOOT, JOB),                                                                                              \
     text)
    assert_true(ls_lock_stale(ENTRY(host, start, "another", "-")));         /* the machine was started again */
    assert_true(ls_lock_stale(ENTRY(host, start + 1, boot, "-")));          /* the number is another process's now */
    assert_false(ls_lock_stale(ENTRY("elsewhere", start, "another", "-"))); /* nobody here can know */
    assert_false(ls_lock_stale(ENTRY("elsewhere", start, "another", "12")));
    setenv("SLURM_JOB_ID", "12", 1);
    assert_true(ls_lock_stale(ENTRY("elsewhere", start, "another", "12"))); /* this job, put back into the queue */
    assert_false(ls_lock_stale(ENTRY("elsewhere", start, "another", "13")));
    unsetenv("SLURM_JOB_ID");
    free(own);
    ls_lock_give(lock);
    test_context_done();
}

#else

static void not_built_in(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_module *net = ls_lenet(s);
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), NULL);
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 0.1});
    assert_null(ls_checkpoints_open(trainer, NULL, test_path("kept"), NULL));
    assert_non_null(strstr(ls_message(s), "has no checkpoints"));
    assert_int_equal(ls_close(s), LS_UNSUPPORTED);
}

#endif

/* A folder that was made for checkpoints and got none is gone; one that was there stays. */
static void no_empty_folder_is_left(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_module *net = ls_sequential(s, LS_LIST(ls_nn_fn(s, ls_flatten), ls_nn_linear(s, 2)));
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), NULL);
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 1});
    for (int there = 0; there < 2; there++) {
        const int scope = ls_enter(s);
        assert_true(!there || mkdir(test_path("mistyped"), 0777) == 0);
        assert_non_null(ls_checkpoints_open(trainer, NULL, test_path("mistyped"), NULL));
        assert_int_equal(access(test_path("mistyped"), F_OK), 0);
        ls_leave(s, scope);
        assert_int_equal(access(test_path("mistyped"), F_OK), there - 1);
    }
    assert_int_equal(ls_close(s), LS_OK);
}

/* Which checkpoints that are open hold among the settings. */
static void options_stay_while_they_are_open(void **state)
{
    (void)state;
    ls_session *s = ls_open(NULL);
    ls_module *net = ls_sequential(s, LS_LIST(ls_nn_fn(s, ls_flatten), ls_nn_linear(s, 2)));
    ls_module_initialize(net, ls_parse_devices(s, "cpu:0"), NULL);
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = 1});
    const ls_optim next = {.lr = 0.5, .weight_decay = 0.25};
    const int scope = ls_enter(s);
    assert_non_null(ls_checkpoints_open(trainer, NULL, test_path("options"), NULL));
    assert_int_equal(ls_trainer_set_options(trainer, &next), LS_BAD_ARGUMENT);
    assert_non_null(strstr(ls_message(s), "ls_trainer_set_options: checkpoints are open"));
    assert_true(ls_catch(s, LS_BAD_ARGUMENT));
    ls_leave(s, scope);
    assert_int_equal(ls_trainer_set_options(trainer, &next), LS_OK);
    assert_true(ls_trainer_lr(trainer) == 0.5);
    assert_int_equal(ls_close(s), LS_OK);
}

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, test_folder_make, test_folder_remove)
    const struct CMUnitTest tests[] = {
#if LOCKSTEP_HAVE_JANSSON && LOCKSTEP_HAVE_CRYPTO
        test(from_every_step),
        test(several_saves_and_their_notes),
        test(left_with_its_scope),
        test(wrong_calls),
        test(begun_anew),
        test(after_a_failed_step),
        test(other_settings),
        test(other_parts_frozen),
        test(every_flipped_bit),
        test(every_length),
        test(what_is_missing_or_no_file),
        test(what_cannot_be_read),
        test(left_over),
        test(names_are_as_they_are_written),
        test(numbers_at_their_end),
        test(damaged_ones_go_first),
        test(one_run_a_folder),
        test(a_holder_that_is_ending_is_waited_for),
        test(stale_entries),
        test(options_stay_while_they_are_open),
        test(no_empty_folder_is_left),
#else
        test(not_built_in),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
