/* The transforms of Winograd's minimal filtering F(2, 3) and F(4, 3), along an axis and of tiles.
 *
 * F(r, 3) computes `r` results of a window of 3 from a tile of r + 2 data with r + 2
 * multiplications. It evaluates polynomials at points, multiplies, and interpolates
 * (A. Lavin, S. Gray: Fast Algorithms for Convolutional Neural Networks, 2015, arXiv:1509.09308):
 *
 *     results = A^T [ (G weights G^T) . (B^T data B) ] A
 *
 * F(2, 3) has the points 0, 1, -1 and infinity; F(4, 3) has 0, 5/8, -5/8, 3/2, -3/2 and infinity.
 * With the usual 1, -1, 2, -2 its results are 4 to 5 times as far from the exact ones as those of
 * direct convolution in float32, with these twice as far, the least of 30 pairs of fractions that
 * were tried; all constants of B and A are exact. (Why points matter: B. Barabasz et al.: Error
 * Analysis and Improving the Accuracy of Winograd Convolution for Deep Neural Networks, 2020,
 * arXiv:1803.10986.)
 *
 * `r` is a constant in every call, so that the loops are unrolled and tiles stay in registers. */
#ifndef CORE_BACKENDS_NATIVE_WINOGRAD_TILES_H
#define CORE_BACKENDS_NATIVE_WINOGRAD_TILES_H

#include "winograd.h"

#define MOST 6   /* elements of the largest tile along an axis */
#define WINDOW 3 /* weights along an axis */
#define TAPS 9   /* weights of a window */

/* Elements of a transformed tile. */
#define PLACES(r) (((r) + 2) * ((r) + 2))

/* The points of F(4, 3) other than 0 and infinity are P, -P, Q, -Q. */
#define P (5.f / 8)
#define Q (3.f / 2)
#define P2 (P * P)
#define Q2 (Q * Q)

/* -- along an axis ---------------------------------------------------------------------------- */

/* a * b + c with a constant a */
INLINE vector plus(float a, vector b, vector c) { return _mm512_fmadd_ps(_mm512_set1_ps(a), b, c); }
INLINE vector times(float a, vector b) { return _mm512_set1_ps(a) * b; }

/* B^T d */
INLINE void along_data(const int r, vector d[MOST]) {
  if (r == 2) {
    const vector first = d[0] - d[2], last = d[1] - d[3], sum = d[1] + d[2];
    d[2] = d[2] - d[1], d[0] = first, d[1] = sum, d[3] = last;
    return;
  }
  const vector even = plus(-Q2, d[2], d[4]), odd = plus(-Q2, d[1], d[3]);
  const vector other_even = plus(-P2, d[2], d[4]), other_odd = plus(-P2, d[1], d[3]);
  d[0] = plus(-P2, plus(-Q2, d[0], d[2]), even);
  d[5] = plus(-P2, odd, plus(-Q2, d[3], d[5]));
  d[1] = plus(P, odd, even), d[2] = plus(-P, odd, even);
  d[3] = plus(Q, other_odd, other_even), d[4] = plus(-Q, other_odd, other_even);
}

/* A^T m: r results of r + 2 products */
INLINE void along_products(const int r, vector m[MOST]) {
  const vector sum = m[1] + m[2], difference = m[1] - m[2];
  if (r == 2) {
    m[0] += sum, m[1] = difference - m[3];
    return;
  }
  const vector other_sum = m[3] + m[4], other_difference = m[3] - m[4];
  m[0] += sum + other_sum;
  m[1] = plus(P, difference, times(Q, other_difference));
  m[2] = plus(P2, sum, times(Q2, other_sum));
  m[3] = plus(P2 * P, difference, plus(Q2 * Q, other_difference, m[5]));
}

/* A g: r + 2 places of the gradients of r results */
INLINE void along_grad(const int r, vector g[MOST]) {
  if (r == 2) {
    const vector last = -g[1], sum = g[0] + g[1];
    g[2] = g[0] - g[1], g[1] = sum, g[3] = last;
    return;
  }
  const vector even = plus(P2, g[2], g[0]), odd = plus(P2, g[3], g[1]);
  const vector other_even = plus(Q2, g[2], g[0]), other_odd = plus(Q2, g[3], g[1]);
  g[5] = g[3];
  g[1] = plus(P, odd, even), g[2] = plus(-P, odd, even);
  g[3] = plus(Q, other_odd, other_even), g[4] = plus(-Q, other_odd, other_even);
}

