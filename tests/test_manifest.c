/* Manifests of checkpoints that this library did not write: of other versions, or with members that none may have. */
#include "checkpoint_run.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>
#include <lockstep_train.h>

#include "base/hash.h"
#include "not_run.h"

#if LOCKSTEP_HAVE_JANSSON && LOCKSTEP_HAVE_CRYPTO

static const char manifest[] = "kept/checkpoint-000002.json";

/* Writes a manifest with a right sum, as another library's would have; each `from` in it becomes `to`. */
static void rewrite_manifest(const char *from, const char *to)
{
    static const char sum[] = ",\n\"sha256\": \"";
    size_t n;
    unsigned char *bytes = test_read_file(manifest, &n);
    char *text = calloc(1, n + 1), *whole = calloc(1, 4 * n), *end = whole, *tail = text, digits[65];
    memcpy(text, bytes, n);
    for (char *found; (found = strstr(tail + 1, sum)) != NULL;)
        tail = found;
    *tail = '\0';
    const char *at = text;
    for (const char *found; (found = strstr(at, from)) != NULL; at = found + strlen(from))
        end += sprintf(end, "%.*s%s", (int)(found - at), at, to);
    assert_true(at != text);
    end += sprintf(end, "%s", at);
    ls_sha256 *hash = ls_sha256_begin(test_context());
    ls_sha256_add(hash, whole, (size_t)(end - whole));
    assert_int_equal(ls_sha256_end(hash, digits), LS_OK);
    test_context_done();
    end += sprintf(end, "%s%s\"}\n", sum, digits);
    test_write_file(manifest, whole, (size_t)(end - whole));
    free(bytes);
    free(text);
    free(whole);
}

static void other_versions(void **state)
{
    (void)state;
    save_at(&usual, 3, 6);
    run r;
    rewrite_manifest("\"lockstep checkpoint\": 1", "\"lockstep checkpoint\": 2");
    begin(&r, &usual);
    assert_true(load(&r)); /* the one before */
    assert_int_equal(r.steps, 3);
    assert_non_null(strstr(r.told, "it is of format 2, this library reads 1"));
    end(&r);
    unlink(test_path("kept/checkpoint-000001.json"));
    begin(&r, &usual);
    assert_false(load(&r)); /* none but that: it is not for us to begin anew over it */
    assert_fails(&r, LS_UNSUPPORTED, "it is of format 2, this library reads 1");
    rewrite_manifest("\"lockstep checkpoint\": 2", "\"lockstep checkpoint\": 1");
    /* What 0.1 wrote in place of its numerics, and a library that computes other bits. */
    rewrite_manifest("\"numerics\": \"2\"", "\"version\": \"0.1.0\"");
    begin(&r, &usual);
    assert_false(load(&r));
    assert_fails(&r, LS_CHANGED, "of a run with other settings: numerics was 1 and is 2 now");
    rewrite_manifest("\"version\": \"0.1.0\"", "\"version\": \"0.0.9\"");
    begin(&r, &usual);
    assert_false(load(&r));
    assert_fails(&r, LS_CHANGED, "of a run with other settings: numerics was not set and is 2 now");
    rewrite_manifest("\"version\": \"0.0.9\"", "\"numerics\": \"3\"");
    begin(&r, &usual);
    assert_false(load(&r));
    assert_fails(&r, LS_CHANGED, "of a run with other settings: numerics was 3 and is 2 now");
    static const char *const numerics[] = {"numerics", NULL};
    assert_int_equal(assert_goes_on(&(how){.momentum = 0.9, .allow_changed = numerics}), 6);
}

