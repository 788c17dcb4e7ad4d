#include "base/random.h"
#include "base/math.h"

#include <math.h>
#include <string.h>

uint64_t ls_hash_bytes(const void *bytes, size_t n)
{
    const unsigned char *byte = bytes;
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ byte[i]) * 0x100000001b3u;
    return hash;
}

uint64_t ls_hash_name(const char *name)
{
    return ls_hash_bytes(name, strlen(name));
}

uint32_t ls_random_u32(const ls_random_stream *stream, uint64_t i)
{
    ls_derived from = ls_random_derive(stream);
    return (uint32_t)ls_derived_bits(&from, i);
}

double ls_derived_uniform(const ls_derived *from, uint64_t i)
{
    return (double)(ls_derived_bits(from, i) >> 11) * 0x1p-53;
}

double ls_random_uniform(const ls_random_stream *stream, uint64_t i)
{
    ls_derived from = ls_random_derive(stream);
    return ls_derived_uniform(&from, i);
}

static double horner(const double coefficients[8], double x)
{
    double sum = coefficients[0];
    for (int i = 1; i < 8; i++)
        sum = sum * x + coefficients[i];
    return sum;
}

double ls_normal_quantile(double p)
{
    /* The highest power first. */
    static const double a[8] = {2.50908092873012267270e+3, 3.34305755835881281050e+4, 6.72657709270087008530e+4,
                                4.59219539315498714570e+4, 1.37316937655094611250e+4, 1.97159095030655144270e+3,
                                1.33141667891784377450e+2, 3.38713287279636660800e+0};
    static const double b[8] = {
        5.22649527885285456100e+3, 2.87290857357219426740e+4, 3.93078958000927106100e+4, 2.12137943015865958670e+4,
        5.39419602142475110770e+3, 6.87187007492057908300e+2, 4.23133307016009112520e+1, 1.0};
    static const double c[8] = {7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
                                1.27045825245236838258e+0, 3.64784832476320460504e+0, 5.76949722146069140550e+0,
                                4.63033784615654529590e+0, 1.42343711074968357734e+0};
    static const double d[8] = {
        1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
        6.89767334985100004550e-1, 1.67638483018380384940e+0, 2.05319162663775882187e+0, 1.0};
    static const double e[8] = {2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
                                2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e+0,
                                5.46378491116411436990e+0, 6.65790464350110377720e+0};
    static const double f[8] = {
        2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
        1.48753612908506148525e-2,  1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0};
    double q = p - 0.5;
    if (q >= -0.425 && q <= 0.425) {
        double r = 0.180625 - q * q;
        return q * horner(a, r) / horner(b, r);
    }
    double r = sqrt(-ls_logd(q < 0 ? p : 1.0 - p));
    double x = r <= 5.0 ? horner(c, r - 1.6) / horner(d, r - 1.6) : horner(e, r - 5.0) / horner(f, r - 5.0);
    return q < 0 ? -x : x;
}

/* p = (k + 1/2) / 2^52 is exact, never 0 or 1, and as likely as 1 - p. */
double ls_derived_normal(const ls_derived *from, uint64_t i)
{
    return ls_normal_quantile(((double)(ls_derived_bits(from, i) >> 12) + 0.5) * 0x1p-52);
}

double ls_random_normal(const ls_random_stream *stream, uint64_t i)
{
    ls_derived from = ls_random_derive(stream);
    return ls_derived_normal(&from, i);
}

/* floor(random * bound / 2^64), by halves: a number below `bound` whose bias is below 2^-32. No draw is ever rejected,
 * so that draw i is always number i. */
static uint32_t below(uint64_t random, uint32_t bound)
{
    uint64_t high = (random >> 32) * bound, low = (random & 0xffffffffu) * bound;
    return (uint32_t)((high + (low >> 32)) >> 32);
}

void ls_random_permutation(const ls_random_stream *stream, uint32_t *order, uint32_t n)
{
    ls_derived from = ls_random_derive(stream);
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = below(ls_derived_bits(&from, i), i), other = order[j];
        order[j] = order[i - 1];
        order[i - 1] = other;
    }
}
