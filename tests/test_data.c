/* idx files with every fault that happened to someone, the search for Fashion-MNIST, and the order of an epoch. */
#include "files.h"

#include <lockstep.h>
#include <lockstep_data.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"
#include "data/dataset.h"
#include "data/idx.h"
#include "data/mnist.h"
#include "data/source.h"

#if LOCKSTEP_HAVE_ZLIB
#include <zlib.h>
#endif

enum { IMAGES = 3, HEIGHT = 4, WIDTH = 5, BODY = IMAGES * HEIGHT * WIDTH, FILE_SIZE = 16 + BODY };
enum { SUMMED = 96 }; /* bytes of the images whose sums are looked at */

static const unsigned char IMAGE_HEADER[16] = {0, 0, 8, 3, 0, 0, 0, IMAGES, 0, 0, 0, HEIGHT, 0, 0, 0, WIDTH};

/* A good file of images: value i is i. */
static unsigned char *good(void)
{
    static unsigned char file[FILE_SIZE + 64];
    memset(file, 0xee, sizeof file);
    memcpy(file, IMAGE_HEADER, sizeof IMAGE_HEADER);
    for (int i = 0; i < BODY; i++) {
        file[16 + i] = (unsigned char)i;
    }
    return file;
}

static void expect_images(const char *name)
{
    ls_idx idx;
    ls_context *context = test_context();
    assert_int_equal(ls_idx_read(context, test_path(name), LS_IDX_IMAGES, &idx), LS_OK);
    assert_int_equal(idx.count, IMAGES);
    assert_int_equal(idx.height, HEIGHT);
    assert_int_equal(idx.width, WIDTH);
    assert_memory_equal(idx.values, good() + 16, BODY);
    ls_release(context, idx.values);
    test_context_done();
}

/* Reading fails like this, asks for no more memory than `most`, and leaves nothing behind. */
static void expect_fault(const char *name, ls_idx_kind kind, ls_status status, const char *message_part)
{
    ls_idx idx = {(uint8_t *)"", 1, 1, 1};
    assert_int_equal(ls_idx_read(test_context(), test_path(name), kind, &idx), status);
    test_expect(status, message_part);
    assert_null(idx.values);
    assert_true(test_allocations.largest <= 1 << 17);
    test_context_done();
}

static void faulty(const void *bytes, size_t count, const char *message_part)
{
    test_write_file("images", bytes, count);
    expect_fault("images", LS_IDX_IMAGES, LS_BAD_FILE, message_part);
}

static void header_fault(uint32_t magic, uint32_t count, uint32_t height, uint32_t width, const char *message_part)
{
    uint32_t words[4] = {magic, count, height, width};
    unsigned char *file = good();
    for (int i = 0; i < 16; i++) {
        file[i] = (unsigned char)(words[i / 4] >> (24 - i % 4 * 8));
    }
    faulty(file, FILE_SIZE, message_part);
}

/* ---- Plain files ---- */

static void a_good_file(void **state)
{
    (void)state;
    test_write_file("images", good(), FILE_SIZE);
    expect_images("images");
    static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 9, 7};
    test_write_file("labels", labels, sizeof labels);
    ls_idx idx;
    ls_context *context = test_context();
    assert_int_equal(ls_idx_read(context, test_path("labels"), LS_IDX_LABELS, &idx), LS_OK);
    assert_int_equal(idx.count, 2);
    assert_int_equal(idx.values[1], 7);
    ls_release(context, idx.values);
    test_context_done();
}

static void wrong_lengths(void **state)
{
    (void)state;
    faulty("", 0, "images: the file is empty; fetch it again");
    char line[96];
    for (size_t i = 1; i < 16; i++) {
        snprintf(line, sizeof line, "images: the header is cut off after %d of 16 bytes; fetch it again", (int)i);
        faulty(good(), i, line);
    }
    faulty(good(), 16,
           "images: announces 3 images of 4 x 5, but the file is cut off (or its header damaged); fetch it again");
    faulty(good(), FILE_SIZE - 1,
           "images: announces 3 images of 4 x 5, but the file is cut off (or its header damaged); fetch it again");
    faulty(good(), FILE_SIZE + 1, "images: goes on after the 3 announced images; it is damaged, fetch it again");
    faulty(good(), FILE_SIZE + 60, "images: goes on after the 3 announced images; it is damaged, fetch it again");
}

