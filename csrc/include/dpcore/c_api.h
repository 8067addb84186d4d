/* The C interface: plain C99 (and C++), no Python, no C++ types, no exceptions.
 *
 * Errors:  every function that can fail returns a dpcore_status: DPCORE_OK (0) or what went wrong. On failure the
 *          outputs are untouched (a fill may have written part of its array: treat it as unset) and
 *          dpcore_last_error() has a message that names the argument, the rule and, for public parameters, the
 *          value. No exception leaves a function. Errors depend on parameters, never on values to be protected.
 * Handles: opaque, made by *_new and freed by *_free, which takes NULL. Samplers, noises and losses are immutable:
 *          threads may share them. A test source belongs to one thread at a time.
 * Random:  `source` NULL is the calling thread's cryptographic stream, keyed by the operating system, safe across
 *          fork(); see random_stream.hpp. Anything else is a deterministic source for tests.
 * Threads: every function may be called from any thread. `threads` 0 lets a bulk call use all cores, 1 keeps it on
 *          the caller's; the result does not depend on it.
 * ABI:     a function, once released, keeps its name and its meaning. DPCORE_ABI_VERSION grows when functions are
 *          added; compare it with dpcore_abi_version() when the library is loaded at run time. Enumerations are
 *          passed as int.
 * Link:    libdpcore_c.so (CMake target dpcore::c), or libdpcore.a with -lstdc++ -lm -lpthread (dpcore::core).
 */
#ifndef DPCORE_C_API_H
#define DPCORE_C_API_H

#include <stddef.h>
#include <stdint.h>

/* Only the shared library exports; linked statically, nothing leaks out of the embedding library. */
#if defined(DPCORE_EXPORT_C_API) && defined(__GNUC__)
#define DPCORE_API __attribute__((visibility("default")))
#else
#define DPCORE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define DPCORE_ABI_VERSION 1

/* ---- status and version */

typedef int dpcore_status;
enum {
    DPCORE_OK = 0,
    DPCORE_INVALID_ARGUMENT = 1, /* a parameter is outside its domain, or a pointer is NULL */
    DPCORE_NO_RANDOMNESS = 2,    /* the operating system gave no randomness; nothing was drawn */
    DPCORE_NO_MEMORY = 3,
    DPCORE_INTERNAL = 4 /* a defect of the library: please report it with the message */
};

DPCORE_API int dpcore_abi_version(void);
DPCORE_API const char* dpcore_version(void);

/* The message of the last failure in the calling thread, "" before the first; good until its next failure. */
DPCORE_API const char* dpcore_last_error(void);

/* "ok", "invalid argument", ...; "unknown status" for other numbers. */
DPCORE_API const char* dpcore_status_name(dpcore_status status);

/* ---- random sources */

/* Predictable: for tests only. The words are those of Python's InsecureTestRng(seed), in every version. */
typedef struct dpcore_insecure_test_source dpcore_insecure_test_source;
DPCORE_API dpcore_status dpcore_insecure_test_source_new(uint64_t seed, dpcore_insecure_test_source** out);
DPCORE_API void dpcore_insecure_test_source_free(dpcore_insecure_test_source* source);

/* Bytes of the calling thread's cryptographic stream. */
DPCORE_API dpcore_status dpcore_random_bytes(void* out, size_t count);

/* ---- integer noise, exact: geometric, discrete Laplace, discrete Gaussian; scale in [1e-3, 1e15] */

typedef struct dpcore_sampler dpcore_sampler;
DPCORE_API dpcore_status dpcore_geometric_new(double scale, dpcore_sampler** out);
DPCORE_API dpcore_status dpcore_discrete_laplace_new(double scale, dpcore_sampler** out);
DPCORE_API dpcore_status dpcore_discrete_gaussian_new(double sigma, dpcore_sampler** out);
DPCORE_API void dpcore_sampler_free(dpcore_sampler* sampler);

