/* Matrices side by side: the concatenation of images whose channels come last, pixel by pixel. */
#include <string.h>

#include "simd.h"

#define PIECE 16384 /* elements that a thread copies at a time */
#define LONG 512    /* columns from which a copy by the C library is faster */

INLINE void copy(long count, const float *from, float *to) {
  if (count >= LONG) {
    memcpy(to, from, (size_t)count * sizeof(float));
    return;
  }
  for (long i = 0; i < count; i += LANES) {
    const __mmask16 lanes = first_lanes(count - i);
    _mm512_mask_storeu_ps(to + i, lanes, _mm512_maskz_loadu_ps(lanes, from + i));
  }
}

/* `sources` has `count` matrices of so many rows and of `columns[i]` columns. */
TARGET void concatenate(long rows, long count, const long *columns, const float *const *sources,
                        float *out, long threads) {
  long all = 0;
  for (long i = 0; i < count; i++) all += columns[i];
  const long run = PIECE / all + 1, pieces = (rows + run - 1) / run;
#pragma omp parallel for num_threads(threads_for(threads, pieces))
  for (long p = 0; p < pieces; p++) {
    float *to = out + p * run * all;
    for (long row = p * run; row < least(rows, (p + 1) * run); row++)
      for (long i = 0; i < count; to += columns[i++])
        copy(columns[i], sources[i] + row * columns[i], to);
  }
}