static void wrong_headers(void **state)
{
    (void)state;
    header_fault(0x801, IMAGES, HEIGHT, WIDTH, "images: holds labels where images belong; the two files are swapped");
    header_fault(0x03080000, IMAGES << 24, HEIGHT << 24, WIDTH << 24, "little-endian");
    header_fault(0x01080000, IMAGES, HEIGHT, WIDTH, "images: the header is little-endian; ");
    header_fault(0xd03, IMAGES, HEIGHT, WIDTH,
                 "images: not an idx file of images (it begins with 0x00000d03, not 0x00000803); fetch it again");
    header_fault(0x3c21444f, 1, 1, 1,
                 "images: not an idx file of images but a web page; the address gave it in the file's place, fetch the "
                 "file itself");
    header_fault(0x1f8b0808, 1, 1, 1, "images: this is gzip data; add .gz to its name");
    header_fault(0x803, 0, HEIGHT, WIDTH, "images: holds no images (0 of 4 x 5); fetch it again");
    header_fault(0x803, IMAGES, 0, WIDTH, "images: holds no images (3 of 0 x 5); fetch it again");
    header_fault(0x803, IMAGES, HEIGHT, 0, "images: holds no images (3 of 4 x 0); fetch it again");
    header_fault(0x803, 1, 1024, 1025,
                 "images: announces 1 images of 1024 x 1025, more than can be meant; fetch it again");
    header_fault(0x803, 0xffffffff, HEIGHT, WIDTH,
                 "images: announces 4294967295 images of 4 x 5, more than can be meant; fetch it again");
    header_fault(0x803, 0x80000000, 1, 1,
                 "images: announces 2147483648 images of 1 x 1, more than can be meant; fetch it again");
    header_fault(0x803, 1, 0x10000, 0x10000,
                 "images: announces 1 images of 65536 x 65536, more than can be meant; fetch it again");
    header_fault(0x803, 1, 0xffffffff, 0xffffffff,
                 "images: announces 1 images of 4294967295 x 4294967295, more than can be meant; fetch it again");
    header_fault(0x803, 0x7fffffff, 1024, 1024,
                 "images: announces 2147483647 images of 1024 x 1024, but the file is cut off (or its header damaged); "
                 "fetch it again"); /* 2 PiB */
    header_fault(0x803, 4294967, 1024, 818,
                 "images: announces 4294967 images of 1024 x 818, but the file is cut off (or its header damaged); "
                 "fetch it again"); /* 3.3 TiB */
    test_write_file("labels", good(), FILE_SIZE);
    expect_fault("labels", LS_IDX_LABELS, LS_BAD_FILE,
                 "labels: holds images where labels belong; the two files are swapped");
}

static void what_is_no_file(void **state)
{
    (void)state;
    expect_fault("missing", LS_IDX_IMAGES, LS_IO,
                 "missing: not there, and neither is missing.gz; put one of them there or run `lockstep data fetch`");
    assert_int_equal(mkdir(test_path("folder"), 0700), 0);
    expect_fault("folder", LS_IDX_IMAGES, LS_BAD_FILE, "folder: this is a directory; name a regular file");
    assert_int_equal(mkfifo(test_path("fifo"), 0600), 0);
    expect_fault("fifo", LS_IDX_IMAGES, LS_BAD_FILE, "fifo: this is a FIFO; name a regular file");
    expect_fault(
        "fifo/beyond", LS_IDX_IMAGES, LS_IO,
        "fifo/beyond: not there, and neither is beyond.gz; put one of them there or run `lockstep data fetch`");
    assert_int_equal(symlink("/dev/zero", test_path("zero")), 0);
    expect_fault("zero", LS_IDX_IMAGES, LS_BAD_FILE, "zero: this is not a regular file; name a regular file");
    assert_int_equal(symlink("nowhere", test_path("dangling")), 0);
    expect_fault("dangling", LS_IDX_IMAGES, LS_IO,
                 "dangling: not there, and neither is dangling.gz; put one of them there or run `lockstep data fetch`");
}

