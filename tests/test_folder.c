/* Folders of pictures, and pictures alone: what is read, and what is said of every fault. */
#include "datasets.h"
#include "not_run.h"

#if LOCKSTEP_HAVE_PNG
#include <png.h>
#endif
#if LOCKSTEP_HAVE_JPEG
#include <jpeglib.h>
#endif

static void make_folder(const char *name)
{
    assert_int_equal(mkdir(test_path(name), 0700), 0);
}

static void no_folder(void **state)
{
    (void)state;
    refused("folder", LS_TRAIN, LS_IO,
            "train: is no folder; a data set of images is train/CLASS/IMAGE and test/CLASS/IMAGE in");
    make_folder("Training");
    make_folder("holdout");
    test_write_file("loose.png", "x", 1); /* which no folder beside it would mend */
    refused("folder", LS_TRAIN, LS_IO, "; its folders are Training, holdout");
    assert_int_equal(unlink(test_path("loose.png")), 0);
    refused("folder", LS_TEST, LS_IO,
            "test: is no folder; a data set of images is train/CLASS/IMAGE and test/CLASS/IMAGE in");
    make_folder("train");
    refused("folder", LS_TRAIN, LS_BAD_FILE, "train: there is no folder in it; each class has one, with its images");
    test_write_file("train/stray.JPG", "x", 1);
    refused("folder", LS_TRAIN, LS_BAD_FILE,
            "train/stray.JPG: an image without a class; put it into a folder of the class's name");
    assert_int_equal(unlink(test_path("train/stray.JPG")), 0);
    make_folder("train/cat");
    refused("folder", LS_TRAIN, LS_BAD_FILE, "train/cat: there is no PNG or JPEG file in it");
    make_folder("test");
    make_folder("test/cat");
    refused("folder", LS_TEST, LS_BAD_FILE, "train: there is no PNG or JPEG file in its folders");
    make_folder("train/cat/deeper");
    refused("folder", LS_TRAIN, LS_BAD_FILE,
            "train/cat/deeper: a folder inside a class; images lie in the class's folder itself");
    assert_int_equal(rmdir(test_path("train/cat/deeper")), 0);
    test_write_file("train/cat/a.png", "", 0);
    refused("folder", LS_TRAIN, LS_BAD_FILE,
            "train/cat/a.png: neither a PNG nor a JPEG file by how it begins: it is empty");
    test_write_file("train/cat/a.png", "GIF89a", 6);
    refused("folder", LS_TRAIN, LS_BAD_FILE,
            "train/cat/a.png: neither a PNG nor a JPEG file by how it begins: it is an image in another format (GIF, "
            "BMP, TIFF, WebP or HEIF)");
#if !LOCKSTEP_HAVE_PNG
    test_write_file("train/cat/a.png", "\x89PNG\r\n\x1a\n", 8);
    refused("folder", LS_TRAIN, LS_UNSUPPORTED, "built without libpng");
#endif
#if !LOCKSTEP_HAVE_JPEG
    test_write_file("train/cat/a.png", "\xff\xd8\xff\xe0", 4);
    refused("folder", LS_TRAIN, LS_UNSUPPORTED, "built without libjpeg");
#endif
}

#if LOCKSTEP_HAVE_PNG

/* `bits` a sample; pixels[] is row by row as PNG packs them. */
static void write_png(const char *name, int width, int height, int type, int bits, int interlace,
                      const unsigned char *pixels)
{
    FILE *out = fopen(test_path(name), "wb");
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    assert_false(setjmp(png_jmpbuf(png)));
    png_init_io(png, out);
    png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, bits, type, interlace,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_gAMA(png, info, 0.25); /* not looked at */
    static const png_color palette[4] = {{10, 20, 30}, {40, 50, 60}, {70, 80, 90}, {255, 0, 1}};
    if (type == PNG_COLOR_TYPE_PALETTE)
        png_set_PLTE(png, info, palette, 4);
    png_write_info(png, info);
    png_set_interlace_handling(png);
    png_bytep rows[64];
    for (int row = 0; row < height; row++)
        rows[row] = (png_bytep)pixels + (size_t)row * png_get_rowbytes(png, info);
    png_write_image(png, rows);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    fclose(out);
}

