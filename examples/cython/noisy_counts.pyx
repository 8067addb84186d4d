# cython: language_level=3, boundscheck=False, wraparound=False
"""Noisy counts for another package, through dpcore's C interface and without the GIL."""

from libc.stdint cimport int64_t

from dpcore.core cimport (
    check,
    dpcore_discrete_laplace_new,
    dpcore_sampler,
    dpcore_sampler_add,
    dpcore_sampler_add_fill,
    dpcore_sampler_free,
)


cdef class NoisyCounts:
    """Adds integer Laplace noise for an epsilon; sensitivity 1."""

    cdef dpcore_sampler* sampler

    def __cinit__(self, double epsilon):
        check(dpcore_discrete_laplace_new(1.0 / epsilon if epsilon > 0 else -1.0, &self.sampler))

    def __dealloc__(self):
        dpcore_sampler_free(self.sampler)

    def __reduce__(self):
        raise TypeError("NoisyCounts cannot be pickled")

    def release(self, int64_t count):
        """One count."""
        cdef int64_t out = 0
        with nogil:
            check(dpcore_sampler_add(self.sampler, NULL, count, &out))
        return out

    def release_all(self, int64_t[::1] counts not None):
        """Many counts, in place."""
        if counts.shape[0] == 0:
            return
        with nogil:
            check(dpcore_sampler_add_fill(self.sampler, NULL, &counts[0], &counts[0], counts.shape[0], 0))

    def time_releases(self, int64_t repeats):
        """Seconds of `repeats` releases from C, for the benchmark."""
        from time import perf_counter

        cdef int64_t i, out = 0
        start = perf_counter()
        with nogil:
            for i in range(repeats):
                check(dpcore_sampler_add(self.sampler, NULL, i, &out))
        return perf_counter() - start
