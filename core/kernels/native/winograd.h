/* What the convolutions by Winograd's minimal filtering have in common: tensors, products of
 * matrices, and what follows the sums.
 *
 * Tensors are float32 with 16 channels in a row, in blocks of channels (nChw16c) or channels last;
 * `Tensor` says which. Channel counts are multiples of 16.
 *
 * The products are blocked as by K. Goto, R. van de Geijn: Anatomy of High-Performance Matrix
 * Multiplication, 2008: the right matrix is stored in panels of columns, row after row, so that it
 * is read in the order of its addresses, and a block of the result stays in registers until its
 * sums are complete. */
#ifndef CORE_BACKENDS_NATIVE_WINOGRAD_H
#define CORE_BACKENDS_NATIVE_WINOGRAD_H

#include "simd.h"

#define PANEL 64  /* columns of a matrix in a panel: 4 registers */

typedef struct {
  long height, width;
  long image, block, row, pixel; /* strides in elements; a block is 16 channels */
} Tensor;

/* The pixel (y, x); zeros beyond the edges. */
INLINE vector at(const Tensor *t, const float *start, long y, long x) {
  /* `&` evaluates all comparisons: `&&` would branch at each. */
  const int is_inside = (y >= 0) & (x >= 0) & (y < t->height) & (x < t->width);
  /* Without a branch, because in small images most tiles are at an edge. */
  return _mm512_maskz_loadu_ps((__mmask16)-is_inside,
                               start + (is_inside ? y * t->row + x * t->pixel : 0));
}

/* Store a result: the residual is added, if there is one (`residual` not NULL), and what is below
 * zero multiplied by the slope: 1 for no activation, 0 for ReLU. ReLU makes 0 of NaN, which a fused
 * activation may (`Pointwise.keeps_nan`). */
INLINE void finish(vector value, const float *residual, float slope, float *place) {
  if (residual) value += _mm512_loadu_ps(residual);
  if (slope == 0) /* separately, because infinity times 0 is NaN */
    value = _mm512_max_ps(value, _mm512_setzero_ps());
  else if (slope != 1)
    value = _mm512_mask_mul_ps(value, _mm512_cmplt_ps_mask(value, _mm512_setzero_ps()), value,
                               _mm512_set1_ps(slope));
  _mm512_storeu_ps(place, value);
}

/* -- products of matrices --------------------------------------------------------------------- */

/* Columns are stored in panels of up to four registers. */
static long panel_width(long columns, long first) {
  long left = columns - first;
  return left >= PANEL ? PANEL : left >= PANEL / 2 ? PANEL / 2 : LANES;
}

/* The start of the panel that contains a column. */
static inline long panel_of(long columns, long column) {
  long first = 0;
  while (column >= first + panel_width(columns, first)) first += panel_width(columns, first);
  return first;
}

typedef struct {
  const float *left, *right;
  float *out;
  long depth;
  long left_row, left_depth, right_depth, out_row; /* strides */
} Factors;

/* One register of columns, `left` in rows: broadcasts from memory would hold up the products, as
 * there is one for each, so most of them come from registers. The depth is a multiple of 4, because
 * only products over channels have their left matrix in rows; those over tiles have it in columns
 * (`left_depth` is then the number of channels). */
INLINE void sum_narrow(const int rows, const Factors f, vector sums[16][4]) {
  for (long k = 0; k < f.depth; k += 4) {
    vector right[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) right[j] = _mm512_loadu_ps(f.right + (k + j) * f.right_depth);
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
      const float *left = f.left + i * f.left_row + k;
      const vector quads = _mm512_broadcast_f32x4(_mm_loadu_ps(left));
      vector sum = _mm512_fmadd_ps(_mm512_permute_ps(quads, 0x00), right[0], sums[i][0]);
      sum = _mm512_fmadd_ps(_mm512_set1_ps(left[1]), right[1], sum);
      sum = _mm512_fmadd_ps(_mm512_permute_ps(quads, 0xAA), right[2], sum);
      sums[i][0] = _mm512_fmadd_ps(_mm512_permute_ps(quads, 0xFF), right[3], sum);
    }
  }
}