static const unsigned char counting[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,
                                         13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24};

static void grey_png(const char *name, int first)
{
    write_png(name, 2, 2, PNG_COLOR_TYPE_GRAY, 8, PNG_INTERLACE_NONE, counting + first - 1);
}

static void expect_pixels(const ls_data *data, int i, const char *what, const unsigned char *pixels, size_t n)
{
    if (memcmp((const uint8_t *)data->of.values + (size_t)i * n, pixels, n) != 0)
        fail_msg("%s: other pixels", what);
}

/* Classes and images in byte order; what is no image, and hidden files, are passed over. */
static void folder_of_png(void **state)
{
    (void)state;
    make_folder("train");
    make_folder("train/b");
    make_folder("train/a");
    make_folder("train/B");
    make_folder("train/.hidden");
    test_write_file("train/README", "x", 1);
    test_write_file("train/b/Thumbs.db", "x", 1);
    test_write_file("train/b/.x.png", "x", 1);
    grey_png("train/b/2.png", 1);
    grey_png("train/b/10.png", 2);
    grey_png("train/a/x.PNG", 3);
    grey_png("train/B/y.png", 4);
    ls_data *data = open_part("folder", LS_TRAIN);
    expect_about(data, 4, 1, 2, 2, 3);
    assert_memory_equal(data->of.labels, ((uint8_t[]){0, 1, 2, 2}), 4);
    expect_pixels(data, 0, "B/y", counting + 3, 4);
    expect_pixels(data, 1, "a/x", counting + 2, 4);
    expect_pixels(data, 2, "b/10", counting + 1, 4);
    expect_pixels(data, 3, "b/2", counting, 4);
    assert_string_equal(ls_data_class(data, 0), "B");
    assert_string_equal(ls_data_class(data, 2), "b");
    done(data);
    every_allocation("folder", LS_TRAIN, 20);

    /* The test part has the training part's classes, of which some may lack; "val" is it where there is no "test". */
    make_folder("val");
    make_folder("val/b");
    grey_png("val/b/1.png", 5);
    data = open_part("folder", LS_TEST);
    expect_about(data, 1, 1, 2, 2, 3);
    assert_int_equal(data->of.labels[0], 2);
    done(data);
    static const char *const others[] = {"val", "valid", "validation", "val"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rename(test_path(others[i]), test_path(others[i + 1])), 0);
        done(open_part("folder", LS_TEST));
    }
    make_folder("test");
    make_folder("test/c");
    grey_png("test/c/1.png", 5);
    refused("folder", LS_TEST, LS_BAD_FILE, "test/c: there is no such class among the training images");
    assert_int_equal(rename(test_path("test/c"), test_path("test/a")), 0);
    done(open_part("folder", LS_TEST));
    write_png("test/a/1.png", 2, 3, PNG_COLOR_TYPE_GRAY, 8, PNG_INTERLACE_NONE, counting);
    refused("folder", LS_TEST, LS_BAD_FILE,
            "test/a/1.png: 2 pixels wide and 3 high, but "); /* the first training image decides */
    refused("folder", LS_TEST, LS_BAD_FILE,
            "train/B/y.png, the first image, which decides for all, is 2 wide and 2 high; make all of one size, such "
            "as with `mogrify -resize 2x2!`");
    assert_int_equal(rename(test_path("train"), test_path("other")), 0);
    data = open_part("folder", LS_TEST); /* for an evaluation alone */
    expect_about(data, 1, 1, 3, 2, 1);
    done(data);
}

static char told_lines[64][1024];
static int n_told;

