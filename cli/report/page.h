/* The parts of a report's page: one HTML file without outside links, light or dark as the reader's system is. */
#pragma once

#include "report/figure.h"

void page_begin(FILE *file, const char *title, const char *about);
void page_end(FILE *file);
bool page_is(const unsigned char *head, size_t n); /* whether a file that begins so is such a page */

void page_section(FILE *file, const char *title, const char *about); /* about may be NULL */
void page_section_end(FILE *file);

/* A number as it reads, with all its digits for programs; a dash where there is none. */
void page_number(FILE *file, const char *format, double value);

void page_count(FILE *file, double value); /* a whole number, likewise */

void page_figure(FILE *file, const figure *f);
void page_row(FILE *file, const char *name, const char *value); /* of a table of names and values */
void page_origin(FILE *file, const record *r); /* where it comes from, and which images it was trained and tested on */
void page_settings(FILE *file, const record *r);
void page_epochs(FILE *file, const record *r);

const char *page_model(const record *r); /* "LeNet" */
