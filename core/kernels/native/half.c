/* Conversion between float32 and float16, rounding to the nearest. */
#include "simd.h"

#define PIECE 4096 /* elements per piece of work */

TARGET void half_from_float(long count, const float *from, unsigned short *to, long threads) {
  const long pieces = (count + PIECE - 1) / PIECE;
#pragma omp parallel for num_threads(threads_for(threads, pieces))
  for (long p = 0; p < pieces; p++)
    for (long i = p * PIECE; i < least(count, (p + 1) * PIECE); i += LANES) {
      const __mmask16 lanes = first_lanes(count - i);
      const __m256i half = _mm512_cvtps_ph(_mm512_maskz_loadu_ps(lanes, from + i),
                                           _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      if (lanes == 0xffff) {
        _mm256_storeu_si256((__m256i *)(to + i), half);
        continue;
      }
      /* By way of a copy: AVX-512F has no masked stores of 16-bit numbers. */
      unsigned short last[LANES];
      _mm256_storeu_si256((__m256i *)last, half);
      for (long k = 0; k < count - i; k++) to[i + k] = last[k];
    }
}

TARGET void half_to_float(long count, const unsigned short *from, float *to, long threads) {
  const long pieces = (count + PIECE - 1) / PIECE;
#pragma omp parallel for num_threads(threads_for(threads, pieces))
  for (long p = 0; p < pieces; p++)
    for (long i = p * PIECE; i < least(count, (p + 1) * PIECE); i += LANES) {
      const long here = least(LANES, count - i);
      unsigned short last[LANES] = {0};
      const unsigned short *source = from + i;
      if (here < LANES) {
        for (long k = 0; k < here; k++) last[k] = from[i + k];
        source = last;
      }
      const vector wide = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)source));
      _mm512_mask_storeu_ps(to + i, first_lanes(here), wide);
    }
}