static void tell(const char *line, void *user)
{
    assert_ptr_equal(user, told_lines);
    snprintf(told_lines[n_told++], sizeof *told_lines, "%s", line);
}

static void expect_told(ls_part part, int n, const char *message_part)
{
    n_told = 0;
    const ls_loader loader = {.directory = test_folder, .told = tell, .user = told_lines};
    assert_null(ls_dataset_open(test_context(), 0, "folder", part, &loader));
    test_expect(LS_BAD_FILE, message_part);
    assert_int_equal(n_told, n);
    test_context_done();
}

/* All faults are found in one run, also those of the part that is not wanted yet: a few are told, all are counted. */
static void many_faults(void **state)
{
    (void)state;
    static const char *const classes[] = {"train", "train/a", "train/b", "train/c", "train/a/deeper"};
    for (int i = 0; i < 4; i++)
        make_folder(classes[i]);
    grey_png("train/a/3.png", 1);
    grey_png("train/b/1.png", 1);
    grey_png("train/c/1.png", 1);
    test_write_file("train/a/1.png", "GIF89a", 6);
    expect_told(LS_TRAIN, 0,
                "train/a/1.png: neither a PNG nor a JPEG file by how it begins: it is an image in another format (GIF, "
                "BMP, TIFF, WebP or HEIF)"); /* alone it is the failure */
    test_write_file("train/a/2.png", "", 0);
    write_png("train/b/2.png", 2, 3, PNG_COLOR_TYPE_GRAY, 8, PNG_INTERLACE_NONE, counting);
    write_png("train/c/2.png", 2, 2, PNG_COLOR_TYPE_RGB, 8, PNG_INTERLACE_NONE, counting);
    grey_png("train/stray.png", 1);
    make_folder(classes[4]);
    expect_told(LS_TRAIN, 6, "train: 6 faults in its files, the first of them: ");
    static const char *const lines[] = {
        "train/stray.png: an image without a class; put it into a folder of the class's name",
        "train/a/deeper: a folder inside a class; images lie in the class's folder itself",
        ("train/a/1.png: neither a PNG nor a JPEG file by how it begins: it is an image in another format (GIF, BMP, "
         "TIFF, WebP or HEIF)"),
        "train/a/2.png: neither a PNG nor a JPEG file by how it begins: it is empty",
        "train/b/2.png: 2 pixels wide and 3 high, but ",
        "train/c/2.png: in colour, but "};
    for (int i = 0; i < 6; i++)
        assert_non_null(strstr(told_lines[i], lines[i]));
    refused("folder", LS_TRAIN, LS_BAD_FILE, "train: 6 faults"); /* also where nobody is told */
    static const char *const others[] = {"test", "test/a", "test/z"};
    for (int i = 0; i < 3; i++)
        make_folder(others[i]);
    grey_png("test/a/1.png", 1);
    expect_told(LS_TRAIN, 7, "7 faults in its files, the first of them: ");
    assert_non_null(strstr(told_lines[6], "test/z: there is no such class among the training images"));
    assert_int_equal(rmdir(test_path("test/z")), 0);
    test_write_file("test/a/2.png", "x", 1);
    expect_told(LS_TRAIN, 7, "7 faults in its files, the first of them: ");
    assert_non_null(strstr(told_lines[6], "test/a/2.png: neither a PNG nor a JPEG file by how it begins"));
    char both[256]; /* what settles the test part's images is a look at the other part: faults of both are counted */
    snprintf(both, sizeof both, "%s: 5 faults in its files, the first of them: ", test_folder);
    expect_told(LS_TEST, 5, both);
    for (int i = 0; i < 30; i++) {
        char name[32];
        snprintf(name, sizeof name, "train/b/x%d.png", i);
        test_write_file(name, "x", 1);
    }
    expect_told(LS_TRAIN, 20, ": 37 faults in its files");
    for (int n = 1; n < 200; n++) { /* no memory is that, and no fault of a file */
        ls_context *context = test_context();
        test_allocations.fail_at = n;
        assert_null(ls_dataset_open(context, 0, "folder", LS_TRAIN, &(ls_loader){.directory = test_folder}));
        bool done_all = context->status == LS_BAD_FILE;
        assert_true(done_all || context->status == LS_OUT_OF_MEMORY);
        test_context_done();
        if (done_all)
            break;
    }
}