/* The factors of G in front of the polynomials at 0, P and -P, Q and -Q. */
#define AT_0 (1 / (P2 * Q2))
#define AT_P (1 / (2 * P2 * (P2 - Q2)))
#define AT_Q (1 / (2 * Q2 * (Q2 - P2)))

/* G w: r + 2 places of 3 weights */
INLINE void along_weights(const int r, vector w[MOST]) {
  const vector last = w[2];
  if (r == 2) {
    const vector ends = times(.5f, w[0] + w[2]), middle = times(.5f, w[1]);
    w[1] = ends + middle, w[2] = ends - middle, w[3] = last;
    return;
  }
  const vector even = times(AT_P, plus(P2, w[2], w[0])), odd = times(AT_P * P, w[1]);
  const vector other_even = times(AT_Q, plus(Q2, w[2], w[0])), other_odd = times(AT_Q * Q, w[1]);
  w[0] = times(AT_0, w[0]), w[5] = last;
  w[1] = even + odd, w[2] = even - odd;
  w[3] = other_even + other_odd, w[4] = other_even - other_odd;
}

/* G^T s: gradients of 3 weights from r + 2 sums */
INLINE void along_sums(const int r, vector s[MOST]) {
  const vector sum = s[1] + s[2], difference = s[1] - s[2];
  if (r == 2) {
    const vector half = times(.5f, sum);
    s[0] += half, s[1] = times(.5f, difference), s[2] = half + s[3];
    return;
  }
  const vector other_sum = s[3] + s[4], other_difference = s[3] - s[4];
  s[0] = plus(AT_0, s[0], plus(AT_P, sum, times(AT_Q, other_sum)));
  s[1] = plus(AT_P * P, difference, times(AT_Q * Q, other_difference));
  s[2] = plus(AT_P * P2, sum, plus(AT_Q * Q2, other_sum, s[5]));
}

/* -- tiles ------------------------------------------------------------------------------------ */

#define ALL_ROWS (-1)

/* B^T times the tile of pixels from (y, x) on, each `apart` from the next. */
INLINE void transform_columns(const int r, const int is_inside, const Tensor *t,
                              const float *start, long y, long x, long apart,
                              vector rows[MOST][MOST]) {
  const int n = r + 2;
  const float *first = start + y * t->row + x * t->pixel;
  const long next_row = apart * t->row, next_pixel = apart * t->pixel;
#pragma GCC unroll 6
  for (int j = 0; j < n; j++) {
    vector column[MOST];
#pragma GCC unroll 6
    for (int i = 0; i < n; i++)
      column[i] = is_inside ? _mm512_loadu_ps(first + i * next_row + j * next_pixel)
                            : at(t, start, y + i * apart, x + j * apart);
    along_data(r, column);
#pragma GCC unroll 6
    for (int i = 0; i < n; i++) rows[i][j] = column[i];
  }
}

/* B^T tile B of that tile; all its rows or a single one. Places are `step` elements apart. */
INLINE void transform_data(const int r, const int row, const Tensor *t, const float *start, long y,
                           long x, long apart, float *out, long step) {
  const int n = r + 2;
  const long last_y = y + (n - 1) * apart, last_x = x + (n - 1) * apart;
  vector rows[MOST][MOST];
  if (y >= 0 && x >= 0 && last_y < t->height && last_x < t->width)
    transform_columns(r, 1, t, start, y, x, apart, rows);
  else
    transform_columns(r, 0, t, start, y, x, apart, rows);
#pragma GCC unroll 6
  for (int i = 0; i < n; i++) {
    if (row != ALL_ROWS && row != i) continue;
    along_data(r, rows[i]);
    float *to = row == ALL_ROWS ? out + n * i * step : out;
#pragma GCC unroll 6
    for (int j = 0; j < n; j++) _mm512_storeu_ps(to + j * step, rows[i][j]);
  }
}

