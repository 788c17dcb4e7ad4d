/* What takes sequences: ids, recurrent layers, attention, products image by image. */
#include "networks/operation.h"

#include <math.h>

/* ---- Ids ---- */

static bool draw_embedding(recipe *r, step *p)
{
    p->to = (sizes){2, {from_sizes(r, p)->at[0], recipe_between(r, 1, 19)}};
    recipe_say(p, "rows", recipe_between(r, VOCABULARY, VOCABULARY + 4));
    recipe_say(p, "features", p->to.at[1]);
    p->large = 1;
    return recipe_numbers(&p->to) <= MOST_NUMBERS;
}

static ls_module *make_embedding(ls_session *s, const step *p)
{
    return ls_nn_embedding(s, recipe_int(p, "rows"), recipe_int(p, "features"));
}

static bool draw_embedding_by(recipe *r, step *p)
{
    if (!draw_embedding(r, p))
        return false;
    takes_parameter(r, p, LS_SHAPE(recipe_int(p, "rows"), p->to.at[1]));
    return true;
}

static ls_tensor *record_embedding(const forward *f)
{
    return ls_embedding(operand(f, 0), parameter(f, 0));
}

/* ---- Recurrent layers ---- */

static void say_if(recipe *r, step *p, const char *name, double share)
{
    if (recipe_chance(r, share))
        recipe_say(p, name, 1);
}

static void maybe_lengths(recipe *r, step *p, int tokens)
{
    p->lengths = recipe_chance(r, 0.7) ? recipe_lengths(r, tokens) : -1;
}

/* `with`: options; else the layer as it is. */
static bool recurrent(recipe *r, step *p, bool with)
{
    const sizes *x = from_sizes(r, p);
    const int features = recipe_between(r, 1, 9);
    recipe_say(p, "features", features);
    if (with) {
        if (recipe_chance(r, 0.4))
            recipe_say(p, "layers", recipe_between(r, 1, 2));
        say_if(r, p, "bidirectional", 0.4);
        if (!recipe_says(p, "bidirectional"))
            say_if(r, p, "reverse", 0.4);
        say_if(r, p, "last", 0.3);
        say_if(r, p, "no_bias", 0.25);
    }
    maybe_lengths(r, p, x->at[0]);
    const int each = features * (recipe_says(p, "bidirectional") ? 2 : 1);
    p->to = recipe_says(p, "last") ? (sizes){1, {each}} : (sizes){2, {x->at[0], each}};
    p->from[0] = recipe_tame(r, p->from[0], 2);
    p->large = 1;
    return recipe_numbers(&p->to) <= MOST_NUMBERS;
}

static bool draw_recurrent(recipe *r, step *p)
{
    return recurrent(r, p, false);
}

static bool draw_recurrent_with(recipe *r, step *p)
{
    return recurrent(r, p, true);
}

static ls_recurrent_options options_of(const step *p)
{
    return (ls_recurrent_options){.layers = recipe_int(p, "layers"),
                                  .bidirectional = recipe_says(p, "bidirectional"),
                                  .reverse = recipe_says(p, "reverse"),
                                  .last = recipe_says(p, "last"),
                                  .no_bias = recipe_says(p, "no_bias")};
}

static ls_module *make_lstm(ls_session *s, const step *p)
{
    return ls_nn_lstm(s, recipe_int(p, "features"));
}

static ls_module *make_gru(ls_session *s, const step *p)
{
    return ls_nn_gru(s, recipe_int(p, "features"));
}

static ls_module *make_lstm_with(ls_session *s, const step *p)
{
    const ls_recurrent_options options = options_of(p);
    return ls_nn_lstm_with(s, recipe_int(p, "features"), &options);
}

static ls_module *make_gru_with(ls_session *s, const step *p)
{
    const ls_recurrent_options options = options_of(p);
    return ls_nn_gru_with(s, recipe_int(p, "features"), &options);
}

