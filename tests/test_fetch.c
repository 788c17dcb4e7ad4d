/* Downloading from a small server of our own on this machine: what is good, what is there already, and everything that
 * can come instead. */
#include "files.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/fetch.h"

#if LOCKSTEP_HAVE_CURL && LOCKSTEP_HAVE_CRYPTO && LOCKSTEP_HAVE_ZLIB

#include <zlib.h>

/* ---- The server ---- */

/* Answers GET /HOW/NAME. HOW "good" sends NAME out of served[]; the others see serve_one. */
static unsigned char served[2][1024];
static size_t n_served[2];

/* The content of both files and their sums: seq 1 200 and seq 1 300. */
static const ls_pinned FILES[2] = {
    {"one", 692, "b7703f7bd998bf1bd1b143ad055c4bbc828d0855b5be7d662747a48ef14c437a"},
    {"two", 1092, "1255c3948d0740be6ee391abe73520b6528d3bedbe1a045f0ccbded5beb8835a"},
};

static void say(int to, const void *bytes, size_t count)
{
    if (send(to, bytes, count, MSG_NOSIGNAL) < 0) {
        return; /* who hangs up early does so on purpose */
    }
}

static void answer(int to, const char *status, const char *more, const void *body, size_t announced, size_t sent)
{
    char head[512];
    int n = snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: close\r\n%s\r\n", status,
                     announced, more);
    say(to, head, (size_t)n);
    say(to, body, sent);
}

static void endless(int to)
{
    static const unsigned char noise[65536] = {0x1f, 0x8b};
    static const char head[] = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
    say(to, head, sizeof head - 1);
    while (send(to, noise, sizeof noise, MSG_NOSIGNAL) > 0) {
    }
}

static void serve_one(int to)
{
    char request[1024], how[64] = "", name[64] = "";
    ssize_t got = recv(to, request, sizeof request - 1, 0);
    request[got > 0 ? got : 0] = 0;
    if (sscanf(request, "GET /%63[^/]/%63s", how, name) != 2) {
        return;
    }
    int i = strcmp(name, "two.gz") == 0;
    if (strcmp(how, "good") == 0 || (strcmp(how, "second-missing") == 0 && i == 0)) {
        answer(to, "200 OK", "", served[i], n_served[i], n_served[i]);
    } else if (strcmp(how, "moved") == 0) {
        answer(to, "302 Found", i ? "Location: /good/two.gz\r\n" : "Location: /good/one.gz\r\n", "", 0, 0);
    } else if (strcmp(how, "to-a-file") == 0) {
        answer(to, "302 Found", "Location: file:///etc/passwd\r\n", "", 0, 0);
    } else if (strcmp(how, "swapped") == 0) {
        answer(to, "200 OK", "", served[!i], n_served[!i], n_served[!i]);
    } else if (strcmp(how, "page") == 0) {
        answer(to, "200 OK", "", "<html>login</html>", 18, 18);
    } else if (strcmp(how, "cut") == 0) {
        answer(to, "200 OK", "", served[i], n_served[i], n_served[i] / 2);
    } else if (strcmp(how, "short") == 0) {
        answer(to, "200 OK", "", served[i], n_served[i] / 2, n_served[i] / 2);
    } else if (strcmp(how, "empty") == 0) {
        answer(to, "200 OK", "", "", 0, 0);
    } else if (strcmp(how, "endless") == 0) {
        endless(to);
    } else {
        answer(to, "404 Not Found", "", "<html>404</html>", 16, 16);
    }
}

static pid_t server;
static int port;

static void serve(int listener)
{
    for (;;) {
        int to = accept(listener, NULL, NULL);
        if (to < 0) {
            _exit(1);
        }
        serve_one(to);
        close(to);
    }
}

static void prepare(int i, int last)
{
    char text[2048];
    int n = 0;
    for (int k = 1; k <= last; k++) {
        n += snprintf(text + n, sizeof text - (size_t)n, "%d\n", k);
    }
    assert_int_equal(n, FILES[i].bytes);
    z_stream stream = {.next_in = (unsigned char *)text, .avail_in = (unsigned)n};
    unsigned char large[4096];
    stream.next_out = large;
    stream.avail_out = sizeof large;
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    n_served[i] = stream.total_out;
    assert_true(n_served[i] <= sizeof served[i]);
    memcpy(served[i], large, n_served[i]);
    deflateEnd(&stream);
}

static int start_server(void **state)
{
    (void)state;
    setenv("no_proxy", "*", 1);
    prepare(0, 200);
    prepare(1, 300);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 16) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0) {
        return -1;
    }
    port = ntohs(address.sin_port);
    server = fork();
    if (server == 0) {
        serve(listener);
    }
    close(listener);
    return server < 0 ? -1 : 0;
}

static int stop_server(void **state)
{
    (void)state;
    kill(server, SIGKILL);
    return waitpid(server, NULL, 0) == server ? 0 : -1;
}

/* ---- The tests ---- */

static char told[2048];

