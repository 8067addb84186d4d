# The C interface for Cython: `from dpcore.core cimport ...`. Everything runs without the GIL. Compile with
# dpcore.get_include() on the include path and link with libdpcore.a or libdpcore_c.so of dpcore.get_library_dir().
# What each function does is said in dpcore/c_api.h; `check` turns a status into a Python exception.
from libc.stdint cimport int64_t, uint64_t


cdef extern from "dpcore/c_api.h" nogil:
    int DPCORE_ABI_VERSION

    ctypedef int dpcore_status
    enum:
        DPCORE_OK
        DPCORE_INVALID_ARGUMENT
        DPCORE_NO_RANDOMNESS
        DPCORE_NO_MEMORY
        DPCORE_INTERNAL

    int dpcore_abi_version()
    const char* dpcore_version()
    const char* dpcore_last_error()
    const char* dpcore_status_name(dpcore_status status)

    ctypedef struct dpcore_insecure_test_source:
        pass
    dpcore_status dpcore_insecure_test_source_new(uint64_t seed, dpcore_insecure_test_source** out)
    void dpcore_insecure_test_source_free(dpcore_insecure_test_source* source)
    dpcore_status dpcore_random_bytes(void* out, size_t count)

    ctypedef struct dpcore_sampler:
        pass
    dpcore_status dpcore_geometric_new(double scale, dpcore_sampler** out)
    dpcore_status dpcore_discrete_laplace_new(double scale, dpcore_sampler** out)
    dpcore_status dpcore_discrete_gaussian_new(double sigma, dpcore_sampler** out)
    void dpcore_sampler_free(dpcore_sampler* sampler)
    dpcore_status dpcore_sampler_draw(const dpcore_sampler* sampler, dpcore_insecure_test_source* source,
                                      int64_t* out)
    dpcore_status dpcore_sampler_add(const dpcore_sampler* sampler, dpcore_insecure_test_source* source,
                                     int64_t value, int64_t* out)
    dpcore_status dpcore_sampler_fill(const dpcore_sampler* sampler, dpcore_insecure_test_source* source,
                                      int64_t* out, size_t count, unsigned threads)
    dpcore_status dpcore_sampler_add_fill(const dpcore_sampler* sampler, dpcore_insecure_test_source* source,
                                          const int64_t* values, int64_t* out, size_t count, unsigned threads)
    dpcore_status dpcore_geometric_fill(double scale, int64_t* out, size_t count)
    dpcore_status dpcore_discrete_laplace_fill(double scale, int64_t* out, size_t count)
    dpcore_status dpcore_discrete_gaussian_fill(double sigma, int64_t* out, size_t count)

    ctypedef struct dpcore_noise:
        pass
    dpcore_status dpcore_laplace_new(double scale, double grid, dpcore_noise** out)
    dpcore_status dpcore_gaussian_new(double sigma, double grid, dpcore_noise** out)
    void dpcore_noise_free(dpcore_noise* noise)
    dpcore_status dpcore_noise_grid(const dpcore_noise* noise, double* out)
    dpcore_status dpcore_noise_draw(const dpcore_noise* noise, dpcore_insecure_test_source* source, double* out)
    dpcore_status dpcore_noise_add(const dpcore_noise* noise, dpcore_insecure_test_source* source, double value,
                                   double* out)
    dpcore_status dpcore_noise_fill(const dpcore_noise* noise, dpcore_insecure_test_source* source, double* out,
                                    size_t count, unsigned threads)
    dpcore_status dpcore_noise_add_fill(const dpcore_noise* noise, dpcore_insecure_test_source* source,
                                        const double* values, double* out, size_t count, unsigned threads)
    dpcore_status dpcore_laplace_fill(double scale, double grid, double* out, size_t count)
    dpcore_status dpcore_gaussian_fill(double sigma, double grid, double* out, size_t count)

    dpcore_status dpcore_gaussian_delta(double epsilon, double sigma, double sensitivity, double* out)
    dpcore_status dpcore_gaussian_sigma(double epsilon, double delta, double sensitivity, int64_t compositions,
                                        double* out)
    dpcore_status dpcore_gaussian_epsilon(double sigma, double delta, double sensitivity, double* out)

    dpcore_status dpcore_count_delta(double epsilon, int64_t records, int64_t known, double bias_low,
                                     double bias_high, double noise_scale, double* out)
    dpcore_status dpcore_count_calibrate(double epsilon, double delta, int64_t records, int64_t known,
                                         double bias_low, double bias_high, double worst_case_epsilon,
                                         int64_t releases, double* noise_scale, double* achieved_delta)

    ctypedef struct dpcore_loss:
        pass
    enum:
        DPCORE_NEIGHBOURS_BOTH
        DPCORE_NEIGHBOURS_ADD
        DPCORE_NEIGHBOURS_REMOVE
    dpcore_status dpcore_loss_from_laplace(double epsilon, dpcore_loss** out)
    dpcore_status dpcore_loss_from_gaussian(double sigma, double sensitivity, dpcore_loss** out)
    dpcore_status dpcore_loss_from_discrete_laplace(double scale, int64_t sensitivity, dpcore_loss** out)
    dpcore_status dpcore_loss_from_discrete_gaussian(double sigma, int64_t sensitivity, dpcore_loss** out)
    dpcore_status dpcore_loss_from_randomized_response(double epsilon, dpcore_loss** out)
    dpcore_status dpcore_loss_from_pure(double epsilon, dpcore_loss** out)
    dpcore_status dpcore_loss_from_approximate(double epsilon, double delta, dpcore_loss** out)
    dpcore_status dpcore_loss_from_subsampled_gaussian(double sigma, double rate, int neighbours,
                                                       dpcore_loss** out)
    dpcore_status dpcore_loss_from_pmf(const double* p, const double* q, size_t count, dpcore_loss** out)
    void dpcore_loss_free(dpcore_loss* loss)
    dpcore_status dpcore_loss_compose(const dpcore_loss* first, const dpcore_loss* second, dpcore_loss** out)
    dpcore_status dpcore_loss_times(const dpcore_loss* loss, int64_t copies, dpcore_loss** out)
    dpcore_status dpcore_loss_delta(const dpcore_loss* loss, double epsilon, double* lower, double* upper)
    dpcore_status dpcore_loss_epsilon(const dpcore_loss* loss, double delta, double* lower, double* upper)
    dpcore_status dpcore_loss_confidence(const dpcore_loss* loss, double epsilon, double* lower, double* upper)


cdef inline int check(dpcore_status status) except -1 nogil:
    if status == DPCORE_OK:
        return 0
    with gil:
        message = dpcore_last_error().decode("utf-8", "replace")
        if status == DPCORE_INVALID_ARGUMENT:
            raise ValueError(message)
        if status == DPCORE_NO_MEMORY:
            raise MemoryError(message)
        raise RuntimeError(message)