static void kinds_of_png(void **state)
{
    (void)state;
    static const unsigned char colours[] = {1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12}; /* counting, as planes of 2 x 2 */
    static const unsigned char alpha[] = {1, 255, 2, 255, 3, 255, 4, 255}, hole[] = {1, 255, 2, 254, 3, 255, 4, 255};
    make_folder("train");
    make_folder("train/a");
    grey_png("train/a/0.png", 1);
    write_png("train/a/1.png", 2, 2, PNG_COLOR_TYPE_GRAY, 8, PNG_INTERLACE_ADAM7, counting);
    write_png("train/a/2.png", 2, 2, PNG_COLOR_TYPE_GRAY, 16, PNG_INTERLACE_NONE,
              (unsigned char[]){1, 1, 2, 2, 3, 3, 4, 4});
    write_png("train/a/3.png", 2, 2, PNG_COLOR_TYPE_GRAY_ALPHA, 8, PNG_INTERLACE_NONE, alpha);
    ls_data *data = open_part("folder", LS_TRAIN);
    for (int i = 0; i < 4; i++)
        expect_pixels(data, i, "grey", counting, 4);
    done(data);
    write_png("train/a/4.png", 2, 2, PNG_COLOR_TYPE_GRAY, 1, PNG_INTERLACE_NONE, (unsigned char[]){0x40, 0x80});
    data = open_part("folder", LS_TRAIN);
    expect_pixels(data, 4, "one bit", (unsigned char[]){0, 255, 255, 0}, 4);
    done(data);
    write_png("train/a/4.png", 2, 2, PNG_COLOR_TYPE_GRAY_ALPHA, 8, PNG_INTERLACE_NONE, hole);
    refused("folder", LS_TRAIN, LS_BAD_FILE,
            "train/a/4.png: has transparent pixels, which have no colour of their own; put it on a background, such as "
            "with `mogrify -background black -alpha remove`");
    write_png("train/a/4.png", 2, 2, PNG_COLOR_TYPE_RGB, 8, PNG_INTERLACE_NONE, counting);
    refused("folder", LS_TRAIN, LS_BAD_FILE, "train/a/4.png: in colour, but ");

    /* Colour first: grey ones become three equal planes. */
    write_png("train/a/0.png", 2, 2, PNG_COLOR_TYPE_RGB, 8, PNG_INTERLACE_ADAM7, counting);
    write_png("train/a/2.png", 2, 2, PNG_COLOR_TYPE_PALETTE, 2, PNG_INTERLACE_NONE, (unsigned char[]){0x10, 0xb0});
    data = open_part("folder", LS_TRAIN);
    expect_about(data, 5, 3, 2, 2, 1);
    expect_pixels(data, 0, "interlaced colour", colours, 12);
    expect_pixels(data, 1, "grey in colour", (unsigned char[]){1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}, 12);
    expect_pixels(data, 2, "palette", (unsigned char[]){10, 40, 70, 255, 20, 50, 80, 0, 30, 60, 90, 1}, 12);
    expect_pixels(data, 4, "colour", colours, 12);
    done(data);
}

