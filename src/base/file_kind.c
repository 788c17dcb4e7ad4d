#include "base/file_kind.h"

#include <stdint.h>
#include <string.h>

typedef struct mark {
    ls_file_kind kind;
    int at; /* byte of the file */
    const char *bytes;
    size_t count;
} mark;

#define MARK(kind, at, bytes)                                                                                          \
    {                                                                                                                  \
        kind, at, bytes, sizeof(bytes) - 1                                                                             \
    }
static const mark marks[] = {MARK(LS_FILE_ZIP, 0, "PK\3\4"),
                             MARK(LS_FILE_PICKLE, 0, "\x80\2"),
                             MARK(LS_FILE_PICKLE, 0, "\x80\3"),
                             MARK(LS_FILE_PICKLE, 0, "\x80\4"),
                             MARK(LS_FILE_PICKLE, 0, "\x80\5"),
                             MARK(LS_FILE_HDF5, 0, "\x89HDF\r\n\x1a\n"),
                             MARK(LS_FILE_NPY, 0, "\x93NUMPY"),
                             MARK(LS_FILE_PAGE, 0, "<"),
                             MARK(LS_FILE_PAGE, 0, "\xef\xbb\xbf<"),
                             MARK(LS_FILE_GZIP, 0, "\x1f\x8b"),
                             MARK(LS_FILE_LFS, 0, "version https://git-lfs"),
                             MARK(LS_FILE_IMAGE, 0, "GIF8"),
                             MARK(LS_FILE_IMAGE, 0, "BM"),
                             MARK(LS_FILE_IMAGE, 0, "II*\0"),
                             MARK(LS_FILE_IMAGE, 0, "MM\0*"),
                             MARK(LS_FILE_IMAGE, 8, "WEBP"),
                             MARK(LS_FILE_IMAGE, 4, "ftyp")};

static const char *const texts[] = {
    [LS_FILE_TORCH_ZIP] = "a zip archive of torch.save",
    [LS_FILE_NPZ] = "a zip archive of NumPy's savez (.npz)",
    [LS_FILE_ZIP] = "a zip archive",
    [LS_FILE_PICKLE] = "a pickle of Python, such as torch.save wrote before PyTorch 1.6",
    [LS_FILE_HDF5] = "an HDF5 file",
    [LS_FILE_NPY] = "an array of NumPy (.npy)",
    [LS_FILE_PAGE] = "a web page; the address gave it in the file's place, fetch the file itself",
    [LS_FILE_GZIP] = "gzip data; unpack it with gunzip",
    [LS_FILE_LFS] = "a pointer of Git LFS in the file's place; fetch the file itself with git lfs pull",
    [LS_FILE_IMAGE] = "an image in another format (GIF, BMP, TIFF, WebP or HEIF)"};

/* By the name of an archive's first file. */
static ls_file_kind kind_of_zip(const unsigned char *bytes, size_t count)
{
    enum { LENGTH = 26, NAME = 30 };
    char name[LS_FILE_BEGIN] = "";
    if (count <= NAME)
        return LS_FILE_ZIP;
    size_t length = (size_t)bytes[LENGTH] | (size_t)bytes[LENGTH + 1] << 8, there = count - NAME;
    there = there < sizeof name - 1 ? there : sizeof name - 1;
    memcpy(name, bytes + NAME, length < there ? length : there);
    if (strstr(name, "/data") || strstr(name, "/version") || strstr(name, "/byteorder") || strstr(name, "/.format_ver"))
        return LS_FILE_TORCH_ZIP;
    return strstr(name, ".npy") ? LS_FILE_NPZ : LS_FILE_ZIP;
}

ls_file_kind ls_file_kind_of(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const mark *m = &marks[i];
        if (count >= (size_t)m->at + m->count && memcmp(bytes + m->at, m->bytes, m->count) == 0)
            return m->kind == LS_FILE_ZIP ? kind_of_zip(bytes, count) : m->kind;
    }
    return LS_FILE_OTHER;
}

const char *ls_file_kind_text(ls_file_kind kind)
{
    return texts[kind];
}
