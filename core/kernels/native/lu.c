/* Inverses and determinants of stacks of matrices, by LU factorization with partial pivoting.
 *
 * Right-looking and blocked, as LAPACK's getrf (G. Golub, C. Van Loan: Matrix Computations, section
 * 3.4): a panel of columns is eliminated, then the rest of the matrix is updated by products, whose
 * sums stay in registers. One thread computes each matrix: small ones are not worth waiting for
 * other threads.
 */
#include <math.h>
#include <string.h>

#include "triangular.h"

/* Columns eliminated at a time: a panel of the largest matrices (`_LARGEST` in factors.py) has 32
 * KiB, which fit a first-level cache. */
#define BLOCK 32

typedef struct {
  long matrices, size, threads;
} Matrices;

/* Rows are so long that a strip that begins in one ends in it: no strip needs a mask. */
static inline long stride_of(const Matrices *m) { return (m->size + STRIP + LANES) / LANES * LANES; }

static inline long floats_of(const Matrices *m) {
  return m->size * (stride_of(m) + 2 * STRIP) + (m->size + LANES) / LANES * LANES;
}

long lu_scratch(const Matrices *m) { return m->threads * floats_of(m); }

/* Whole rows, with the factors found so far, so that `order` holds for all of them. */
static void swap_rows(float *w, long stride, long a, long b) {
  for (long c = 0; c < stride; c++) {
    const float kept = w[a * stride + c];
    w[a * stride + c] = w[b * stride + c];
    w[b * stride + c] = kept;
  }
}

static long pivot_of(const float *w, long size, long stride, long column) {
  long found = column;
  for (long i = column + 1; i < size; i++)
    if (fabsf(w[i * stride + column]) > fabsf(w[found * stride + column])) found = i;
  return found;
}

/* Eliminate in the columns of a block; return the sign of the swaps of rows, 0 if the matrix is
 * singular. */
TARGET static int factor_panel(float *w, int *order, long size, long stride, long start, long end) {
  int sign = 1;
  for (long j = start; j < end; j++) {
    const long pivot = pivot_of(w, size, stride, j);
    if (w[pivot * stride + j] == 0) return 0;
    if (pivot != j) {
      const int kept = order[j];
      order[j] = order[pivot];
      order[pivot] = kept;
      swap_rows(w, stride, j, pivot);
      sign = -sign;
    }
    const float *row = w + j * stride;
    for (long i = j + 1; i < size; i++) {
      float *below = w + i * stride;
      const float share = below[j] /= row[j];
      for (long c = j + 1; c < end; c++) below[c] -= share * row[c];
    }
  }
  return sign;
}

/* Subtract from `count` rows and a strip of columns what the block's rows contribute. */
INLINE void subtract_block(float *w, long stride, long start, long end, long row, long count,
                           long column) {
  vector sums[ROWS][PARTS];
  for (long r = 0; r < count; r++)
    for (int p = 0; p < PARTS; p++)
      sums[r][p] = _mm512_loadu_ps(w + (row + r) * stride + column + p * LANES);
  for (long k = start; k < end; k++)
    for (long r = 0; r < count; r++) {
      const vector factor = _mm512_set1_ps(w[(row + r) * stride + k]);
      for (int p = 0; p < PARTS; p++) {
        const vector known = _mm512_loadu_ps(w + k * stride + column + p * LANES);
        sums[r][p] = _mm512_fnmadd_ps(factor, known, sums[r][p]);
      }
    }
  for (long r = 0; r < count; r++)
    for (int p = 0; p < PARTS; p++)
      _mm512_storeu_ps(w + (row + r) * stride + column + p * LANES, sums[r][p]);
}

