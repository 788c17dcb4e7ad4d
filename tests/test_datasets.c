/* Data sets in the forms that people have them: what is read, and what is said of every fault. */
#include "datasets.h"

enum { PLANE = 32 * 32, PIXELS = 3 * PLANE, MOST = 1 << 16 };

static unsigned char file[MOST];

static void names(void **state)
{
    (void)state;
    refused("imagenet", LS_TRAIN, LS_BAD_ARGUMENT,
            "ls_data_open: 'imagenet' is no data set's name; there are fashion-mnist, mnist, cifar10, cifar100, npy, "
            "folder");
    refused(NULL, LS_TRAIN, LS_BAD_ARGUMENT, "'(null)'");
    refused("cifar10", (ls_part)5, LS_BAD_ARGUMENT, "ls_data_open: part 5 is neither LS_TRAIN nor LS_TEST");
    unsetenv("LOCKSTEP_DATA");
    assert_null(ls_dataset_open(test_context(), 0, "npy", LS_TRAIN, NULL));
    test_expect(LS_IO, "npy: its folder is not named; set ls_loader.directory or $LOCKSTEP_DATA");
    test_context_done();
}

/* ---- MNIST ---- */

static void write_idx(const char *images, const char *labels, int n, const uint8_t first[10])
{
    unsigned char *bytes = calloc(16 + (size_t)n * 784, 1);
    memcpy(bytes,
           (unsigned char[]){0, 0, 8, 3, 0, 0, (unsigned char)(n >> 8), (unsigned char)n, 0, 0, 0, 28, 0, 0, 0, 28},
           16);
    test_write_file(images, bytes, 16 + (size_t)n * 784);
    memset(bytes, 0, 16 + (size_t)n);
    memcpy(bytes, (unsigned char[]){0, 0, 8, 1, 0, 0, (unsigned char)(n >> 8), (unsigned char)n}, 8);
    memcpy(bytes + 8, first, 10);
    test_write_file(labels, bytes, 8 + (size_t)n);
    free(bytes);
}

/* Both sets have files of the same names and sizes; what is named is what is read. */
static void mnist_and_fashion_mnist(void **state)
{
    (void)state;
    static const uint8_t digits[10] = {7, 2, 1, 0, 4, 1, 4, 9, 5, 9}, clothes[10] = {9, 2, 1, 1, 6, 1, 4, 6, 5, 7};
    write_idx("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", 10000, digits);
    ls_data *data = open_part("mnist", LS_TEST);
    expect_about(data, 10000, 1, 28, 28, 10);
    assert_string_equal(ls_data_class(data, 7), "7");
    done(data);
    refused("fashion-mnist", LS_TEST, LS_BAD_FILE,
            "t10k-labels-idx1-ubyte: these are the labels of MNIST; say so (mnist), or name another folder");
    write_idx("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", 10000, clothes);
    refused("mnist", LS_TEST, LS_BAD_FILE,
            "t10k-labels-idx1-ubyte: these are the labels of Fashion-MNIST; say so (fashion-mnist), or name another "
            "folder");
    data = open_part("fashion-mnist", LS_TEST);
    assert_string_equal(ls_data_class(data, 0), "T-shirt");
    assert_string_equal(ls_data_class(data, 9), "Boot");
    done(data);
    write_idx("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", 300, clothes); /* of somebody's own */
    done(open_part("mnist", LS_TEST));
    assert_int_equal(unlink(test_path("t10k-images-idx3-ubyte")), 0);
    assert_int_equal(unlink(test_path("t10k-labels-idx1-ubyte")), 0);
    refused("mnist", LS_TEST, LS_IO, "MNIST is not in ");
}

/* ---- CIFAR ---- */

/* Records with the labels first, first + 1, ..., their pixels counting on. */
static size_t records(int n, int labels, int first)
{
    for (int i = 0; i < n; i++) {
        unsigned char *record = file + i * (labels + PIXELS);
        record[0] = (unsigned char)(labels == 2 ? (first + i) / 5 : first + i);
        record[labels - 1] = (unsigned char)(first + i);
        for (int k = 0; k < PIXELS; k++)
            record[labels + k] = (unsigned char)(k + 3 * (first + i));
    }
    return (size_t)n * (size_t)(labels + PIXELS);
}

static void write_cifar10(void)
{
    static const char *const files[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                                        "data_batch_5.bin"};
    for (int i = 0; i < 5; i++)
        test_write_file(files[i], file, records(1 + i % 2, 1, i));
    test_write_file("test_batch.bin", file, records(3, 1, 7));
}

