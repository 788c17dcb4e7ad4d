#include "live/view.h"
#include "text/scale.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    CONTENT = 150,   /* columns, however wide the terminal is */
    TWO_PANELS = 72, /* from here on loss and accuracy have a panel each */
    ONE_PANEL = 40,
    LABELS = 5, /* columns of an axis' labels and the axis, if none is longer */
    MOST_LABELS = 12,
    LEGEND_GAP = 2
};

/* The frame under construction. */
typedef struct sheet {
    char *text;
    int length;
    int lines;
    int blanks; /* that wait for something behind them: a line has none at its end, so that it wraps late */
    ink ink;
    const terminal *look;
} sheet;

static void put(sheet *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(sheet *s, const char *format, ...)
{
    va_list arguments;
    for (; s->blanks > 0 && s->length < VIEW_BYTES - 1; s->blanks--)
        s->text[s->length++] = ' ';
    va_start(arguments, format);
    int room = VIEW_BYTES - s->length;
    int length = vsnprintf(s->text + s->length, (size_t)room, format, arguments);
    va_end(arguments);
    s->length += length < room ? length : room - 1;
}

/* Middling colours that can be read on black and on white. */
static void use_ink(sheet *s, ink with)
{
    static const char *const few[INKS] = {"0", "90", "94", "33", "32"};
    static const char *const many[INKS] = {"0", "38;5;245", "38;5;32", "38;5;172", "38;5;35"};
    if (s->look->colours != COLOURS_NONE && with != s->ink)
        put(s, "\033[%sm", s->look->colours == COLOURS_MANY ? many[with] : few[with]);
    s->ink = with;
}

static void repeat(sheet *s, const char *text, int times)
{
    for (int i = 0; i < times; i++)
        put(s, "%s", text);
}

static void end_line(sheet *s)
{
    s->blanks = 0;
    use_ink(s, INK_NONE);
    put(s, "\033[K\r\n");
    s->lines++;
}

/* One panel: a title with the latest figures, and curves over the run's steps. */
typedef struct panel {
    plot *board;
    double top;        /* of the y axis, which starts at 0 */
    double tick;       /* between its labels */
    double last;       /* step at the right edge */
    int width;         /* columns in all */
    int labels;        /* those of the labels and the axis */
    bool losses, accs; /* what it shows */
} panel;

/* The curve of the bins, joined from one column of dots to the next: the mean of those that share a column. */
static void draw_bins(const panel *p, const history *h,
                      bool (*at)(const history *h, int i, double *step, double *value), ink with)
{
    int dots = p->board->columns * p->board->across;
    double sum = 0, before_x = -1, before_y = 0, step, value;
    int n = 0, column = -1;
    for (int i = 0; i <= h->used; i++) {
        bool there = i < h->used && at(h, i, &step, &value);
        int here = there ? (int)(step / p->last * (dots - 1) + 0.5) : -1;
        if (n && (here != column || i == h->used)) {
            double x = (double)column / (dots - 1), y = sum / n / p->top;
            plot_line(p->board, before_x < 0 ? x : before_x, before_x < 0 ? y : before_y, x, y, with);
            before_x = x;
            before_y = y;
            n = 0;
            sum = 0;
        }
        if (there) {
            column = here;
            sum += value;
            n++;
        }
    }
}

/* A mark for each test where they stand apart; else a line, and a mark for the newest. */
static void draw_points(const panel *p, const history *h)
{
    int n = h->n_points;
    bool apart = n < 2 || (h->points[1].step - h->points[0].step) / p->last * p->board->columns >= 2;
    for (int i = 1; i < n && !apart; i++)
        plot_line(p->board, h->points[i - 1].step / p->last, h->points[i - 1].acc / p->top, h->points[i].step / p->last,
                  h->points[i].acc / p->top, INK_TEST);
    for (int i = apart ? 0 : n - 1; i < n; i++)
        plot_mark(p->board, h->points[i].step / p->last, h->points[i].acc / p->top, INK_TEST);
}

static void draw_panel(const panel *p, const history *h, int rows, bool utf8)
{
    plot_begin(p->board, p->width - p->labels, rows, utf8);
    if (p->losses)
        draw_bins(p, h, history_loss_at, INK_LOSS);
    if (p->accs) {
        draw_bins(p, h, history_acc_at, INK_TRAIN);
        draw_points(p, h);
    }
}

/* A name with its sign and figure, where it fits into what is left of the title. */
static void put_legend(sheet *s, int *room, const char *sign, const char *name, double value, ink with)
{
    char figure[32] = "";
    if (!isnan(value))
        snprintf(figure, sizeof figure, " %.3f", value);
    int length = 2 + (int)strlen(name) + (int)strlen(figure) + LEGEND_GAP;
    if (length > *room)
        return;
    *room -= length;
    use_ink(s, with);
    put(s, "%s ", sign);
    use_ink(s, INK_NONE);
    put(s, "%s%s", name, figure);
    s->blanks += LEGEND_GAP;
}

static void put_title(sheet *s, const panel *p, const history *h)
{
    bool utf8 = s->look->utf8;
    const char *line = utf8 ? "\xe2\x94\x81" : "=", *dot = utf8 ? "\xe2\x97\x8f" : "o";
    double step, train = NAN, test = h->n_points ? h->points[h->n_points - 1].acc : NAN;
    for (int i = h->used - 1; i >= 0 && isnan(train); i--)
        history_acc_at(h, i, &step, &train);
    bool all = p->losses && p->accs;
    int spare = p->width - 36; /* beside the longest title of a panel with its figures */
    int indent = all || spare < 1 ? 1 : spare < p->labels ? spare : p->labels, room = p->width - indent + LEGEND_GAP;
    s->blanks += indent;
    if (p->losses)
        put_legend(s, &room, line, all ? "loss" : "train loss", h->used ? h->last_loss : NAN, INK_LOSS);
    if (p->accs) {
        put_legend(s, &room, line, all ? "train" : "train acc", train, INK_TRAIN);
        put_legend(s, &room, dot, all ? "test" : "test acc", test, INK_TEST);
    }
    s->blanks += room - LEGEND_GAP;
}

static void put_row(sheet *s, const panel *p, int row, int rows)
{
    char label[32] = "", cell[4];
    /* A label stands on the row that its value falls on. */
    for (double value = 0; value <= p->top * (1 + 1e-9); value += p->tick)
        if (lrint((1 - value / p->top) * (rows - 1)) == row)
            scale_text(label, sizeof label, value, p->tick);
    use_ink(s, INK_QUIET);
    put(s, "%*.*s%s", p->labels - 1, p->labels - 1, label,
        s->look->utf8 ? (*label ? "\xe2\x94\xa4" : "\xe2\x94\x82") : (*label ? "+" : "|"));
    for (int column = 0; column < p->board->columns; column++) {
        ink with = plot_cell(p->board, column, row, cell);
        if (*cell == ' ') {
            s->blanks++;
            continue;
        }
        use_ink(s, with);
        put(s, "%s", cell);
    }
}

static void put_axis(sheet *s, const panel *p)
{
    use_ink(s, INK_QUIET);
    s->blanks += p->labels - 1;
    put(s, "%s", s->look->utf8 ? "\xe2\x95\xb0" : "+");
    repeat(s, s->look->utf8 ? "\xe2\x94\x80" : "-", p->board->columns);
}

/* Epochs below the axis, each centred below its place. */
static void put_epochs(sheet *s, const panel *p, int64_t batches)
{
    char line[PLOT_COLUMNS + MOST_LABELS + 1], label[32];
    int columns = p->board->columns, width = columns + p->labels;
    double epochs = p->last / (double)batches, step = scale_whole_step(epochs, columns / 6);
    memset(line, ' ', (size_t)width);
    line[width] = '\0';
    for (double epoch = 0; epoch <= epochs * (1 + 1e-9); epoch += step) {
        int length = snprintf(label, sizeof label, epoch == 0 ? "epoch 0" : "%.0f", epoch);
        int at = p->labels + (int)lrint(epoch / epochs * (columns - 1)) - (epoch == 0 ? 6 : length / 2);
        at = at < 0 ? 0 : at + length > width ? width - length : at;
        if (at == 0 || line[at - 1] == ' ')
            memcpy(line + at, label, (size_t)length);
    }
    use_ink(s, INK_QUIET);
    put(s, "%s", line);
}

/* The step at the right edge: the run's last, or of a long run as much as is needed. */
static double right_edge(const view_state *state)
{
    double epochs = (double)state->steps / (double)state->batches, done = (double)state->step / (double)state->batches;
    double shown = 20;
    while (shown < 1.1 * done)
        shown *= 2;
    return (double)state->batches * (epochs <= 40 || epochs < shown ? epochs : shown);
}

/* The columns that the labels of an axis from 0 on take. */
static int labels_of(int parts, double tick)
{
    char label[MOST_LABELS];
    scale_longest(label, sizeof label, 0, tick, parts);
    const int columns = (int)strlen(label) + 1;
    return columns > LABELS ? columns : LABELS;
}

static void put_charts(sheet *s, view_boards *boards, const view_state *state, const history *h, int content, int rows)
{
    bool two = content >= TWO_PANELS;
    int gap = 3, width = two ? (content - gap) / 2 : content;
    double most = history_most_loss(h), edge = right_edge(state);
    if (!two && most < 1)
        most = 1;
    /* Every label falls on a row, as rows - 1 is a multiple of the parts. */
    int parts = rows >= 9 ? 4 : 2;
    double tick = scale_even_step(most > 0 ? most : 1, parts);
    panel panels[2] = {{&boards->loss, parts * tick, tick, edge, width, labels_of(parts, tick), true, !two},
                       {&boards->acc, 1, 1.0 / parts, edge, width, LABELS, false, true}};
    int n = two ? 2 : 1;
    for (int i = 0; i < n; i++)
        draw_panel(&panels[i], h, rows, s->look->utf8);
    for (int line = -1; line < rows + 2; line++) {
        for (int i = 0; i < n; i++) {
            s->blanks += i ? gap : 0;
            if (line == -1)
                put_title(s, &panels[i], h);
            else if (line < rows)
                put_row(s, &panels[i], line, rows);
            else if (line == rows)
                put_axis(s, &panels[i]);
            else
                put_epochs(s, &panels[i], state->batches);
        }
        end_line(s);
    }
}

/* ---- The devices ---- */

/* Lines of bars for so many rows of the terminal. */
static int bar_lines(int rows)
{
    return rows >= 40 ? 4 : rows >= 24 ? 2 : rows >= 8 ? 1 : 0;
}

static void put_load_legend(sheet *s, int content)
{
    static const struct {
        const char *utf8, *ascii, *name;
        ink with;
    } parts[] = {{"\xe2\x94\x81", "=", "computing", INK_TEST},
                 {"\xe2\x95\x8d", "+", "reducing", INK_TRAIN},
                 {"\xe2\x94\x80", "-", "waiting", INK_QUIET}};
    s->blanks += content >= TWO_PANELS ? LABELS : 1;
    for (int i = 0; i < 3; i++) {
        use_ink(s, parts[i].with);
        put(s, "%s ", s->look->utf8 ? parts[i].utf8 : parts[i].ascii);
        use_ink(s, INK_NONE);
        put(s, "%s", parts[i].name);
        s->blanks += LEGEND_GAP;
    }
    end_line(s);
}

/* Of n neighbours of the list; returns its length. */
static int load_label(char label[48], const loads *devices, int first, int n, bool narrow)
{
    const ls_device *device = &devices->devices.at[first];
    char range[32];
    if (device->type == LS_CUDA && !narrow) /* a card may be several devices */
        return snprintf(label, 48, "%s%s%s", devices->names[first], n > 1 ? " - " : "",
                        n > 1 ? devices->names[first + n - 1] : "");
    const int from = device->type == LS_CUDA ? first : device->index;
    snprintf(range, sizeof range, n > 1 ? "%d-%d" : "%d", from, from + device[n - 1].index - device->index);
    return narrow ? snprintf(label, 48, "%s", range) : snprintf(label, 48, "cpu(%s)", range);
}

/* Neighbours as one: their mean. */
static void put_load(sheet *s, const loads *devices, int first, int n, const char *label, int labels, int bar)
{
    bool utf8 = s->look->utf8;
    double computing = 0, reducing = 0;
    for (int i = first; i < first + n; i++) {
        computing += devices->each[i].computing / n;
        reducing += devices->each[i].reducing / n;
    }
    s->blanks += 1;
    put(s, "%-*s", labels, label);
    use_ink(s, INK_QUIET);
    put(s, " %3.0f%% ", 100 * computing);
    int compute = (int)lrint(computing * bar), reduce = (int)lrint((computing + reducing) * bar) - compute;
    use_ink(s, INK_TEST);
    repeat(s, utf8 ? "\xe2\x94\x81" : "=", compute);
    use_ink(s, INK_TRAIN);
    repeat(s, utf8 ? "\xe2\x95\x8d" : "+", reduce);
    use_ink(s, INK_QUIET);
    repeat(s, utf8 ? "\xe2\x94\x80" : "-", bar - compute - reduce);
    use_ink(s, INK_NONE);
}

/* A bar for each device, or for so many neighbours that the lines hold all. */
static void put_loads(sheet *s, const loads *devices, int content, int rows)
{
    const int lines = bar_lines(rows), gap = 3, percent = 7, n = devices->devices.n;
    if (!lines || !devices->known)
        return;
    int across = content >= TWO_PANELS ? 2 : 1, group = (n - 1) / (lines * across) + 1, bars = (n - 1) / group + 1;
    across = across > bars ? bars : across;
    int width = across > 1 ? (content - gap) / 2 : content, labels = 0;
    bool narrow = width < 30;
    char label[48];
    for (int i = 0; i < n; i += group) {
        int length = load_label(label, devices, i, n - i < group ? n - i : group, narrow);
        labels = length > labels ? length : labels;
    }
    int bar = width - labels - percent;
    if (bar < 3)
        return;
    if (content >= ONE_PANEL && rows >= 16)
        put_load_legend(s, content);
    for (int i = 0; i < bars; i++) {
        int first = i * group, together = n - first < group ? n - first : group;
        load_label(label, devices, first, together, narrow);
        s->blanks += i % across ? gap : 0;
        put_load(s, devices, first, together, label, labels, bar);
        if (i % across == across - 1 || i == bars - 1)
            end_line(s);
    }
}

/* Of the run, its tests among it. */
static double part_done(const view_state *state)
{
    double all = (double)state->steps + (double)state->tests * state->test_steps;
    return all > 0 ? fmin(1, ((double)state->step + state->tested * state->test_steps) / all) : 0;
}

static void put_bar(sheet *s, const view_state *state, int content)
{
    bool utf8 = s->look->utf8;
    char left[64], right[16];
    double fraction = part_done(state);
    snprintf(left, sizeof left, content >= 40 ? " epoch %lld/%lld " : " %lld/%lld ", (long long)state->epoch,
             (long long)state->epochs);
    snprintf(right, sizeof right, " %3d%%", (int)(100 * fraction));
    int width = content - (int)(strlen(left) + strlen(right)) - (utf8 ? 0 : 2);
    if (width < 4) { /* no room to draw: what fits of the figures */
        strcat(left, right);
        put(s, "%.*s", content, left);
        return;
    }
    put(s, "%s%s", left, utf8 ? "" : "[");
    int halves = (int)(fraction * 2 * width);
    use_ink(s, INK_TEST);
    if (utf8) {
        repeat(s, "\xe2\x94\x81", halves / 2);
        bool half = halves % 2 && halves / 2 < width;
        if (half)
            put(s, "\xe2\x95\xb8");
        use_ink(s, INK_QUIET);
        repeat(s, s->look->colours == COLOURS_NONE ? "\xe2\x94\x80" : "\xe2\x94\x81", width - halves / 2 - half);
    } else {
        repeat(s, "=", halves / 2);
        use_ink(s, INK_QUIET);
        repeat(s, "-", width - halves / 2);
    }
    use_ink(s, INK_NONE);
    put(s, "%s%s", utf8 ? "" : "]", right);
}

/* A figure with a quiet word before or behind it. */
typedef struct part {
    char before[16], figure[48], after[48];
    int rank; /* the lowest goes in first */
} part;

static int part_length(const part *p)
{
    return (int)(strlen(p->before) + strlen(p->figure) + strlen(p->after));
}

static void put_figures(sheet *s, const view_state *state, int content)
{
    enum { PARTS = 5 };
    bool wide = content >= 58, narrow = content < 30;
    const int between = narrow ? 2 : 3;
    char steps[32];
    part parts[PARTS] = {
        {.before = "step ", .rank = 4}, {.before = "loss ", .rank = 1}, {.rank = 2}, {.rank = 0}, {.rank = 3}};
    if (narrow)
        *parts[1].before = '\0';
    count_text(parts[0].figure, 24, state->step);
    count_text(steps, sizeof steps, state->steps);
    snprintf(parts[0].after, sizeof parts[0].after, " of %s", steps);
    if (!isnan(state->loss))
        snprintf(parts[1].figure, sizeof parts[1].figure, "%.4f", state->loss);
    if (state->images_per_second > 0) {
        count_text(parts[2].figure, sizeof parts[2].figure, (int64_t)(state->images_per_second + 0.5));
        strcpy(parts[2].after, wide ? " images/s" : "/s");
    }
    if (!isnan(state->seconds_left) && state->seconds_left < 1e8) {
        time_text(parts[3].figure, sizeof parts[3].figure, state->seconds_left);
        strcpy(parts[3].after, " left");
    }
    if (state->phase || !state->step)
        snprintf(parts[4].after, sizeof parts[4].after, "%s", state->phase ? state->phase : "starting");
    bool in[PARTS] = {false};
    int room = content - 1;
    for (int rank = 0; rank < PARTS; rank++)
        for (int i = 0; i < PARTS; i++) {
            bool there = *parts[i].figure || (i == 4 && *parts[i].after);
            if (parts[i].rank == rank && there && part_length(&parts[i]) <= room) {
                in[i] = true;
                room -= part_length(&parts[i]) + between;
            }
        }
    int gap = 1;
    for (int i = 0; i < PARTS; i++) {
        if (!in[i])
            continue;
        s->blanks += gap;
        use_ink(s, INK_QUIET);
        put(s, "%s", parts[i].before);
        use_ink(s, INK_NONE);
        put(s, "%s", parts[i].figure);
        use_ink(s, INK_QUIET);
        put(s, "%s", parts[i].after);
        gap = between;
    }
    use_ink(s, INK_NONE);
}

int view_frame(char *out, int *length, view_boards *boards, const view_state *state, const history *h,
               const loads *devices, const terminal *look, int columns, int rows)
{
    sheet s = {.text = out, .look = look};
    int content =
        columns - 1 < CONTENT ? columns - 1 : CONTENT; /* the last column stays free: some terminals wrap there */
    /* Beside the curves: a blank line, title, axis, epochs, another blank line, bar and figures. */
    int curves = (rows - 8) * 5 / 8;
    curves = curves >= 13 ? 13 : curves >= 9 ? 9 : curves >= 5 ? 5 : 0;
    bool charts = curves && content >= ONE_PANEL - 1;
    *length = 0;
    out[0] = '\0';
    if (content < 1 || rows < 2 || (state->over && (!charts || h->used < 2)))
        return 0;
    /* The cursor waits on the blank line above, where what is typed meanwhile does no harm. */
    if (rows >= 5)
        end_line(&s);
    if (charts)
        put_charts(&s, boards, state, h, content, curves);
    if (charts)
        end_line(&s);
    if (!state->over) {
        put_loads(&s, devices, content, rows);
        put_bar(&s, state, content);
        if (rows >= 3) {
            end_line(&s);
            put_figures(&s, state, content);
        }
    }
    put(&s, "\033[J");
    *length = s.length;
    return s.lines + 1;
}

void view_epoch_text(char *text, int size, int columns, const view_epoch *e)
{
    long long epoch = (long long)e->epoch, epochs = (long long)e->epochs;
    char val[32] = "", short_val[32] = "";
    if (!isnan(e->val_acc)) {
        snprintf(val, sizeof val, "val acc %.4f, ", e->val_acc);
        snprintf(short_val, sizeof short_val, "val acc %.3f, ", e->val_acc);
    }
    int length = snprintf(text, (size_t)size,
                          "epoch %lld/%lld: loss %.4f, train acc %.4f, %stest acc %.4f, %.2f sec, %.0f images/s", epoch,
                          epochs, e->loss, e->train_acc, val, e->test_acc, e->seconds, e->images_per_second);
    if (length >= columns)
        length = snprintf(text, (size_t)size, "epoch %lld/%lld: loss %.4f, train acc %.4f, %stest acc %.4f", epoch,
                          epochs, e->loss, e->train_acc, val, e->test_acc);
    if (length >= columns)
        length = snprintf(text, (size_t)size, "%lld/%lld: loss %.3f, %stest acc %.3f", epoch, epochs, e->loss,
                          short_val, e->test_acc);
    if (length >= columns)
        snprintf(text, (size_t)size, "%lld: %.3f  %.3f", epoch, e->loss, e->test_acc);
}