INLINE void sum_wide(const int rows, const int registers, const Factors f, vector sums[16][4]) {
  for (long k = 0; k < f.depth; k++) {
    vector right[4];
#pragma GCC unroll 4
    for (int j = 0; j < registers; j++)
      right[j] = _mm512_loadu_ps(f.right + k * f.right_depth + LANES * j);
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
      vector left = _mm512_set1_ps(f.left[i * f.left_row + k * f.left_depth]);
#pragma GCC unroll 4
      for (int j = 0; j < registers; j++) sums[i][j] = _mm512_fmadd_ps(left, right[j], sums[i][j]);
    }
  }
}

/* out[rows][registers * 16] = or += left[rows][depth] right[depth][registers * 16] */
INLINE void multiply_block(const int rows, const int registers, const Factors f,
                           const int accumulates) {
  vector sums[16][4];
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < registers; j++) sums[i][j] = _mm512_setzero_ps();
  if (registers == 1 && f.left_depth == 1) sum_narrow(rows, f, sums);
  else sum_wide(rows, registers, f, sums);
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < registers; j++) {
      float *out = f.out + i * f.out_row + LANES * j;
      /* Added at the end: sums of sums round less than one long sum. */
      if (accumulates) sums[i][j] += _mm512_loadu_ps(out);
      _mm512_storeu_ps(out, sums[i][j]);
    }
}

#define ROWS(n) \
  case n: multiply_block(n, registers, f, accumulates); break;

/* A block of at most 6, 12 or 16 rows, which is what 32 registers allow: 24, 24 or 16 sums, a row
 * of the right matrix (four rows in `sum_narrow`), and an element of the left one. Without the
 * unreachable cases the compiler would also make blocks whose sums do not fit. */
INLINE void multiply_rows(long rows, const int registers, const Factors f, const int accumulates) {
  switch (rows) {
    ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6)
    default:
      if (registers > 2) __builtin_unreachable();
      switch (rows) {
        ROWS(7) ROWS(8) ROWS(9) ROWS(10) ROWS(11) ROWS(12)
        default:
          if (registers > 1) __builtin_unreachable();
          switch (rows) { ROWS(13) ROWS(14) ROWS(15) ROWS(16) }
      }
  }
}

INLINE void multiply_panel(long rows, const int registers, Factors f, const int accumulates) {
  const long most = registers == 4 ? 6 : registers == 2 ? 12 : 16;
  /* Blocks of nearly equal size, because a block of one row takes as long as one of three: its few
   * sums wait for each other. */
  const long blocks = (rows + most - 1) / most, block = (rows + blocks - 1) / blocks;
  for (; rows > 0; rows -= block) {
    multiply_rows(least(rows, block), registers, f, accumulates);
    f.left += block * f.left_row;
    f.out += block * f.out_row;
  }
}

/* One panel of `width` columns. */
INLINE void multiply(long rows, long width, const Factors f, const int accumulates) {
  if (width == PANEL) multiply_panel(rows, 4, f, accumulates);
  else if (width == PANEL / 2) multiply_panel(rows, 2, f, accumulates);
  else multiply_panel(rows, 1, f, accumulates);
}

/* Products that are added up before their sum is added to others, which rounds less than one long
 * sum. */
#define DEPTH_OF_SUM 128

/* out[rows][columns] = left[rows][depth] right, whose columns are in panels */
TARGET static inline void multiply_all(long rows, long depth, long columns, const float *left,
                                       const float *right, float *out) {
  for (long first = 0, width; first < columns; first += width) {
    width = panel_width(columns, first);
    for (long k = 0; k < depth; k += DEPTH_OF_SUM)
      multiply(rows, width,
               (Factors){left + k, right + first * depth + k * width, out + first,
                         least(DEPTH_OF_SUM, depth - k), depth, 1, width, columns},
               k > 0);
  }
}

#endif
