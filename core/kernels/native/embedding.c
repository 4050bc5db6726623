/* Rows of a matrix, selected by number. */
#include <stdint.h>
#include <string.h>

#include "simd.h"

#define PIECE 65536 /* bytes that a thread copies at a time, at least one row */

/* Types of the row numbers, as in embedding.py. */
enum { FLOATS, INTS, LONGS };

/* A number that is not whole is rounded towards zero, one out of range clipped, as in MXNet. */
static inline long row_of(const void *numbers, int type, long index, long rows) {
  long row;
  if (type == FLOATS)
    /* The instruction, because in C the result for NaN and large numbers is undefined. */
    row = _mm_cvttss_si64(_mm_set_ss(((const float *)numbers)[index]));
  else
    row = type == INTS ? ((const int32_t *)numbers)[index] : ((const int64_t *)numbers)[index];
  return row < 0 ? 0 : least(row, rows - 1);
}

/* Copy rows of so many bytes, one for each number. */
void embedding(long count, long rows, long bytes, int type, const void *numbers, const char *matrix,
               char *out, long threads) {
  const long run = PIECE / bytes + 1, pieces = (count + run - 1) / run;
#pragma omp parallel for num_threads(threads_for(threads, pieces))
  for (long p = 0; p < pieces; p++)
    for (long i = p * run; i < least(count, (p + 1) * run); i++)
      memcpy(out + i * bytes, matrix + row_of(numbers, type, i, rows) * bytes, (size_t)bytes);
}