/* One draw; value + one draw, saturated at the ends of int64_t; the same over arrays, where out may be values. */
DPCORE_API dpcore_status dpcore_sampler_draw(const dpcore_sampler* sampler, dpcore_insecure_test_source* source,
                                             int64_t* out);
DPCORE_API dpcore_status dpcore_sampler_add(const dpcore_sampler* sampler, dpcore_insecure_test_source* source,
                                            int64_t value, int64_t* out);
DPCORE_API dpcore_status dpcore_sampler_fill(const dpcore_sampler* sampler, dpcore_insecure_test_source* source,
                                             int64_t* out, size_t count, unsigned threads);
DPCORE_API dpcore_status dpcore_sampler_add_fill(const dpcore_sampler* sampler,
                                                 dpcore_insecure_test_source* source, const int64_t* values,
                                                 int64_t* out, size_t count, unsigned threads);

/* Without a handle, from the cryptographic stream, on all cores. */
DPCORE_API dpcore_status dpcore_geometric_fill(double scale, int64_t* out, size_t count);
DPCORE_API dpcore_status dpcore_discrete_laplace_fill(double scale, int64_t* out, size_t count);
DPCORE_API dpcore_status dpcore_discrete_gaussian_fill(double sigma, int64_t* out, size_t count);

/* ---- real noise on a grid: continuous Laplace or Gaussian, rounded exactly; scale in [1e-280, 1e280] */

typedef struct dpcore_noise dpcore_noise;
/* grid: a power of two with scale/grid in [2^-10, 2^49]; 0 chooses one by the scale alone. */
DPCORE_API dpcore_status dpcore_laplace_new(double scale, double grid, dpcore_noise** out);
DPCORE_API dpcore_status dpcore_gaussian_new(double sigma, double grid, dpcore_noise** out);
DPCORE_API void dpcore_noise_free(dpcore_noise* noise);
DPCORE_API dpcore_status dpcore_noise_grid(const dpcore_noise* noise, double* out);

/* Release a value with _add, which rounds it to the grid and adds in integers; a sum of the value and a draw in
 * floating point would leak. Values are clamped to +-grid * 2^120 (at most 2^1000), NaN counts as 0. */
DPCORE_API dpcore_status dpcore_noise_draw(const dpcore_noise* noise, dpcore_insecure_test_source* source,
                                           double* out);
DPCORE_API dpcore_status dpcore_noise_add(const dpcore_noise* noise, dpcore_insecure_test_source* source,
                                          double value, double* out);
DPCORE_API dpcore_status dpcore_noise_fill(const dpcore_noise* noise, dpcore_insecure_test_source* source,
                                           double* out, size_t count, unsigned threads);
DPCORE_API dpcore_status dpcore_noise_add_fill(const dpcore_noise* noise, dpcore_insecure_test_source* source,
                                               const double* values, double* out, size_t count, unsigned threads);
DPCORE_API dpcore_status dpcore_laplace_fill(double scale, double grid, double* out, size_t count);
DPCORE_API dpcore_status dpcore_gaussian_fill(double sigma, double grid, double* out, size_t count);

/* ---- calibration of Gaussian noise; epsilon, sigma, sensitivity finite and > 0, 0 < delta < 1 */

/* Relative error at most 1e-13. */
DPCORE_API dpcore_status dpcore_gaussian_delta(double epsilon, double sigma, double sensitivity, double* out);
/* Smallest sigma whose `compositions` (1 to 2^53) releases are (epsilon, delta)-private; on the safe side. */
DPCORE_API dpcore_status dpcore_gaussian_sigma(double epsilon, double delta, double sensitivity,
                                               int64_t compositions, double* out);
/* Smallest epsilon >= 0; on the safe side. */
DPCORE_API dpcore_status dpcore_gaussian_epsilon(double sigma, double delta, double sensitivity, double* out);

/* ---- counts against attackers who know at most `known` of the `records`
 *
 * The unknown records, records - known - 1 of them, are independent, each counted with a probability of its own
 * in [bias_low, bias_high]; equal ends mean one bias. Counts are whole numbers up to 2^53 (below 2^52 for a
 * range), 0 <= known < records. Every answer holds for both directions and for all choices in the range. */

