#include "data/fetch.h"
#include "base/environment.h"
#include "base/file.h"
#include "base/session.h"
#include "data/idx.h"
#include "data/mnist.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char ADDRESS[] = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/";
static const ls_pinned FILES[] = {
    {"train-images-idx3-ubyte", 47040016, "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"},
    {"train-labels-idx1-ubyte", 60008, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"},
    {"t10k-images-idx3-ubyte", 7840016, "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"},
    {"t10k-labels-idx1-ubyte", 10008, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"},
};

#if LOCKSTEP_HAVE_CURL && LOCKSTEP_HAVE_CRYPTO && LOCKSTEP_HAVE_ZLIB

#include <curl/curl.h>
#include <lockstep_data.h>

typedef struct fetching {
    ls_context *context;
    const char *url, *directory;
    void (*told)(const char *line, void *user);
    void *user;
} fetching;

/* ---- Is a file right? -------------------------------------------------------------------------------------------- */

/* A file that is already there may be wrong without the session failing, so it is looked at in a context of its own.
 * Sets *right; LS_OK also where it is wrong. */
static ls_status look_at_file(const fetching *at, const char *path, bool gzip, const ls_pinned *file, bool *right)
{
    ls_context aside;
    if (ls_context_init(&aside, &at->context->allocator) != LS_OK)
        return ls_raise(at->context, LS_OUT_OF_MEMORY, "%s: no memory to check it", path);
    ls_status status = ls_pinned_check(&aside, path, gzip, file);
    *right = status == LS_OK;
    bool wrong = status == LS_BAD_FILE || status == LS_IO;
    status = *right || wrong ? LS_OK : ls_raise(at->context, status, "%s", aside.message);
    ls_context_destroy(&aside);
    return status;
}

/* ---- Downloading ------------------------------------------------------------------------------------------------- */

typedef struct download {
    ls_replace *replace;
    int64_t left; /* bytes that may still come */
    bool too_long, failed;
} download;

static size_t take(char *bytes, size_t size, size_t count, void *user)
{
    download *into = user;
    count *= size;
    if ((int64_t)count > into->left) {
        into->too_long = true;
        return 0; /* stops the transfer */
    }
    into->left -= (int64_t)count;
    into->failed = ls_replace_write(into->replace, bytes, count) != LS_OK;
    return into->failed ? 0 : count;
}

/* curl wants this once in a process, before any thread uses it. */
static void begin_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static void set_options(CURL *curl, const char *url, download *into, char *error)
{
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, into);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 5L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 30L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 100L); /* below 100 bytes a second for 30 seconds is given up */
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 30L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "lockstep");
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
}

static ls_status transfer(ls_context *context, const char *url, download *into)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin_curl);
    CURL *curl = curl_easy_init();
    if (!curl)
        return ls_raise(context, LS_OUT_OF_MEMORY, "%s: no memory to download it", url);
    char error[CURL_ERROR_SIZE] = "";
    set_options(curl, url, into, error);
    CURLcode code = curl_easy_perform(curl);
    curl_easy_cleanup(curl);
    if (code == CURLE_OK)
        return LS_OK;
    if (into->failed) /* the disk, not the network */
        return ls_context_status(context);
    if (into->too_long)
        return ls_raise(context, LS_BAD_FILE, "%s: is longer than the data set's file; is the address right?", url);
    return ls_raise(context, LS_IO, "%s: cannot be downloaded: %s; try again, or give another address", url,
                    error[0] ? error : curl_easy_strerror(code));
}

/* gzip makes no content longer than this. */
static int64_t most_compressed(const ls_pinned *file)
{
    return file->bytes + file->bytes / 1000 + 4096;
}

static ls_status download_file(const fetching *at, const char *path, const char *url, const ls_pinned *file)
{
    download into = {ls_replace_begin(at->context, path), most_compressed(file), false, false};
    if (!into.replace)
        return ls_context_status(at->context);
    ls_status status = transfer(at->context, url, &into);
    if (status == LS_OK) {
        bool right = false;
        status = look_at_file(at, ls_replace_temporary(into.replace), true, file, &right);
        if (status == LS_OK && !right)
            status =
                ls_raise(at->context, LS_BAD_FILE,
                         "%s: what came is not the data set's file (its SHA-256 differs); try again, or give another "
                         "address",
                         url);
    }
    if (status == LS_OK)
        return ls_replace_end(into.replace);
    ls_replace_drop(into.replace);
    return status;
}

/* ---- All files --------------------------------------------------------------------------------------------------- */

static void tell(const fetching *at, const char *path, const char *what)
{
    char *line = at->told ? ls_format(at->context, "a message", "%s: %s", path, what) : NULL;
    if (line)
        at->told(line, at->user);
    ls_release(at->context, line);
}

