/* Accuracy against epochs, batch and learning rate: a table, and the same as a drawing.
 * sweep [EPOCHS [IMAGES [FILE]]]: 4 epochs, 6000 images and sweep.svg unless told otherwise. */
#include "arguments.h"
#include <lockstep.h>
#include <lockstep_nn.h>
#include <stdio.h>

enum { RUNS = 6, EPOCHS = 100, LEFT = 60, TOP = 30, WIDTH = 480, HEIGHT = 300 };
typedef struct run {
    int batch;
    double lr;
    const char *colour;
    double acc[EPOCHS];
} run;
/* The upper three keep the batch, the lower three let the learning rate grow with it. */
static run runs[RUNS] = {{64, 0.01, "#1b9e77", {0}}, {64, 0.05, "#d95f02", {0}}, {64, 0.2, "#7570b3", {0}},
                         {128, 0.1, "#e7298a", {0}}, {256, 0.2, "#66a61e", {0}}, {512, 0.4, "#e6ab02", {0}}};

static void train(ls_session *s, run *r, int epochs, int images)
{
    ls_data *train =
        ls_data_fashion_mnist(s, LS_TRAIN, &(ls_loader){.batch = r->batch, .shuffle = true, .limit = images});
    ls_data *test = ls_data_fashion_mnist(s, LS_TEST, &(ls_loader){.limit = images});
    ls_module *net = ls_lenet(s);
    ls_module_initialize(net, ls_try_devices(s, 2), &(ls_init){.kind = LS_XAVIER, .like = train});
    ls_trainer *trainer = ls_trainer_new(net, LS_SGD, &(ls_optim){.lr = r->lr});
    for (int epoch = 0; epoch < epochs; epoch++) {
        for (ls_batch b; ls_data_next(train, &b);) {
            ls_backward(ls_cross_entropy(ls_module_forward(net, b.X), b.y));
            ls_trainer_step(trainer);
        }
        r->acc[epoch] = ls_module_accuracy(net, test);
    }
}

static void print_table(int epochs)
{
    printf("batch    lr |  test acc after epoch\n            |");
    for (int epoch = 0; epoch < epochs; epoch++)
        printf(" %5d", epoch + 1);
    puts("");
    for (int i = 0; i < RUNS; i++) {
        printf("%5d %5.2f |", runs[i].batch, runs[i].lr);
        for (int epoch = 0; epoch < epochs; epoch++)
            printf(" %5.3f", runs[i].acc[epoch]);
        puts("");
    }
}

static double x_of(int epoch, int epochs)
{
    return LEFT + (epochs > 1 ? (double)WIDTH * epoch / (epochs - 1) : WIDTH / 2.0);
}

static double y_of(double acc)
{
    return TOP + HEIGHT * (1 - acc);
}

static bool draw(const char *path, int epochs)
{
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
            "font-size=\"12\">\n",
            LEFT + WIDTH + 160, TOP + HEIGHT + 50);
    fprintf(f, "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n");
    for (int tenth = 0; tenth <= 10; tenth += 2) {
        double y = y_of(tenth / 10.0);
        fprintf(f, "<path d=\"M%d %.1fh%d\" stroke=\"#ddd\"/>\n", LEFT, y, WIDTH);
        fprintf(f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.1f</text>\n", LEFT - 8, y + 4, tenth / 10.0);
    }
    for (int epoch = 0; epoch < epochs; epoch++)
        fprintf(f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n", x_of(epoch, epochs),
                TOP + HEIGHT + 18, epoch + 1);
    fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">epoch</text>\n", LEFT + WIDTH / 2, TOP + HEIGHT + 38);
    fprintf(f, "<text x=\"%d\" y=\"%d\">test acc</text>\n", LEFT - 40, TOP - 12);
    for (int i = 0; i < RUNS; i++) {
        fprintf(f, "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"%s\" points=\"", runs[i].colour);
        for (int epoch = 0; epoch < epochs; epoch++)
            fprintf(f, "%.1f,%.1f ", x_of(epoch, epochs), y_of(runs[i].acc[epoch]));
        int y = TOP + 20 * (i + 1);
        fprintf(f, "\"/>\n<path d=\"M%d %dh16\" stroke-width=\"2\" stroke=\"%s\"/>\n", LEFT + WIDTH + 16, y - 4,
                runs[i].colour);
        fprintf(f, "<text x=\"%d\" y=\"%d\">batch %d, lr %g</text>\n", LEFT + WIDTH + 38, y, runs[i].batch, runs[i].lr);
    }
    fprintf(f, "</svg>\n");
    bool written = !ferror(f);
    return fclose(f) == 0 && written;
}

int main(int argc, char **argv)
{
    int epochs = 4, images = 6000;
    const char *path = "sweep.svg";
    read_arguments(argc, argv,
                   "Accuracy by batch and learning rate: EPOCHS (4, at most 100) over the first IMAGES (6000). It "
                   "writes a drawing to FILE (sweep.svg).",
                   (argument[]){{"EPOCHS", .count = &epochs}, {"IMAGES", .count = &images}, {"FILE", .text = &path}},
                   3);
    epochs = epochs > EPOCHS ? EPOCHS : epochs;
    ls_session *s = ls_open(NULL);
    for (int i = 0; i < RUNS && !ls_failed(s); i++)
        train(s, &runs[i], epochs, images);
    print_table(epochs);
    bool drawn = draw(path, epochs);
    printf(drawn ? "drawn in %s\n" : "cannot write %s\n", path);
    if (ls_failed(s))
        fprintf(stderr, "sweep: %s\n", ls_message(s));
    return ls_close(s) == LS_OK && drawn ? 0 : 1;
}