/* Upper bound of delta at epsilon in (0, 2^60] with normal noise of standard deviation noise_scale >= 0. */
DPCORE_API dpcore_status dpcore_count_delta(double epsilon, int64_t records, int64_t known, double bias_low,
                                            double bias_high, double noise_scale, double* out);
/* Smallest noise scale for each of `releases` releases, on the safe side; 0 where the unknown records are noise
 * enough. It also gives plain (worst_case_epsilon, delta)-differential privacy; infinity asks for no such floor.
 * The delta achieved comes back beside it. Release with dpcore_gaussian_new. */
DPCORE_API dpcore_status dpcore_count_calibrate(double epsilon, double delta, int64_t records, int64_t known,
                                                double bias_low, double bias_high, double worst_case_epsilon,
                                                int64_t releases, double* noise_scale, double* achieved_delta);

/* ---- accounting: the privacy loss of a programme of releases */

typedef struct dpcore_loss dpcore_loss;
enum { DPCORE_NEIGHBOURS_BOTH = 0, DPCORE_NEIGHBOURS_ADD = 1, DPCORE_NEIGHBOURS_REMOVE = 2 };

/* epsilon in [0, 1e100], delta and rate in [0, 1], whole sensitivities in [1, 10^6], ratios sigma/sensitivity and
 * scales in [1e-100, 1e100]; discrete Gaussian: sigma >= 0.01; subsampled: sigma in [0.05, 1e6]. */
DPCORE_API dpcore_status dpcore_loss_from_laplace(double epsilon, dpcore_loss** out);
DPCORE_API dpcore_status dpcore_loss_from_gaussian(double sigma, double sensitivity, dpcore_loss** out);
DPCORE_API dpcore_status dpcore_loss_from_discrete_laplace(double scale, int64_t sensitivity, dpcore_loss** out);
DPCORE_API dpcore_status dpcore_loss_from_discrete_gaussian(double sigma, int64_t sensitivity, dpcore_loss** out);
DPCORE_API dpcore_status dpcore_loss_from_randomized_response(double epsilon, dpcore_loss** out);
DPCORE_API dpcore_status dpcore_loss_from_pure(double epsilon, dpcore_loss** out);
DPCORE_API dpcore_status dpcore_loss_from_approximate(double epsilon, double delta, dpcore_loss** out);
DPCORE_API dpcore_status dpcore_loss_from_subsampled_gaussian(double sigma, double rate, int neighbours,
                                                              dpcore_loss** out);
/* `count` probabilities each, summing to 1 within 1e-9. */
DPCORE_API dpcore_status dpcore_loss_from_pmf(const double* p, const double* q, size_t count, dpcore_loss** out);
DPCORE_API void dpcore_loss_free(dpcore_loss* loss);

/* New losses: both released; released `copies` times, 0 to 2^53. */
DPCORE_API dpcore_status dpcore_loss_compose(const dpcore_loss* first, const dpcore_loss* second,
                                             dpcore_loss** out);
DPCORE_API dpcore_status dpcore_loss_times(const dpcore_loss* loss, int64_t copies, dpcore_loss** out);

/* Certified bounds, *lower <= truth <= *upper, rounding included. The safe side is *upper for delta and epsilon
 * (infinite where no epsilon will do) and *lower for the confidence Pr[|loss| <= epsilon]. */
DPCORE_API dpcore_status dpcore_loss_delta(const dpcore_loss* loss, double epsilon, double* lower, double* upper);
DPCORE_API dpcore_status dpcore_loss_epsilon(const dpcore_loss* loss, double delta, double* lower, double* upper);
DPCORE_API dpcore_status dpcore_loss_confidence(const dpcore_loss* loss, double epsilon, double* lower,
                                                double* upper);

#ifdef __cplusplus
}
#endif

#endif
