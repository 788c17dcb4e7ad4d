/* What a file is, told by how it begins: for messages about files that are something else than what was wanted. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef enum ls_file_kind {
    LS_FILE_OTHER,
    LS_FILE_TORCH_ZIP, /* torch.save since PyTorch 1.6 */
    LS_FILE_NPZ,
    LS_FILE_ZIP, /* another */
    LS_FILE_PICKLE,
    LS_FILE_HDF5,
    LS_FILE_NPY,
    LS_FILE_PAGE, /* HTML or XML, which servers send in the place of a file */
    LS_FILE_GZIP,
    LS_FILE_LFS,   /* a pointer of Git LFS */
    LS_FILE_IMAGE, /* of a format that is not read */
} ls_file_kind;

enum { LS_FILE_BEGIN = 64 }; /* bytes that tell each of them; fewer will do for most */

ls_file_kind ls_file_kind_of(const unsigned char *bytes, size_t count);
/* "a zip archive", with what to do where that is the same for whatever was wanted; NULL of LS_FILE_OTHER. */
const char *ls_file_kind_text(ls_file_kind kind);