/* The administrator may read everything, so this happens in a process that is somebody else. */
static void without_permission(void **state)
{
    (void)state;
    test_write_file("secret", good(), FILE_SIZE);
    assert_int_equal(chmod(test_path("secret"), 0), 0);
    assert_int_equal(chmod(test_folder, 0755), 0);
    pid_t child = fork();
    if (child == 0) {
        ls_context context;
        ls_idx idx;
        if ((geteuid() == 0 && seteuid(65534) != 0) || ls_context_init(&context, NULL) != LS_OK) {
            _exit(2);
        }
        ls_status status = ls_idx_read(&context, test_path("secret"), LS_IDX_IMAGES, &idx);
        _exit(status == LS_IO && strstr(context.message, "Permission denied") ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* ---- Compressed files ---- */

#if LOCKSTEP_HAVE_ZLIB

static unsigned char packed[1 << 16];

/* Appends one gzip member at `at`; returns where the next one would begin. */
static size_t pack(size_t at, const void *bytes, size_t count)
{
    z_stream stream = {.next_in = (unsigned char *)bytes,
                       .avail_in = (unsigned)count,
                       .next_out = packed + at,
                       .avail_out = (unsigned)(sizeof packed - at)};
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    at += stream.total_out;
    deflateEnd(&stream);
    return at;
}

static void faulty_gz(size_t count, const char *message_part)
{
    test_write_file("images.gz", packed, count);
    expect_fault("images", LS_IDX_IMAGES, LS_BAD_FILE, message_part);
}

static void good_gzip(void **state)
{
    (void)state;
    test_write_file("images.gz", packed, pack(0, good(), FILE_SIZE));
    expect_images("images");
    /* Members one after the other, cut anywhere, an empty one among them. */
    for (size_t cut = 0; cut <= FILE_SIZE; cut += 19) {
        size_t end = pack(0, good(), cut);
        end = pack(end, "", 0);
        end = pack(end, good() + cut, FILE_SIZE - cut);
        test_write_file("images.gz", packed, pack(end, "", 0));
        expect_images("images");
    }
    /* The plain file comes first. */
    test_write_file("images.gz", "<html>", 6);
    test_write_file("images", good(), FILE_SIZE);
    expect_images("images");
}

static void faulty_gzip(void **state)
{
    (void)state;
    size_t end = pack(0, good(), FILE_SIZE);
    for (size_t i = 1; i < end; i++) {
        faulty_gz(i, "images.gz: the gzip data is cut off; fetch it again");
    }
    packed[end - 8] ^= 1;
    faulty_gz(end, "images.gz: the gzip data is damaged (incorrect data check); fetch it again");
    packed[end - 8] ^= 1;
    packed[end - 4] ^= 1;
    faulty_gz(end, "images.gz: the gzip data is damaged (incorrect length check); fetch it again");
    packed[end - 4] ^= 1;
    packed[end] = 'x', packed[end + 1] = 'y';
    faulty_gz(end + 2, "images.gz: the gzip data is damaged (incorrect header check); fetch it again");
    faulty_gz(pack(end, "x", 1), "images.gz: goes on after the 3 announced images; it is damaged, fetch it again");
    faulty_gz(pack(0, good(), FILE_SIZE - 1), "images.gz: cut off after 59 of 60 bytes of images; fetch it again");
    faulty_gz(pack(0, good(), 9), "images.gz: the header is cut off after 9 of 16 bytes; fetch it again");
    faulty_gz(pack(0, "", 0), "images.gz: the file is empty; fetch it again");
    faulty_gz(0, "images.gz: the file is empty; fetch it again");
    test_write_file("images.gz", "<!DOCTYPE html><html>404</html>", 31);
    expect_fault("images", LS_IDX_IMAGES, LS_BAD_FILE,
                 "images.gz: this is a web page and not gzip data; the download went wrong, fetch it again");
    test_write_file("images.gz", good(), FILE_SIZE);
    expect_fault("images", LS_IDX_IMAGES, LS_BAD_FILE,
                 "images.gz: this is not gzip data; fetch it again, or drop .gz from its name if it is not compressed");
}

/* Each bit behind gzip's own header: the content is the right one (a few bits mean nothing), or there is none. */
static void a_flipped_bit(void **state)
{
    (void)state;
    size_t end = pack(0, good(), FILE_SIZE);
    int harmless = 0;
    for (size_t bit = 80; bit < end * 8; bit++) {
        packed[bit / 8] ^= (unsigned char)(1 << bit % 8);
        test_write_file("images.gz", packed, end);
        packed[bit / 8] ^= (unsigned char)(1 << bit % 8);
        ls_idx idx;
        ls_context *context = test_context();
        if (ls_idx_read(context, test_path("images"), LS_IDX_IMAGES, &idx) == LS_OK) {
            assert_memory_equal(idx.values, good() + 16, BODY);
            harmless++;
        } else {
            test_expect(LS_BAD_FILE, "images.gz: ");
        }
        ls_release(context, idx.values);
        test_context_done();
    }
    assert_true(harmless < 8);
}

/* 16 MiB of zeros in some kilobytes, behind a header that announces little, or far too much. */
static void a_bomb(void **state)
{
    (void)state;
    enum { HUGE = 16 << 20 };
    unsigned char *zeros = calloc(HUGE, 1);
    memcpy(zeros, IMAGE_HEADER, sizeof IMAGE_HEADER);
    faulty_gz(pack(0, zeros, HUGE), "images.gz: goes on after the 3 announced images; it is damaged, fetch it again");
    zeros[4] = 0x7f;
    faulty_gz(pack(0, zeros, HUGE), "images.gz: announces 2130706435 images of 4 x 5, but the file is cut off (or its "
                                    "header damaged); fetch it again");
    free(zeros);
}

/* What fits the size of the file, and would still be some hundred times as large. */
static void a_large_bomb(void **state)
{
    (void)state;
    enum { FILE_BYTES = 1 << 20 };
    unsigned char *file = calloc(FILE_BYTES, 1);
    static const unsigned char header[8] = {0, 0, 8, 1, 0x20, 0, 0, 0}; /* 512 MiB of labels */
    pack(0, header, sizeof header);
    memcpy(file, packed, 64);
    test_write_file("labels.gz", file, FILE_BYTES);
    expect_fault("labels", LS_IDX_LABELS, LS_BAD_FILE,
                 "labels.gz: announces 536870912 labels of 1 x 1, but the file is cut off (or its header damaged); "
                 "fetch it again");
    free(file);
}

#else

static void no_gzip(void **state)
{
    (void)state;
    test_write_file("images.gz", good(), FILE_SIZE);
    expect_fault("images", LS_IDX_IMAGES, LS_UNSUPPORTED, "built without zlib");
}

#endif

/* ---- While it is read ---- */

static void a_shrinking_file(void **state)
{
    (void)state;
    unsigned char bytes[FILE_SIZE];
    size_t got;
    test_write_file("images", good(), FILE_SIZE);
    ls_source *source = ls_source_open(test_context(), test_path("images"), false);
    assert_int_equal(ls_source_read(source, bytes, 16, &got), LS_OK);
    assert_int_equal(truncate(test_path("images"), 20), 0);
    assert_int_equal(ls_source_read(source, bytes, BODY, &got), LS_BAD_FILE);
    test_expect(LS_BAD_FILE,
                "images: the file ends at byte 20, 56 bytes too early; it was cut off or is being written");
    ls_source_close(source);
    test_context_done();
}

/* ---- Without memory ---- */

static void every_allocation_fails(void **state)
{
    (void)state;
#if LOCKSTEP_HAVE_ZLIB
    test_write_file("images.gz", packed, pack(0, good(), FILE_SIZE));
#else
    test_write_file("images", good(), FILE_SIZE);
#endif
    for (int n = 1; n < 100; n++) {
        ls_idx idx;
        ls_context *context = test_context();
        test_allocations.fail_at = n;
        ls_status status = ls_idx_read(context, test_path("images"), LS_IDX_IMAGES, &idx);
        ls_release(context, idx.values);
        test_context_done();
        if (status == LS_OK) {
            assert_true(n > 3);
            return;
        }
        assert_int_equal(status, LS_OUT_OF_MEMORY);
    }
    fail();
}

/* ---- Fashion-MNIST ---- */

/* A small part in the folder: `images` pictures of side x side, `labels` labels of which one is `label`. */
static void write_part(int images, int side, int labels, int label)
{
    unsigned char *file = calloc(16 + (size_t)images * side * side, 1);
    memcpy(file,
           (unsigned char[]){0, 0, 8, 3, 0, 0, 0, (unsigned char)images, 0, 0, 0, (unsigned char)side, 0, 0, 0,
                             (unsigned char)side},
           16);
    test_write_file("t10k-images-idx3-ubyte", file, 16 + (size_t)images * side * side);
    memcpy(file, (unsigned char[]){0, 0, 8, 1, 0, 0, 0, (unsigned char)labels}, 8);
    memset(file + 8, 3, (size_t)labels);
    file[8 + labels / 2] = (unsigned char)label;
    test_write_file("t10k-labels-idx1-ubyte", file, 8 + (size_t)labels);
    free(file);
}

static void expect_no_data(const char *directory, ls_status status, const char *message_part)
{
    ls_loader loader = {.directory = directory};
    assert_null(ls_dataset_open(test_context(), 0, "fashion-mnist", LS_TEST, &loader));
    test_expect(status, message_part);
    test_context_done();
}

static void expect_data(const char *directory)
{
    ls_loader loader = {.directory = directory};
    ls_data *data = ls_dataset_open(test_context(), 0, "fashion-mnist", LS_TEST, &loader);
    assert_non_null(data);
    assert_int_equal(ls_data_rows(data), 9);
    assert_int_equal(data->of.height, 28);
    assert_int_equal(data->of.classes, 10);
    ls_data_free(data);
    test_context_done();
}

static void a_part(void **state)
{
    (void)state;
    write_part(9, 28, 9, 9);
    expect_data(test_folder);
    write_part(9, 28, 8, 1);
    expect_no_data(test_folder, LS_BAD_FILE,
                   "t10k-images-idx3-ubyte: holds 9 images, but t10k-labels-idx1-ubyte holds 8 labels; they do not "
                   "belong together, fetch both again");
    write_part(9, 28, 9, 10);
    expect_no_data(test_folder, LS_BAD_FILE,
                   "t10k-labels-idx1-ubyte: label 10 of image 4, but Fashion-MNIST has the 10 classes 0 to 9; labels "
                   "up to 10 are those of another data set, such as EMNIST; more classes can be read as arrays (npy)");
    write_part(9, 28, 9, 255);
    expect_no_data(test_folder, LS_BAD_FILE,
                   "t10k-labels-idx1-ubyte: label 255 of image 4, but Fashion-MNIST has the 10 classes 0 to 9; labels "
                   "up to 255 are those of another data set, such as EMNIST, or of a damaged file; more classes can be "
                   "read as arrays (npy)");
    write_part(9, 27, 9, 1);
    expect_no_data(test_folder, LS_BAD_FILE,
                   "t10k-images-idx3-ubyte: holds images of 27 x 27 where 28 x 28 belong; it is another data set");
    assert_int_equal(unlink(test_path("t10k-labels-idx1-ubyte")), 0);
    expect_no_data(test_folder, LS_IO,
                   "t10k-labels-idx1-ubyte: not there, and neither is t10k-labels-idx1-ubyte.gz; put one of them there "
                   "or run `lockstep data fetch`");
    assert_null(ls_dataset_open(test_context(), 0, "fashion-mnist", (ls_part)7, NULL));
    test_expect(LS_BAD_ARGUMENT, "ls_data_open: part 7 is neither LS_TRAIN nor LS_TEST");
    test_context_done();
}

static void move(const char *from, const char *to)
{
    assert_int_equal(rename(test_path(from), test_path(to)), 0);
}

/* As the files are found elsewhere: with a dot for a dash, and below the folder that torchvision is told. */
static void other_names_and_places(void **state)
{
    (void)state;
    write_part(9, 28, 9, 9);
    move("t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte");
    expect_data(test_folder);
    move("t10k-labels-idx1-ubyte", "t10k-labels.idx1-ubyte");
    expect_data(test_folder);
    write_part(9, 28, 9, 10); /* a name with the dash comes first, and a message has the name that there is */
    assert_int_equal(unlink(test_path("t10k-labels-idx1-ubyte")), 0);
    move("t10k-images.idx3-ubyte", "t10k-images-idx3-ubyte");
    expect_data(test_folder);
    write_part(9, 28, 9, 10);
    move("t10k-labels-idx1-ubyte", "t10k-labels.idx1-ubyte");
    expect_no_data(test_folder, LS_BAD_FILE,
                   "t10k-labels.idx1-ubyte: label 10 of image 4, but Fashion-MNIST has the 10 classes 0 to 9; labels "
                   "up to 10 are those of another data set, such as EMNIST; more classes can be read as arrays (npy)");

    static const char *const places[] = {"raw", "FashionMNIST", "FashionMNIST/raw"};
    assert_int_equal(unlink(test_path("t10k-labels.idx1-ubyte")), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mkdir(test_path(places[i]), 0700), 0);
        write_part(9, 28, 9, 9);
        char images[64], labels[64];
        snprintf(images, sizeof images, "%s/t10k-images-idx3-ubyte", places[i]);
        snprintf(labels, sizeof labels, "%s/t10k-labels-idx1-ubyte", places[i]);
        move("t10k-images-idx3-ubyte", images);
        move("t10k-labels-idx1-ubyte", labels);
        if (i == 1)
            expect_no_data(
                test_folder, LS_IO,
                "put train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
                "t10k-labels-idx1-ubyte there (as they are or as .gz), or name the folder in which torchvision made "
                "FashionMNIST/raw, install the package dataset-fashion-mnist, or run `lockstep data fetch`");
        else
            expect_data(test_folder);
        assert_int_equal(unlink(test_path(images)), 0);
        assert_int_equal(unlink(test_path(labels)), 0);
    }
}

static void the_search(void **state)
{
    (void)state;
    assert_int_equal(mkdir(test_path("lockstep"), 0700), 0);
    assert_int_equal(mkdir(test_path("lockstep/fashion-mnist"), 0700), 0);
    expect_no_data(test_folder, LS_IO,
                   "put train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
                   "t10k-labels-idx1-ubyte there (as they are or as .gz), or name the folder in which torchvision made "
                   "FashionMNIST/raw, install the package dataset-fashion-mnist, or run `lockstep data fetch`");
    expect_no_data(test_folder, LS_IO, "dataset-fashion-mnist");
    expect_no_data(test_folder, LS_IO, test_folder);
    setenv("LOCKSTEP_DATA", test_path("lockstep"), 1); /* names a folder without them: nothing else is taken */
    expect_no_data(NULL, LS_IO, "$LOCKSTEP_DATA");
    write_part(9, 28, 9, 9);
    expect_data(test_folder);
    ls_context *of_half = test_context();
    assert_null(ls_mnist_directory(of_half, &ls_mnist_fashion, LS_TRAIN, test_folder));
    assert_non_null(strstr(of_half->message, "has the test files of Fashion-MNIST, but not the training files: put "
                                             "train-images-idx3-ubyte and train-labels-idx1-ubyte there too"));
    test_context_done();
    setenv("LOCKSTEP_DATA", test_folder, 1);
    expect_data(NULL);
    unsetenv("LOCKSTEP_DATA");
    setenv("XDG_CACHE_HOME", test_folder, 1);
    ls_context *context = test_context();
    char *cache = ls_mnist_cache(context, &ls_mnist_fashion);
    assert_string_equal(cache, test_path("lockstep/fashion-mnist"));
    ls_release(context, cache);
    setenv("XDG_CACHE_HOME", "relative", 1);
    setenv("HOME", "/somebody", 1);
    cache = ls_mnist_cache(context, &ls_mnist_fashion);
    assert_string_equal(cache, "/somebody/.cache/lockstep/fashion-mnist");
    ls_release(context, cache);
    unsetenv("HOME");
    assert_null(ls_mnist_cache(context, &ls_mnist_fashion));
    test_context_done();
}

/* ---- Epochs ---- */

static ls_data *numbered(ls_context *context, uint64_t seed, int64_t rows, const ls_loader *loader)
{
    ls_images images = {.values = ls_alloc(context, (size_t)rows, 1, "images"),
                        .labels = ls_alloc(context, (size_t)rows, 1, "labels"),
                        .rows = rows,
                        .channels = 1,
                        .height = 1,
                        .width = 1,
                        .classes = 2};
    return ls_data_new(context, seed, &images, loader);
}

static void file_order(void **state)
{
    (void)state;
    ls_loader loader = {.batch = 4};
    ls_data *data = numbered(test_context(), 0, 10, &loader);
    const uint32_t *index;
    int rows;
    assert_int_equal(ls_data_batches(data), 3);
    for (int epoch = 0; epoch < 3; epoch++) {
        for (int i = 0; i < 3; i++) {
            assert_true(ls_data_take(data, &index, &rows));
            assert_int_equal(rows, i < 2 ? 4 : 2);
            assert_int_equal(data->epoch, epoch);
            assert_int_equal(index[0], i * 4);
            assert_int_equal(index[rows - 1], i * 4 + rows - 1);
        }
        assert_false(ls_data_take(data, &index, &rows));
    }
    ls_data_free(data);
    test_context_done();
}

static void shuffled_order(void **state)
{
    (void)state;
    enum { ROWS = 1000 };
    ls_loader loader = {.batch = 64, .shuffle = true};
    ls_context *context = test_context();
    ls_data *data = numbered(context, 7, ROWS, &loader), *again = numbered(context, 7, ROWS, &loader);
    uint32_t order[ROWS], expected[ROWS], first[ROWS];
    const uint32_t *index;
    int rows;
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        int n = 0;
        while (ls_data_take(data, &index, &rows)) {
            memcpy(order + n, index, (size_t)rows * sizeof *order);
            n += rows;
        }
        assert_int_equal(n, ROWS);
        ls_random_permutation(&(ls_random_stream){7, LS_FOR_ORDER, 0, epoch}, expected, ROWS);
        assert_memory_equal(order, expected, sizeof order);
        assert_true(epoch == 0 || memcmp(order, first, sizeof order) != 0);
        memcpy(first, order, sizeof first);
    }
    /* A run that goes on in the middle sees what the other saw, also backwards. */
    assert_int_equal(ls_data_seek(again, 2, 15), LS_OK);
    assert_true(ls_data_take(again, &index, &rows));
    assert_int_equal(again->epoch, 2);
    assert_int_equal(rows, ROWS % 64);
    assert_memory_equal(index, order + 15 * 64, (size_t)rows * sizeof *order);
    assert_int_equal(ls_data_seek(again, 0, 16), LS_OK); /* the end of epoch 0 */
    assert_false(ls_data_take(again, &index, &rows));
    assert_true(ls_data_take(again, &index, &rows));
    assert_int_equal(again->epoch, 1);
    assert_int_equal(ls_data_seek(again, 0, 17), LS_BAD_ARGUMENT);
    test_expect(LS_BAD_ARGUMENT, "ls_data_seek: batch 17 of epoch 0; an epoch has the batches 0 to 16 (its end)");
    assert_int_equal(ls_data_seek(again, -1, 0), LS_BAD_ARGUMENT);
    assert_false(ls_data_take(again, &index, &rows)); /* after a failure */
    ls_data_free(data);
    ls_data_free(again);
    test_context_done();
}

static void limits_and_batches(void **state)
{
    (void)state;
    ls_loader loader = {.limit = 7, .shuffle = true};
    ls_context *context = test_context();
    ls_data *data = numbered(context, 1, 100, &loader);
    const uint32_t *index;
    int rows;
    assert_int_equal(ls_data_rows(data), 7);
    assert_int_equal(ls_data_batches(data), 1);
    assert_true(ls_data_take(data, &index, &rows));
    assert_int_equal(rows, 7);
    for (int i = 0; i < 7; i++) {
        assert_true(index[i] < 7);
    }
    ls_data_free(data);
    loader = (ls_loader){.batch = 40, .limit = 95, .shuffle = true, .drop_last = true};
    data = numbered(context, 1, 100, &loader);
    assert_int_equal(ls_data_rows(data), 95);
    assert_int_equal(ls_data_batches(data), 2);
    for (int epoch = 0; epoch < 2; epoch++) {
        assert_true(ls_data_take(data, &index, &rows) && rows == 40);
        assert_true(ls_data_take(data, &index, &rows) && rows == 40 && data->epoch == epoch);
        assert_false(ls_data_take(data, &index, &rows));
        assert_int_equal(data->epoch, epoch + 1);
    }
    ls_data_free(data);
    loader.batch = 95;
    data = numbered(context, 1, 100, &loader);
    assert_int_equal(ls_data_batches(data), 1);
    ls_data_free(data);
    loader.drop_last = false;
    loader.limit = 1000;
    data = numbered(context, 1, 100, &loader);
    assert_int_equal(ls_data_rows(data), 100);
    ls_data_free(data);
    data = numbered(context, 1, 1, NULL);
    assert_int_equal(ls_data_batches(data), 1);
    assert_int_equal(data->batch, 256);
    ls_data_free(data);
    assert_null(numbered(context, 1, 5, &(ls_loader){.batch = -1}));
    test_expect(LS_BAD_ARGUMENT, "data: a batch of -1 images; needs at least 1");
    assert_null(numbered(context, 1, 5, &(ls_loader){.batch = 6, .drop_last = true}));
    test_expect(LS_BAD_ARGUMENT,
                "ls_loader: 5 images fill no batch of 6, and ls_loader.drop_last leaves partial ones out");
    assert_null(numbered(context, 1, 5, &(ls_loader){.limit = -1}));
    test_expect(LS_BAD_ARGUMENT, "data: a limit of -1 images; needs at least 1, or 0 for all");
    assert_null(numbered(context, 1, 0, NULL));
    test_expect(LS_BAD_SHAPE, "data: 0 images of 1 x 1 x 1; needs 1 to 2147483647 images of 1 to 1048576 values each");
    assert_int_equal(ls_data_rows(NULL), 0);
    test_context_done();
}

/* ---- Sums ---- */

/* The checksum that ranks compare, and the data of the settings that a checkpoint compares, of images that begin at
 * `values`. */
typedef struct sums {
    uint64_t quick;
    char described[64];
} sums;

static sums sums_of(const ls_images *form, const void *values, const uint8_t *labels, const ls_loader *loader)
{
    sums of = {0};
    ls_context *context = test_context();
    ls_images images = *form;
    assert_int_equal(ls_images_reserve(context, &images, LS_BAD_SHAPE, "a test's images"), LS_OK);
    memcpy(images.values, values, SUMMED);
    memcpy(images.labels, labels, (size_t)images.rows);
    ls_data *data = ls_data_new(context, 0, &images, loader);
    of.quick = ls_data_checksum(data);
#if LOCKSTEP_HAVE_CRYPTO
    assert_int_equal(ls_data_describe(data, of.described), LS_OK);
#endif
    ls_data_free(data);
    test_context_done();
    return of;
}

static void assert_same(const sums *a, const sums *b, bool same, const char *what, int place)
{
    if ((a->quick == b->quick) != same)
        fail_msg("the checksum is %s after a change of %s %d", same ? "another" : "the same", what, place);
#if LOCKSTEP_HAVE_CRYPTO
    if ((strcmp(a->described, b->described) == 0) != same)
        fail_msg("the settings' sum is %s after a change of %s %d", same ? "another" : "the same", what, place);
#endif
}

/* Each byte, each label and each size counts; what is not used does not. */
static void all_of_the_data_is_in_its_sums(void **state)
{
    (void)state;
    static const ls_images form = {.rows = 4, .channels = 2, .height = 3, .width = 4, .classes = 4};
    static const ls_images others[] = {
        {.rows = 4, .channels = 3, .height = 2, .width = 4, .classes = 4},
        {.rows = 4, .channels = 2, .height = 4, .width = 3, .classes = 4},
        {.rows = 4, .channels = 4, .height = 3, .width = 2, .classes = 4},
        {.rows = 4, .channels = 2, .height = 3, .width = 4, .classes = 5},
        {.rows = 4, .channels = 1, .height = 2, .width = 3, .classes = 4, .floats = true},
        {.rows = 2, .channels = 4, .height = 3, .width = 4, .classes = 4},
        {.rows = 8, .channels = 1, .height = 3, .width = 4, .classes = 4}};
    uint8_t bytes[SUMMED], labels[8] = {0, 2, 1, 2, 0, 0, 1, 2};
    for (int i = 0; i < SUMMED; i++)
        bytes[i] = (uint8_t)(i * 37 % 101);
    const sums whole = sums_of(&form, bytes, labels, NULL);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const sums other = sums_of(&others[i], bytes, labels, NULL);
        assert_same(&whole, &other, false, "shape", (int)i);
    }
    const ls_loader limit = {.limit = 3};
    const sums limited = sums_of(&form, bytes, labels, &limit);
    assert_same(&whole, &limited, false, "limit", 3);
    for (int i = 0; i < SUMMED + 4; i++) {
        uint8_t *changed = i < SUMMED ? &bytes[i] : &labels[i - SUMMED];
        const char *what = i < SUMMED ? "byte" : "label";
        const bool used = i < SUMMED ? i < SUMMED / 4 * 3 : i < SUMMED + 3;
        *changed ^= 1;
        const sums other = sums_of(&form, bytes, labels, NULL), other_limited = sums_of(&form, bytes, labels, &limit);
        *changed ^= 1;
        assert_same(&whole, &other, false, what, i);
        assert_same(&limited, &other_limited, !used, what, i);
    }
    const sums again = sums_of(&form, bytes, labels, &(ls_loader){.batch = 2, .shuffle = true, .augment.flip = true});
    assert_same(&whole, &again, true, "order", 0); /* which is compared by itself */
}

