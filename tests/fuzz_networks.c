/* Random networks of all operations, losses, inputs and optimizers: the same bits by the reference and by each
 * instruction set, on any number of devices and ranks, and after a break.
 *
 *     fuzz_networks [--seed N] [--count N] [--first K] [--only K] [--print] [--table] [--torch FOLDER]
 *
 * Trains the networks 0 to N - 1 of the seed. --only takes one of them, --first begins later; --print shows each
 * network, --table how often everything was drawn, which fails where something of 500 networks was in fewer than 20.
 * --torch writes them with their first step for fuzz_networks.py, and trains none. */
#include "files.h"
#include "networks/operation.h"
#include "networks/print.h"
#include "networks/trained.h"
#include "not_run.h"
#include "thread_wire.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct settings {
    uint64_t seed, first, count;
    bool print, table;
    const char *torch;
} settings;

/* ---- How often ---- */

enum { MOST_LINES = 200 };
typedef struct line {
    const char *what, *name;
    int networks; /* that were compared */
    bool met;     /* in this one */
} line;
static line lines[MOST_LINES];
static int n_lines;

static line *line_of(const char *what, const char *name)
{
    for (int i = 0; i < n_lines; i++)
        if (strcmp(lines[i].what, what) == 0 && strcmp(lines[i].name, name) == 0)
            return &lines[i];
    assert_true(n_lines < MOST_LINES);
    lines[n_lines] = (line){.what = what, .name = name};
    return &lines[n_lines++];
}

static void meet(const char *what, const char *name, bool met)
{
    line *l = line_of(what, name);
    l->met = l->met || met;
}

static const char *const input_names[] = {"bytes", "map", "features", "sequence", "ids", "lengths"};

static void meet_training(const recipe *r)
{
    const training *t = &r->training;
    const ls_optim *o = &t->options;
    for (int k = 0; k < n_optimizer_kinds; k++)
        meet("optimizer", optimizer_kinds[k], t->optimizer == optimizer_kinds[k]);
    for (int k = 0; k < n_schedule_kinds; k++)
        meet("schedule", schedule_kinds[k], (int)o->schedule == k);
    meet("training", "weight_decay", o->weight_decay > 0);
    meet("training", "clip_norm", o->clip_norm > 0);
    meet("training", "full_batch", o->full_batch > 0);
    meet("training", "ema", o->ema > 0);
    meet("training", "ema_warmup", o->ema_warmup);
    meet("training", "two passes", t->passes > 1);
    meet("training", "a later rate", t->later_lr > 0);
    meet("training", "frozen", *t->frozen);
    meet("training", "group", *t->grouped);
    meet("training", "group of vectors", t->vectors);
    meet("training", "flip", t->augment.flip);
    meet("training", "crop", t->augment.crop > 0);
    meet("training", "erase", t->augment.erase > 0);
    meet("training", "shuffled", t->shuffle);
}

/* Whether an earlier step has the parameter. */
static bool is_in_front(const recipe *r, int place, int parameter)
{
    for (int k = 0; k < place; k++)
        for (int i = 0; i < r->steps[k].n_parameters; i++)
            if (r->steps[k].parameters[i] == parameter)
                return true;
    return false;
}

static void meet_all(const recipe *r)
{
    for (int i = 0; i < operation_count(); i++)
        meet("operation", operation_at(i)->name, false);
    for (int k = 0; k < r->n_steps; k++) {
        meet("operation", r->steps[k].op->name, true);
        meet("operation", "again", r->steps[k].layer >= 0 && r->steps[k].layer != k);
        meet("operation", "with lengths", r->steps[k].lengths >= 0);
        for (int i = 0; i < r->steps[k].n_parameters; i++)
            meet("operation", "a shared parameter", is_in_front(r, k, r->steps[k].parameters[i]));
    }
    for (int k = 0; k < n_loss_kinds; k++)
        meet("loss", loss_kinds[k].name, r->loss == &loss_kinds[k]);
    for (int k = 0; k < n_input_kinds; k++)
        meet("network of", input_kinds[k], recipe_input_kind(r) == input_kinds[k]);
    for (int k = 0; k < (int)(sizeof input_names / sizeof *input_names); k++)
        for (int i = 0; i < r->n_inputs; i++)
            meet("input", input_names[k], (int)r->inputs[i].kind == k);
    meet_training(r);
}

