/* Fully connected layers in training: out = data weight^T + bias, and its gradients.
 *
 * In all passes a thread has the same band of outputs, which are rows of the weight: so weight,
 * gradient and what an optimizer keeps stay in the cache of one core (`update` shares its arrays
 * alike). All matrices are in C order, and there are at least 16 inputs; the right factors of
 * products are copied to panels, as in `winograd.h`. */
#include "blocks.h"
#include "winograd.h"

#define DEPTH 256 /* inputs or outputs in a block */

typedef struct {
  long rows, inputs, outputs, bands;
  const float *data, *weight;
  const float *bias; /* of the forward pass; no bias: null */
  float *out;
  const float *grad;                          /* of the output, in the backward pass */
  float *data_grad, *weight_grad, *bias_grad; /* null: not wanted */
  float *scratch;                             /* gemm_scratch() floats */
} DenseLayer;

static inline long rounded(long count) { return (count + LANES - 1) / LANES * LANES; }

/* Floats of the data, with rows of whole registers. */
static long matrix_of(const DenseLayer *layer) { return layer->rows * rounded(layer->inputs); }

/* Floats that a band needs: for right factors, and for sums that are transposed or added to those
 * of other bands. */
static long scratch_of(const DenseLayer *layer) {
  const long band = rounded(layer->outputs / layer->bands + LANES);
  const long forward = rounded(layer->rows) * (DEPTH + band);
  const long backward = 2 * matrix_of(layer) + DEPTH * LANES;
  return forward > backward ? forward : backward;
}

long gemm_scratch(const DenseLayer *layer) { return layer->bands * scratch_of(layer); }

/* `multiply` of any depth: a narrow panel takes only multiples of 4 if `left` is in rows. */
TARGET static void multiply_deep(long rows, long width, Factors f, int accumulates) {
  const long depth = f.depth, rest = width == LANES && f.left_depth == 1 ? depth % 4 : 0;
  f.depth = depth - rest;
  if (f.depth) multiply(rows, width, f, accumulates);
  f.left += f.depth;
  f.right += f.depth * f.right_depth;
  for (long i = 0; i < rest; i++, f.left++, f.right += f.right_depth) {
    Factors one = f;
    one.depth = 1;
    one.left_depth = LANES; /* of a single column, so it is not used */
    multiply(rows, width, one, accumulates || f.depth || i);
  }
}

/* -- forward ----------------------------------------------------------------------------------- */

/* Columns of the data, as rows of a panel; zeros beyond the batch. */
TARGET static void pack_columns(const float *data, long stride, long rows, long width, long depth,
                                float *to) {
  for (long k = 0; k < depth; k += LANES)
    for (long b = 0; b < width; b += LANES) {
      vector r[LANES];
      load_tile(data + b * stride + k, stride, rows - b, depth - k, r);
      for (long j = 0; j < least(LANES, depth - k); j++)
        _mm512_storeu_ps(to + (k + j) * width + b, r[j]);
    }
}

/* Transpose sums to rows of the output, and add the bias. */
TARGET static void store_band(const DenseLayer *layer, Span band, const float *sums) {
  const long stride = rounded(layer->rows);
  for (long o = 0; o < band.count; o += LANES) {
    const long count = band.count - o;
    for (long b = 0; b < layer->rows; b += LANES) {
      vector r[LANES];
      for (long j = 0; j < LANES; j++) {
        const long from = band.first + o + j;
        r[j] = j < count ? _mm512_loadu_ps(sums + (o + j) * stride + b) : _mm512_setzero_ps();
        if (layer->bias && j < count) r[j] += _mm512_set1_ps(layer->bias[from]);
      }
      store_tile(r, layer->out + b * layer->outputs + band.first + o, layer->outputs,
                 layer->rows - b, count);
    }
  }
}

/* The sums are transposed: the data are packed and not the weight, which is read once. */
TARGET static void forward_band(const DenseLayer *layer, Span band, float *scratch) {
  const long rows = layer->rows, columns = rounded(rows), inputs = layer->inputs;
  float *packed = scratch, *sums = scratch + columns * DEPTH;
  for (long k = 0; k < inputs; k += DEPTH) {
    const long depth = least(DEPTH, inputs - k);
    for (long b = 0, width; b < columns; b += width) {
      width = panel_width(columns, b);
      pack_columns(layer->data + b * inputs + k, inputs, rows - b, width, depth, packed);
      multiply_deep(band.count, width,
                    (Factors){layer->weight + band.first * inputs + k, packed, sums + b, depth,
                              inputs, 1, width, columns},
                    k > 0);
    }
  }
  store_band(layer, band, sums);
}

TARGET void gemm_forward(const DenseLayer *layer) {
  const long bands = layer->bands, scratch = scratch_of(layer);
#pragma omp parallel for num_threads(threads_for(bands, bands)) schedule(static, 1)
  for (long i = 0; i < bands; i++)
    forward_band(layer, span_of(layer->outputs, i, bands), layer->scratch + i * scratch);
}

