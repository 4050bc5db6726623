/* The largest or the smallest elements of rows, in order, of equal ones the first first.
 *
 * Elements are compared with the worst of those found so far, 16 at a time. Few pass after the
 * first ones, and are inserted into a sorted list.
 */
#include <stdint.h>

#include "blocks.h"

#define MOST 256     /* elements of a row that are wanted at most, as in leading.py */
#define PIECE 32768L /* elements that are worth a thread */

/* What was found in a row, the best first. */
typedef struct {
  long count;
  int32_t keys[MOST], places[MOST];
} Found;

/* Integers in the order of the numbers, or the other way round. The bits of positive numbers are in
 * their order already; those of negative ones are once all but the sign are inverted. NaN is above
 * all numbers; the sum with zero makes both zeros equal. */
INLINE __m512i keys_of(vector x, int is_ascending) {
  const __m512i bits = _mm512_castps_si512(x + _mm512_setzero_ps());
  const __m512i turned = _mm512_srli_epi32(_mm512_srai_epi32(bits, 31), 1);
  const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  const __m512i keys =
      _mm512_mask_mov_epi32(_mm512_xor_si512(bits, turned), is_nan, _mm512_set1_epi32(INT32_MAX));
  return is_ascending ? _mm512_xor_si512(keys, _mm512_set1_epi32(-1)) : keys;
}

/* Insert an element behind those that are as large, and drop the last if there are too many. */
static inline void insert(Found *found, long wanted, int32_t key, int32_t place) {
  long at = found->count < wanted ? found->count++ : wanted - 1;
  for (; at > 0 && found->keys[at - 1] < key; at--) {
    found->keys[at] = found->keys[at - 1];
    found->places[at] = found->places[at - 1];
  }
  found->keys[at] = key;
  found->places[at] = place;
}

TARGET static void search(const float *row, long length, long wanted, int is_ascending,
                          Found *found) {
  int32_t keys[LANES];
  found->count = 0;
  for (long i = 0; i < length; i += LANES) {
    const __mmask16 lanes = first_lanes(length - i);
    const __m512i here = keys_of(_mm512_maskz_loadu_ps(lanes, row + i), is_ascending);
    unsigned better = lanes;
    if (found->count == wanted)
      better =
          _mm512_mask_cmpgt_epi32_mask(lanes, here, _mm512_set1_epi32(found->keys[wanted - 1]));
    if (!better) continue;
    _mm512_storeu_si512(keys, here);
    for (; better; better &= better - 1) {
      const int lane = __builtin_ctz(better);
      /* Once more, because the lanes before may have raised the bar. */
      if (found->count < wanted || keys[lane] > found->keys[wanted - 1])
        insert(found, wanted, keys[lane], (int32_t)(i + lane));
    }
  }
}

/* Write values, unless there is no array for them, and places of the leading elements of rows. */
TARGET void leading(long rows, long length, long wanted, int is_ascending, const float *data,
                    float *values, float *places, long threads) {
  const long pieces = (rows * length + PIECE - 1) / PIECE;
#pragma omp parallel for num_threads(threads_for(threads, least(rows, pieces)))
  for (long r = 0; r < rows; r++) {
    Found found;
    search(data + r * length, length, wanted, is_ascending, &found);
    for (long i = 0; i < wanted; i++) {
      places[r * wanted + i] = (float)found.places[i];
      if (values) values[r * wanted + i] = data[r * length + found.places[i]];
    }
  }
}