static void count_met(void)
{
    for (int i = 0; i < n_lines; i++) {
        lines[i].networks += lines[i].met;
        lines[i].met = false;
    }
}

/* Returns how many are too rare. */
static int judge(const settings *s)
{
    enum { LEAST = 20, OF = 500 };
    int rare = 0;
    const line *least = lines;
    for (int i = 0; i < n_lines; i++) {
        if (s->table)
            printf("%-10s %-30s %d\n", lines[i].what, lines[i].name, lines[i].networks);
        least = lines[i].networks < least->networks ? &lines[i] : least;
        if (s->count >= OF && (uint64_t)lines[i].networks * OF < LEAST * s->count) {
            printf("too rare: %s %s is in %d of %" PRIu64 " networks\n", lines[i].what, lines[i].name,
                   lines[i].networks, s->count);
            rare++;
        }
    }
    if (n_lines)
        printf("the rarest: %s %s, in %d networks\n", least->what, least->name, least->networks);
    return rare;
}

/* ---- Ways ---- */

typedef struct ranks_run {
    const recipe *recipe;
    outcome outcomes[WIRE_RANKS];
} ranks_run;

static void train_rank(ls_cluster *cluster, int rank, void *user)
{
    ranks_run *all = user;
    train_recipe(all->recipe, &(way){.devices = 1 + rank % 2, .cluster = cluster}, &all->outcomes[rank]);
}

static bool differs(const recipe *r, const outcome *first, outcome *other, const char *how)
{
    char why[700];
    const bool same = outcome_same(first, other, why, sizeof why);
    if (!same) {
        printf("network %" PRIu64 " of seed %" PRIu64 " differs from the reference's, %s: %s\n", r->number, r->seed,
               how, why);
        printf("again: fuzz_networks --seed %" PRIu64 " --only %" PRIu64 " --print\n", r->seed, r->number);
    }
    outcome_free(other);
    return !same;
}

/* Each instruction set of this machine, each with another number of devices. */
static bool instructions_differ(const recipe *r, const outcome *reference)
{
    static const ls_isa isas[] = {LS_ISA_PLAIN, LS_ISA_NEON, LS_ISA_AVX2, LS_ISA_AVX512, LS_ISA_AUTO};
    static const int devices[] = {1, 2, 3, 16};
    char met[8][16], words[64];
    int n = 0;
    bool found = false;
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        outcome o;
        const int many = devices[((uint64_t)n + r->number) % 4];
        bool known = false;
        train_recipe(r, &(way){.isa = isas[i], .devices = many}, &o);
        for (int k = 0; k < n && isas[i] != LS_ISA_AUTO; k++)
            known = known || strcmp(met[k], o.isa) == 0;
        if (o.status == LS_NO_DEVICE || known) {
            outcome_free(&o);
            continue;
        }
        snprintf(met[n++], sizeof met[0], "%s", o.isa);
        snprintf(words, sizeof words, "%s on %d devices", met[n - 1], many);
        found = differs(r, reference, &o, words) || found;
    }
    return found;
}

static bool devices_differ(const recipe *r, const outcome *reference)
{
    bool found = false;
    for (int devices = 1; devices <= 16; devices += devices == 3 ? 13 : 1) {
        char words[64];
        outcome o;
        train_recipe(r, &(way){.devices = devices, .pulls = devices == 3 ? r->number + 1 : 0}, &o);
        snprintf(words, sizeof words, "%d devices", devices);
        found = differs(r, reference, &o, words) || found;
    }
    return found;
}

static bool ranks_differ(const recipe *r, const outcome *reference)
{
    static ranks_run all;
    bool found = false;
    for (int ranks = 2; ranks <= 3; ranks++) {
        all.recipe = r;
        wire_run(ranks, train_rank, &all);
        for (int k = 0; k < ranks; k++) {
            char words[64];
            snprintf(words, sizeof words, "rank %d of %d", k, ranks);
            found = differs(r, reference, &all.outcomes[k], words) || found;
        }
    }
    return found;
}

static bool break_differs(const recipe *r, const outcome *reference)
{
#if LOCKSTEP_HAVE_JANSSON && LOCKSTEP_HAVE_CRYPTO
    outcome o;
    const int stops = 1 + (int)(r->number % (TRAINED - 1));
    char name[32], words[64];
    snprintf(name, sizeof name, "kept-%" PRIu64, r->number);
    train_recipe(r, &(way){.devices = 2, .stops = stops, .folder = test_path(name)}, &o);
    snprintf(words, sizeof words, "after a break behind step %d", stops);
    return differs(r, reference, &o, words);
#else
    (void)r, (void)reference;
    return false;
#endif
}