/* -- backward ---------------------------------------------------------------------------------- */

/* Rows of one panel, one after the other; zeros beyond the columns that there are. */
TARGET static void pack_rows(const float *from, long stride, long rows, long columns, long width,
                             float *to) {
  for (long j = 0; j < width; j += LANES) {
    const __mmask16 lanes = first_lanes(columns - j);
    for (long i = 0; i < rows; i++)
      _mm512_storeu_ps(to + i * width + j, _mm512_maskz_loadu_ps(lanes, from + i * stride + j));
  }
}

/* The panels of the data; results of fewer than 16 columns would need masks, so the last panel
 * overlaps the one before. Few rows of a large weight are visited at a time, because each is in
 * another page. */
TARGET static void weight_grad(const DenseLayer *layer, Span band, float *packed) {
  const long inputs = layer->inputs, rows = layer->rows;
  for (long o = 0; o < band.count; o += DEPTH)
    for (long k = 0, width; k < inputs; k += width) {
      width = panel_width(inputs, k);
      const long first = band.first + o, column = least(k, inputs - width);
      float *data = packed + k * rows;
      if (o == 0) pack_rows(layer->data + column, inputs, rows, width, width, data);
      multiply(least(DEPTH, band.count - o), width,
               (Factors){layer->grad + first, data, layer->weight_grad + first * inputs + column,
                         rows, 1, layer->outputs, width, inputs},
               0);
    }
}

/* What comes from one band of outputs. Only columns that do not fill a panel are copied: the weight
 * is read so few times that copies would take long. */
TARGET static void data_grad(const DenseLayer *layer, Span band, float *packed, float *parts) {
  const long inputs = layer->inputs;
  for (long o = 0; o < band.count; o += DEPTH)
    for (long k = 0, width; k < inputs; k += width) {
      width = panel_width(inputs, k);
      const long depth = least(DEPTH, band.count - o), first = band.first + o;
      const float *weight = layer->weight + first * inputs + k;
      const int is_whole = k + width <= inputs;
      if (!is_whole) pack_rows(weight, inputs, depth, inputs - k, width, packed);
      multiply_deep(layer->rows, width,
                    (Factors){layer->grad + first, is_whole ? weight : packed, parts + k, depth,
                              layer->outputs, 1, is_whole ? inputs : width, rounded(inputs)},
                    o > 0);
    }
}

TARGET static void bias_grad(const DenseLayer *layer, Span band) {
  for (long o = 0; o < band.count; o += LANES) {
    const __mmask16 lanes = first_lanes(band.count - o);
    const float *grad = layer->grad + band.first + o;
    vector sum = _mm512_setzero_ps();
    /* In runs: errors grow with the number of terms that are added to the same sum. */
    for (long start = 0; start < layer->rows; start += LANES) {
      vector run = _mm512_setzero_ps();
      for (long b = start; b < least(layer->rows, start + LANES); b++)
        run += _mm512_maskz_loadu_ps(lanes, grad + b * layer->outputs);
      sum += run;
    }
    _mm512_mask_storeu_ps(layer->bias_grad + band.first + o, lanes, sum);
  }
}

/* All gradients; the data's goes to `parts`. */
TARGET static void backward_band(const DenseLayer *layer, Span band, float *parts) {
  float *packed = parts + matrix_of(layer);
  if (layer->data_grad) data_grad(layer, band, packed, parts);
  if (layer->weight_grad) weight_grad(layer, band, packed);
  if (layer->bias_grad) bias_grad(layer, band);
}

/* Add up the bands' parts of a row of the data's gradient. */
TARGET static void add_parts(const DenseLayer *layer, long row) {
  const float *parts = layer->scratch + row * rounded(layer->inputs);
  float *to = layer->data_grad + row * layer->inputs;
  for (long i = 0; i < layer->inputs; i += LANES) {
    vector sum = _mm512_loadu_ps(parts + i);
    for (long b = 1; b < layer->bands; b++)
      sum += _mm512_loadu_ps(parts + b * scratch_of(layer) + i);
    _mm512_mask_storeu_ps(to + i, first_lanes(layer->inputs - i), sum);
  }
}

TARGET void gemm_backward(const DenseLayer *layer) {
  const long bands = layer->bands;
#pragma omp parallel num_threads(threads_for(bands, bands))
  {
#pragma omp for schedule(static, 1)
    for (long i = 0; i < bands; i++)
      backward_band(layer, span_of(layer->outputs, i, bands),
                    layer->scratch + i * scratch_of(layer));
    if (layer->data_grad)
#pragma omp for schedule(static)
      for (long i = 0; i < layer->rows; i++) add_parts(layer, i);
  }
}
