/* Conversion of planes to blocks, in which the 16 channels of a place are contiguous.
 *
 * Operators that access scattered places can then read and add whole vectors.
 */
#ifndef CORE_BACKENDS_NATIVE_BLOCKS_H
#define CORE_BACKENDS_NATIVE_BLOCKS_H

#include "simd.h"

/* Transpose 16 rows of 16: single numbers of two rows are interleaved, then pairs of numbers, and
 * then quarters of registers change places, first within groups of 8 rows, then between them. */
INLINE void transpose(vector r[LANES]) {
  vector t[LANES];
  for (int i = 0; i < LANES; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < LANES; i += 4)
    for (int j = 0; j < 2; j++) {
      const __m512d low = _mm512_castps_pd(t[i + j]), high = _mm512_castps_pd(t[i + j + 2]);
      r[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
      r[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
    }
  for (int i = 0; i < 4; i++) {
    const vector a = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
    const vector b = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
    const vector c = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
    const vector d = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    t[i] = _mm512_shuffle_f32x4(a, c, 0x88);
    t[i + 8] = _mm512_shuffle_f32x4(a, c, 0xdd);
    t[i + 4] = _mm512_shuffle_f32x4(b, d, 0x88);
    t[i + 12] = _mm512_shuffle_f32x4(b, d, 0xdd);
  }
  for (int i = 0; i < LANES; i++) r[i] = t[i];
}

/* Read `width` numbers from each of `height` rows and transpose them; the rest are zeros. */
INLINE void load_tile(const float *from, long stride, long height, long width, vector r[LANES]) {
  const __mmask16 lanes = first_lanes(width);
  for (int i = 0; i < LANES; i++)
    r[i] = i < height ? _mm512_maskz_loadu_ps(lanes, from + i * stride) : _mm512_setzero_ps();
  transpose(r);
}

/* Transpose, and write `width` numbers to each of `height` rows. */
INLINE void store_tile(vector r[LANES], float *to, long stride, long height, long width) {
  const __mmask16 lanes = first_lanes(width);
  transpose(r);
  for (int i = 0; i < LANES; i++)
    if (i < height) _mm512_mask_storeu_ps(to + i * stride, lanes, r[i]);
}

/* Interleave up to 16 planes to rows of 16, `stride` apart. */
INLINE void pack(const float *planes, long channels, long places, float *rows, long stride) {
  for (long i = 0; i < places; i += LANES) {
    vector r[LANES];
    load_tile(planes + i, places, channels, places - i, r);
    for (int j = 0; j < LANES; j++)
      if (i + j < places) _mm512_storeu_ps(rows + (i + j) * stride, r[j]);
  }
}

/* Separate rows of 16 into up to 16 planes. */
INLINE void unpack(const float *rows, long channels, long places, float *planes) {
  for (long i = 0; i < places; i += LANES) {
    vector r[LANES];
    for (int j = 0; j < LANES; j++)
      r[j] = i + j < places ? _mm512_loadu_ps(rows + (i + j) * LANES) : _mm512_setzero_ps();
    store_tile(r, planes + i, places, channels, places - i);
  }
}

#endif
