/* Triangular systems of equations, for stacks of matrices.
 *
 * Every system is solved as one with a lower triangular matrix on the left: transposes are a matter
 * of strides, upper triangles are read backwards, and right sides are packed, turned if need be.
 */
#include "simd.h"

#define STRIP 64 /* columns solved at a time */
#define PARTS (STRIP / LANES)
#define ROWS 4 /* rows solved at a time */

typedef struct {
  long matrices, size, columns; /* unknowns, and right sides, of each matrix */
  long is_lower, is_transposed, is_right, threads;
} Systems;

/* A lower triangular matrix; element (i, k) is at `first[i * row + k * column]`. */
typedef struct {
  const float *first;
  long row, column;
} Triangle;

long triangular_scratch(const Systems *s) { return s->size * STRIP * s->threads; }

/* Subtract what the rows before `start` contribute to `count` rows from there on. */
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
    _mm512_storeu_ps(at, sum / divisor);
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

/* Where an element of a strip's unknown and column is in the whole matrix. */
static inline long place_of(const Systems *s, int is_backwards, long unknown, long column) {
  const long row = is_backwards ? s->size - 1 - unknown : unknown;
  return s->is_right ? column * s->size + row : row * s->columns + column;
}

TARGET void triangular_solve(const Systems *s, const float *matrices, const float *sides,
                             float *solutions, float *scratch) {
  const long size = s->size, strips = (s->columns + STRIP - 1) / STRIP;
  const int is_turned = s->is_transposed != s->is_right;
  const int is_backwards = s->is_lower == is_turned;
  const long row = is_turned ? 1 : size, column = is_turned ? size : 1;
#pragma omp parallel for num_threads(threads_for(s->threads, s->matrices * strips))
  for (long job = 0; job < s->matrices * strips; job++) {
    const long matrix = job / strips, from = job % strips * STRIP;
    const long count = least(STRIP, s->columns - from), offset = matrix * size * s->columns;
    const float *first = matrices + matrix * size * size;
    const Triangle forwards = {first, row, column};
    const Triangle backwards = {first + size * size - 1, -row, -column};
    float *x = scratch + omp_get_thread_num() * size * STRIP;
    clear(x, size * STRIP);
    for (long i = 0; i < size; i++)
      for (long c = 0; c < count; c++)
        x[i * STRIP + c] = sides[offset + place_of(s, is_backwards, i, from + c)];
    solve_strip(is_backwards ? backwards : forwards, size, x);
    for (long i = 0; i < size; i++)
      for (long c = 0; c < count; c++)
        solutions[offset + place_of(s, is_backwards, i, from + c)] = x[i * STRIP + c];
  }
}
