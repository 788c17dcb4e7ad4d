#include "checkpoint_run.h"

#include <stdio.h>
#include <sys/stat.h>
#include <lockstep_train.h>

enum { IMAGES = 22, SIDE = 6, BATCH = 5, CLASSES = 3 };

const how usual = {.momentum = 0.9};
const how rules[RULES] = {{.momentum = 0},
                          {.momentum = 0.9},
                          {.optimizer = LS_ADAM, .lr = 0.01},
                          {.momentum = 0.9, .clip = 0.5},
                          {.momentum = 0.9, .set = 0.025},
                          {.momentum = 0.9, .frozen = "[01].*", .freed = "1.[bw]*", .grouped = true}};

static void told(const char *line, void *user)
{
    run *r = user;
    snprintf(r->told + strlen(r->told), sizeof r->told - strlen(r->told), "%s\n", line);
    r->lines++;
}

ls_status begin(run *r, const how *h)
{
    uint8_t images[IMAGES * SIDE * SIDE], labels[IMAGES];
    char folder[sizeof test_folder + 64];
    test_make_images(images, sizeof images, labels, IMAGES, CLASSES);
    snprintf(folder, sizeof folder, "%s/%s", test_folder, h->folder ? h->folder : "kept");
    *r = (run){.s = ls_open(&(ls_options){
                   .seed = h->seed, .shard = 2, .isa = h->isa, .allocator = h->allocator, .cluster = h->cluster})};
    r->data = ls_data_from_memory(r->s, images, labels, IMAGES, 1, SIDE, SIDE, CLASSES,
                                  &(ls_loader){.batch = h->batch ? h->batch : BATCH, .shuffle = true});
    r->net = ls_sequential(r->s, NULL);
    ls_module_append(r->net, NULL, ls_nn_conv2d(r->s, h->outputs ? h->outputs : 4, 3, NULL));
    ls_module_append(r->net, NULL, ls_nn_batch_norm(r->s));
    ls_module_append(r->net, NULL, ls_nn_fn(r->s, ls_relu));
    ls_module_append(r->net, NULL, ls_nn_fn(r->s, ls_flatten));
    ls_module_append(r->net, NULL, ls_nn_linear(r->s, CLASSES));
    ls_module_initialize(r->net, ls_parse_devices(r->s, h->devices ? h->devices : "cpu:0"),
                         &(ls_init){.like = r->data});
    if (h->frozen)
        ls_module_freeze(r->net, h->frozen, true);
    if (h->freed)
        ls_module_freeze(r->net, h->freed, false);
    r->trainer = ls_trainer_new(r->net, h->optimizer,
                                &(ls_optim){.lr = h->lr ? h->lr : 0.1,
                                            .momentum = h->momentum,
                                            .weight_decay = h->grouped ? 0.05 : 0,
                                            .clip_norm = h->clip,
                                            .schedule = LS_COSINE,
                                            .warmup = 2,
                                            .total = STEPS + 3});
    if (h->grouped) {
        ls_trainer_set_group(r->trainer, "4.*", &(ls_param_group){.lr = 2});
        ls_trainer_set_group(r->trainer, "*", &(ls_param_group){.no_decay = true, .vectors = true});
    }
    ls_checkpoint_options options = {
        .keep = h->keep, .settings = h->own, .allow_changed = h->allow_changed, .told = told, .user = r};
    r->set = h->set;
    r->writes = h->frozen;
    r->kept = ls_checkpoints_open(r->trainer, r->data, folder, &options);
    return ls_status_of(r->s);
}

ls_status train(run *r, int steps)
{
    if (r->writes && r->steps == 0)
        ls_module_write_parameter(r->net, "0.bias", (const float[]){1, -1, 0.5f, 0.25f}, 4);
    if (r->set > 0 && r->steps <= SET && steps > SET) {
        test_train(r->s, r->net, r->trainer, r->data, &r->steps, SET);
        ls_trainer_set_lr(r->trainer, r->set);
    }
    return test_train(r->s, r->net, r->trainer, r->data, &r->steps, steps);
}

ls_status end(run *r)
{
    return ls_close(r->s);
}

void assert_ok(const run *r)
{
    if (ls_failed(r->s))
        fail_msg("%s", ls_message(r->s));
}

bool load(run *r)
{
    ls_checkpoint loaded;
    bool found = ls_checkpoint_load(r->kept, &loaded);
    r->steps = (int)loaded.step;
    return found;
}

/* The fingerprint of a whole run without a break. */
const char *reference(const how *h)
{
    static char digits[RULES][65];
    const int rule = h->grouped ? 5 : h->set > 0 ? 4 : h->clip > 0 ? 3 : h->optimizer != LS_SGD ? 2 : h->momentum != 0;
    char *to = digits[rule];
    if (!*to) {
        run r;
        how whole = rules[rule];
        whole.folder = "reference";
        begin(&r, &whole);
        train(&r, STEPS);
        ls_module_fingerprint(r.net, to);
        assert_ok(&r);
        end(&r);
    }
    return to;
}

/* Loads what is there and goes on to the end: the reference's bits. Returns the step it went on from. */
int assert_goes_on(const how *h)
{
    run r;
    char digits[65];
    begin(&r, h);
    load(&r);
    int from = r.steps;
    train(&r, STEPS);
    ls_module_fingerprint(r.net, digits);
    assert_ok(&r);
    assert_string_equal(digits, reference(h));
    assert_int_equal(end(&r), LS_OK);
    return from;
}

void assert_fails(run *r, ls_status status, const char *words)
{
    if (ls_status_of(r->s) != status || !strstr(ls_message(r->s), words))
        fail_msg("expected %s \"%s\", got %s \"%s\"", ls_status_name(status), words, ls_status_name(ls_status_of(r->s)),
                 ls_message(r->s));
    end(r);
}

void assert_passed_over(const char *words)
{
    run r;
    begin(&r, &usual);
    bool found = load(&r);
    if (!found || r.steps != 3 || r.lines != 1 || !strstr(r.told, "checkpoint-000002") || !strstr(r.told, words))
        fail_msg("\"%s\": loaded step %d, %s; told: %s", words, found ? r.steps : -1, ls_message(r.s), r.told);
    assert_int_equal(end(&r), LS_OK);
}

void save_at(const how *h, int first, int second)
{
    run r;
    begin(&r, h);
    train(&r, first);
    ls_checkpoint_save(r.kept, NULL);
    if (second) {
        train(&r, second);
        ls_checkpoint_save(r.kept, NULL);
    }
    assert_int_equal(ls_checkpoint_wait(r.kept), LS_OK);
    assert_int_equal(end(&r), LS_OK);
}

void empty_folder(void)
{
    assert_int_equal(test_folder_remove(NULL), 0);
    assert_int_equal(mkdir(test_folder, 0700), 0);
}