static void cifar10(void **state)
{
    (void)state;
    static const uint8_t labels[] = {0, 1, 2, 2, 3, 4, 4};
    write_cifar10();
    ls_data *data = open_part("cifar10", LS_TRAIN);
    expect_about(data, 7, 3, 32, 32, 10);
    assert_memory_equal(data->of.labels, labels, sizeof labels);
    for (int i = 0; i < 7; i++) {
        records(1, 1, labels[i]);
        assert_memory_equal((uint8_t *)data->of.values + i * PIXELS, file + 1, PIXELS);
    }
    assert_string_equal(ls_data_class(data, 0), "airplane");
    assert_string_equal(ls_data_class(data, 9), "truck");
    assert_null(ls_data_class(data, 10));
    assert_null(ls_data_class(data, -1));
    done(data);
    data = open_part("cifar10", LS_TEST);
    expect_about(data, 3, 3, 32, 32, 10);
    done(data);
    every_allocation("cifar10", LS_TRAIN, 10);

    /* As the archive is unpacked. */
    assert_int_equal(mkdir(test_path("cifar-10-batches-bin"), 0700), 0);
    assert_int_equal(rename(test_path("test_batch.bin"), test_path("cifar-10-batches-bin/test_batch.bin")), 0);
    done(open_part("cifar10", LS_TEST));
}

static void faulty_cifar10(void **state)
{
    (void)state;
    write_cifar10();
    records(3, 1, 7);
    test_write_file("test_batch.bin", file, 3 * (1 + PIXELS) - 1);
    refused("cifar10", LS_TEST, LS_BAD_FILE,
            "test_batch.bin: its 9218 bytes are no whole number of CIFAR-10's records of 3073; it was cut off, fetch "
            "it again");
    test_write_file("test_batch.bin", file, 0);
    refused("cifar10", LS_TEST, LS_BAD_FILE, "test_batch.bin: the file is empty; fetch it again");
    file[1 + PIXELS] = 10;
    test_write_file("test_batch.bin", file, 3 * (1 + PIXELS));
    refused("cifar10", LS_TEST, LS_BAD_FILE,
            "test_batch.bin: label 10 of image 1 is not one of 0 to 9; the file is of another data set, or damaged");
    test_write_file("test_batch.bin", file, records(2, 2, 0));
    refused("cifar10", LS_TEST, LS_BAD_FILE, "test_batch.bin: holds records of CIFAR-100, not of CIFAR-10");
    assert_int_equal(unlink(test_path("data_batch_4.bin")), 0);
    refused("cifar10", LS_TRAIN, LS_IO, "data_batch_4.bin: cannot be opened for reading: No such file or directory");
    assert_int_equal(unlink(test_path("data_batch_1.bin")), 0);
    refused("cifar10", LS_TRAIN, LS_IO, "CIFAR-10 is not in ");
    assert_int_equal(mkdir(test_path("data_batch_1.bin"), 0700), 0);
    refused("cifar10", LS_TRAIN, LS_BAD_FILE, "data_batch_1.bin: this is a directory; name a regular file");
}

static void cifar100(void **state)
{
    (void)state;
    test_write_file("train.bin", file, records(5, 2, 95));
    test_write_file("test.bin", file, records(2, 2, 0));
    ls_data *data = open_part("cifar100", LS_TRAIN);
    expect_about(data, 5, 3, 32, 32, 100);
    assert_int_equal(data->of.labels[4], 99);
    assert_string_equal(ls_data_class(data, 0), "apple");
    assert_string_equal(ls_data_class(data, 98), "woman");
    assert_string_equal(ls_data_class(data, 99), "worm");
    done(data);
    records(2, 2, 0);
    file[2 + PIXELS + 1] = 100;
    test_write_file("test.bin", file, 2 * (2 + PIXELS));
    refused("cifar100", LS_TEST, LS_BAD_FILE,
            "test.bin: label 100 of image 1 is not one of 0 to 99; the file is of another data set, or damaged");
    file[2 + PIXELS] = 20;
    test_write_file("test.bin", file, 2 * (2 + PIXELS));
    refused(
        "cifar100", LS_TEST, LS_BAD_FILE,
        "test.bin: the coarse label 20 of image 1 is not one of 0 to 19; the file is of another data set, or damaged");
    test_write_file("test.bin", file, records(2, 1, 0));
    refused("cifar100", LS_TEST, LS_BAD_FILE, "test.bin: holds records of CIFAR-10, not of CIFAR-100");
}

