#include "report/page.h"
#include "text/scale.h"
#include "text/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* clang-format off */
static const char style[] =
    ":root{color-scheme:light dark;--paper:#fff;--card:#f6f7f9;--edge:#e3e6ea;--text:#22262b;--quiet:#636b76;"
    "--c0:#0b78c2;--c1:#c77700;--c2:#0a9a5b;--c3:#b23a86;--c4:#6d55cc;--c5:#c43d3d;--c6:#2a9d9d;--c7:#7d6b2e;"
    "--right:10,154,91;--wrong:199,90,0}\n"
    "@media(prefers-color-scheme:dark){:root{--paper:#15181d;--card:#1d2127;--edge:#30363e;--text:#dde1e6;"
    "--quiet:#98a1ad;--c0:#4aa8ec;--c1:#eba03c;--c2:#3cc78a;--c3:#e07ab8;--c4:#a391f2;--c5:#f07a7a;"
    "--c6:#5ccaca;--c7:#c4b067;--right:24,132,84;--wrong:178,88,24}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--paper);color:var(--text);"
    "font:16px/1.5 system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}\n"
    "main{max-width:1240px;margin:0 auto;padding:28px 20px 60px}\n"
    "h1{font-size:1.75rem;line-height:1.2;margin:0 0 4px;letter-spacing:-.01em}\n"
    "h2{font-size:1.15rem;margin:44px 0 4px}\n"
    "h1,h2{overflow-wrap:anywhere}\n" /* a log's name may be long */
    "p{margin:0 0 12px;color:var(--quiet);max-width:46rem}\n"
    ".cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:22px 0 14px}\n"
    ".cards div{background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:12px 16px}\n"
    ".cards b{display:block;font-size:1.55rem;line-height:1.25;font-weight:600;"
    "font-variant-numeric:tabular-nums}\n"
    ".cards span,.note{color:var(--quiet);font-size:.86rem}\n"
    "code{font:.84rem/1.5 ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;overflow-wrap:anywhere}\n"
    ".curves{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,370px),1fr));gap:8px 20px;"
    "margin-top:12px}\n"
    "svg{width:100%;height:auto;display:block;overflow:visible}\n"
    "svg text{font:12px system-ui,'DejaVu Sans',sans-serif;stroke:none}\n"
    "svg polyline{fill:none;stroke-linecap:round;stroke-linejoin:round}\n"
    "text.t0{fill:var(--text)}text.t1{fill:var(--quiet)}polyline.t2{stroke:var(--edge)}\n"
    ".whole{white-space:nowrap}\n"
    ".wide{overflow-x:auto;margin:12px 0}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.92rem}\n"
    "th{font-weight:500;color:var(--quiet);text-align:left}\n"
    "td,th{padding:5px 18px 5px 0;border-bottom:1px solid var(--edge);white-space:nowrap;vertical-align:top}\n"
    "td.n,th.n{text-align:right}\n"
    "td.any{white-space:normal;overflow-wrap:anywhere}\n"
    ".bar{display:inline-block;height:.62em;border-radius:3px;background:var(--c0);opacity:.75;"
    "vertical-align:baseline}\n"
    ".bars{min-width:150px;width:40%}\n"
    ".swatch{display:inline-block;width:26px;height:4px;border-radius:2px;vertical-align:middle;"
    "margin-right:9px}\n"
    ".taken td,.taken th{padding:0;text-align:center;border:0}\n"
    ".taken td{width:3.1em;height:2.35em;vertical-align:middle;border:1px solid var(--paper);"
    "border-radius:5px}\n"
    ".taken th{padding:0 10px 0 0;text-align:right;vertical-align:middle}\n"
    ".taken thead th{vertical-align:bottom;text-align:center;padding:0 0 6px}\n"
    ".taken thead span{writing-mode:vertical-rl;transform:rotate(180deg);display:inline-block}\n"
    ".worst{display:grid;grid-template-columns:repeat(auto-fill,minmax(112px,1fr));gap:14px;margin-top:12px}\n"
    "figure{margin:0;font-size:.82rem;line-height:1.35}\n"
    "figure img{width:100%;height:auto;aspect-ratio:1;image-rendering:pixelated;border-radius:8px;"
    "background:#000;display:block;margin-bottom:5px}\n"
    "figcaption{overflow-wrap:anywhere}figcaption span{color:var(--quiet)}figcaption b{font-weight:500}\n"
    ".two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));gap:0 40px}\n"
    ".two table:not(.taken){width:100%}\n"
    "@media(max-width:600px){main{padding:20px 14px 40px}table{font-size:.82rem}td,th{padding-right:10px}"
    "table:not(.taken) thead th{white-space:normal}.bars{min-width:40px}"
    ".taken td{width:2.3em;height:2em;font-size:.78rem}"
    ".worst{grid-template-columns:repeat(auto-fill,minmax(92px,1fr))}.cards{grid-template-columns:1fr 1fr}"
    ".cards b{font-size:1.3rem}}\n"
    "@media print{h2{break-after:avoid}figure,svg{break-inside:avoid}}\n";
