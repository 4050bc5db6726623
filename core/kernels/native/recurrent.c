/* Recurrent layers in inference: LSTM (S. Hochreiter, J. Schmidhuber, 1997; with a forget gate) and
 * GRU (K. Cho et al., 2014; the reset gate multiplies after the product, as in cuDNN) over all
 * steps, in one or both directions.
 *
 * Weights are packed in panels: for 16 units, row by row of the input, the weights of all gates. So
 * the sums of all gates of 16 units stay in registers until the new state is computed. Every thread
 * keeps its panels for all steps, in its own cache, and waits for the others once a step. */
#include "simd.h"

/* Rows of a batch that share a load of the weights: with 4 gates their sums take 24 of the 32
 * registers. */
#define ROWS 6

typedef struct {
  long steps, batch, inputs, hidden, directions;
  long gates; /* 4: LSTM with input, forget, memory and output gate; 3: GRU with reset and update
               * gate and candidate */
  long threads;
} Sizes;

typedef struct {
  Sizes sizes;
  const float *data;                 /* (steps, batch, inputs) */
  const float *packed;               /* by direction: panels of the input's weights, of the state's,
                                      * biases */
  const float *first, *first_memory; /* (directions, batch, hidden); the memory is LSTM's */
  float *out;                        /* (steps, batch, directions * hidden) */
  float *last, *last_memory;         /* like the first; null if nobody wants them */
  float *scratch;                    /* recurrent_scratch() floats */
} Recurrent;

INLINE vector constant(float x) { return _mm512_set1_ps(x); }

/* Cephes' expf, exact to 1e-7; NaN stays NaN, because it is the second operand. The bounds are
 * beyond those of float32, so that the scaling still makes 0 and infinity; log(2) is subtracted in
 * two parts, of which the first has so few digits that its product with n is exact. */
INLINE vector exponential(vector x) {
  x = _mm512_max_ps(constant(-104), _mm512_min_ps(constant(89), x));
  const vector n = _mm512_roundscale_ps(_mm512_mul_ps(x, constant(1.44269504f)), 0);
  vector r = _mm512_fnmadd_ps(n, constant(0.693359375f), x);
  r = _mm512_fnmadd_ps(n, constant(-2.12194440e-4f), r);
  vector p = constant(1.9875691500e-4f);
  p = _mm512_fmadd_ps(p, r, constant(1.3981999507e-3f));
  p = _mm512_fmadd_ps(p, r, constant(8.3334519073e-3f));
  p = _mm512_fmadd_ps(p, r, constant(4.1665795894e-2f));
  p = _mm512_fmadd_ps(p, r, constant(1.6666665459e-1f));
  p = _mm512_fmadd_ps(p, r, constant(5.0000001201e-1f));
  p = _mm512_fmadd_ps(_mm512_mul_ps(p, r), r, _mm512_add_ps(r, constant(1)));
  return _mm512_scalef_ps(p, n);
}

INLINE vector sigmoid(vector x) {
  const vector negative = _mm512_sub_ps(_mm512_setzero_ps(), x);
  return _mm512_div_ps(constant(1), _mm512_add_ps(constant(1), exponential(negative)));
}

/* Cephes' tanhf: a polynomial near 0, where the quotient would lose digits. */
INLINE vector hyperbolic_tangent(vector x) {
  const vector size = _mm512_abs_ps(x), z = _mm512_mul_ps(x, x);
  vector p = constant(-5.70498872745e-3f);
  p = _mm512_fmadd_ps(p, z, constant(2.06390887954e-2f));
  p = _mm512_fmadd_ps(p, z, constant(-5.37397155531e-2f));
  p = _mm512_fmadd_ps(p, z, constant(1.33314422036e-1f));
  p = _mm512_fmadd_ps(p, z, constant(-3.33332819422e-1f));
  const vector near = _mm512_fmadd_ps(_mm512_mul_ps(p, z), x, x);
  const vector power = exponential(_mm512_add_ps(size, size));
  const vector far = _mm512_sub_ps(
      constant(1), _mm512_div_ps(constant(2), _mm512_add_ps(power, constant(1))));
  const __mmask16 is_near = _mm512_cmp_ps_mask(size, constant(0.625f), _CMP_LT_OQ);
  const __mmask16 is_negative = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
  const vector found = _mm512_mask_sub_ps(far, is_negative, _mm512_setzero_ps(), far);
  return _mm512_mask_mov_ps(found, is_near, near);
}

/* Add to the sums of so many rows their products with a panel. */
INLINE void multiply(vector *sums, long rows, long gates, const float *data, long stride,
                     long count, const float *panel) {
  for (long k = 0; k < count; k++, panel += gates * LANES)
#pragma GCC unroll 8
    for (long r = 0; r < rows; r++) {
      const vector x = constant(data[r * stride + k]);
#pragma GCC unroll 8
      for (long g = 0; g < gates; g++) {
        vector *sum = sums + r * gates + g;
        *sum = _mm512_fmadd_ps(x, _mm512_loadu_ps(panel + g * LANES), *sum);
      }
    }
}