/* Cut off anywhere, or with a byte changed in what counts: refused by name. */
static void damaged_png(void **state)
{
    (void)state;
    make_folder("train");
    make_folder("train/a");
    write_png("train/a/0.png", 2, 2, PNG_COLOR_TYPE_RGB, 8, PNG_INTERLACE_NONE, counting);
    size_t count;
    unsigned char *whole = test_read_file("train/a/0.png", &count);
    for (size_t n = 8; n < count; n++) {
        test_write_file("train/a/0.png", whole, n);
        refused("folder", LS_TRAIN, LS_BAD_FILE, "train/a/0.png: cannot be decoded: ");
    }
    for (size_t i = 16; i < 33; i++) { /* the header and its sum */
        whole[i] ^= 0x10;
        test_write_file("train/a/0.png", whole, count);
        refused("folder", LS_TRAIN, LS_BAD_FILE, "train/a/0.png: ");
        whole[i] ^= 0x10;
    }
    free(whole);
}

#endif

#if LOCKSTEP_HAVE_JPEG

/* A grey or colour square of one value each, or of four inks. */
/* Exif that is written too, where it is not NULL. */
static const unsigned char *noted;
static unsigned noted_bytes;

static void write_jpeg(const char *name, int side, int components, const unsigned char value[4])
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    static unsigned char row[64 * 4];
    unsigned char *rows[1] = {row};
    FILE *out = fopen(test_path(name), "wb");
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, out);
    jpeg.image_width = jpeg.image_height = (JDIMENSION)side;
    jpeg.input_components = components;
    jpeg.in_color_space = components == 1 ? JCS_GRAYSCALE : components == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 100, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    if (noted)
        jpeg_write_marker(&jpeg, JPEG_APP0 + 1, noted, noted_bytes);
    for (int i = 0; i < side * components; i++)
        row[i] = value[i % components];
    for (int i = 0; i < side; i++)
        jpeg_write_scanlines(&jpeg, rows, 1);
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    fclose(out);
}