/* clang-format on */

/* A swatch that is broken up as its curve is. */
static void put_dashes(FILE *file, int dash)
{
    double at = 0;
    fprintf(file, ".swatch.d%d{mask-image:repeating-linear-gradient(90deg", dash);
    for (int i = 0; i < DASH_PARTS; i++) {
        fprintf(file, ",%s %gpx", i % 2 ? "transparent" : "#000", at);
        at += pen_dashes[dash][i];
        fprintf(file, " %gpx", at);
    }
    fputs(")}\n", file);
}

/* Pages are known by it, those of earlier releases too. */
static const char start[] = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                            "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                            "<link rel=\"icon\" href=\"data:,\">\n<title>";

bool page_is(const unsigned char *head, size_t n)
{
    return n >= sizeof start - 1 && memcmp(head, start, sizeof start - 1) == 0;
}

void page_begin(FILE *file, const char *title, const char *about)
{
    fputs(start, file);
    put_escaped(file, title);
    fprintf(file, "</title>\n<style>\n%s", style);
    for (int i = 0; i < CURVES; i++)
        fprintf(file, "polyline.t%d{stroke:var(--c%d)}circle.t%d{fill:var(--c%d)}.swatch.t%d{background:var(--c%d)}\n",
                TINT_CURVES + i, i, TINT_CURVES + i, i, TINT_CURVES + i, i);
    for (int i = 1; i < DASHES; i++)
        put_dashes(file, i);
    fputs("</style>\n</head>\n<body>\n<main>\n<h1>", file);
    put_escaped(file, title);
    fputs("</h1>\n<p>", file);
    put_escaped(file, about);
    fputs("</p>\n", file);
}

void page_end(FILE *file)
{
    fputs("</main>\n</body>\n</html>\n", file);
}

void page_section(FILE *file, const char *title, const char *about)
{
    fputs("<section>\n<h2>", file);
    put_escaped(file, title);
    fputs("</h2>\n", file);
    if (!about)
        return;
    fputs("<p>", file);
    put_escaped(file, about);
    fputs("</p>\n", file);
}

void page_section_end(FILE *file)
{
    fputs("</section>\n", file);
}

void page_number(FILE *file, const char *format, double value)
{
    if (!isfinite(value)) {
        fputs("\xe2\x80\x93", file);
        return;
    }
    fprintf(file, "<data value=\"%.17g\">", value);
    fprintf(file, format, value);
    fputs("</data>", file);
}

void page_count(FILE *file, double value)
{
    char text[32];
    if (!(fabs(value) < 1e15)) { /* none, or more than is counted in digits */
        page_number(file, "%.3g", value);
        return;
    }
    count_text(text, sizeof text, (int64_t)llround(value));
    fprintf(file, "<data value=\"%.17g\">%s</data>", value, text);
}

void page_figure(FILE *file, const figure *f)
{
    fputs("<div class=\"curves\">\n", file);
    figure_put_svg(file, f);
    fputs("</div>\n", file);
}

void page_row(FILE *file, const char *name, const char *value)
{
    fputs("<tr><th>", file);
    put_escaped(file, name);
    fputs("</th><td class=\"any\">", file);
    put_escaped(file, value);
    fputs("</td></tr>\n", file);
}

/* What a log has of where it comes from. */
static const char *const origins[] = {"date", "host", "command"};
enum { ORIGINS = sizeof origins / sizeof *origins };

/* Among the versions, or at the top. */
static bool is_elsewhere(const char *name)
{
    for (int i = 0; i < ORIGINS; i++)
        if (strcmp(name, origins[i]) == 0)
            return true;
    return strcmp(name, "lockstep") == 0 || strcmp(name, "built_with") == 0;
}