static bool recurrent_by(recipe *r, step *p, int gates)
{
    const sizes x = *from_sizes(r, p);
    const int h = recipe_between(r, 1, 9);
    say_if(r, p, "reverse", 0.4);
    say_if(r, p, "last", 0.3);
    maybe_lengths(r, p, x.at[0]);
    takes_parameter(r, p, LS_SHAPE(gates * h, x.at[1]));
    takes_parameter(r, p, LS_SHAPE(gates * h, h));
    for (int k = recipe_between(r, 0, 2); k > 0; k--)
        takes_parameter(r, p, LS_SHAPE(gates * h));
    p->to = recipe_says(p, "last") ? (sizes){1, {h}} : (sizes){2, {x.at[0], h}};
    p->from[0] = recipe_tame(r, p->from[0], 2);
    p->large = 1;
    return recipe_numbers(&p->to) <= MOST_NUMBERS;
}

static bool draw_lstm_by(recipe *r, step *p)
{
    return recurrent_by(r, p, 4);
}

static bool draw_gru_by(recipe *r, step *p)
{
    return recurrent_by(r, p, 3);
}

static ls_recurrent how_of(const forward *f)
{
    return (ls_recurrent){
        .lengths = lengths_of(f), .reverse = recipe_says(f->step, "reverse"), .last = recipe_says(f->step, "last")};
}

static ls_tensor *record_lstm(const forward *f)
{
    const ls_recurrent how = how_of(f);
    return ls_lstm(operand(f, 0), parameter(f, 0), parameter(f, 1), parameter(f, 2), parameter(f, 3), &how);
}

static ls_tensor *record_gru(const forward *f)
{
    const ls_recurrent how = how_of(f);
    return ls_gru(operand(f, 0), parameter(f, 0), parameter(f, 1), parameter(f, 2), parameter(f, 3), &how);
}

static bool draw_last_token(recipe *r, step *p)
{
    const sizes *x = from_sizes(r, p);
    maybe_lengths(r, p, x->at[0]);
    p->to = (sizes){1, {x->at[1]}};
    p->large = recipe_large(r, p->from[0]);
    return true;
}

static ls_tensor *record_last_token(const forward *f)
{
    return ls_last_token(operand(f, 0), lengths_of(f));
}

/* ---- Attention ---- */

static void say_attention(recipe *r, step *p)
{
    say_if(r, p, "causal", 0.4);
    if (recipe_chance(r, 0.3))
        recipe_say(p, "dropout", ONE_OF(r, 0.1, 0.25, 0.5) * !r->still);
    if (recipe_chance(r, 0.3))
        recipe_say(p, "scale", ONE_OF(r, 0.3, 1));
}

static bool draw_attention_layer(recipe *r, step *p)
{
    const sizes *x = from_sizes(r, p);
    const int heads = divisor_of(r, x->at[1]);
    p->to = *x;
    recipe_say(p, "heads", heads);
    if (recipe_chance(r, 0.4))
        recipe_say(p, "kv_heads", divisor_of(r, heads));
    say_attention(r, p);
    maybe_lengths(r, p, x->at[0]);
    p->from[0] = recipe_tame(r, p->from[0], 2);
    p->large = 1;
    return true;
}

static ls_attention_options attention_of(const step *p)
{
    return (ls_attention_options){.causal = recipe_says(p, "causal"),
                                  .dropout = recipe_told(p, "dropout"),
                                  .scale = recipe_told(p, "scale"),
                                  .kv_heads = recipe_int(p, "kv_heads")};
}

static ls_module *make_attention(ls_session *s, const step *p)
{
    const ls_attention_options options = attention_of(p);
    return ls_nn_attention(s, recipe_int(p, "heads"), &options);
}

