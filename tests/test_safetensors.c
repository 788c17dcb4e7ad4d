/* Weights files: what we write, what Python wrote, every fault that happened to someone; replacing as a whole; .npy
 * files and fingerprints. */
#include "files.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "io/fingerprint.h"
#include "io/npy.h"
#include "io/safetensors.h"

static const float VALUES[6] = {1, -2, 3.5f, 0, 1e-40f, 6e30f};
static const int64_t SHAPE[2] = {2, 3};

/* ---- Without any other library ---- */

static void an_npy_file(void **state)
{
    (void)state;
    ls_context *context = test_context();
    assert_int_equal(ls_npy_save(context, test_path("x.npy"), VALUES, 2, 3), LS_OK);
    size_t n;
    unsigned char *file = test_read_file("x.npy", &n);
    assert_int_equal(n, 128 + 24);
    assert_memory_equal(file, "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } ",
                        70);
    assert_int_equal(file[127], '\n');
    assert_memory_equal(file + 128, VALUES, 24);
    free(file);
    assert_int_equal(test_files_in_folder(), 1);
    assert_int_equal(ls_npy_save(context, test_path("x.npy"), VALUES, INT64_MAX, 3), LS_BAD_ARGUMENT);
    test_expect(LS_BAD_ARGUMENT, "x.npy: cannot be written: 9223372036854775807 x 3 numbers are out of range");
    test_context_done();
}