/* Replace a matrix by its factors L, without its diagonal of ones, and U; `order` has the rows. */
TARGET static int factor(float *w, int *order, long size, long stride) {
  int sign = 1;
  for (long i = 0; i < size; i++) order[i] = (int)i;
  for (long start = 0; start < size && sign; start += BLOCK) {
    const long end = least(size, start + BLOCK);
    sign *= factor_panel(w, order, size, stride, start, end);
    for (long column = end; column < size; column += STRIP) {
      /* The block's own rows first, each with what is above it: they become U. */
      for (long i = start + 1; i < end; i++)
        subtract_block(w, stride, start, i, i, 1, column);
      long i = end;
      for (; i + ROWS <= size; i += ROWS)
        subtract_block(w, stride, start, end, i, ROWS, column);
      for (; i < size; i++) subtract_block(w, stride, start, end, i, 1, column);
    }
  }
  return sign;
}

static void load(const Matrices *m, const float *matrix, float *w) {
  const long stride = stride_of(m);
  for (long i = 0; i < m->size; i++) {
    memcpy(w + i * stride, matrix + i * m->size, (size_t)m->size * sizeof(float));
    memset(w + i * stride + m->size, 0, (size_t)(stride - m->size) * sizeof(float));
  }
}

/* Solve for the columns of the unit matrix, a strip at a time, its rows in the order of the pivots.
 * U, read backwards, is a lower triangle as well, so its right sides are turned around. */
TARGET static void solve_units(const Matrices *m, const float *w, const int *order, float *x,
                               float *out) {
  const long size = m->size, stride = stride_of(m);
  const Triangle lower = {w, stride, 1, 1};
  const Triangle upper = {w + (size - 1) * (stride + 1), -stride, -1, 0};
  float *turned = x + size * STRIP;
  for (long from = 0; from < size; from += STRIP) {
    const long count = least(STRIP, size - from);
    clear(x, size * STRIP);
    for (long i = 0; i < size; i++)
      if (order[i] >= from && order[i] < from + count) x[i * STRIP + order[i] - from] = 1;
    solve_strip(lower, size, x);
    for (long i = 0; i < size; i++)
      memcpy(turned + (size - 1 - i) * STRIP, x + i * STRIP, STRIP * sizeof(float));
    solve_strip(upper, size, turned);
    for (long i = 0; i < size; i++)
      memcpy(out + i * size + from, turned + (size - 1 - i) * STRIP, (size_t)count * sizeof(float));
  }
}

/* Write the inverses; return 0 if a matrix is singular. */
int lu_invert(const Matrices *m, const float *matrices, float *out, float *scratch) {
  const long square = m->size * m->size;
  int is_regular = 1;
#pragma omp parallel for num_threads(threads_for(m->threads, m->matrices)) reduction(&& : is_regular)
  for (long n = 0; n < m->matrices; n++) {
    float *w = scratch + omp_get_thread_num() * floats_of(m), *x = w + m->size * stride_of(m);
    int *order = (int *)(x + 2 * m->size * STRIP);
    load(m, matrices + n * square, w);
    if (factor(w, order, m->size, stride_of(m)))
      solve_units(m, w, order, x, out + n * square);
    else
      is_regular = 0;
  }
  return is_regular;
}

/* Write the signs of the determinants, and the logarithms of their magnitudes. */
void lu_determine(const Matrices *m, const float *matrices, double *signs, double *logarithms,
                       float *scratch) {
#pragma omp parallel for num_threads(threads_for(m->threads, m->matrices))
  for (long n = 0; n < m->matrices; n++) {
    float *w = scratch + omp_get_thread_num() * floats_of(m), *x = w + m->size * stride_of(m);
    load(m, matrices + n * m->size * m->size, w);
    double sign = factor(w, (int *)(x + 2 * m->size * STRIP), m->size, stride_of(m));
    /* Logarithms, because the product of many pivots overflows or vanishes. */
    double sum = sign == 0 ? -INFINITY : 0;
    for (long i = 0; i < m->size && sign != 0; i++) {
      const double pivot = w[i * (stride_of(m) + 1)];
      sum += log(fabs(pivot));
      if (pivot < 0) sign = -sign;
    }
    signs[n] = isnan(sum) ? sum : sign;
    logarithms[n] = sum;
  }
}
