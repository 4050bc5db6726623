/* Triangular systems of equations, for stacks of matrices.
 *
 * Every system is solved as one with a lower triangular matrix on the left: X A = B is A^T X^T =
 * B^T, transposes are a matter of strides, upper triangles are read backwards, and right sides are
 * packed, turned if need be.
 */
#include "triangular.h"

typedef struct {
  long matrices, size, columns; /* unknowns, and right sides, of each matrix */
  long is_lower, is_transposed, is_right, threads;
} Systems;

long triangular_scratch(const Systems *s) { return s->size * STRIP * s->threads; }

/* Where an element of a strip's unknown and column is in the whole matrix. */
static inline long place_of(const Systems *s, int is_backwards, long unknown, long column) {
  const long row = is_backwards ? s->size - 1 - unknown : unknown;
  return s->is_right ? column * s->size + row : row * s->columns + column;
}

TARGET void triangular_solve(const Systems *s, const float *matrices, const float *sides,
                             float *solutions, float *scratch) {
  const long size = s->size, strips = (s->columns + STRIP - 1) / STRIP;
  const int is_turned = s->is_transposed != s->is_right; /* twice transposed is not transposed */
  const int is_backwards = s->is_lower == is_turned;
  const long row = is_turned ? 1 : size, column = is_turned ? size : 1;
#pragma omp parallel for num_threads(threads_for(s->threads, s->matrices * strips))
  for (long job = 0; job < s->matrices * strips; job++) {
    const long matrix = job / strips, from = job % strips * STRIP;
    const long count = least(STRIP, s->columns - from), offset = matrix * size * s->columns;
    const float *first = matrices + matrix * size * size;
    const Triangle forwards = {first, row, column, 0};
    const Triangle backwards = {first + size * size - 1, -row, -column, 0};
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