/* Of q another value of its features as the keys, and of these one of as many tokens as the values. */
static bool draw_attention(recipe *r, step *p)
{
    p->from[0] = recipe_tame(r, p->from[0], 2);
    const sizes q = *from_sizes(r, p);
    int k = p->from[0], v = -1;
    for (int at = 0; at < recipe_values(r); at++) {
        const sizes *s = recipe_sizes(r, at);
        if (recipe_is_number(r, at) && s->rank == 2 && s->at[1] == q.at[1] && recipe_large(r, at) <= 2 &&
            recipe_chance(r, 0.6))
            k = at;
    }
    for (int at = 0; at < recipe_values(r); at++)
        if (recipe_is_number(r, at) && recipe_sizes(r, at)->rank == 2 &&
            recipe_sizes(r, at)->at[0] == recipe_sizes(r, k)->at[0] && (v < 0 || recipe_chance(r, 0.6)))
            v = at;
    p->from[1] = k;
    p->from[2] = v < 0 ? k : v;
    p->n_from = 3;
    say_attention(r, p);
    maybe_lengths(r, p, recipe_sizes(r, k)->at[0]);
    p->to = (sizes){2, {q.at[0], recipe_sizes(r, p->from[2])->at[1]}};
    p->large = recipe_large(r, p->from[2]);
    return recipe_numbers(&p->to) <= MOST_NUMBERS;
}

/* Of maps as heads of tokens; keys and values perhaps of fewer heads. */
static bool draw_attention_heads(recipe *r, step *p)
{
    p->from[0] = recipe_tame(r, p->from[0], 2);
    const sizes x = *from_sizes(r, p);
    const int heads = divisor_of(r, x.at[0]);
    step cut = {.n_details = 0};
    recipe_say(&cut, "dim", 1);
    recipe_say(&cut, "from", 0);
    recipe_say(&cut, "to", heads);
    p->from[1] = recipe_add(r, "slice", p->from[0], &cut);
    if (p->from[1] < 0)
        return false;
    p->from[2] = recipe_chance(r, 0.5) ? recipe_add(r, "tanh", p->from[1], NULL) : p->from[1];
    p->n_from = 3;
    say_attention(r, p);
    if (recipe_chance(r, 0.3))
        recipe_say(p, "kv_heads", heads);
    maybe_lengths(r, p, x.at[1]);
    p->to = x;
    p->large = 2;
    return p->from[2] >= 0;
}

static ls_tensor *record_attention(const forward *f)
{
    ls_attention_options options = attention_of(f->step);
    options.lengths = lengths_of(f);
    return ls_attention(operand(f, 0), operand(f, 1), operand(f, 2), &options);
}

/* ---- Products ---- */

static bool draw_batch_matmul(recipe *r, step *p)
{
    p->from[0] = recipe_tame(r, p->from[0], 1.5);
    const sizes a = *from_sizes(r, p);
    const int n = a.rank, other = recipe_like(r, &a, p->from[0]);
    step turn = {.n_details = 0};
    recipe_say(&turn, "i", n);
    recipe_say(&turn, "j", n - 1);
    p->from[1] = recipe_add(r, "transpose", other < 0 || recipe_large(r, other) > 1.5 ? p->from[0] : other, &turn);
    if (p->from[1] < 0)
        return false;
    p->n_from = 2;
    p->to = a;
    p->to.at[n - 1] = recipe_sizes(r, p->from[1])->at[n - 1];
    p->large = 2.25 * sqrt(a.at[n - 1]);
    return recipe_numbers(&p->to) <= MOST_NUMBERS;
}

static ls_tensor *record_batch_matmul(const forward *f)
{
    return ls_batch_matmul(operand(f, 0), operand(f, 1));
}

const operation sequence_operations[] = {{"nn_embedding", "i", draw_embedding, .make = make_embedding},
                                         {"embedding", "i", draw_embedding_by, .record = record_embedding},
                                         {"nn_lstm", "2", draw_recurrent, .make = make_lstm},
                                         {"nn_lstm_with", "2", draw_recurrent_with, .make = make_lstm_with},
                                         {"lstm", "2", draw_lstm_by, .record = record_lstm},
                                         {"nn_gru", "2", draw_recurrent, .make = make_gru},
                                         {"nn_gru_with", "2", draw_recurrent_with, .make = make_gru_with},
                                         {"gru", "2", draw_gru_by, .record = record_gru},
                                         {"last_token", "2", draw_last_token, .record = record_last_token},
                                         {"nn_attention", "2", draw_attention_layer, .make = make_attention},
                                         {"attention", "2", draw_attention, .record = record_attention},
                                         {"attention_heads", "3", draw_attention_heads, .record = record_attention},
                                         {"batch_matmul", "23", draw_batch_matmul, .record = record_batch_matmul},
                                         {0}};