static bool has_card(void)
{
    ls_session *s = ls_open(NULL);
    const bool found = ls_device_count(s, LS_CUDA) > 0;
    ls_close(s);
    return found;
}

/* A card alone, and one beside cores. What cards do not have, they refuse. */
static bool cards_differ(const recipe *r, const outcome *reference, bool print)
{
    static const char *const words[] = {"a card", "a card beside a core", "a card beside two cores"};
    bool found = false, refused = false;
    for (int devices = 1; has_card() && devices <= 3 && !refused; devices++) {
        outcome o;
        train_recipe(r, &(way){.devices = devices, .card = true}, &o);
        refused = o.status == LS_UNSUPPORTED;
        if (refused && print)
            printf("  cards refuse it: %s\n", o.message);
        if (refused)
            outcome_free(&o);
        else
            found = differs(r, reference, &o, words[devices - 1]) || found;
        meet("card", "trains on one", !refused);
    }
    return found;
}

/* True where all ways agree. */
static bool compare(const recipe *r, bool print)
{
    outcome reference;
    train_recipe(r, &(way){.isa = LS_ISA_REFERENCE, .devices = 1}, &reference);
    bool found = reference.status != LS_OK;
    if (found) {
        printf("network %" PRIu64 " of seed %" PRIu64 " fails: %s\n", r->number, r->seed, reference.message);
        printf("again: fuzz_networks --seed %" PRIu64 " --only %" PRIu64 " --print\n", r->seed, r->number);
    }
    found = instructions_differ(r, &reference) || found;
    found = devices_differ(r, &reference) || found;
    found = ranks_differ(r, &reference) || found;
    found = break_differs(r, &reference) || found;
    found = cards_differ(r, &reference, print) || found;
    outcome_free(&reference);
    return !found;
}

/* ---- The program ---- */

static bool read_number(const char *text, uint64_t *number)
{
    char *end;
    *number = strtoull(text, &end, 10);
    return *text && !*end;
}

static bool read_settings(int argc, char *argv[], settings *s)
{
    *s = (settings){.seed = 1, .count = 20};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        uint64_t number;
        if (strcmp(name, "--print") == 0) {
            s->print = true;
        } else if (strcmp(name, "--table") == 0) {
            s->table = true;
        } else if (i + 1 == argc) {
            return false;
        } else if (strcmp(name, "--torch") == 0) {
            s->torch = argv[++i];
        } else if (!read_number(argv[++i], &number)) {
            return false;
        } else if (strcmp(name, "--only") == 0) {
            s->first = number;
            s->count = 1;
        } else {
            uint64_t *to = strcmp(name, "--seed") == 0    ? &s->seed
                           : strcmp(name, "--count") == 0 ? &s->count
                           : strcmp(name, "--first") == 0 ? &s->first
                                                          : NULL;
            if (!to)
                return false;
            *to = number;
        }
    }
    return true;
}

int main(int argc, char *argv[])
{
    static recipe r;
    settings s;
    int wrong = 0;
    if (!read_settings(argc, argv, &s)) {
        fprintf(stderr, "usage: fuzz_networks [--seed N] [--count N] [--first K] [--only K] [--print] [--table] "
                        "[--torch FOLDER]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
#if !(LOCKSTEP_HAVE_JANSSON && LOCKSTEP_HAVE_CRYPTO)
    if (!s.torch)
        test_part_not_run("breaks", "the library was built without checkpoints");
#endif
    assert_int_equal(test_folder_make(NULL), 0);
    for (uint64_t k = s.first; k < s.first + s.count; k++) {
        recipe_draw(&r, s.seed, k, s.torch != NULL);
        if (s.print)
            recipe_print(&r, stdout);
        meet_all(&r);
        const bool good = s.torch ? recipe_export(&r, s.torch) : compare(&r, s.print);
        wrong += !good;
        if (good)
            count_met();
    }
    test_folder_remove(NULL);
    printf("%" PRIu64 " networks of seed %" PRIu64 ", %d with a difference or failure\n", s.count, s.seed, wrong);
    return judge(&s) + wrong ? 1 : 0;
}
