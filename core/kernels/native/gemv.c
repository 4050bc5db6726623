/* Fully connected layers of a single row: a matrix multiplied by a vector.
 *
 * Each element of the matrix is used once, so memory bandwidth is the limit, and the matrix is read
 * as it lies: blocks would gain nothing, and would need a copy of it.
 */
#include "simd.h"

/* Rows of the matrix that share a load of the vector, and sums that do not wait for each other. */
#define ROWS 8
#define PIECE 131072L /* elements of the matrix that are worth a thread */

typedef struct {
  long outputs, inputs; /* the shape of the matrix, which is in C order */
  const float *matrix, *data, *bias; /* no bias: a null pointer */
  float *result;
  float slope; /* of the activation below zero: 0 for ReLU, 1 for none */
  long threads;
} Layer;

/* Results of up to ROWS rows; inlined with a constant count, so that the sums stay in registers. */
INLINE void multiply(const Layer *layer, long first, long count) {
  const long inputs = layer->inputs, whole = inputs - inputs % LANES;
  const __mmask16 rest = first_lanes(inputs - whole);
  const float *rows = layer->matrix + first * inputs;
  vector sums[ROWS];
  for (long r = 0; r < count; r++) sums[r] = _mm512_setzero_ps();
  for (long i = 0; i < whole; i += LANES) {
    const vector data = _mm512_loadu_ps(layer->data + i);
    for (long r = 0; r < count; r++)
      sums[r] = _mm512_fmadd_ps(_mm512_loadu_ps(rows + r * inputs + i), data, sums[r]);
  }
  if (rest) {
    const vector data = _mm512_maskz_loadu_ps(rest, layer->data + whole);
    for (long r = 0; r < count; r++) {
      const vector row = _mm512_maskz_loadu_ps(rest, rows + r * inputs + whole);
      sums[r] = _mm512_fmadd_ps(row, data, sums[r]);
    }
  }
  for (long r = 0; r < count; r++) {
    float found = _mm512_reduce_add_ps(sums[r]);
    if (layer->bias) found += layer->bias[first + r];
    if (found < 0) found = layer->slope ? found * layer->slope : 0; /* infinity times 0 is NaN */
    layer->result[first + r] = found;
  }
}

TARGET static void multiply_rows(const Layer *layer, long first, long end) {
  for (; first + ROWS <= end; first += ROWS) multiply(layer, first, ROWS);
  for (; first < end; first++) multiply(layer, first, 1);
}

void gemv(const Layer *layer) {
  const long pieces = layer->outputs * layer->inputs / PIECE + 1;
  const int threads = threads_for(layer->threads, pieces);
  if (threads == 1) { /* without the cost of a parallel region */
    multiply_rows(layer, 0, layer->outputs);
    return;
  }
  const long groups = (layer->outputs + ROWS - 1) / ROWS;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (long g = 0; g < groups; g++)
    multiply_rows(layer, g * ROWS, least(layer->outputs, (g + 1) * ROWS));
}
