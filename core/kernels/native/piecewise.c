/* Functions that are linear on each side of a few points, and their gradients. NaN passes as it
 * does in MXNet, unlike in oneDNN: where the data are NaN, ReLU and clip leave it, the gradient of
 * ReLU is NaN, that of the absolute value is 0, and that of a clip is the gradient of the
 * output. */
#include "simd.h"

/* Elements that a thread takes at a time: fewer are not worth waking one (as `_LIGHT_ELEMENTS` of
 * onednn/primitive.py). */
#define PIECE 16384

enum Function { RELU, ABSOLUTE, CLIP };

/* Of two operands that do not compare, max and min return the second. ReLU makes 0 of -0. */
INLINE vector value(enum Function function, vector x, vector low, vector high) {
  if (function == RELU)
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_NLE_UQ), x);
  if (function == ABSOLUTE) return _mm512_abs_ps(x);
  return _mm512_max_ps(low, _mm512_min_ps(high, x));
}

/* The gradient of ReLU from its result, the others from the data. */
INLINE vector gradient(enum Function function, vector seen, vector grad, vector low, vector high) {
  const vector zero = _mm512_setzero_ps(), one = _mm512_set1_ps(1);
  if (function == CLIP) {
    const __mmask16 kept = _mm512_cmp_ps_mask(seen, low, _CMP_NLT_UQ);
    return _mm512_maskz_mov_ps(_mm512_mask_cmp_ps_mask(kept, seen, high, _CMP_NGT_UQ), grad);
  }
  vector slope = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(seen, zero, _CMP_GT_OQ), one);
  if (function == RELU)
    slope = _mm512_mask_mov_ps(slope, _mm512_cmp_ps_mask(seen, seen, _CMP_UNORD_Q), seen);
  else
    slope = _mm512_mask_sub_ps(slope, _mm512_cmp_ps_mask(seen, zero, _CMP_LT_OQ), zero, one);
  return slope * grad;
}

INLINE void forward(enum Function function, long count, const float *x, float *y, vector low,
                    vector high) {
  for (long i = 0; i < count; i += LANES) {
    const __mmask16 lanes = first_lanes(count - i);
    _mm512_mask_storeu_ps(y + i, lanes,
                          value(function, _mm512_maskz_loadu_ps(lanes, x + i), low, high));
  }
}

INLINE void backward(enum Function function, long count, const float *seen, const float *grad,
                     float *out, vector low, vector high) {
  for (long i = 0; i < count; i += LANES) {
    const __mmask16 lanes = first_lanes(count - i);
    const vector at = _mm512_maskz_loadu_ps(lanes, seen + i);
    const vector dy = _mm512_maskz_loadu_ps(lanes, grad + i);
    _mm512_mask_storeu_ps(out + i, lanes, gradient(function, at, dy, low, high));
  }
}

/* Each call has a constant function, so that the compiler makes a loop without branches of it. */
TARGET void piecewise_forward(int function, long count, float low, float high, const float *x,
                              float *y, long threads) {
  const long pieces = (count + PIECE - 1) / PIECE;
#pragma omp parallel for num_threads(threads_for(threads, pieces))
  for (long p = 0; p < pieces; p++) {
    const long start = p * PIECE, size = least(count - start, PIECE);
    const vector lowest = _mm512_set1_ps(low), highest = _mm512_set1_ps(high);
    if (function == RELU) forward(RELU, size, x + start, y + start, lowest, highest);
    if (function == ABSOLUTE) forward(ABSOLUTE, size, x + start, y + start, lowest, highest);
    if (function == CLIP) forward(CLIP, size, x + start, y + start, lowest, highest);
  }
}

TARGET void piecewise_backward(int function, long count, float low, float high, const float *seen,
                               const float *grad, float *out, long threads) {
  const long pieces = (count + PIECE - 1) / PIECE;
#pragma omp parallel for num_threads(threads_for(threads, pieces))
  for (long p = 0; p < pieces; p++) {
    const long start = p * PIECE, size = least(count - start, PIECE);
    const vector lowest = _mm512_set1_ps(low), highest = _mm512_set1_ps(high);
    const float *at = seen + start, *dy = grad + start;
    if (function == RELU) backward(RELU, size, at, dy, out + start, lowest, highest);
    if (function == ABSOLUTE) backward(ABSOLUTE, size, at, dy, out + start, lowest, highest);
    if (function == CLIP) backward(CLIP, size, at, dy, out + start, lowest, highest);
  }
}