/* ---- .npy ---- */

/* A file of a header and so many numbers' bytes, which count on. */
static void write_npy(const char *name, int version, const char *header, size_t bytes)
{
    static unsigned char whole[MOST];
    size_t length = strlen(header), at = version == 1 ? 10 : 12;
    memcpy(whole, "\x93NUMPY", 6);
    memcpy(whole + 6,
           (unsigned char[]){(unsigned char)version, 0, (unsigned char)length, (unsigned char)(length >> 8), 0, 0}, 6);
    memcpy(whole + at, header, length);
    for (size_t i = 0; i < bytes; i++)
        whole[at + length + i] = (unsigned char)i;
    test_write_file(name, whole, at + length + bytes);
}

static void labels_npy(const char *name, const void *labels, size_t bytes, const char *descr, int n)
{
    char header[128];
    snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }\n", descr, n);
    write_npy(name, 1, header, bytes);
    size_t count;
    unsigned char *whole = test_read_file(name, &count);
    memcpy(whole + count - bytes, labels, bytes);
    test_write_file(name, whole, count);
    free(whole);
}

#define BYTES_HEADER "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, 4, 5), }   \n"

static void npy(void **state)
{
    (void)state;
    static const int64_t wide[] = {1, 4};
    static const int16_t narrow[] = {0, 6};
    write_npy("X_train.npy", 1, BYTES_HEADER, 120);
    labels_npy("y_train.npy", wide, sizeof wide, "<i8", 2);
    ls_data *data = open_part("npy", LS_TRAIN);
    expect_about(data, 2, 3, 4, 5, 5);
    assert_false(data->of.floats);
    assert_int_equal(((uint8_t *)data->of.values)[119], 119);
    assert_int_equal(data->of.labels[1], 4);
    assert_null(ls_data_class(data, 1));
    /* What it was read from is known by any name. */
    test_write_file("other.npy", "x", 1);
    assert_int_equal(link(test_path("y_train.npy"), test_path("linked")), 0);
    assert_true(ls_data_reads(data, test_path("X_train.npy")) && ls_data_reads(data, test_path("./y_train.npy")));
    assert_true(ls_data_reads(data, test_path("linked")));
    assert_false(ls_data_reads(data, test_path("other.npy")) || ls_data_reads(data, test_path("none")));
    assert_false(ls_data_reads(NULL, test_path("linked")) || ls_data_reads(data, NULL));
    done(data);
    every_allocation("npy", LS_TRAIN, 6);

    /* Grey, of floats, version 2, keys in another order; and both parts have the classes of both. */
    write_npy("X_test.npy", 2, "{\"shape\":(2L,1,1),\"fortran_order\":False,\"descr\":\"<f4\"}", 8);
    labels_npy("y_test.npy", narrow, sizeof narrow, "<i2", 2);
    data = open_part("npy", LS_TEST);
    expect_about(data, 2, 1, 1, 1, 7);
    assert_true(data->of.floats);
    float second;
    memcpy(&second, (unsigned char[]){4, 5, 6, 7}, 4);
    assert_true(((float *)data->of.values)[1] == second);
    done(data);
    ls_session *s = ls_open(NULL);
    ls_batch batch;
    ls_tensor *part;
    assert_true(ls_data_next(ls_data_open(s, "npy", LS_TEST, &(ls_loader){.directory = test_folder}), &batch));
    assert_int_equal(ls_scatter(batch.X, ls_parse_devices(s, "cpu:0"), &part), LS_OK);
    assert_true(ls_bytes_moved(s) == 2 * sizeof(float));
    assert_int_equal(ls_close(s), LS_OK);
    data = open_part("npy", LS_TRAIN);
    expect_about(data, 2, 3, 4, 5, 7);
    done(data);
}

static void header_refused(const char *header, size_t bytes, const char *message_part)
{
    write_npy("X_test.npy", 1, header, bytes);
    refused("npy", LS_TEST, LS_BAD_FILE, message_part);
}

#define SHAPE_OF(descr, shape) "{'descr': '" descr "', 'fortran_order': False, 'shape': " shape "}"

