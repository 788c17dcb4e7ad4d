/* A transformer that reads a text character by character and learns which one comes next: embedding, places, masked
 * self-attention, and the embedding's table again for the logits. transformer.py beside it is the same in PyTorch.
 * transformer [EPOCHS [LENGTH [TEXT [FILE]]]] */
#include "../arguments.h"
#include <lockstep.h>
#include <lockstep_data.h>
#include <lockstep_nn.h>
#include <lockstep_train.h>
#include <stdio.h>

enum { TOKENS = 64, SYMBOLS = 128, STEP = 16, MOST = 1 << 20 };

typedef struct transformer_size {
    int tokens, features, heads, layers;
} transformer_size;

static ls_tensor *block_forward(ls_module *self, ls_tensor *x)
{
    x = ls_add(x, ls_module_call(self, "attention", ls_module_call(self, "norm1", x)));
    return ls_add(x, ls_module_call(self, "mlp", ls_module_call(self, "norm2", x)));
}

static ls_module *block(ls_session *s, const transformer_size *size)
{
    ls_module *m = ls_block(s, block_forward, NULL);
    ls_module_append(m, "norm1", ls_nn_layer_norm(s, NULL));
    ls_module_append(m, "attention", ls_nn_attention(s, size->heads, &(ls_attention_options){.causal = true}));
    ls_module_append(m, "norm2", ls_nn_layer_norm(s, NULL));
    ls_module_append(m, "mlp",
                     ls_sequential(s, LS_LIST(ls_nn_linear(s, 4 * size->features), ls_nn_fn(s, ls_gelu),
                                              ls_nn_linear(s, size->features))));
    return m;
}

static ls_tensor *forward(ls_module *self, ls_tensor *ids)
{
    const transformer_size *size = ls_module_user(self);
    ls_tensor *table = ls_module_parameter(self, "table", LS_SHAPE(SYMBOLS, size->features));
    ls_tensor *places = ls_module_parameter(self, "places", LS_SHAPE(size->tokens, size->features));
    ls_tensor *x = ls_module_call(self, "blocks", ls_add(ls_embedding(ids, table), places));
    return ls_linear(ls_module_call(self, "norm", x), table, NULL); /* (images, tokens, symbols) */
}

/* `size` must outlive the session. */
static ls_module *transformer(ls_session *s, transformer_size *size)
{
    ls_module *net = ls_block(s, forward, size), *blocks = ls_sequential(s, NULL);
    for (int i = 0; i < size->layers; i++)
        ls_module_append(blocks, NULL, block(s, size));
    ls_module_append(net, "blocks", blocks);
    ls_module_append(net, "norm", ls_nn_layer_norm(s, NULL));
    return net;
}

static ls_module *network(ls_session *s)
{
    static transformer_size size = {.tokens = TOKENS, .features = 64, .heads = 4, .layers = 2};
    return transformer(s, &size);
}

/* Windows of so many characters, each beginning STEP behind the one before; the targets are the next characters. */
static ls_data *windows(ls_session *s, const char *text, int n, const ls_loader *loader)
{
    const int rows = (n - TOKENS - 1) / STEP + 1;
    float *ids = malloc((size_t)rows * TOKENS * sizeof *ids), *next = malloc((size_t)rows * TOKENS * sizeof *next);
    for (int i = 0; ids && next && i < rows * TOKENS; i++) {
        ids[i] = (float)(text[i / TOKENS * STEP + i % TOKENS] & 127);
        next[i] = (float)(text[i / TOKENS * STEP + i % TOKENS + 1] & 127);
    }
    ls_data *data = ls_data_from_floats(s, ids, LS_SHAPE(rows, TOKENS), loader);
    ls_data_set_targets(data, next, LS_SHAPE(rows, TOKENS));
    free(ids);
    free(next);
    return data;
}