/* Readers take `plain` before `path`, so a wrong one must not stay beside the right .gz unsaid. */
static ls_status fetch_file(const fetching *at, const char *plain, const char *path, const char *url,
                            const ls_pinned *file)
{
    char *found = ls_idx_find(at->context, plain);
    bool is_plain = found && strcmp(found, plain) == 0, right = false;
    ls_status status =
        found ? look_at_file(at, found, ls_idx_is_gzip(found), file, &right) : ls_context_status(at->context);
    if (status == LS_OK && right)
        tell(at, found, "already there, its SHA-256 is right");
    else if (status == LS_OK && is_plain)
        status = ls_raise(at->context, LS_BAD_FILE,
                          "%s: is there, but is not the data set's file (its SHA-256 differs); move it away", plain);
    else if (status == LS_OK) {
        status = download_file(at, path, url, file);
        if (status == LS_OK)
            tell(at, path,
                 found ? "was damaged; downloaded again, its SHA-256 is right" : "downloaded, its SHA-256 is right");
    }
    ls_release(at->context, found);
    return status;
}

ls_status ls_fetch_files(ls_context *context, const char *url, const char *directory, const ls_pinned *files, int n,
                         void (*told)(const char *line, void *user), void *user)
{
    fetching at = {context, url, directory, told, user};
    ls_status status = ls_make_directories(context, directory);
    const char *slash = url[0] && url[strlen(url) - 1] == '/' ? "" : "/";
    for (int i = 0; i < n && status == LS_OK; i++) {
        char *plain = ls_format(context, "a path", "%s/%s", directory, files[i].name);
        char *path = ls_format(context, "a path", "%s/%s.gz", directory, files[i].name);
        char *address = ls_format(context, "an address", "%s%s%s.gz", url, slash, files[i].name);
        status =
            plain && path && address ? fetch_file(&at, plain, path, address, &files[i]) : ls_context_status(context);
        ls_release(context, plain);
        ls_release(context, path);
        ls_release(context, address);
    }
    return status;
}

#else

ls_status ls_fetch_files(ls_context *context, const char *url, const char *directory, const ls_pinned *files, int n,
                         void (*told)(const char *line, void *user), void *user)
{
    (void)url, (void)directory, (void)files, (void)n, (void)told, (void)user;
    return ls_raise(context, LS_UNSUPPORTED,
                    "ls_data_fetch: this library was built without libcurl, libcrypto or zlib; install the package "
                    "dataset-fashion-mnist instead, or build again with all three");
}

#endif

ls_status ls_data_fetch(ls_session *session, const char *url, const char *directory,
                        void (*told)(const char *line, void *user), void *user)
{
    LS_OWN_ENVIRONMENT;
    if (!session)
        return LS_OUT_OF_MEMORY;
    ls_context *context = &session->context;
    ls_status status = ls_context_status(context);
    if (status != LS_OK)
        return status;
    char *cache = directory ? NULL : ls_mnist_cache(context, &ls_mnist_fashion);
    if (!directory && !cache)
        return ls_raise(context, LS_BAD_ARGUMENT,
                        "ls_data_fetch: no directory given, and neither XDG_CACHE_HOME nor HOME names one; name one");
    status = ls_fetch_files(context, url ? url : ADDRESS, directory ? directory : cache, FILES,
                            sizeof FILES / sizeof *FILES, told, user);
    ls_release(context, cache);
    return status;
}

ls_status ls_data_verify(ls_session *session, const char *directory)
{
    LS_OWN_ENVIRONMENT;
    if (!session)
        return LS_OUT_OF_MEMORY;
    ls_context *context = &session->context;
    ls_status status = ls_context_status(context);
    for (int i = 0; i < (int)(sizeof FILES / sizeof *FILES) && status == LS_OK; i++) {
        char *folder = ls_mnist_directory(context, &ls_mnist_fashion, i < 2 ? LS_TRAIN : LS_TEST, directory);
        char *plain = folder ? ls_format(context, "a path", "%s/%s", folder, FILES[i].name) : NULL;
        char *found = plain ? ls_idx_find(context, plain) : NULL;
        status = ls_context_status(context);
        if (status == LS_OK && !found)
            status = ls_raise(context, LS_IO, "ls_data_verify: %s: is not there, nor %s.gz", plain, FILES[i].name);
        if (status == LS_OK)
            status = ls_pinned_check(context, found, ls_idx_is_gzip(found), &FILES[i]);
        ls_release(context, found);
        ls_release(context, plain);
        ls_release(context, folder);
    }
    return status;
}