static void expect_not_verified(ls_status status, const char *message_part)
{
    ls_session *s = ls_open(NULL);
    assert_int_equal(ls_data_verify(s, test_folder), status);
    if (!strstr(ls_message(s), message_part))
        fail_msg("%s", ls_message(s));
    assert_int_equal(ls_close(s), status);
}

static void whether_it_is_the_data_set(void **state)
{
    (void)state;
    write_part(9, 28, 9, 9);
    expect_not_verified(LS_IO, "has the test files of Fashion-MNIST, but not the training files");
    test_write_file("train-images-idx3-ubyte", "not a set", 9);
#if LOCKSTEP_HAVE_CRYPTO
    expect_not_verified(LS_BAD_FILE,
                        "train-images-idx3-ubyte: the content is not that of the data set (its SHA-256 differs)");
#else
    expect_not_verified(LS_UNSUPPORTED, "without");
#endif
    assert_int_equal(ls_data_verify(NULL, NULL), LS_OUT_OF_MEMORY);
}

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, test_folder_make, test_folder_remove)
    const struct CMUnitTest tests[] = {
        test(a_good_file),
        test(wrong_lengths),
        test(wrong_headers),
        test(what_is_no_file),
        test(without_permission),
#if LOCKSTEP_HAVE_ZLIB
        test(good_gzip),
        test(faulty_gzip),
        test(a_flipped_bit),
        test(a_bomb),
        test(a_large_bomb),
#else
        test(no_gzip),
#endif
        test(a_shrinking_file),
        test(every_allocation_fails),
        test(a_part),
        test(other_names_and_places),
        test(the_search),
        test(whether_it_is_the_data_set),
        test(file_order),
        test(shuffled_order),
        test(limits_and_batches),
        test(all_of_the_data_is_in_its_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
