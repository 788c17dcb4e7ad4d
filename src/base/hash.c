#include "base/hash.h"

#include <stdio.h>

#if LOCKSTEP_HAVE_CRYPTO

#include <openssl/evp.h>

struct ls_sha256 {
    ls_context *context;
    EVP_MD_CTX *digest;
    bool failed; /* once the library failed, the digest means nothing */
};

ls_sha256 *ls_sha256_begin(ls_context *context)
{
    ls_sha256 *hash = ls_alloc(context, 1, sizeof *hash, "a SHA-256 state");
    if (!hash)
        return NULL;
    hash->context = context;
    hash->digest = EVP_MD_CTX_new();
    if (!hash->digest || EVP_DigestInit_ex(hash->digest, EVP_sha256(), NULL) != 1) {
        ls_raise(context, LS_OUT_OF_MEMORY, "no memory for a SHA-256 state");
        EVP_MD_CTX_free(hash->digest);
        ls_release(context, hash);
        return NULL;
    }
    return hash;
}

ls_status ls_sha256_add(ls_sha256 *hash, const void *bytes, size_t count)
{
    if (!hash)
        return LS_INTERNAL;
    if (!hash->failed && count > 0 && EVP_DigestUpdate(hash->digest, bytes, count) != 1)
        hash->failed = true;
    return hash->failed ? ls_raise(hash->context, LS_INTERNAL, "SHA-256: the hash library failed") : LS_OK;
}

ls_status ls_sha256_end(ls_sha256 *hash, char digits[65])
{
    if (!hash)
        return LS_INTERNAL;
    ls_context *context = hash->context;
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    bool done = !digits || (!hash->failed && EVP_DigestFinal_ex(hash->digest, sum, &length) == 1 && length == 32);
    EVP_MD_CTX_free(hash->digest);
    ls_release(context, hash);
    if (digits)
        digits[0] = 0;
    if (!done)
        return ls_raise(context, LS_INTERNAL, "SHA-256: the hash library failed");
    for (unsigned i = 0; digits && i < length; i++)
        snprintf(digits + 2 * i, 3, "%02x", sum[i]);
    return LS_OK;
}

#else

ls_sha256 *ls_sha256_begin(ls_context *context)
{
    ls_raise(
        context, LS_UNSUPPORTED,
        "SHA-256: this library was built without a hash library; install OpenSSL's development files and build again");
    return NULL;
}

/* No hash can exist here, so there is none to add to or to end. */
ls_status ls_sha256_add(ls_sha256 *hash, const void *bytes, size_t count)
{
    (void)hash, (void)bytes, (void)count;
    return LS_UNSUPPORTED;
}

ls_status ls_sha256_end(ls_sha256 *hash, char digits[65])
{
    (void)hash;
    if (digits)
        digits[0] = 0;
    return LS_UNSUPPORTED;
}

#endif