void page_settings(FILE *file, const record *r)
{
    fputs("<table>\n", file);
    for (int i = 0; i < r->n_settings; i++) {
        const record_setting *s = &r->settings[i];
        if (is_elsewhere(s->name))
            continue;
        char name[64], *underscore;
        snprintf(name, sizeof name, "%s", s->name);
        utf8_clean(name); /* it may be cut within a character */
        while ((underscore = strchr(name, '_')) != NULL)
            *underscore = ' ';
        double value = record_number(r, s->name);
        if (isfinite(value) && strchr(s->value, '.')) {
            fputs("<tr><th>", file);
            put_escaped(file, name);
            fputs("</th><td>", file);
            page_number(file, "%g", value);
            fputs("</td></tr>\n", file);
        } else
            page_row(file, name, *s->value ? s->value : "\xe2\x80\x93");
    }
    fputs("</table>\n", file);
}

void page_epochs(FILE *file, const record *r)
{
    double most = 0;
    for (int i = 0; i < r->n_epochs; i++)
        most = fmax(most, r->epochs[i].img_per_s);
    const bool validates = record_validates(r);
    fprintf(file,
            "<div class=\"wide\"><table class=\"epochs\">\n<thead><tr><th class=\"n\">epoch</th><th class=\"n\">train "
            "loss</th><th class=\"n\">train acc</th>%s<th class=\"n\">test acc</th><th class=\"n\">seconds</th>"
            "<th class=\"n\">images/s</th><th class=\"bars\"></th></tr></thead>\n<tbody>\n",
            validates ? "<th class=\"n\">val acc</th>" : "");
    for (int i = 0; i < r->n_epochs; i++) {
        const record_epoch *e = &r->epochs[i];
        const double values[] = {e->train_loss, e->train_acc, e->val_acc, e->test_acc, e->sec, e->img_per_s};
        static const char *const formats[] = {"%.4f", "%.4f", "%.4f", "%.4f", "%.2f", NULL};
        fprintf(file, "<tr><td class=\"n\">%" PRId64 "</td>", e->epoch);
        for (int k = 0; k < 6; k++) {
            if (k == 2 && !validates)
                continue;
            fputs("<td class=\"n\">", file);
            if (formats[k])
                page_number(file, formats[k], values[k]);
            else
                page_count(file, values[k]);
            fputs("</td>", file);
        }
        fprintf(file, "<td class=\"bars\"><span class=\"bar\" style=\"width:%.1f%%\"></span></td></tr>\n",
                most > 0 && e->img_per_s > 0 ? 100 * (e->img_per_s / most) : 0);
    }
    fputs("</tbody></table></div>\n", file);
}

/* "the first 300", where a limit was set; some of them may have been held out. */
static void put_images(FILE *file, const record *r, const char *limit, int64_t images, const char *what)
{
    char count[32];
    count_text(count, sizeof count, images);
    const bool all = !(record_number(r, limit) > 0);
    fprintf(file, "%s %s%s image%s", what, all ? "" : "the first ", count, strcmp(count, "1") == 0 ? "" : "s");
    if (!all) {
        fputs(" alone (<span class=\"whole\">--", file);
        for (const char *at = limit; *at; at++)
            putc(*at == '_' ? '-' : *at, file);
        fputs("</span>)", file);
    }
}

void page_origin(FILE *file, const record *r)
{
    fputs("<p class=\"origin\">", file);
    char count[32], before[48];
    const int64_t images = (int64_t)record_number(r, "images");
    const int64_t held = record_number(r, "validate") > 0 ? (int64_t)record_number(r, "validate") : 0;
    count_text(count, sizeof count, images);
    snprintf(before, sizeof before, held ? "Trained on %s of" : "Trained on", count);
    put_images(file, r, "limit", images + held, before);
    count_text(count, sizeof count, held);
    if (held)
        fprintf(file,
                "; %s, drawn at random, held out for validation (<span class=\"whole\">--validate</span>); tested on",
                count);
    put_images(file, r, "limit_test", (int64_t)record_number(r, "test_images"), held ? "" : ", tested on");
    putc('.', file);
    for (int i = 0; i < ORIGINS; i++) { /* of logs that have them */
        const char *text = record_text(r, origins[i]);
        if (!*text)
            continue;
        fputs(i == 0 ? " Begun at <span class=\"whole\">" : i == 1 ? " on host <span>" : ": <code>", file);
        put_escaped(file, text);
        fputs(i == 2 ? "</code>" : "</span>", file);
    }
    fputs("</p>\n", file);
}

const char *page_model(const record *r)
{
    const char *name = record_text(r, "model");
    return strcmp(name, "lenet") == 0 ? "LeNet" : strcmp(name, "resnet18") == 0 ? "ResNet-18" : name;
}