/* In either order of bytes, behind another entry; cut off anywhere it is not looked at. */
static void orientations_are_noted(const unsigned char colour[4])
{
    static const unsigned char little[] =
        "Exif\0\0II*\0\x08\0\0\0\2\0\0\1\3\0\1\0\0\0\7\0\0\0\x12\1\3\0\1\0\0\0\6\0\0\0",
                               big[] = "Exif\0\0MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0",
                               upright[] = "Exif\0\0MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\1\0\0",
                               far[] = "Exif\0\0MM\0*\xff\xff\xff\xf8\0\1\1\x12\0\3\0\0\0\1\0\6\0\0";
    const struct {
        const unsigned char *text;
        size_t bytes;
        bool turned;
    } cases[] = {{little, sizeof little - 1, true},
                 {big, sizeof big - 1, true},
                 {upright, sizeof upright - 1, false},
                 {far, sizeof far - 1, false},
                 {little, sizeof little - 1 - 12, false},
                 {little, 16, false},
                 {big, 9, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char told[1024] = "";
        noted = cases[i].text;
        noted_bytes = (unsigned)cases[i].bytes;
        write_jpeg("train/a/1.jpeg", 16, 1, colour);
        noted = NULL;
        ls_session *s = ls_open(NULL);
        ls_data *data = ls_data_open(s, "folder", LS_TRAIN, &(ls_loader){.directory = test_folder});
        assert_int_equal(ls_data_doubts(NULL, data, test_keep_line, told), LS_OK);
        const char *line =
            strstr(told, "1 of 2 test images have a note by the camera to turn them, which is not followed, the first "
                         "is image 1: turn their pixels, such as with `mogrify -auto-orient`");
        assert_true((line != NULL) == cases[i].turned);
        assert_int_equal(ls_close(s), LS_OK);
    }
}

static void folder_of_jpeg(void **state)
{
    (void)state;
    static const unsigned char colour[4] = {200, 100, 50, 0};
    make_folder("train");
    make_folder("train/a");
    write_jpeg("train/a/0.jpg", 16, 3, colour);
    write_jpeg("train/a/1.jpeg", 16, 1, colour);
    ls_data *data = open_part("folder", LS_TRAIN);
    expect_about(data, 2, 3, 16, 16, 1);
    const uint8_t *pixels = data->of.values;
    for (int plane = 0; plane < 3; plane++)
        for (int i = 0; i < 256; i++) {
            assert_in_range(pixels[plane * 256 + i], colour[plane] - 2, colour[plane] + 2);
            assert_in_range(pixels[768 + plane * 256 + i], 198, 202);
        }
    done(data);
    every_allocation("folder", LS_TRAIN, 10);
    orientations_are_noted(colour);
    write_jpeg("train/a/1.jpeg", 17, 3, colour);
    refused("folder", LS_TRAIN, LS_BAD_FILE, "train/a/1.jpeg: 17 pixels wide and 17 high, but ");
    write_jpeg("train/a/1.jpeg", 16, 4, colour);
    refused("folder", LS_TRAIN, LS_BAD_FILE,
            "train/a/1.jpeg: cannot be decoded: it is neither grey nor of red, green and blue (of four inks, as for "
            "print); convert it, such as with `mogrify -colorspace sRGB`");
    write_jpeg("train/a/1.jpeg", 16, 3, colour);
    size_t count;
    unsigned char *whole = test_read_file("train/a/1.jpeg", &count);
    for (size_t n = 3; n < count; n += 7) { /* what is cut off would come as grey */
        test_write_file("train/a/1.jpeg", whole, n);
        refused("folder", LS_TRAIN, LS_BAD_FILE, "train/a/1.jpeg: cannot be decoded: ");
    }
    free(whole);
}

#endif
#if LOCKSTEP_HAVE_PNG

/* A picture read for a network: as many planes as asked for, by luma, and each pixel the mean of the area that it
 * covers. */
static void a_picture_is_made_to_fit(void **state)
{
    (void)state;
    uint8_t pixels[12] = {0};
    ls_session *s = ls_open(NULL);
    grey_png("grey.png", 1); /* 1 2 3 4 */
    assert_int_equal(ls_read_picture(s, test_path("grey.png"), 3, 2, 2, pixels), LS_OK);
    assert_memory_equal(pixels, ((uint8_t[]){1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}), 12);
    assert_int_equal(ls_read_picture(s, test_path("grey.png"), 1, 1, 1, pixels), LS_OK);
    assert_int_equal(pixels[0], 3); /* 2.5, and halves go up */
    assert_int_equal(ls_read_picture(s, test_path("grey.png"), 1, 3, 1, pixels), LS_OK);
    assert_memory_equal(pixels, ((uint8_t[]){2, 3, 4}),
                        3); /* rows' means are 1.5 and 3.5; the middle one lies in both */
    write_png("colour.png", 1, 1, PNG_COLOR_TYPE_RGB, 8, PNG_INTERLACE_NONE, (const unsigned char[]){200, 100, 50});
    assert_int_equal(ls_read_picture(s, test_path("colour.png"), 1, 1, 1, pixels), LS_OK);
    assert_int_equal(pixels[0], 124); /* 0.299 * 200 + 0.587 * 100 + 0.114 * 50 = 124.2 */
    assert_int_equal(ls_read_picture(s, test_path("none.png"), 1, 1, 1, pixels), LS_IO);
    assert_non_null(strstr(ls_message(s), "none.png"));
    ls_close(s);
}

#endif

#define test(name) cmocka_unit_test_setup_teardown(name, test_folder_make, test_folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(no_folder),
#if LOCKSTEP_HAVE_PNG
        test(folder_of_png),
        test(many_faults),
        test(kinds_of_png),
        test(damaged_png),
        test(a_picture_is_made_to_fit),
#endif
#if LOCKSTEP_HAVE_JPEG
        test(folder_of_jpeg),
#endif
    };
#if !LOCKSTEP_HAVE_PNG || !LOCKSTEP_HAVE_JPEG
    test_part_not_run("decoders of pictures", "this build has no libpng or no libjpeg");
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
