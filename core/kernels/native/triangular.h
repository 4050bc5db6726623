/* Solution of a triangular system for a strip of right sides, by forward substitution (G. Golub, C.
 * Van Loan: Matrix Computations, section 3.1): the products with the unknowns found before are
 * subtracted from several rows at once, so that each unknown is read once for all of them. */
#ifndef CORE_BACKENDS_NATIVE_TRIANGULAR_H
#define CORE_BACKENDS_NATIVE_TRIANGULAR_H

#include "simd.h"

#define STRIP 64 /* columns solved at a time */
#define PARTS (STRIP / LANES)
#define ROWS 4 /* rows solved at a time: their sums take 16 of the 32 registers */

/* A lower triangular matrix; element (i, k) is at `first[i * row + k * column]`. */
typedef struct {
  const float *first;
  long row, column;
  int is_unit; /* its diagonal is not read, but taken for ones */
} Triangle;

/* Subtract what the rows before `start` contribute to `count` rows from there on. Callers give a
 * constant count, so that the sums stay in registers. */
INLINE void subtract(Triangle a, long start, long count, float *x) {
  vector sums[ROWS][PARTS];
  for (long r = 0; r < count; r++)
    for (int p = 0; p < PARTS; p++)
      sums[r][p] = _mm512_loadu_ps(x + (start + r) * STRIP + p * LANES);
  for (long k = 0; k < start; k++) {
    vector known[PARTS];
    for (int p = 0; p < PARTS; p++) known[p] = _mm512_loadu_ps(x + k * STRIP + p * LANES);
    for (long r = 0; r < count; r++) {
      const vector factor = _mm512_set1_ps(a.first[(start + r) * a.row + k * a.column]);
      for (int p = 0; p < PARTS; p++) sums[r][p] = _mm512_fnmadd_ps(factor, known[p], sums[r][p]);
    }
  }
  for (long r = 0; r < count; r++)
    for (int p = 0; p < PARTS; p++)
      _mm512_storeu_ps(x + (start + r) * STRIP + p * LANES, sums[r][p]);
}

/* Solve a row, the ones before it from `start` on having been solved. */
INLINE void solve_row(Triangle a, long start, long row, float *x) {
  const vector divisor = _mm512_set1_ps(a.first[row * (a.row + a.column)]);
  for (int p = 0; p < PARTS; p++) {
    float *at = x + row * STRIP + p * LANES;
    vector sum = _mm512_loadu_ps(at);
    for (long k = start; k < row; k++) {
      const vector factor = _mm512_set1_ps(a.first[row * a.row + k * a.column]);
      sum = _mm512_fnmadd_ps(factor, _mm512_loadu_ps(x + k * STRIP + p * LANES), sum);
    }
    if (!a.is_unit) sum /= divisor;
    _mm512_storeu_ps(at, sum);
  }
}

TARGET static void solve_strip(Triangle a, long size, float *x) {
  long start = 0;
  for (; start + ROWS <= size; start += ROWS) {
    subtract(a, start, ROWS, x);
    for (long r = 0; r < ROWS; r++) solve_row(a, start, start + r, x);
  }
  for (; start < size; start++) {
    subtract(a, start, 1, x);
    solve_row(a, start, start, x);
  }
}

#endif