/* Classes come behind the images, places after them. */
static ls_tensor *of_logits(ls_tensor *logits, ls_tensor *y, void *user)
{
    (void)user;
    return ls_cross_entropy(ls_transpose(logits, 1, 2), y);
}

static ls_tensor *loss(ls_module *net, const ls_batch *b)
{
    return of_logits(ls_module_forward(net, b->X), b->y, NULL);
}

/* Writes on from a text of TOKENS characters, each new one drawn by the probability that it gets. */
static void write_on(ls_module *net, const char *text, int length)
{
    ls_session *s = ls_session_of(net);
    float ids[TOKENS], probability[SYMBOLS];
    for (int t = 0; t < TOKENS; t++)
        ids[t] = (float)(text[t] & 127);
    for (int i = 0; i < length && !ls_failed(s); i++) {
        int scope = ls_enter(s), next = 0;
        ls_tensor *logits =
            ls_slice(ls_module_infer(net, ls_values(s, ids, LS_SHAPE(1, TOKENS))), 1, TOKENS - 1, TOKENS);
        ls_read(ls_softmax(ls_flatten(logits)), probability, SYMBOLS);
        for (double left = rand() / (RAND_MAX + 1.0); next + 1 < SYMBOLS && left >= probability[next]; next++)
            left -= probability[next];
        putchar(next);
        memmove(ids, ids + 1, sizeof ids - sizeof *ids);
        ids[TOKENS - 1] = (float)next;
        ls_leave(s, scope);
    }
    putchar('\n');
}

int main(int argc, char **argv)
{
    int epochs = 6, length = 300;
    const char *text_path = "/usr/share/common-licenses/GPL-3", *path = "transformer.safetensors";
    const argument list[] = {{"EPOCHS", .count = &epochs},
                             {"LENGTH", .count = &length},
                             {"TEXT", .text = &text_path},
                             {"FILE", .text = &path}};
    read_arguments(argc, argv,
                   "A transformer: EPOCHS (6) over TEXT (the GPL), then LENGTH (300) characters of its own. It writes "
                   "the weights to FILE (transformer.safetensors).",
                   list, 4);
    static char text[MOST];
    FILE *f = fopen(text_path, "rb");
    const int n = f ? (int)fread(text, 1, MOST, f) : 0, border = (int)(n * 9LL / 10);
    if (f)
        fclose(f);
    ls_session *s = ls_open(NULL);
    if (n - border <= TOKENS)
        ls_fail(s, LS_BAD_FILE, "%s: no file that can be read, or of too few characters", text_path);
    ls_data *train = windows(s, text, border, &(ls_loader){.batch = 32, .shuffle = true});
    ls_data *test = windows(s, text + border, n - border, NULL);
    ls_module *net = network(s);
    ls_module_initialize(net, ls_all_devices(s), &(ls_init){.scale = 0.05, .like = train});
    ls_trainer *trainer = ls_trainer_new(net, LS_ADAMW, &(ls_optim){.lr = 0.003, .weight_decay = 0.1, .clip_norm = 1});
    ls_trainer_set_group(trainer, "*", &(ls_param_group){.no_decay = true, .vectors = true});
    for (int epoch = 0; epoch < epochs && !ls_failed(s); epoch++) {
        for (ls_batch b; ls_data_next(train, &b);) {
            ls_backward(loss(net, &b));
            ls_trainer_step(trainer);
        }
        ls_metrics metrics = {0};
        ls_module_evaluate_with(net, test, of_logits, NULL, &metrics);
        printf("epoch %d: test loss %.3f a character\n", epoch + 1, metrics.loss);
    }
    if (!ls_failed(s))
        write_on(net, text + n - TOKENS, length);
    ls_module_save(net, path); /* the names are those of transformer.py */
    if (ls_failed(s))          /* the first failure, wherever it was */
        fprintf(stderr, "transformer: %s\n", ls_message(s));
    return ls_close(s) == LS_OK ? 0 : 1;
}