static void faulty_npy(void **state)
{
    (void)state;
    labels_npy("y_test.npy", (uint8_t[]){0, 1}, 2, "|u1", 2);
    refused("npy", LS_TEST, LS_IO,
            "X_test.npy: is not there; a data set of arrays is X_train.npy, y_train.npy, X_test.npy and y_test.npy");
    test_write_file("X_test.npy", "", 0);
    refused("npy", LS_TEST, LS_BAD_FILE, "X_test.npy: not a .npy file; save it with numpy.save");
    test_write_file("X_test.npy", "PK\3\4 a zip archive", 18);
    refused("npy", LS_TEST, LS_BAD_FILE, "X_test.npy: not a .npy file but a zip archive; save it with numpy.save");
    test_write_file("X_test.npy", "\x93NUMPY\1", 7);
    refused("npy", LS_TEST, LS_BAD_FILE, "X_test.npy: the header is cut off");
    test_write_file("X_test.npy", "\x93NUMPY\4\0\2\0{}", 12);
    refused("npy", LS_TEST, LS_BAD_FILE, "X_test.npy: version 4 of the .npy format is not known");
    test_write_file("X_test.npy", "\x93NUMPY\1\0\3\0{}", 12);
    refused("npy", LS_TEST, LS_BAD_FILE, "X_test.npy: the header is cut off");
    static const char *const plain[] = {"",
                                        "{}",
                                        "[]",
                                        "{'descr': '|u1'}",
                                        "{'descr': [('a', '|u1')], 'fortran_order': False, 'shape': (2, 1, 1)}",
                                        "{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (2, 1, 1)}",
                                        SHAPE_OF("|u1", "(2, 1, 1)") " x",
                                        SHAPE_OF("|u1", "(2)"),
                                        SHAPE_OF("|u1", "(2,,1)"),
                                        SHAPE_OF("|u1", "(-2, 1, 1)"),
                                        SHAPE_OF("|u1", "(99999999999999999999, 1, 1)"),
                                        SHAPE_OF("\\u1", "(2, 1, 1)"),
                                        SHAPE_OF("|u123456", "(2, 1, 1)"),
                                        "{'descr': '|u1', 'fortran_order': Maybe, 'shape': (2, 1, 1)}",
                                        "{'colour': 1}"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        header_refused(plain[i], 2,
                       "X_test.npy: the header is none of a plain array (descr, fortran_order and shape); save it "
                       "again with numpy.save");
    header_refused(SHAPE_OF(">f4", "(2, 1, 1)"), 8,
                   "X_test.npy: holds numbers of the type '>f4'; save them as uint8, float32 or (labels) int64");
    header_refused(SHAPE_OF("|b1", "(2, 1, 1)"), 2,
                   "X_test.npy: holds numbers of the type '|b1'; save them as uint8, float32 or (labels) int64");
    header_refused(SHAPE_OF("<f2", "(2, 1, 1)"), 4,
                   "X_test.npy: holds numbers of the type '<f2'; save them as uint8, float32 or (labels) int64");
    header_refused(SHAPE_OF("|O", "(2, 1, 1)"), 2,
                   "X_test.npy: holds numbers of the type '|O'; save them as uint8, float32 or (labels) int64");
    header_refused("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 1, 1)}", 2,
                   "X_test.npy: is in Fortran's order; save numpy.ascontiguousarray of it");
    header_refused(SHAPE_OF("|u1", "(2, 1, 1)"), 1,
                   "X_test.npy: announces more than the file's 71 bytes; it was cut off");
    header_refused(SHAPE_OF("|u1", "(2, 1, 1)"), 3, "X_test.npy: goes on behind the announced numbers");
    header_refused(SHAPE_OF("|u1", "(4294967296, 4294967296, 16)"), 0,
                   "X_test.npy: announces more than the file's 89 bytes; it was cut off");
    header_refused(SHAPE_OF("|u1", "(2, 0, 1)"), 0, "X_test.npy: a dimension of 0 is more, or less, than can be meant");
    header_refused(SHAPE_OF("|u1", "(2, 1)"), 2, "X_test.npy: has 2 dimensions; images are (N, C, H, W) or (N, H, W)");
    header_refused(SHAPE_OF("|u1", "()"), 1, "X_test.npy: has 0 dimensions; images are (N, C, H, W) or (N, H, W)");
    header_refused(SHAPE_OF("|u1", "(1, 1, 1, 1, 2)"), 2, "X_test.npy: has 5 dimensions; at most 4 are understood");
    header_refused(SHAPE_OF("<f8", "(2, 1, 1)"), 16, "X_test.npy: images are uint8 or float32; save them with .astype");
    header_refused(SHAPE_OF("|i1", "(2, 1, 1)"), 2, "X_test.npy: images are uint8 or float32; save them with .astype");
    header_refused(SHAPE_OF("|u1", "(3, 1, 1)"), 3, "X_test.npy: holds 3 images, but there are 2 labels");
    write_npy("X_test.npy", 1, SHAPE_OF("<f4", "(2, 1, 1)"), 8);
    size_t count;
    unsigned char *whole = test_read_file("X_test.npy", &count);
    memcpy(whole + count - 4, (unsigned char[]){0, 0, 0x80, 0x7f}, 4); /* infinity */
    test_write_file("X_test.npy", whole, count);
    free(whole);
    refused("npy", LS_TEST, LS_BAD_FILE, "X_test.npy: image 1 holds a number that is not finite");

    write_npy("X_test.npy", 1, SHAPE_OF("|u1", "(2, 1, 1)"), 2);
    done(open_part("npy", LS_TEST));
    labels_npy("y_test.npy", (int32_t[]){0, -1}, 8, "<i4", 2);
    refused("npy", LS_TEST, LS_BAD_FILE, "y_test.npy: the label of image 1 is not one of 0 to 255");
    labels_npy("y_test.npy", (int32_t[]){256, 0}, 8, "<i4", 2);
    refused("npy", LS_TEST, LS_BAD_FILE, "y_test.npy: the label of image 0 is not one of 0 to 255");
    labels_npy("y_test.npy", (int8_t[]){0, -1}, 2, "|i1", 2);
    refused("npy", LS_TEST, LS_BAD_FILE, "y_test.npy: the label of image 1 is not one of 0 to 255");
    labels_npy("y_test.npy", (float[]){0, 1}, 8, "<f4", 2);
    refused("npy", LS_TEST, LS_BAD_FILE, "y_test.npy: labels are whole numbers in one dimension, (N)");
    write_npy("y_test.npy", 1, SHAPE_OF("|u1", "(2, 1)"), 2);
    refused("npy", LS_TEST, LS_BAD_FILE, "y_test.npy: labels are whole numbers in one dimension, (N)");
    assert_int_equal(unlink(test_path("y_test.npy")), 0);
    refused("npy", LS_TEST, LS_IO,
            "y_test.npy: is not there; a data set of arrays is X_train.npy, y_train.npy, X_test.npy and y_test.npy");
}

static void floats_are_doubted(void **state)
{
    (void)state;
    float numbers[2][4] = {{0, 255, 3, 7}, {1, 2, 3, 4}};
    ls_session *s = ls_open(NULL);
    for (int scale = 0; scale < 2; scale++, numbers[0][1] = 4095) {
        labels_npy("y_train.npy", (uint8_t[]){0, 1}, 2, "|u1", 2);
        write_npy("X_train.npy", 1, SHAPE_OF("<f4", "(2, 2, 2)"), sizeof numbers);
        size_t count;
        unsigned char *whole = test_read_file("X_train.npy", &count);
        memcpy(whole + count - sizeof numbers, numbers, sizeof numbers);
        test_write_file("X_train.npy", whole, count);
        free(whole);
        ls_data *data = ls_data_open(s, "npy", LS_TRAIN, &(ls_loader){.directory = test_folder});
        assert_string_equal(ls_data_summary(data), scale ? "2 images 1x2x2, values 0 to 4095, 2 classes, 1 each"
                                                         : "2 images 1x2x2, values 0 to 255, 2 classes, 1 each");
        char told[1024] = "";
        assert_int_equal(ls_data_doubts(data, NULL, test_keep_line, told), LS_OK);
        assert_string_equal(
            told,
            scale ? "float images are taken as they are, and these hold 0 to 4095, where networks learn from about "
                    "0 to 1: scale them before saving\n"
                  : "float images are taken as they are, and these hold 0 to 255, where networks learn from about 0 "
                    "to 1: divide them by 255, or save them as uint8\n");
    }
    assert_int_equal(ls_close(s), LS_OK);
}

#define test(name) cmocka_unit_test_setup_teardown(name, test_folder_make, test_folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(names),      test(mnist_and_fashion_mnist), test(cifar10), test(faulty_cifar10), test(cifar100), test(npy),
        test(faulty_npy), test(floats_are_doubted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