/* A^T tile A, with what follows the convolution, into r x r pixels, each `apart` from the next, as
 * far as they lie in the image.
 * `residual`, arranged as the result, is added; NULL for none. */
INLINE void restore_result(const int r, const float *in, long step, const Tensor *t,
                           const float *residual, float *start, long y, long x, long apart,
                           vector bias, float slope) {
  const int n = r + 2;
  vector rows[MOST][MOST];
#pragma GCC unroll 6
  for (int j = 0; j < n; j++) {
    vector column[MOST];
#pragma GCC unroll 6
    for (int i = 0; i < n; i++) column[i] = _mm512_loadu_ps(in + (n * i + j) * step);
    along_products(r, column);
#pragma GCC unroll 4
    for (int i = 0; i < r; i++) rows[i][j] = column[i];
  }
#pragma GCC unroll 4
  for (int i = 0; i < r; i++) {
    along_products(r, rows[i]);
#pragma GCC unroll 4
    for (int j = 0; j < r; j++) {
      if (y + i * apart >= t->height || x + j * apart >= t->width) continue;
      const long place = (y + i * apart) * t->row + (x + j * apart) * t->pixel;
      finish(rows[i][j] + bias, residual ? residual + place : 0, slope, start + place);
    }
  }
}

/* A pixels A^T of the r x r pixels from (y, x) on, as transform_data. Returns the sum of the pixels
 * read, a share of the bias's gradient: row 1, as all rows, reads every one. */
INLINE vector transform_grad(const int r, const int row, const Tensor *t, const float *start,
                             long y, long x, long apart, float *out, long step) {
  const int n = r + 2;
  vector rows[MOST][MOST], sum = _mm512_setzero_ps();
#pragma GCC unroll 4
  for (int j = 0; j < r; j++) {
    vector column[MOST];
#pragma GCC unroll 4
    for (int i = 0; i < r; i++) {
      column[i] = at(t, start, y + i * apart, x + j * apart);
      sum += column[i];
    }
    along_grad(r, column);
#pragma GCC unroll 6
    for (int i = 0; i < n; i++) rows[i][j] = column[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < n; i++) {
    if (row != ALL_ROWS && row != i) continue;
    along_grad(r, rows[i]);
    float *to = row == ALL_ROWS ? out + n * i * step : out;
#pragma GCC unroll 6
    for (int j = 0; j < n; j++) _mm512_storeu_ps(to + j * step, rows[i][j]);
  }
  return sum;
}

/* G window G^T, of 16 windows at a time; places are `step` elements apart. */
INLINE void transform_window(const int r, const vector window[TAPS], float *out, long step) {
  const int n = r + 2;
  vector rows[MOST][MOST];
#pragma GCC unroll 3
  for (int j = 0; j < WINDOW; j++) {
    vector column[MOST] = {window[j], window[3 + j], window[6 + j]};
    along_weights(r, column);
#pragma GCC unroll 6
    for (int i = 0; i < n; i++) rows[i][j] = column[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < n; i++) {
    along_weights(r, rows[i]);
#pragma GCC unroll 6
    for (int j = 0; j < n; j++) _mm512_storeu_ps(out + (n * i + j) * step, rows[i][j]);
  }
}

/* G^T sums G: the gradients of 16 windows. */
INLINE void restore_window(const int r, vector sums[MOST][MOST], vector window[TAPS]) {
  const int n = r + 2;
#pragma GCC unroll 6
  for (int j = 0; j < n; j++) {
    vector column[MOST];
#pragma GCC unroll 6
    for (int i = 0; i < n; i++) column[i] = sums[i][j];
    along_sums(r, column);
#pragma GCC unroll 3
    for (int i = 0; i < WINDOW; i++) sums[i][j] = column[i];
  }
#pragma GCC unroll 3
  for (int i = 0; i < WINDOW; i++) {
    along_sums(r, sums[i]);
#pragma GCC unroll 3
    for (int j = 0; j < WINDOW; j++) window[WINDOW * i + j] = sums[i][j];
  }
}

#endif