/* Where the parameters and the scratch of one direction lie. */
typedef struct {
  long panels, sums;                    /* floats of a row's sums in all panels */
  const float *input, *state, *bias;    /* weights; biases by panel: of the gates, then for GRU that
                                         * of the state's part of the candidate */
  float *projected, *memory;            /* (steps, batch, sums); (batch, panels * 16) */
} Direction;

static inline long panels_of(const Sizes *sizes) { return (sizes->hidden + LANES - 1) / LANES; }

static Direction direction_of(const Recurrent *layer, long index) {
  const Sizes *sizes = &layer->sizes;
  const long panels = panels_of(sizes), width = panels * LANES, sums = width * sizes->gates;
  const float *input = layer->packed + index * (sizes->inputs + sizes->hidden + 2) * sums;
  const float *state = input + sizes->inputs * sums, *bias = state + sizes->hidden * sums;
  float *projected = layer->scratch + index * sizes->batch * (sizes->steps * sums + width);
  float *memory = projected + sizes->steps * sizes->batch * sums;
  return (Direction){panels, sums, input, state, bias, projected, memory};
}

long recurrent_scratch(const Sizes *sizes) {
  const long width = panels_of(sizes) * LANES;
  return sizes->directions * sizes->batch * (sizes->steps * width * sizes->gates + width);
}

/* Call an inline function with a constant number of rows, so that their sums are in registers. */
#define WITH_CONSTANT(rows, function, ...)       \
  switch (rows) {                                \
    case 1: function(1, __VA_ARGS__); break;     \
    case 2: function(2, __VA_ARGS__); break;     \
    case 3: function(3, __VA_ARGS__); break;     \
    case 4: function(4, __VA_ARGS__); break;     \
    case 5: function(5, __VA_ARGS__); break;     \
    default: function(ROWS, __VA_ARGS__); break; \
  }

