/* Fully connected layers in training: out = data weight^T + bias, and its gradients.
 *
 * In all passes a thread has the same band of outputs, which are rows of the weight: so weight,
 * gradient and what an optimizer keeps stay in the cache of one core (`update` shares its arrays
 * alike). All matrices are in C order; the right factors of products are copied block by block, as
 * in `winograd.h`. Results of fewer than 16 columns would need masks, so there are at least 16
 * inputs, and the last panel of columns overlaps the one before. */
#include "blocks.h"
#include "winograd.h"

#define DEPTH 128 /* inputs or outputs in a block */

typedef struct {
  long rows, inputs, outputs, bands;
  const float *data, *weight;
  const float *bias; /* of the forward pass; no bias: null */
  float *out;
  const float *grad;                          /* of the output, in the backward pass */
  float *data_grad, *weight_grad, *bias_grad; /* null: not wanted */
  float *scratch;                             /* dense_scratch() floats */
} DenseLayer;

static inline long rounded(long count) { return (count + LANES - 1) / LANES * LANES; }

/* Floats of a right factor's block in the backward pass. */
static long block_of(const DenseLayer *layer) { return PANEL * (rounded(layer->rows) + DEPTH); }

/* Floats that a band needs: for blocks of right factors, and for sums that are transposed or added
 * to those of other bands. */
static long scratch_of(const DenseLayer *layer) {
  const long rows = rounded(layer->rows);
  const long forward = rows * (DEPTH + rounded(layer->outputs / layer->bands + LANES));
  const long backward = block_of(layer) + rows * rounded(layer->inputs);
  return forward > backward ? forward : backward;
}

long dense_scratch(const DenseLayer *layer) { return layer->bands * scratch_of(layer); }

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

TARGET void dense_forward(const DenseLayer *layer) {
  const long bands = layer->bands, scratch = scratch_of(layer);
#pragma omp parallel for num_threads(threads_for(bands, bands)) schedule(static, 1)
  for (long i = 0; i < bands; i++)
    forward_band(layer, span_of(layer->outputs, i, bands), layer->scratch + i * scratch);
}

/* -- backward ---------------------------------------------------------------------------------- */

/* Rows of one panel, one after the other. */
TARGET static void pack_rows(const float *from, long stride, long rows, long width, float *to) {
  for (long i = 0; i < rows; i++)
    for (long j = 0; j < width; j += LANES)
      _mm512_storeu_ps(to + i * width + j, _mm512_loadu_ps(from + i * stride + j));
}

TARGET static void weight_grad(const DenseLayer *layer, Span band, long column, long width,
                               float *packed) {
  const long inputs = layer->inputs;
  pack_rows(layer->data + column, inputs, layer->rows, width, packed);
  multiply(band.count, width,
           (Factors){layer->grad + band.first, packed,
                     layer->weight_grad + band.first * inputs + column, layer->rows, 1,
                     layer->outputs, width, inputs},
           0);
}

/* The part of the data's gradient that comes from a band of outputs. */
TARGET static void data_grad(const DenseLayer *layer, Span band, long column, long width, float *packed,
                             float *to) {
  const long inputs = layer->inputs;
  for (long o = 0; o < band.count; o += DEPTH) {
    const long depth = least(DEPTH, band.count - o), first = band.first + o;
    pack_rows(layer->weight + first * inputs + column, inputs, depth, width, packed);
    multiply_deep(layer->rows, width,
                  (Factors){layer->grad + first, packed, to + column, depth, layer->outputs, 1,
                            width, inputs},
                  o > 0);
  }
}

TARGET static void bias_grad(const DenseLayer *layer, Span band) {
  for (long o = 0; o < band.count; o += LANES) {
    const __mmask16 lanes = first_lanes(band.count - o);
    const float *grad = layer->grad + band.first + o;
    vector sum = _mm512_setzero_ps();
    for (long b = 0; b < layer->rows; b++)
      sum += _mm512_maskz_loadu_ps(lanes, grad + b * layer->outputs);
    _mm512_mask_storeu_ps(layer->bias_grad + band.first + o, lanes, sum);
  }
}

/* All gradients; the data's goes to `parts`. */
TARGET static void backward_band(const DenseLayer *layer, Span band, float *packed, float *parts) {
  const long inputs = layer->inputs;
  for (long k = 0, width; k < inputs; k += width) {
    width = panel_width(inputs, k);
    const long column = least(k, inputs - width);
    if (layer->data_grad) data_grad(layer, band, column, width, packed, parts);
    if (layer->weight_grad) weight_grad(layer, band, column, width, packed);
  }
  if (layer->bias_grad) bias_grad(layer, band);
}

/* Add up a share of the bands' parts of the data's gradient. */
TARGET static void add_parts(const DenseLayer *layer, Span share, const float *parts) {
  const long end = share.first + share.count, stride = scratch_of(layer);
  for (long i = share.first; i < end; i += LANES) {
    vector sum = _mm512_loadu_ps(parts + i);
    for (long b = 1; b < layer->bands; b++) sum += _mm512_loadu_ps(parts + b * stride + i);
    _mm512_mask_storeu_ps(layer->data_grad + i, first_lanes(end - i), sum);
  }
}

TARGET void dense_backward(const DenseLayer *layer) {
  const long bands = layer->bands, block = block_of(layer), size = layer->rows * layer->inputs;
#pragma omp parallel num_threads(threads_for(bands, bands))
  {
#pragma omp for schedule(static, 1)
    for (long i = 0; i < bands; i++) {
      float *packed = layer->scratch + i * scratch_of(layer);
      backward_band(layer, span_of(layer->outputs, i, bands), packed,
                    bands > 1 ? packed + block : layer->data_grad);
    }
    if (bands > 1 && layer->data_grad)
#pragma omp for schedule(static, 1)
      for (long i = 0; i < bands; i++)
        add_parts(layer, span_of(size, i, bands), layer->scratch + block);
  }
}
