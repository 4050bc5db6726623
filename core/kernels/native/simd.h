/* Common to all kernels: vectors of 16 floats, zeroing, and the number of threads. */
#ifndef CORE_BACKENDS_NATIVE_SIMD_H
#define CORE_BACKENDS_NATIVE_SIMD_H

#include <immintrin.h>
#include <omp.h>

#define LANES 16

/* Only functions with this attribute may use AVX-512, so the library loads on any x86-64, and
 * `native_is_supported` decides at run time. */
#define TARGET __attribute__((target("avx512f")))
#define INLINE TARGET __attribute__((always_inline)) static inline

typedef __m512 vector;

/* Write zeros; the count is a multiple of 16. */
INLINE void clear(float *start, long count) {
  for (long i = 0; i < count; i += LANES) _mm512_storeu_ps(start + i, _mm512_setzero_ps());
}

/* The first `count` of 16 lanes. */
INLINE __mmask16 first_lanes(long count) {
  return (__mmask16)(count >= LANES ? 0xffff : (1u << count) - 1);
}

static inline long least(long a, long b) { return a < b ? a : b; }

/* The number of threads for this many pieces of work, at most as many as have scratch. */
static inline int threads_for(long threads, long pieces) {
  return (int)least(least(threads, omp_get_max_threads()), pieces);
}

typedef struct {
  long first, count;
} Span;

/* A thread's share of so many elements, in whole registers as far as possible. Kernels that share
 * an array alike leave each part of it in the cache of one core. */
static inline Span span_of(long elements, long thread, long threads) {
  const long groups = (elements + LANES - 1) / LANES;
  const long first = groups * thread / threads * LANES;
  return (Span){first, least(elements, groups * (thread + 1) / threads * LANES) - first};
}

#endif