/* The input's share of the sums of all steps, for one panel. */
INLINE void project_rows(long rows, const Recurrent *layer, const Direction *to, long panel,
                         long first, long gates) {
  vector sums[ROWS * 4];
  const float *bias = to->bias + panel * 2 * gates * LANES;
#pragma GCC unroll 8
  for (long r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (long g = 0; g < gates; g++) sums[r * gates + g] = _mm512_loadu_ps(bias + g * LANES);
  multiply(sums, rows, gates, layer->data + first * layer->sizes.inputs, layer->sizes.inputs, layer->sizes.inputs,
           to->input + panel * layer->sizes.inputs * gates * LANES);
  float *target = to->projected + first * to->sums + panel * gates * LANES;
#pragma GCC unroll 8
  for (long r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (long g = 0; g < gates; g++)
      _mm512_storeu_ps(target + r * to->sums + g * LANES, sums[r * gates + g]);
}

INLINE void project(const Recurrent *layer, const Direction *to, long panel, long gates) {
  const long count = layer->sizes.steps * layer->sizes.batch;
  for (long row = 0; row < count; row += ROWS)
    WITH_CONSTANT(least(count - row, ROWS), project_rows, layer, to, panel, row, gates);
}

/* One step of some rows, for one panel. */
typedef struct {
  const float *before; /* the state before, of the first row */
  long before_stride;
  float *after;
  long after_stride;
  const float *projected;
  float *memory;
} Step;

INLINE void advance_rows(long rows, const Recurrent *layer, const Direction *to, const Step *step,
                         long panel, long gates) {
  const long unit = panel * LANES;
  const __mmask16 units = first_lanes(layer->sizes.hidden - unit);
  vector sums[ROWS * 4];
  const float *shared = step->projected + panel * gates * LANES;
  const float *bias = to->bias + (panel * 2 + 1) * gates * LANES;
#pragma GCC unroll 8
  for (long r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (long g = 0; g < gates; g++)
      /* GRU adds the input's share later: the reset gate multiplies the state's alone. */
      sums[r * gates + g] = gates == 4 ? _mm512_loadu_ps(shared + r * to->sums + g * LANES)
                                       : _mm512_loadu_ps(bias + g * LANES);
  multiply(sums, rows, gates, step->before, step->before_stride, layer->sizes.hidden,
           to->state + panel * layer->sizes.hidden * gates * LANES);
#pragma GCC unroll 8
  for (long r = 0; r < rows; r++) {
    const vector *sum = sums + r * gates;
    vector state;
    if (gates == 4) {
      float *memory = step->memory + r * to->panels * LANES + unit;
      const vector kept = _mm512_mul_ps(sigmoid(sum[1]), _mm512_loadu_ps(memory));
      const vector held =
          _mm512_fmadd_ps(sigmoid(sum[0]), hyperbolic_tangent(sum[2]), kept);
      _mm512_storeu_ps(memory, held);
      state = _mm512_mul_ps(sigmoid(sum[3]), hyperbolic_tangent(held));
    } else {
      const float *input = shared + r * to->sums;
      const vector reset = sigmoid(_mm512_add_ps(sum[0], _mm512_loadu_ps(input)));
      const vector update = sigmoid(_mm512_add_ps(sum[1], _mm512_loadu_ps(input + LANES)));
      const vector candidate = hyperbolic_tangent(
          _mm512_fmadd_ps(reset, sum[2], _mm512_loadu_ps(input + 2 * LANES)));
      const vector before =
          _mm512_maskz_loadu_ps(units, step->before + r * step->before_stride + unit);
      /* update * before + (1 - update) * candidate */
      state = _mm512_fmadd_ps(update, _mm512_sub_ps(before, candidate), candidate);
    }
    _mm512_mask_storeu_ps(step->after + r * step->after_stride + unit, units, state);
  }
}

INLINE void advance(const Recurrent *layer, const Direction *to, long side, long time, long panel,
                    long gates) {
  const long wide = layer->sizes.directions * layer->sizes.hidden, batch = layer->sizes.batch;
  const long at = side ? layer->sizes.steps - 1 - time : time, earlier = side ? at + 1 : at - 1;
  for (long row = 0; row < batch; row += ROWS) {
    Step step = {.after = layer->out + (at * batch + row) * wide + side * layer->sizes.hidden,
                 .after_stride = wide,
                 .projected = to->projected + (at * batch + row) * to->sums,
                 .memory = to->memory + row * to->panels * LANES};
    step.before = time ? layer->out + (earlier * batch + row) * wide + side * layer->sizes.hidden
                       : layer->first + (side * batch + row) * layer->sizes.hidden;
    step.before_stride = time ? wide : layer->sizes.hidden;
    WITH_CONSTANT(least(batch - row, ROWS), advance_rows, layer, to, &step, panel, gates);
  }
}

/* Copy the memory of one panel's units from (batch, hidden) to the scratch, or back. */
TARGET static void copy_memory(const Recurrent *layer, const Direction *to, long side, long panel,
                               int is_last) {
  const long unit = panel * LANES;
  const __mmask16 units = first_lanes(layer->sizes.hidden - unit);
  for (long row = 0; row < layer->sizes.batch; row++) {
    const long place = (side * layer->sizes.batch + row) * layer->sizes.hidden + unit;
    float *memory = to->memory + row * to->panels * LANES + unit;
    if (is_last)
      _mm512_mask_storeu_ps(layer->last_memory + place, units, _mm512_loadu_ps(memory));
    else
      _mm512_storeu_ps(memory, _mm512_maskz_loadu_ps(units, layer->first_memory + place));
  }
}

/* A thread's share of the work; the number of gates is a constant. */
INLINE void run(const Recurrent *layer, const Direction *directions, long gates) {
  const long panels = directions->panels, pieces = panels * layer->sizes.directions;
  const long thread = omp_get_thread_num(), count = omp_get_num_threads();
  const long begin = pieces * thread / count, end = pieces * (thread + 1) / count;
  for (long p = begin; p < end; p++) {
    project(layer, directions + p / panels, p % panels, gates);
    if (gates == 4) copy_memory(layer, directions + p / panels, p / panels, p % panels, 0);
  }
  for (long time = 0; time < layer->sizes.steps; time++) {
    for (long p = begin; p < end; p++)
      advance(layer, directions + p / panels, p / panels, time, p % panels, gates);
    if (count > 1) { /* the next step reads the states of all panels */
#pragma omp barrier
    }
  }
  if (gates == 4 && layer->last_memory)
    for (long p = begin; p < end; p++)
      copy_memory(layer, directions + p / panels, p / panels, p % panels, 1);
}

TARGET void recurrent(const Recurrent *layer) {
  const Direction both[2] = {direction_of(layer, 0),
                             direction_of(layer, layer->sizes.directions - 1)};
  const long pieces = both->panels * layer->sizes.directions;
  const int threads = threads_for(layer->sizes.threads, pieces);
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    if (layer->sizes.gates == 4)
      run(layer, both, 4);
    else
      run(layer, both, 3);
  }
  if (!layer->last) return;
  const long wide = layer->sizes.directions * layer->sizes.hidden;
  for (long side = 0; side < layer->sizes.directions; side++)
    for (long row = 0; row < layer->sizes.batch; row++) {
      const long at = side ? 0 : layer->sizes.steps - 1;
      const float *from = layer->out + (at * layer->sizes.batch + row) * wide + side * layer->sizes.hidden;
      float *to = layer->last + (side * layer->sizes.batch + row) * layer->sizes.hidden;
      for (long i = 0; i < layer->sizes.hidden; i++) to[i] = from[i];
    }
}
