#include "text/say.h"

#include "text/taken.h"
#include "text/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <lockstep_cluster.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
    bool holding, mute;
    char held[4096];
    char name[128]; /* of a rank above 0 */
} voice;

static void (*room_maker)(bool last, void *user);
static void *room_user;

void say_after(void (*make_room)(bool last, void *user), void *user)
{
    room_maker = make_room;
    room_user = user;
}

/* Messages may quote file names and arguments: an end of line in one of them must not make two lines of it. */
static void print_line(bool failure, const char *what, const char *format, va_list arguments)
{
    char why[2048];
    char line[4096];
    vsnprintf(why, sizeof why, format, arguments);
    snprintf(line, sizeof line - 1, "%s%s%s", what, *what ? ": " : "", why);
    utf8_clean(line);
    if (failure && voice.holding) {
        if (!*voice.held)
            memcpy(voice.held, line, sizeof voice.held);
    } else if (!voice.mute && (failure || !*voice.name)) {
        if (room_maker)
            room_maker(failure, room_user);
        if (is_taken(STDERR_FILENO))
            fprintf(stderr, "%s%s%s\n", failure ? "lockstep: " : "", voice.name, line);
    }
}

void say_hold(void)
{
    voice.holding = true;
}

const char *say_held(void)
{
    return *voice.held ? voice.held : "failed";
}

void say_at_once(bool speak)
{
    voice.holding = false;
    voice.mute = !speak;
}

void say_as(int rank, const char *host)
{
    if (rank > 0)
        snprintf(voice.name, sizeof voice.name, "rank %d on host %s: ", rank, host);
}

void say_together(void)
{
    voice.mute = voice.mute || *voice.name;
}

int failed(const char *what, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_line(true, what, format, arguments);
    va_end(arguments);
    return STATUS_FAILED;
}

int wrong_usage(const char *what, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_line(true, what, format, arguments);
    va_end(arguments);
    return STATUS_USAGE;
}

void note(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_line(false, "", format, arguments);
    va_end(arguments);
}

/* What the library's words for its callers in C are in the program. */
static const char *const in_program[][2] = {{"ls_loader.directory", "--data"},
                                            {"ls_loader.drop_last", "--last-batch drop"},
                                            {"ls_features", "'lockstep --version'"},
                                            {"ls_load_options.strip", "--strip-prefix"}};

static const char *program_word(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof in_program / sizeof *in_program; i++)
        if (strlen(in_program[i][0]) == length && strncmp(in_program[i][0], name, length) == 0)
            return in_program[i][1];
    return NULL;
}

/* Copies the message without the functions' names in front of what they found. */
static const char *in_plain_words(const char *message, char *text, size_t size)
{
    size_t n = 0;
    for (size_t length; *message && n + 1 < size; message += length) {
        bool name = strncmp(message, "ls_", 3) == 0 && (n == 0 || text[n - 1] == ' ');
        length = name ? strspn(message, "abcdefghijklmnopqrstuvwxyz0123456789_.") : 1;
        const char *word = name ? program_word(message, length) : NULL;
        if (name && strncmp(message + length, ": ", 2) == 0)
            length += 2;
        else
            n += (size_t)snprintf(text + n, size - n, "%.*s", word ? (int)strlen(word) : (int)length,
                                  word ? word : message);
    }
    text[n < size ? n : size - 1] = '\0';
    return text;
}

const char *session_words(const ls_session *session, char *text, size_t size)
{
    const char *message = session ? ls_message(session) : "no memory";
    return in_plain_words(*message ? message : ls_status_name(ls_status_of(session)), text, size);
}

int session_failed(const ls_session *session, const char *what)
{
    char text[MOST_WORDS];
    if (ls_failed_together(session))
        say_together();
    return failed(what, "%s", session_words(session, text, sizeof text));
}

int finish_output(void)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return STATUS_DONE;
    return failed("standard output", "%s", errno ? strerror(errno) : "cannot be written");
}

int check_output(void)
{
    int flags = fcntl(STDOUT_FILENO, F_GETFL);
    if (flags == -1 || (flags & O_ACCMODE) == O_RDONLY)
        return failed("standard output", "is closed, and the results would be lost");
    return 0;
}