static void tell(const char *line, void *user)
{
    assert_ptr_equal(user, told);
    strcat(told, line);
    strcat(told, "\n");
}

static ls_status fetch(ls_context *context, const char *how, const char *folder)
{
    char url[100];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/%s", port, how);
    told[0] = 0;
    return ls_fetch_files(context, url, folder, FILES, 2, tell, told);
}

/* Fetching fails like this and leaves the folder as empty as it was. */
static void expect_fault(const char *how, ls_status status, const char *message_part)
{
    assert_int_equal(fetch(test_context(), how, test_folder), status);
    test_expect(status, message_part);
    assert_int_equal(test_files_in_folder(), 0);
    test_context_done();
}

static int lines_with(const char *part)
{
    int n = 0;
    for (const char *at = told; (at = strstr(at, part)) != NULL; at++) {
        n++;
    }
    return n;
}

static void fetched_and_kept(void **state)
{
    (void)state;
    ls_context *context = test_context();
    assert_int_equal(fetch(context, "good/", test_path("new/folder")), LS_OK);
    assert_int_equal(lines_with("downloaded, its SHA-256 is right"), 2);
    size_t n;
    unsigned char *file = test_read_file("new/folder/one.gz", &n);
    assert_int_equal(n, n_served[0]);
    assert_memory_equal(file, served[0], n);
    free(file);
    /* What is right is kept, also when the server has nothing. */
    assert_int_equal(fetch(context, "missing", test_path("new/folder")), LS_OK);
    assert_int_equal(lines_with("already there"), 2);
    /* What is wrong is replaced. */
    test_write_file("new/folder/two.gz", "<html>", 6);
    assert_int_equal(fetch(context, "moved", test_path("new/folder")), LS_OK);
    assert_int_equal(lines_with("already there"), 1);
    assert_int_equal(lines_with("two.gz: was damaged; downloaded again"), 1);
    /* A wrong file that readers would take first is not passed over. */
    test_write_file("new/folder/two", "x", 1);
    assert_int_equal(fetch(context, "good", test_path("new/folder")), LS_BAD_FILE);
    test_expect(LS_BAD_FILE, "move it away");
    test_context_done();
}

static void redirected(void **state)
{
    (void)state;
    ls_context *context = test_context();
    assert_int_equal(fetch(context, "moved", test_folder), LS_OK);
    assert_int_equal(test_files_in_folder(), 2);
    test_context_done();
}

static void what_comes_instead(void **state)
{
    (void)state;
    expect_fault("missing", LS_IO, "404");
    expect_fault("swapped", LS_BAD_FILE, "SHA-256 differs");
    expect_fault("page", LS_BAD_FILE, "SHA-256 differs");
    expect_fault("short", LS_BAD_FILE, "SHA-256 differs");
    expect_fault("empty", LS_BAD_FILE, "SHA-256 differs");
    expect_fault("cut", LS_IO, "cannot be downloaded");
    expect_fault("endless", LS_BAD_FILE, "is longer than");
    expect_fault("to-a-file", LS_IO, "cannot be downloaded");
}

static void the_first_stays_when_the_second_fails(void **state)
{
    (void)state;
    assert_int_equal(fetch(test_context(), "second-missing", test_folder), LS_IO);
    test_expect(LS_IO, "two.gz");
    assert_int_equal(test_files_in_folder(), 1);
    test_context_done();
}

static void wrong_addresses(void **state)
{
    (void)state;
    ls_context *context = test_context();
    static const char *const urls[] = {"http://127.0.0.1:1/", "file:///etc/", "nonsense://x", "", "http://"};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        assert_int_equal(ls_fetch_files(context, urls[i], test_folder, FILES, 2, NULL, NULL), LS_IO);
        test_expect(LS_IO, "cannot be downloaded");
    }
    test_write_file("file", "", 0);
    assert_int_equal(fetch(context, "good", test_path("file/folder")), LS_IO);
    test_expect(LS_IO, "the directory cannot be made");
    test_context_done();
}

static void every_allocation_fails(void **state)
{
    (void)state;
    for (int n = 1; n < 200; n++) {
        ls_context *context = test_context();
        test_allocations.fail_at = n;
        ls_status status = fetch(context, "good", test_folder);
        test_context_done();
        if (status == LS_OK) {
            assert_int_equal(test_files_in_folder(), 2);
            return;
        }
        assert_int_equal(status, LS_OUT_OF_MEMORY);
    }
    fail();
}

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, test_folder_make, test_folder_remove)
    const struct CMUnitTest tests[] = {
        test(fetched_and_kept),   test(redirected),
        test(what_comes_instead), test(the_first_stays_when_the_second_fails),
        test(wrong_addresses),    test(every_allocation_fails),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

#else

static void without_a_library(void **state)
{
    (void)state;
    assert_int_equal(ls_fetch_files(test_context(), "http://127.0.0.1/", "/nowhere", NULL, 0, NULL, NULL),
                     LS_UNSUPPORTED);
    test_expect(LS_UNSUPPORTED, "install the package dataset-fashion-mnist");
    test_context_done();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(without_a_library)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