/* In a process that is not the administrator and may write `most` bytes into a file. */
static void save_as_somebody(const char *path, rlim_t most, const char *message_part)
{
    pid_t child = fork();
    if (child == 0) {
        ls_context context;
        struct rlimit limit = {most, most};
        signal(SIGXFSZ, SIG_IGN);
        if ((geteuid() == 0 && seteuid(65534) != 0) || setrlimit(RLIMIT_FSIZE, &limit) != 0 ||
            ls_context_init(&context, NULL) != LS_OK) {
            _exit(2);
        }
        ls_status status = ls_npy_save(&context, path, VALUES, 2, 3);
        _exit(status == LS_IO && strstr(context.message, message_part) && strstr(context.message, path) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void a_failed_write_leaves_the_old_file(void **state)
{
    (void)state;
    test_write_file("x.npy", "old", 3);
    assert_int_equal(chmod(test_folder, 0777), 0);
    save_as_somebody(test_path("x.npy"), 130, "File too large"); /* short write, then an error: as on a full disk */
    assert_int_equal(chmod(test_folder, 0555), 0);
    save_as_somebody(test_path("x.npy"), RLIM_INFINITY, "Permission denied");
    save_as_somebody(test_path("none/x.npy"), RLIM_INFINITY, "No such file or directory");
    assert_int_equal(chmod(test_folder, 0755), 0);
    size_t n;
    unsigned char *file = test_read_file("x.npy", &n);
    assert_string_equal((char *)file, "old");
    free(file);
    assert_int_equal(test_files_in_folder(), 1);
    assert_int_equal(mkdir(test_path("folder"), 0700), 0);
    assert_int_equal(ls_npy_save(test_context(), test_path("folder"), VALUES, 2, 3), LS_BAD_FILE);
    test_expect(LS_BAD_FILE, "folder: this is a directory; name a regular file");
    test_context_done();
}

static void dropped_files_and_folders(void **state)
{
    (void)state;
    ls_context *context = test_context();
    ls_replace *replace = ls_replace_begin(context, test_path("x"));
    assert_int_equal(ls_replace_write(replace, "abc", 3), LS_OK);
    assert_int_equal(access(ls_replace_temporary(replace), F_OK), 0);
    ls_replace_drop(replace);
    assert_int_equal(test_files_in_folder(), 0);
    assert_int_equal(ls_make_directories(context, test_path("a//b/c/")), LS_OK);
    assert_int_equal(ls_make_directories(context, test_path("a/b/c")), LS_OK);
    assert_int_equal(access(test_path("a/b/c"), F_OK), 0);
    test_write_file("file", "", 0);
    assert_int_equal(ls_make_directories(context, test_path("file/d")), LS_IO);
    test_expect(LS_IO, "file: the directory cannot be made: what is there is no directory");
    context->status = LS_OK;
    assert_int_equal(symlink("nowhere", test_path("link")), 0);
    assert_int_equal(ls_make_directories(context, test_path("link/d")), LS_IO);
    test_expect(LS_IO, "link: the directory cannot be made: what is there is a link that leads nowhere");
    test_context_done();
}

static void numbers_of_shapes(void **state)
{
    (void)state;
    int64_t wraps[] = {1ll << 32, 1ll << 32}, large[] = {INT64_MAX / 2}, negative[] = {-1};
    assert_int_equal(ls_named_array_numbers(&(ls_named_array){"x", 2, SHAPE, VALUES}), 6);
    assert_int_equal(ls_named_array_numbers(&(ls_named_array){"x", 0, NULL, VALUES}), 1);
    assert_int_equal(ls_named_array_numbers(&(ls_named_array){"x", 2, wraps, VALUES}), -1);
    assert_int_equal(ls_named_array_numbers(&(ls_named_array){"x", 1, large, VALUES}), -1);
    assert_int_equal(ls_named_array_numbers(&(ls_named_array){"x", 1, negative, VALUES}), -1);
    assert_int_equal(ls_named_array_numbers(&(ls_named_array){"x", 9, SHAPE, VALUES}), -1);
}

#if LOCKSTEP_HAVE_JANSSON

/* ---- What is written ---- */

static const char *const METADATA[][2] = {{"model", "lenet"}, {"note", "\"quoted\"\n"}};

static ls_status save(ls_context *context, const char *name)
{
    int64_t three[] = {3}, none[] = {0};
    ls_named_array arrays[] = {{"W1", 2, SHAPE, VALUES},
                               {"a.b", 1, three, VALUES + 3},
                               {"empty", 1, none, VALUES},
                               {"scalar", 0, NULL, VALUES + 2}};
    return ls_safetensors_save(context, test_path(name), arrays, 4, METADATA, 2);
}

static void written_and_read(void **state)
{
    (void)state;
    ls_context *context = test_context();
    assert_int_equal(save(context, "w"), LS_OK);
    assert_int_equal(test_files_in_folder(), 1);
    size_t n;
    unsigned char *bytes = test_read_file("w", &n);
    assert_int_equal(bytes[0] % 8, 0); /* the values begin aligned */
    free(bytes);
    ls_safetensors *file = ls_safetensors_open(context, test_path("w"));
    assert_non_null(file);
    assert_int_equal(ls_safetensors_count(file), 4);
    assert_string_equal(ls_safetensors_at(file, 0)->name, "W1");
    assert_string_equal(ls_safetensors_at(file, 3)->name, "scalar");
    assert_null(ls_safetensors_at(file, 4));
    assert_null(ls_safetensors_find(file, "W2"));
    const ls_saved *saved = ls_safetensors_find(file, "W1");
    assert_string_equal(saved->dtype, "F32");
    assert_int_equal(saved->rank, 2);
    assert_int_equal(saved->shape[1], 3);
    float values[6];
    assert_int_equal(ls_safetensors_read(file, saved, values), LS_OK);
    assert_memory_equal(values, VALUES, sizeof values);
    assert_int_equal(ls_safetensors_read(file, ls_safetensors_find(file, "scalar"), values), LS_OK);
    assert_true(values[0] == 3.5f);
    assert_int_equal(ls_safetensors_find(file, "empty")->numbers, 0);
    assert_string_equal(ls_safetensors_metadata(file, "model"), "lenet");
    assert_string_equal(ls_safetensors_metadata(file, "note"), METADATA[1][1]);
    assert_null(ls_safetensors_metadata(file, "nothing"));
    ls_safetensors_close(file);
    test_context_done();
}

static void a_file_of_no_arrays(void **state)
{
    (void)state;
    ls_context *context = test_context();
    assert_int_equal(ls_safetensors_save(context, test_path("w"), NULL, 0, METADATA, 2), LS_OK);
    ls_safetensors *file = ls_safetensors_open(context, test_path("w"));
    assert_non_null(file);
    assert_int_equal(ls_safetensors_count(file), 0);
    assert_string_equal(ls_safetensors_metadata(file, "model"), "lenet");
    ls_safetensors_close(file);
    test_context_done();
}

static void refused_names(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"", "w: cannot be written: the array '' is empty"},
        {"a/b", "w: cannot be written: the array 'a/b' has path separators"},
        {"..", "w: cannot be written: the array '..' has path separators"},
        {"a\\b", "w: cannot be written: the array 'a\\b' has path separators"},
        {"a\nb", "w: cannot be written: the array 'a?b' has control characters"},
        {"__metadata__", "w: cannot be written: the array '__metadata__' is reserved"},
        {"W1", "w: cannot be written: the array 'W1' is named twice"},
        {"\xff\xfe", "has a name that is not UTF-8, or there is no memory for it"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ls_named_array arrays[] = {{"W1", 2, SHAPE, VALUES}, {names[i][0], 2, SHAPE, VALUES}};
        ls_context *context = test_context();
        assert_int_equal(ls_safetensors_save(context, test_path("w"), arrays, 2, NULL, 0), LS_BAD_ARGUMENT);
        test_expect(LS_BAD_ARGUMENT, names[i][1]);
        test_context_done();
    }
    assert_int_equal(test_files_in_folder(), 0);
}

/* A process that saves all the time is killed at some moment; the file is whole, the old one or the new one. */
static void killed_while_saving(void **state)
{
    (void)state;
    enum { N = 50000 };
    float *values = calloc(N, sizeof *values);
    int64_t shape[] = {N};
    for (int round = 0; round < 10; round++) {
        int started[2];
        assert_int_equal(pipe(started), 0);
        pid_t child = fork();
        if (child == 0) {
            ls_context context;
            ls_context_init(&context, NULL);
            for (int k = 0;; k++) {
                for (int i = 0; i < N; i++) {
                    values[i] = (float)k;
                }
                ls_named_array array = {"x", 1, shape, values};
                if (ls_safetensors_save(&context, test_path("w"), &array, 1, NULL, 0) != LS_OK ||
                    write(started[1], "", 1) != 1) {
                    _exit(1);
                }
            }
        }
        char byte;
        assert_int_equal(read(started[0], &byte, 1), 1);
        usleep(1000 + 700 * (unsigned)round);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        close(started[0]);
        close(started[1]);
        ls_context *context = test_context();
        ls_safetensors *file = ls_safetensors_open(context, test_path("w"));
        assert_non_null(file);
        assert_int_equal(ls_safetensors_read(file, ls_safetensors_at(file, 0), values), LS_OK);
        for (int i = 1; i < N; i++) {
            assert_true(values[i] == values[0]);
        }
        ls_safetensors_close(file);
        test_context_done();
    }
    free(values);
}

/* ---- What others wrote ---- */

/* Writes a file with this header and `n` bytes of data; `length` -1 means the header's own. */
static void write_raw(const char *header, long long length, int n)
{
    size_t own = strlen(header);
    unsigned char *file = calloc(8 + own + (size_t)n, 1);
    uint64_t written = length == -1 ? own : (uint64_t)length;
    for (int i = 0; i < 8; i++) {
        file[i] = (unsigned char)(written >> 8 * i);
    }
    memcpy(file + 8, header, own);
    test_write_file("w", file, 8 + own + (size_t)n);
    free(file);
}

/* Reading `w` fails, and asks for little memory. */
static void expect_fault(const char *message_part)
{
    assert_null(ls_safetensors_open(test_context(), test_path("w")));
    test_expect(LS_BAD_FILE, message_part);
    assert_true(test_allocations.largest <= 1 << 20);
    test_context_done();
}

static void faulty(const char *header, int n, const char *message_part)
{
    write_raw(header, -1, n);
    expect_fault(message_part);
}

/* Byte for byte what Python's safetensors 0.8 writes for {"b": [1, 2], "a": 5, "c.num_batches_tracked": 7}: the widest
 * type first, then by name, the header padded with spaces. */
static void written_by_python(void **state)
{
    (void)state;
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},\"c.num_batches_tracked\":{\"dtype\":\"I64\",\"shape\":[],"
        "\"data_offsets\":[0,8]},\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[8,12]},\"b\":"
        "{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[12,20]}}    ";
    assert_int_equal(sizeof header - 1, 216);
    unsigned char file[8 + sizeof header - 1 + 20] = {sizeof header - 1, 0};
    memcpy(file + 8, header, sizeof header - 1);
    float values[] = {5, 1, 2};
    memcpy(file + 8 + sizeof header - 1, (unsigned char[]){7, 0, 0, 0, 0, 0, 0, 0}, 8);
    memcpy(file + 8 + sizeof header - 1 + 8, values, 12);
    test_write_file("w", file, sizeof file);
    ls_context *context = test_context();
    ls_safetensors *open = ls_safetensors_open(context, test_path("w"));
    assert_non_null(open);
    float read[2];
    assert_int_equal(ls_safetensors_read(open, ls_safetensors_find(open, "b"), read), LS_OK);
    assert_true(read[0] == 1 && read[1] == 2);
    assert_string_equal(ls_safetensors_metadata(open, "format"), "pt");
    const ls_saved *counter = ls_safetensors_find(open, "c.num_batches_tracked");
    assert_true(ls_saved_ignored(counter->name));
    assert_false(ls_saved_ignored("num_batches_tracked"));
    assert_int_equal(ls_safetensors_read(open, counter, read), LS_BAD_FILE);
    test_expect(LS_BAD_FILE,
                "w: the array 'c.num_batches_tracked' is I64; F32, F16, BF16 and F64 are read, convert it");
    ls_safetensors_close(open);
    test_context_done();
}

static void other_types(void **state)
{
    (void)state;
    static const char *const types[][2] = {{"I64", "8"}, {"C64", "8"}, {"I16", "2"}, {"U8", "1"}, {"BOOL", "1"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char header[200], expected[100];
        snprintf(header, sizeof header, "{\"x\":{\"dtype\":\"%s\",\"shape\":[1],\"data_offsets\":[0,%s]}}", types[i][0],
                 types[i][1]);
        snprintf(expected, sizeof expected, "w: the array 'x' is %s; F32, F16, BF16 and F64 are read, convert it",
                 types[i][0]);
        write_raw(header, -1, atoi(types[i][1]));
        ls_context *context = test_context();
        ls_safetensors *file = ls_safetensors_open(context, test_path("w"));
        float value;
        assert_int_equal(ls_safetensors_read(file, ls_safetensors_at(file, 0), &value), LS_BAD_FILE);
        test_expect(LS_BAD_FILE, expected);
        ls_safetensors_close(file);
        test_context_done();
    }
}

#define ARRAY(name, shape, from, to)                                                                                   \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"

static void faulty_lengths(void **state)
{
    (void)state;
    static const char good[] = "{" ARRAY("x", "[1]", "0", "4") "}";
    test_write_file("w", "", 0);
    expect_fault("w: the file is empty");
    test_write_file("w", "1234567", 7);
    expect_fault("w: 7 bytes are too few for a safetensors file");
    write_raw(good, 0, 4);
    expect_fault("w: the header has length 0; this is no safetensors file");
    write_raw(good, 1000, 4);
    expect_fault("w: the header of 1000 bytes runs past the end of the file; it is cut off or no safetensors file");
    write_raw(good, (long long)strlen(good) + 5, 4);
    expect_fault("w: the header of 59 bytes runs past the end of the file; it is cut off or no safetensors file");
    write_raw(good, INT64_MAX, 4);
    expect_fault("w: the header of 9223372036854775807 bytes runs past the end of the file; it is cut off or no "
                 "safetensors file");
    write_raw(good, INT64_MIN, 4); /* 2^63 */
    expect_fault("w: the header of 9223372036854775808 bytes runs past the end of the file; it is cut off or no "
                 "safetensors file");
    write_raw(good, -2, 4); /* 2^64 - 2 */
    expect_fault("w: the header of 18446744073709551614 bytes runs past the end of the file; it is cut off or no "
                 "safetensors file");
    write_raw(good, (long long)strlen(good) - 1, 4);
    expect_fault("the header is damaged");
    test_write_file("w", "", 0);
    assert_int_equal(truncate(test_path("w"), 300 << 20), 0); /* a sparse file */
    FILE *file = fopen(test_path("w"), "r+b");
    assert_int_equal(fwrite("\0\0\0\x10\0\0\0\0", 1, 8, file), 8);
    fclose(file);
    expect_fault("w: the header of 268435456 bytes is longer than the format's 100000000");
}

static void expect_kind(const void *begin, size_t count, const char *message_part)
{
    unsigned char bytes[200] = {0};
    memcpy(bytes, begin, count);
    test_write_file("w", bytes, sizeof bytes);
    expect_fault(message_part);
}
#define expect_kind_of(begin, message_part) expect_kind(begin, sizeof(begin) - 1, message_part)

/* What weights are often in besides is called by its name, with what to do. */
static void files_of_other_kinds(void **state)
{
    (void)state;
    static const char zip[] = "PK\3\4\0\0\x8\x8\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    char bytes[64];
    memcpy(bytes, zip, 26);
    memcpy(bytes + 26, "\x10\0\0\0lenet_8/data.pklFB", 22);
    expect_kind(bytes, 48,
                "w: no safetensors file but a zip archive of torch.save; in Python: "
                "safetensors.torch.save_file(torch.load(file, map_location=\"cpu\"), new_file)");
    memcpy(bytes + 26, "\x6\0\0\0W1.npy/data", 16);
    expect_kind(bytes, 42,
                "w: no safetensors file but a zip archive of NumPy's savez (.npz); in Python: "
                "safetensors.numpy.save_file(dict(numpy.load(file)), new_file)");
    memcpy(bytes + 26, "\xb\0\0\0config.json", 15);
    expect_kind(bytes, 41, "w: no safetensors file but a zip archive");
    test_write_file("w", zip, 20);
    expect_fault("w: no safetensors file but a zip archive");
    expect_kind_of("\x80\2\x8a\nl\xfc\x9c",
                   "but a pickle of Python, such as torch.save wrote before PyTorch 1.6; in Python: ");
    expect_kind_of("\x80\4\x95\x20\0\0\0\0\0\0\0}",
                   "w: no safetensors file but a pickle of Python, such as torch.save wrote before PyTorch 1.6; in "
                   "Python: safetensors.torch.save_file(torch.load(file, map_location=\"cpu\"), new_file)");
    expect_kind_of("\x89HDF\r\n\x1a\n\0", "w: no safetensors file but an HDF5 file; in Python h5py reads its arrays, "
                                          "and safetensors.numpy.save_file writes them");
    expect_kind_of("\x93NUMPY\1\0v\0{", "w: no safetensors file but an array of NumPy (.npy); one array has no name, "
                                        "safetensors.numpy.save_file in Python gives it one");
    expect_kind_of(
        "<!DOCTYPE html>\n<html>",
        "w: no safetensors file but a web page; the address gave it in the file's place, fetch the file itself");
    expect_kind_of(
        "<?xml version=\"1.0\"?>",
        "w: no safetensors file but a web page; the address gave it in the file's place, fetch the file itself");
    expect_kind_of("\x1f\x8b\x8\0\0\0\0\0\0\3", "w: no safetensors file but gzip data; unpack it with gunzip");
    expect_kind_of(
        "version https://git-lfs.github.com/spec/v1\n",
        "w: no safetensors file but a pointer of Git LFS in the file's place; fetch the file itself with git lfs pull");
    static const char good[] = "{" ARRAY("x", "[1]", "0", "4") "}";
    write_raw(good, '<', 4); /* a header that is cut off is no web page, whatever its length looks like */
    expect_fault("w: the header of 60 bytes runs past the end of the file; it is cut off or no safetensors file");
}

static void faulty_json(void **state)
{
    (void)state;
    faulty("[]", 0, "w: the header is not a JSON object; this is no safetensors file");
    faulty("<html>", 0, "w: the header is not a JSON object; this is no safetensors file");
    faulty("{", 0, "the header is damaged");
    faulty("{]", 0, "the header is damaged");
    faulty("{}x", 0, "the header is damaged");
    faulty("{\"a\\u0000b\":1}", 0, "the header is damaged");
    faulty("{\"\xff\":1}", 0, "the header is damaged");
    faulty("{" ARRAY("x", "[1]", "0", "4") "," ARRAY("x", "[1]", "4", "8") "}", 8, "duplicate");
    faulty("{" ARRAY("x", "[99999999999999999999]", "0", "4") "}", 4, "the header is damaged");
    char deep[200001] = "{\"x\":";
    memset(deep + 5, '[', sizeof deep - 6);
    faulty(deep, 0, "maximum parsing depth");
    static char many[1 << 20] = "{\"x\":[";
    memset(many + 6, ',', sizeof many - 7);
    faulty(many, 0, "w: the header has more than 524288 values; no model has so many");
}

static void faulty_entries(void **state)
{
    (void)state;
    faulty("{\"x\":1}", 0, "w: the array 'x' has no dtype");
    faulty("{\"x\":{}}", 0, "w: the array 'x' has no dtype");
    faulty("{\"x\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
           "w: the array 'x' has an unknown dtype");
    faulty("{\"x\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "w: the array 'x' has no shape");
    faulty("{\"x\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "w: the array 'x' has no pair of data_offsets");
    faulty("{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 8,
           "w: the array 'x' has no pair of data_offsets");
    faulty("{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":1}}", 4,
           "w: the array 'x' has fields besides dtype, shape and data_offsets");
    faulty("{" ARRAY("x", "[-1]", "0", "4") "}", 4, "w: the array 'x' has a shape that is not made of whole numbers");
    faulty("{" ARRAY("x", "[1.0]", "0", "4") "}", 4, "w: the array 'x' has a shape that is not made of whole numbers");
    faulty("{" ARRAY("x", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 4, "w: the array 'x' has more than 8 dimensions");
    faulty("{" ARRAY("x", "[4294967296,4294967296]", "0", "0") "}", 0,
           "w: the array 'x' has a shape whose product is out of range");
    faulty("{" ARRAY("x", "[4294967296,4294967297]", "0", "4") "}", 4,
           "w: the array 'x' has a shape whose product is out of range");
    faulty("{" ARRAY("x", "[4611686018427387905]", "0", "4") "}", 4,
           "w: the array 'x' has a shape whose product is out of range");
    faulty("{" ARRAY("x", "[2]", "0", "4") "}", 4, "w: the array 'x' has data_offsets that do not fit its shape");
    faulty("{" ARRAY("a/b", "[1]", "0", "4") "}", 4, "w: the array 'a/b' has path separators");
    faulty("{" ARRAY("../x", "[1]", "0", "4") "}", 4, "w: the array '../x' has path separators");
    faulty("{" ARRAY("a\\\\b", "[1]", "0", "4") "}", 4, "w: the array 'a\\b' has path separators");
    faulty("{" ARRAY("a\\u001b[2J", "[1]", "0", "4") "}", 4, "w: the array 'a?[2J' has control characters");
    faulty("{" ARRAY("", "[1]", "0", "4") "}", 4, "w: the array '' is empty");
    faulty("{\"__metadata__\":[]}", 0, "w: __metadata__ is not an object");
    faulty("{\"__metadata__\":{\"a\":1}}", 0, "w: __metadata__ holds something else than strings");
}

static void faulty_places(void **state)
{
    (void)state;
    faulty("{" ARRAY("x", "[1]", "0", "4") "}", 3,
           "w: the array 'x' runs past the end of the file; the file is cut off or its header damaged");
    faulty("{" ARRAY("x", "[1]", "0", "4") "}", 5, "w: 1 bytes after the last array belong to none");
    faulty("{" ARRAY("x", "[1]", "-4", "0") "}", 4,
           "w: the array 'x' has data_offsets that are negative or in the wrong order");
    faulty("{" ARRAY("x", "[1]", "4", "0") "}", 4,
           "w: the array 'x' has data_offsets that are negative or in the wrong order");
    faulty("{" ARRAY("x", "[1]", "9223372036854775800", "9223372036854775804") "}", 4,
           "w: the array 'x' runs past the end of the file; the file is cut off or its header damaged");
    faulty("{" ARRAY("x", "[1]", "0", "4") "," ARRAY("y", "[1]", "0", "4") "}", 4, "w: the array 'y' overlaps another");
    faulty("{" ARRAY("x", "[2]", "0", "8") "," ARRAY("y", "[1]", "4", "8") "}", 8, "w: the array 'y' overlaps another");
    faulty("{" ARRAY("x", "[1]", "0", "4") "," ARRAY("y", "[1]", "8", "12") "}", 12,
           "w: the array 'y' leaves a hole before it");
    faulty("{" ARRAY("x", "[1]", "4", "8") "}", 8, "w: the array 'x' leaves a hole before it");
    faulty("{}", 4, "w: 4 bytes after the last array belong to none");
}

static void nan_and_infinity(void **state)
{
    (void)state;
    static const struct {
        float value;
        const char *message_part;
    } cases[] = {{NAN, "w: the array 'x' holds NaN at number 2"},
                 {-INFINITY, "w: the array 'x' holds infinity at number 2"}};
    for (int i = 0; i < 2; i++) {
        float values[3] = {1, 2, cases[i].value}, read[3];
        int64_t shape[] = {3};
        ls_named_array array = {"x", 1, shape, values};
        ls_context *context = test_context();
        assert_int_equal(ls_safetensors_save(context, test_path("w"), &array, 1, NULL, 0), LS_OK);
        ls_safetensors *file = ls_safetensors_open(context, test_path("w"));
        assert_int_equal(ls_safetensors_read(file, ls_safetensors_at(file, 0), read), LS_BAD_FILE);
        test_expect(LS_BAD_FILE, cases[i].message_part);
        ls_safetensors_close(file);
        test_context_done();
    }
}

static void what_is_no_file(void **state)
{
    (void)state;
    assert_null(ls_safetensors_open(test_context(), test_path("w")));
    test_expect(LS_IO, "w: cannot be opened for reading: No such file or directory");
    assert_int_equal(mkfifo(test_path("w"), 0600), 0);
    expect_fault("w: this is a FIFO; name a regular file");
    assert_null(ls_safetensors_open(test_context(), test_folder));
    test_expect(LS_BAD_FILE, "this is a directory; name a regular file");
}

/* Whatever is cut off or flipped: an error or a file, never a crash. */
static void cut_and_flipped(void **state)
{
    (void)state;
    ls_context *context = test_context();
    assert_int_equal(save(context, "w"), LS_OK);
    size_t n;
    unsigned char *bytes = test_read_file("w", &n);
    int fd = open(test_path("w"), O_RDWR);
    for (size_t bit = 0; bit < n * 8; bit++) {
        unsigned char flipped = bytes[bit / 8] ^ (unsigned char)(1 << bit % 8);
        assert_int_equal(pwrite(fd, &flipped, 1, (off_t)(bit / 8)), 1);
        ls_safetensors *file = ls_safetensors_open(context, test_path("w"));
        if (!file) {
            test_expect(LS_BAD_FILE, "/w: ");
        }
        ls_safetensors_close(file);
        assert_int_equal(pwrite(fd, bytes + bit / 8, 1, (off_t)(bit / 8)), 1);
    }
    for (size_t left = n; left-- > 0;) {
        assert_int_equal(ftruncate(fd, (off_t)left), 0);
        assert_null(ls_safetensors_open(context, test_path("w")));
        test_expect(LS_BAD_FILE, "/w: ");
    }
    close(fd);
    free(bytes);
    test_context_done();
}

static void every_allocation_fails(void **state)
{
    (void)state;
    assert_int_equal(save(test_context(), "w"), LS_OK);
    int done = 0;
    for (int n = 1; n < 100 && done < 2; n++) {
        ls_context *context = test_context();
        test_allocations.fail_at = n;
        ls_safetensors *file = ls_safetensors_open(context, test_path("w"));
        ls_status opened = ls_context_status(context);
        assert_true((file != NULL) == (opened == LS_OK));
        ls_safetensors_close(file);
        test_context_done();
        context = test_context();
        test_allocations.fail_at = n;
        ls_status saved = save(context, "again");
        test_context_done();
        assert_true(opened == LS_OK || opened == LS_OUT_OF_MEMORY);
        assert_true(saved == LS_OK || saved == LS_OUT_OF_MEMORY);
        done += opened == LS_OK && saved == LS_OK;
    }
    assert_int_equal(done, 2);
    assert_int_equal(test_files_in_folder(), 2);
}

/* ---- Fingerprints ---- */

#if LOCKSTEP_HAVE_CRYPTO

static void fingerprints(void **state)
{
    (void)state;
    int64_t two[] = {2}, one[] = {1};
    float x[] = {1, 2}, y[] = {-3};
    ls_named_array arrays[] = {{"fc.1.bias", 1, one, y}, {"W", 1, two, x}};
    char digits[65], again[65];
    ls_context *context = test_context();
    assert_int_equal(ls_fingerprint_arrays(context, arrays, 2, digits), LS_OK);
    /* printf 'W\0\0\0\x80\x3f\0\0\0\x40fc.1.bias\0\0\0\x40\xc0' | sha256sum */
    assert_string_equal(digits, "345f9683fcf3adb6a748f938aadf141067c913017ab691ed940497e01d61f42b");
    assert_int_equal(ls_safetensors_save(context, test_path("w"), arrays, 2, METADATA, 2), LS_OK);
    assert_int_equal(ls_fingerprint_saved(context, test_path("w"), again), LS_OK);
    assert_string_equal(again, digits);
    assert_int_equal(ls_fingerprint_arrays(context, arrays, 0, digits), LS_OK);
    assert_string_equal(digits, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    /* PyTorch's counters do not count. */
    write_raw("{" ARRAY("W", "[1]", "0", "4") "}", -1, 4);
    assert_int_equal(ls_fingerprint_saved(context, test_path("w"), digits), LS_OK);
    write_raw("{" ARRAY("W", "[1]", "0",
                        "4") ",\"1.num_batches_tracked\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[4,12]}}",
              -1, 12);
    assert_int_equal(ls_fingerprint_saved(context, test_path("w"), again), LS_OK);
    assert_string_equal(again, digits);
    /* Of other types the numbers count that are read. */
    write_raw("{\"W\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}", -1, 8);
    assert_int_equal(ls_fingerprint_saved(context, test_path("w"), again), LS_OK);
    assert_string_equal(again, digits);
    write_raw("{\"x\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]}}", -1, 4);
    assert_int_equal(ls_fingerprint_saved(context, test_path("w"), again), LS_BAD_FILE);
    assert_string_equal(again, "");
    test_expect(LS_BAD_FILE, "w: the array 'x' is I32; F32, F16, BF16 and F64 are read, convert it");
    test_context_done();
}

#else

static void fingerprints(void **state)
{
    (void)state;
    char digits[65];
    assert_int_equal(ls_fingerprint_arrays(test_context(), NULL, 0, digits), LS_UNSUPPORTED);
    test_expect(LS_UNSUPPORTED, "without a hash library");
    test_context_done();
}

#endif

#else

static void without_json(void **state)
{
    (void)state;
    assert_null(ls_safetensors_open(test_context(), test_path("w")));
    test_expect(LS_UNSUPPORTED, "without a JSON library");
    assert_int_equal(ls_safetensors_save(test_context(), test_path("w"), NULL, 0, NULL, 0), LS_UNSUPPORTED);
    test_expect(LS_UNSUPPORTED, "without a JSON library");
}

#endif

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, test_folder_make, test_folder_remove)
    const struct CMUnitTest tests[] = {
        test(an_npy_file),
        test(a_failed_write_leaves_the_old_file),
        test(dropped_files_and_folders),
        test(numbers_of_shapes),
#if LOCKSTEP_HAVE_JANSSON
        test(written_and_read),
        test(a_file_of_no_arrays),
        test(refused_names),
        test(killed_while_saving),
        test(written_by_python),
        test(other_types),
        test(faulty_lengths),
        test(files_of_other_kinds),
        test(faulty_json),
        test(faulty_entries),
        test(faulty_places),
        test(nan_and_infinity),
        test(what_is_no_file),
        test(cut_and_flipped),
        test(every_allocation_fails),
        test(fingerprints),
#else
        test(without_json),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
