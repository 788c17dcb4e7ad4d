#include "run/pictures.h"
#include "run/judge.h"
#include "text/say.h"
#include "text/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <lockstep_weights.h>

enum { LIKELIEST = 3 /* classes of a line */, MOST_AT_ONCE = 256, BYTES_AT_ONCE = 64 << 20 };

/* A number of pictures that are predicted together. */
typedef struct heap {
    const run *run;
    int channels, height, width, classes;
    int room, n;
    uint8_t *pixels, *labels; /* [room][image]; [room], which nobody knows: all zero */
    float *logits;            /* [room][classes] */
    char **paths;             /* [n] */
} heap;

static size_t image_size(const heap *h)
{
    return (size_t)h->channels * (size_t)h->height * (size_t)h->width;
}

/* The likeliest class but for those that came before. */
static int next_likely(const float *logits, int classes, const int *before, int n)
{
    int found = -1;
    for (int i = 0; i < classes; i++) {
        bool told = false;
        for (int k = 0; k < n; k++)
            told |= before[k] == i;
        if (!told && (found < 0 || logits[i] > logits[found]))
            found = i;
    }
    return found;
}

static void print_line(const heap *h, char *path, const float *logits)
{
    int told[LIKELIEST];
    char text[256];
    utf8_clean(path); /* it has been read */
    printf("%s: ", path);
    for (int i = 0; i < LIKELIEST && i < h->classes; i++) {
        told[i] = next_likely(logits, h->classes, told, i);
        const char *name = ls_module_class_name(h->run->net, told[i]);
        const double percent = round(100 * judge_probability(logits, h->classes, told[i]));
        if (i > 0 && percent < 1)
            break;
        snprintf(text, sizeof text, "%d", told[i]);
        if (name)
            snprintf(text, sizeof text, "%s", name);
        utf8_clean(text); /* a file's metadata may hold anything */
        printf("%s%s %.0f %%", i ? ", " : "", text, percent);
    }
    printf("\n");
}

static int predict(heap *h)
{
    ls_session *session = h->run->session;
    int status = 0, scope = ls_enter(session);
    const ls_data *data =
        ls_data_from_memory(session, h->pixels, h->labels, h->n, h->channels, h->height, h->width, h->classes, NULL);
    if (ls_module_predict(h->run->net, data, h->logits, h->classes) != LS_OK)
        status = session_failed(session, "predict");
    ls_leave(session, scope);
    for (int i = 0; i < h->n && !status; i++)
        print_line(h, h->paths[i], h->logits + (size_t)i * (size_t)h->classes);
    h->n = 0;
    return status;
}

/* Those that can be read, from the first on, as many as there is room for. Returns how many were looked at, -1 where
 * the session cannot go on. */
static int gather(heap *h, char *const paths[], int n, int *status)
{
    ls_session *session = h->run->session;
    int i = 0;
    for (; i < n && h->n < h->room; i++) {
        ls_status read = ls_read_picture(session, paths[i], h->channels, h->height, h->width,
                                         h->pixels + (size_t)h->n * image_size(h));
        if (read == LS_OK) {
            h->paths[h->n++] = paths[i];
            continue;
        }
        *status = session_failed(session, "predict");
        if (read == LS_OUT_OF_MEMORY || !ls_catch(session, read))
            return -1;
    }
    return i;
}

static int make_room(heap *h, int pictures)
{
    const size_t many = BYTES_AT_ONCE / image_size(h);
    h->room = many < 1 ? 1 : many < MOST_AT_ONCE ? (int)many : MOST_AT_ONCE;
    h->room = h->room < pictures ? h->room : pictures;
    const size_t room = (size_t)h->room;
    h->pixels = malloc(room * image_size(h));
    h->labels = calloc(room, 1);
    h->logits = malloc(room * (size_t)h->classes * sizeof *h->logits);
    h->paths = malloc(room * sizeof *h->paths);
    if (h->pixels && h->labels && h->logits && h->paths)
        return 0;
    return failed("predict", "no memory for %d pictures", h->room);
}

/* What the network takes and gives. */
static int look_at_network(heap *h)
{
    const run *r = h->run;
    ls_shape none = ls_module_images_shape(r->net);
    if (none.rank != 4 || (none.dim[1] != 1 && none.dim[1] != 3))
        return failed("--weights", "%s: of images with %lld channels; pictures have 1 or 3", r->chosen->weights,
                      (long long)none.dim[1]);
    h->channels = (int)none.dim[1];
    h->height = (int)none.dim[2];
    h->width = (int)none.dim[3];
    none.dim[0] = 0;
    const ls_tensor *y = ls_module_infer(r->net, ls_zeros(r->session, none));
    if (!y)
        return session_failed(r->session, "predict");
    h->classes = (int)ls_dim(y, 1);
    return 0;
}

int predict_pictures(const run *r, char *const paths[], int n)
{
    heap h = {.run = r};
    int bad = 0, status = look_at_network(&h);
    if (!status)
        status = make_room(&h, n);
    for (int done = 0, looked = 0; done < n && !status; done += looked) {
        looked = gather(&h, paths + done, n - done, &bad);
        if (looked < 0)
            status = bad;
        else if (h.n)
            status = predict(&h);
    }
    free(h.pixels);
    free(h.labels);
    free(h.logits);
    free(h.paths);
    const int told = finish_output();
    return status ? status : told ? told : bad;
}
