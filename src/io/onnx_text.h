/* Operators of ONNX as text, as an operation of one's own gives them (ls_custom.onnx): a line each,
 * `NAME = OPERATOR <ATTRIBUTE = VALUE, ...> (NAME, ...)`. Nothing of this needs the format's library. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
    LS_ONNX_MOST_STEPS = 32,
    LS_ONNX_MOST_OPERANDS = 8,
    LS_ONNX_MOST_SETTINGS = 6,
    LS_ONNX_MOST_INTS = 16,
    LS_ONNX_WORD = 64
};

typedef enum ls_onnx_kind { LS_ONNX_INT, LS_ONNX_FLOAT, LS_ONNX_TEXT, LS_ONNX_INTS } ls_onnx_kind;

typedef struct ls_onnx_setting {
    char name[LS_ONNX_WORD], text[LS_ONNX_WORD];
    ls_onnx_kind kind;
    float number;
    int64_t ints[LS_ONNX_MOST_INTS]; /* of INT the first */
    int n_ints;
} ls_onnx_setting;

typedef struct ls_onnx_step {
    char op_type[LS_ONNX_WORD], result[LS_ONNX_WORD];
    int in[LS_ONNX_MOST_OPERANDS], n_in; /* below the inputs: an input; else inputs + number of an earlier step */
    ls_onnx_setting settings[LS_ONNX_MOST_SETTINGS];
    int n_settings;
} ls_onnx_step;

typedef struct ls_onnx_steps {
    ls_onnx_step at[LS_ONNX_MOST_STEPS];
    int n;
} ls_onnx_steps;

/* Reads the text, whose inputs are x0, x1, ...; NULL where all is well, else what is wrong with line *line, from 1 on.
 * Whether ONNX has such operators and attributes is not known here. */
const char *ls_onnx_read_text(const char *text, int inputs, ls_onnx_steps *steps, int *line);
