/* Stochastic gradient descent in one pass over weights, momentum and gradients. */
#include "simd.h"

#define PIECE 8192 /* elements that a thread takes at a time */

typedef struct {
  float rescale, clip, decay, rate, momentum;
} Descent;

/* Update a register of weights. Without velocity there is no momentum. */
INLINE void descend_lanes(const Descent *step, float *weight, float *velocity,
                          const float *gradient) {
  vector w = _mm512_loadu_ps(weight);
  vector g = _mm512_loadu_ps(gradient) * step->rescale;
  if (step->clip > 0) { /* NaN, as the second operand, stays NaN */
    g = _mm512_min_ps(_mm512_set1_ps(step->clip), g);
    g = _mm512_max_ps(_mm512_set1_ps(-step->clip), g);
  }
  vector move = (g + step->decay * w) * -step->rate;
  if (velocity) {
    move += _mm512_loadu_ps(velocity) * step->momentum;
    _mm512_storeu_ps(velocity, move);
  }
  _mm512_storeu_ps(weight, w + move);
}

/* Update fewer than 16 weights, by way of copies: masked stores are slow. */
TARGET static void descend_rest(const Descent *step, long count, float *weight, float *velocity,
                                const float *gradient) {
  float w[LANES] = {0}, v[LANES] = {0}, g[LANES] = {0};
  for (long i = 0; i < count; i++) {
    w[i] = weight[i];
    v[i] = velocity ? velocity[i] : 0;
    g[i] = gradient[i];
  }
  descend_lanes(step, w, velocity ? v : 0, g);
  for (long i = 0; i < count; i++) {
    weight[i] = w[i];
    if (velocity) velocity[i] = v[i];
  }
}

TARGET void descend(const Descent *step, long size, float *weight, float *velocity,
                    const float *gradient, long threads) {
  const long pieces = (size + PIECE - 1) / PIECE, whole = size / LANES * LANES;
#pragma omp parallel for num_threads(threads_for(threads, pieces))
  for (long p = 0; p < pieces; p++)
    for (long i = p * PIECE; i < least(whole, (p + 1) * PIECE); i += LANES)
      descend_lanes(step, weight + i, velocity ? velocity + i : 0, gradient + i);
  if (whole < size)
    descend_rest(step, size - whole, weight + whole, velocity ? velocity + whole : 0,
                 gradient + whole);
}
