#include "io/onnx_text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A reader at a place of the text; `wrong` is the first thing that was, and nothing is read from then on. */
typedef struct reader {
    const char *at, *wrong;
} reader;

static bool fail(reader *r, const char *why)
{
    r->wrong = r->wrong ? r->wrong : why;
    return false;
}

static char next(reader *r)
{
    while (*r->at == ' ' || *r->at == '\t' || *r->at == '\r')
        r->at++;
    return *r->at;
}

static bool ends_line(reader *r)
{
    const char c = next(r);
    return c == '\n' || c == ';' || c == '\0';
}

static bool take(reader *r, char c)
{
    const bool there = !r->wrong && next(r) == c;
    r->at += there;
    return there;
}

static void expect(reader *r, char c, const char *why)
{
    if (!take(r, c))
        fail(r, why);
}

static bool in_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

static void take_word(reader *r, char word[LS_ONNX_WORD], const char *why)
{
    size_t n = 0;
    for (next(r); in_word(r->at[n]);)
        n++;
    if (r->wrong || n == 0 || isdigit((unsigned char)*r->at))
        fail(r, why);
    else if (n >= LS_ONNX_WORD)
        fail(r, "a word has more than 63 letters");
    else
        memcpy(word, r->at, n);
    r->at += r->wrong ? 0 : n;
}

/* A number, whole unless it has a point, an exponent or is beyond 64 bits; true where it is whole. */
static bool take_number(reader *r, int64_t *whole, float *number)
{
    char *end, *float_end;
    next(r);
    errno = 0;
    *whole = strtoll(r->at, &end, 10);
    const bool fits = errno == 0;
    *number = strtof(r->at, &float_end);
    if (float_end == r->at || !isfinite(*number))
        fail(r, "a value must be a finite number, a \"text\" or a list of whole numbers");
    const bool is_whole = fits && end == float_end;
    r->at = float_end;
    return is_whole;
}

static void take_list(reader *r, ls_onnx_setting *s)
{
    float unused;
    s->kind = LS_ONNX_INTS;
    if (take(r, ']'))
        return;
    do {
        if (s->n_ints == LS_ONNX_MOST_INTS)
            fail(r, "a list has more than 16 numbers");
        else if (!take_number(r, &s->ints[s->n_ints++], &unused))
            fail(r, "a list has whole numbers alone");
    } while (take(r, ','));
    expect(r, ']', "a list must end with ]");
}

static void take_text(reader *r, ls_onnx_setting *s)
{
    const size_t n = strcspn(r->at, "\"\n");
    s->kind = LS_ONNX_TEXT;
    if (r->at[n] != '"' || n >= LS_ONNX_WORD) {
        fail(r, "a text must end with \" and have at most 63 letters");
        return;
    }
    memcpy(s->text, r->at, n);
    r->at += n + 1;
}

static void take_setting(reader *r, ls_onnx_step *step)
{
    if (step->n_settings == LS_ONNX_MOST_SETTINGS) {
        fail(r, "an operator has at most 6 attributes");
        return;
    }
    ls_onnx_setting *s = &step->settings[step->n_settings++];
    take_word(r, s->name, "an attribute must have a name");
    expect(r, '=', "an attribute must be NAME = VALUE");
    if (take(r, '['))
        take_list(r, s);
    else if (take(r, '"'))
        take_text(r, s);
    else if (!r->wrong)
        s->kind = take_number(r, &s->ints[0], &s->number) ? LS_ONNX_INT : LS_ONNX_FLOAT;
}

/* The number of a name among the inputs and the results so far; -1: it is none. */
static int find(const ls_onnx_steps *steps, int inputs, const char *name)
{
    char input[16];
    for (int k = 0; k < inputs; k++) {
        snprintf(input, sizeof input, "x%d", k);
        if (strcmp(name, input) == 0)
            return k;
    }
    for (int k = 0; k < steps->n; k++)
        if (strcmp(name, steps->at[k].result) == 0)
            return inputs + k;
    return -1;
}

static void take_operands(reader *r, const ls_onnx_steps *steps, int inputs, ls_onnx_step *step)
{
    if (take(r, ')'))
        return;
    do {
        char name[LS_ONNX_WORD] = "";
        take_word(r, name, "an operand must be x0, x1, ... or the name of a line above");
        const int found = r->wrong ? -1 : find(steps, inputs, name);
        if (found < 0)
            fail(r, "an operand must be x0, x1, ... or the name of a line above");
        else if (step->n_in == LS_ONNX_MOST_OPERANDS)
            fail(r, "an operator has at most 8 operands");
        else
            step->in[step->n_in++] = found;
    } while (take(r, ','));
    expect(r, ')', "the operands must end with )");
}

static void take_step(reader *r, int inputs, ls_onnx_steps *steps)
{
    if (steps->n == LS_ONNX_MOST_STEPS) {
        fail(r, "there are at most 32 lines");
        return;
    }
    ls_onnx_step *step = &steps->at[steps->n];
    *step = (ls_onnx_step){.n_in = 0};
    take_word(r, step->result, "a line must be NAME = OPERATOR <ATTRIBUTE = VALUE, ...> (NAME, ...)");
    expect(r, '=', "a line must be NAME = OPERATOR <ATTRIBUTE = VALUE, ...> (NAME, ...)");
    if (!r->wrong && find(steps, inputs, step->result) >= 0)
        fail(r, "its name is that of an input or of a line above");
    take_word(r, step->op_type, "an operator must follow =");
    if (take(r, '<')) {
        do
            take_setting(r, step);
        while (take(r, ','));
        expect(r, '>', "the attributes must end with >");
    }
    expect(r, '(', "the operands must stand in (...)");
    take_operands(r, steps, inputs, step);
    if (!r->wrong && !ends_line(r))
        fail(r, "something stands behind the operands");
    steps->n++;
}

const char *ls_onnx_read_text(const char *text, int inputs, ls_onnx_steps *steps, int *line)
{
    reader r = {.at = text};
    steps->n = 0;
    for (*line = 1; !r.wrong; ++*line, r.at++) {
        if (!ends_line(&r))
            take_step(&r, inputs, steps);
        if (r.wrong || *r.at == '\0')
            break;
    }
    return r.wrong ? r.wrong : steps->n == 0 ? "there is no line" : NULL;
}