/* Members that are missing, of another kind or out of range, under a right sum. */
static void every_member_of_a_manifest(void **state)
{
    (void)state;
    static const char *const wrong[][3] = {
        {"\"lockstep checkpoint\": 1", "\"a checkpoint\": 1", "damaged: it is no checkpoint's manifest"},
        {"\"lockstep checkpoint\": 1", "\"lockstep checkpoint\": \"1\"", "damaged: it is no checkpoint's manifest"},
        {"\"position\"", "\"pasition\""},
        {"\"step\": 6", "\"step\": -6"},
        {"\"step\": 6", "\"step\": \"6\""},
        {"\"step\": 6", "\"stop\": 6"},
        {"\"step\": 6", "\"step\": 1e99"},
        {"\"step\": 6", "\"step\": 6, \"step\": 6", "damaged: it is no JSON"},
        {"\"step\": 6", "\"step\": 9007199254740993"}, /* 2^53 + 1 */
        {"\"epoch\": 1", "\"epuch\": 1"},
        {"\"epoch\": 1", "\"epoch\": -1"},
        {"\"epoch\": 1", "\"epoch\": 9007199254740993"},
        {"\"batch\": 1", "\"botch\": 1"},
        {"\"batch\": 1", "\"batch\": -1"},
        {"\"batch\": 1", "\"batch\": 2147483648"},
        {"\"step\": 6", "\"step\": 6, \"age\": 7"}, /* of more updates than there were */
        {"\"step\": 6", "\"step\": 6, \"age\": -1"},
        {"\"step\": 6", "\"step\": 6, \"averaged\": 7"},
        {"\"step\": 6", "\"step\": 6, \"averaged\": \"6\""},
        {"\"step\": 6", "\"step\": 6, \"age\": \"6\""},
        {"\"step\": 6", "\"step\": 6, \"lr\": -0.5"}, /* a rate that could not be set */
        {"\"step\": 6", "\"step\": 6, \"lr\": 1e30"},
        {"\"step\": 6", "\"step\": 6, \"lr\": \"0.025\""},
        {"\"step\": 6", "\"step\": 6, \"lr\": null"},
        {"\"settings\"", "\"sattings\""},
        {"\"settings\": {", "\"settings\": [], \"sattings\": {"},
        {"\"notes\"", "\"nates\""},
        {"\"notes\": {", "\"notes\": 7, \"nates\": {"},
        {"\"sections\": [", "\"suctions\": ["},
        {"\"sections\": [", "\"sections\": [], \"suctions\": ["},
        {"\"sections\": [", "\"sections\": [7, "},
        {"\"name\": \"header\"", "\"nime\": \"header\""},
        {"\"name\": \"header\"", "\"name\": \"\\u0007\""},
        {"\"name\": \"header\"", "\"name\": 7"},
        {"\"bytes\": ", "\"bites\": "},
        {"\"bytes\": ", "\"bytes\": -"},
        {"\"bytes\": ", "\"bytes\": 99999999999", "damaged: "},
        {"\"sha256\": \"", "\"sha255\": \""},
        {"\"\n  }", "z\"\n  }"},             /* of 65 digits */
        {"\"sha256\": \"", "\"sha256\": \"G" /* of 64 */
                           "000000000000000000000000000000000000000000000000000000000000000\", \"sha255\": \""},
    };
    save_at(&usual, 3, 6);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        size_t n;
        unsigned char *good = test_read_file(manifest, &n);
        rewrite_manifest(wrong[i][0], wrong[i][1]);
        assert_passed_over(wrong[i][2] ? wrong[i][2] : "damaged: it lacks a member, or has one out of range");
        test_write_file(manifest, good, n);
        free(good);
    }
    rewrite_manifest("\"step\": 6", "\"step\": 6, \"age\": 6");
    assert_int_equal(assert_goes_on(&usual), 6);
}

static double rate_of_the_newest(void)
{
    run r;
    begin(&r, &usual);
    assert_true(load(&r) && r.steps == 6);
    const double rate = ls_trainer_lr(r.trainer);
    assert_int_equal(end(&r), LS_OK);
    return rate;
}

/* What is left out is the option's 0.1; a whole number is a rate too. */
static void a_rate_is_gone_on_with(void **state)
{
    (void)state;
    save_at(&usual, 3, 6);
    const double usual_rate = rate_of_the_newest();
    rewrite_manifest("\"step\": 6", "\"step\": 6, \"lr\": 0.4");
    assert_true(fabs(rate_of_the_newest() - 4 * usual_rate) < 1e-15);
    rewrite_manifest("\"lr\": 0.4", "\"lr\": 4");
    assert_true(fabs(rate_of_the_newest() - 40 * usual_rate) < 1e-14);
    rewrite_manifest("\"lr\": 4", "\"lr\": 0");
    assert_true(rate_of_the_newest() == 0);
}

#endif

int main(void)
{
#if LOCKSTEP_HAVE_JANSSON && LOCKSTEP_HAVE_CRYPTO
#define test(name) cmocka_unit_test_setup_teardown(name, test_folder_make, test_folder_remove)
    const struct CMUnitTest tests[] = {test(other_versions), test(every_member_of_a_manifest),
                                       test(a_rate_is_gone_on_with)};
    return cmocka_run_group_tests(tests, NULL, NULL);
#else
    return test_none_run("this build has no checkpoints");
#endif
}
