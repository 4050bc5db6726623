/* Convolutions with windows of 3x3 by Winograd's minimal filtering F(2x2, 3x3), in AVX-512.
 *
 * A. Lavin, S. Gray: Fast Algorithms for Convolutional Neural Networks, 2015 (arXiv:1509.09308).
 * Tiles of 4x4 data, which overlap, are transformed so that 16 products of matrices, one for each
 * place of a tile, replace the sliding window: 4 multiplications for each result, not 9.
 *
 *     results = A^T [ (G weights G^T) . (B^T data B) ] A
 *
 * Both gradients are of the same form: that of the data is a convolution with the weights turned
 * around, that of the weights is the derivative of the formula:
 *
 *     G^T [ (A grad A^T) . (B^T data B) ] G
 *
 * F(4x4, 3x3) would take 2.25 multiplications, but its results are seven times as far from the
 * exact ones in float32 (64 channels of normal variates: 1.7 times as far as those of direct
 * convolution here, 12 times there).
 *
 * Each thread transforms some tiles, multiplies and transforms back, so that all three find their
 * operands in its cache. Its scratch holds tiles[16][tile][input] and products[16][tile][output],
 * in this order because a product needs one place of all tiles and channels.
 *
 * Nothing is allocated here.
 */
#include "blocks.h"
#include "winograd.h"

#define PLACES 16 /* elements of a transformed 4x4 tile */
#define TAPS 9    /* weights of a window */
typedef struct {
  long images, inputs, outputs; /* inputs, outputs: channels */
  long pad_y, pad_x;
  long dilation; /* distance between the pixels of a tile, in both directions */
  Tensor data, result;
  long tiles;   /* tiles transformed together */
  long threads; /* maximum; scratch is allocated for each */
} Problem;

/* -- tiles ------------------------------------------------------------------------------------ */

/* With a dilation of d, results that are d pixels apart share data with no others in between, so
 * each axis is d interleaved ones, every one with its own tiles. The first `size % d` of these are
 * longer by one. */
typedef struct {
  long image, y, x; /* the first of the 2x2 results */
} Tile;

/* Tiles along an axis: pairs of results that are `step` pixels apart, the last perhaps half
 * empty. */
static long count_along(long size, long step) {
  const long longer = size % step, each = size / step;
  return longer * ((each + 2) / 2) + (step - longer) * ((each + 1) / 2);
}

/* Where the tile of this index along an axis begins. */
static long begin_along(long index, long size, long step) {
  const long longer = size % step, each = size / step;
  const long of_longer = (each + 2) / 2, of_others = (each + 1) / 2;
  if (index < longer * of_longer) return index / of_longer + index % of_longer * 2 * step;
  index -= longer * of_longer;
  return longer + index / of_others + index % of_others * 2 * step;
}

/* Where the next tile begins; 0 behind the last. */
static long next_along(long place, long size, long step) {
  if (place + 2 * step < size) return place + 2 * step;
  const long first = place % step + 1;
  return first < least(step, size) ? first : 0;
}

static long count_tiles(const Problem *p) {
  return p->images * count_along(p->result.height, p->dilation) *
         count_along(p->result.width, p->dilation);
}

static Tile tile_at(const Problem *p, long index) {
  const long height = p->result.height, width = p->result.width, step = p->dilation;
  const long rows = count_along(height, step), columns = count_along(width, step);
  return (Tile){index / (rows * columns), begin_along(index / columns % rows, height, step),
                begin_along(index % columns, width, step)};
}

static void next(const Problem *p, Tile *tile) {
  tile->x = next_along(tile->x, p->result.width, p->dilation);
  if (tile->x) return;
  tile->y = next_along(tile->y, p->result.height, p->dilation);
  if (!tile->y) tile->image++;
}

/* B^T tile B of the tile of pixels from (y, x) on, each `apart` from the next; places are `step`
 * elements apart. */
INLINE void transform_data(const Tensor *t, const float *start, long y, long x, long apart,
                           float *out, long step) {
  vector d[4][4];
  if (y >= 0 && x >= 0 && y + 3 * apart < t->height && x + 3 * apart < t->width) {
    const float *first = start + y * t->row + x * t->pixel;
    const long row = apart * t->row, pixel = apart * t->pixel;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
#pragma GCC unroll 4
      for (int j = 0; j < 4; j++) d[i][j] = _mm512_loadu_ps(first + i * row + j * pixel);
  } else {
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
#pragma GCC unroll 4
      for (int j = 0; j < 4; j++) d[i][j] = at(t, start, y + i * apart, x + j * apart);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; j++) {
    vector a = d[0][j] - d[2][j], b = d[1][j] + d[2][j];
    vector c = d[2][j] - d[1][j], e = d[1][j] - d[3][j];
    d[0][j] = a, d[1][j] = b, d[2][j] = c, d[3][j] = e;
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    float *to = out + 4 * i * step;
    _mm512_storeu_ps(to, d[i][0] - d[i][2]);
    _mm512_storeu_ps(to + step, d[i][1] + d[i][2]);
    _mm512_storeu_ps(to + 2 * step, d[i][2] - d[i][1]);
    _mm512_storeu_ps(to + 3 * step, d[i][1] - d[i][3]);
  }
}

/* A^T tile A, with what follows the convolution, into 2x2 pixels, each `apart` from the next, as
 * far as they lie in the image.
 * `residual`, arranged as the result, is added; NULL for none. */
INLINE void restore_result(const float *in, long step, const Tensor *t, const float *residual,
                           float *start, long y, long x, long apart, vector bias, float slope) {
  vector half[2][4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; j++) {
    vector a = _mm512_loadu_ps(in + j * step), b = _mm512_loadu_ps(in + (4 + j) * step);
    vector c = _mm512_loadu_ps(in + (8 + j) * step), e = _mm512_loadu_ps(in + (12 + j) * step);
    half[0][j] = a + b + c;
    half[1][j] = b - c - e;
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++) {
    vector *h = half[i], pixels[2] = {h[0] + h[1] + h[2], h[1] - h[2] - h[3]};
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++) {
      if (y + i * apart >= t->height || x + j * apart >= t->width) continue;
      const long place = (y + i * apart) * t->row + (x + j * apart) * t->pixel;
      finish(pixels[j] + bias, residual ? residual + place : 0, slope, start + place);
    }
  }
}

/* A pixels A^T of the 2x2 pixels from (y, x) on, each `apart` from the next; returns their sum, a
 * share of the bias's gradient. */
INLINE vector transform_grad(const Tensor *t, const float *start, long y, long x, long apart,
                             float *out, long step) {
  vector a = at(t, start, y, x), b = at(t, start, y, x + apart);
  vector c = at(t, start, y + apart, x), e = at(t, start, y + apart, x + apart);
  vector left[4] = {a, a + c, a - c, -c}, right[4] = {b, b + e, b - e, -e};
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    float *to = out + 4 * i * step;
    _mm512_storeu_ps(to, left[i]);
    _mm512_storeu_ps(to + step, left[i] + right[i]);
    _mm512_storeu_ps(to + 2 * step, left[i] - right[i]);
    _mm512_storeu_ps(to + 3 * step, -right[i]);
  }
  return a + b + c + e;
}

/* One row of B^T tile B, as transform_data: four places, `step` elements apart. */
INLINE void transform_data_row(const Tensor *t, const float *start, long y, long x, long apart,
                               int row, float *out, long step) {
  /* Each row of B^T has a 1 and, for row 1 another 1, for the others a -1. */
  const int first = row == 0 ? 0 : row == 2 ? 2 : 1, second = row == 2 ? 1 : row == 3 ? 3 : 2;
  vector d[4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; j++) {
    const vector a = at(t, start, y + first * apart, x + j * apart);
    const vector b = at(t, start, y + second * apart, x + j * apart);
    d[j] = row == 1 ? a + b : a - b;
  }
  _mm512_storeu_ps(out, d[0] - d[2]);
  _mm512_storeu_ps(out + step, d[1] + d[2]);
  _mm512_storeu_ps(out + 2 * step, d[2] - d[1]);
  _mm512_storeu_ps(out + 3 * step, d[1] - d[3]);
}

/* One row of A pixels A^T, as transform_grad; returns the sum of its places 1, which for row 1 is
 * that of all pixels. */
INLINE vector transform_grad_row(const Tensor *t, const float *start, long y, long x, long apart,
                                 int row, float *out, long step) {
  const long first = row == 3 ? y + apart : y;
  vector left = at(t, start, first, x), right = at(t, start, first, x + apart);
  if (row == 3) {
    left = -left, right = -right;
  } else if (row) {
    const vector c = at(t, start, y + apart, x), e = at(t, start, y + apart, x + apart);
    left = row == 1 ? left + c : left - c;
    right = row == 1 ? right + e : right - e;
  }
  _mm512_storeu_ps(out, left);
  _mm512_storeu_ps(out + step, left + right);
  _mm512_storeu_ps(out + 2 * step, left - right);
  _mm512_storeu_ps(out + 3 * step, -right);
  return left + right;
}

/* -- weights ---------------------------------------------------------------------------------- */

/* G weights G^T of weights[outputs][inputs][3][3] into [16][panel of outputs][inputs][outputs].
 * Turned around they are those of the data's gradient, where inputs and outputs change roles. */
TARGET void winograd_transform_weights(long outputs, long inputs, int turned, const float *weights,
                                       float *out) {
  const long columns = turned ? inputs : outputs, depth = turned ? outputs : inputs;
  const long column_stride = turned ? 9 : inputs * 9, depth_stride = turned ? inputs * 9 : 9;
  const vector half = _mm512_set1_ps(.5f);
  const long parts = turned ? depth : columns / LANES;
#pragma omp parallel for schedule(static)
  for (long part = 0; part < parts; part++) {
    /* Weights are read in the order of their addresses. */
    const long others = turned ? columns / LANES : depth;
    for (long other = 0; other < others; other++) {
      const long column = LANES * (turned ? other : part), k = turned ? part : other;
      const long panel = panel_of(columns, column), width = panel_width(columns, panel);
      const float *window = weights + column * column_stride + k * depth_stride;
      float *to = out + panel * depth + k * width + column - panel;
      vector g[LANES], t[4][3];
      load_tile(window, column_stride, LANES, TAPS, g);
#pragma GCC unroll 3
      for (int j = 0; j < 3; j++) {
        const vector top = turned ? g[8 - j] : g[j], bottom = turned ? g[2 - j] : g[6 + j];
        const vector ends = half * (top + bottom), middle = half * (turned ? g[5 - j] : g[3 + j]);
        t[0][j] = top, t[1][j] = ends + middle, t[2][j] = ends - middle, t[3][j] = bottom;
      }
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++) {
        vector ends = half * (t[i][0] + t[i][2]), middle = half * t[i][1];
        vector places[4] = {t[i][0], ends + middle, ends - middle, t[i][2]};
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
          _mm512_storeu_ps(to + (4 * i + j) * columns * depth, places[j]);
      }
    }
  }
}

/* G^T sums G into the gradient of weights[outputs][inputs][3][3], for one output. `parts` arrays
 * of sums[16][outputs][inputs], `size` elements apart, are added up. */
TARGET static void restore_weights(const Problem *p, long output, const float *sums, long parts,
                                   long size, float *grad) {
  const long inputs = p->inputs, step = p->outputs * inputs;
  const vector half = _mm512_set1_ps(.5f);
  for (long input = 0; input < inputs; input += LANES) {
    vector u[4][4], t[3][4];
#pragma GCC unroll 16
    for (int i = 0; i < PLACES; i++) {
      const float *from = sums + i * step + output * inputs + input;
      vector sum = _mm512_loadu_ps(from);
      for (long part = 1; part < parts; part++) sum += _mm512_loadu_ps(from + part * size);
      u[i / 4][i % 4] = sum;
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
      vector both = half * (u[1][j] + u[2][j]);
      t[0][j] = u[0][j] + both, t[1][j] = half * (u[1][j] - u[2][j]), t[2][j] = both + u[3][j];
    }
    vector taps[LANES] = {0};
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++) {
      const vector both = half * (t[i][1] + t[i][2]);
      taps[3 * i] = t[i][0] + both;
      taps[3 * i + 1] = half * (t[i][1] - t[i][2]);
      taps[3 * i + 2] = both + t[i][3];
    }
    store_tile(taps, grad + (output * inputs + input) * TAPS, TAPS, LANES, TAPS);
  }
}

/* -- the passes ------------------------------------------------------------------------------- */

/* Scratch of each thread for a convolution, in floats. */
long winograd_convolve_scratch(const Problem *p) {
  return PLACES * p->tiles * (p->inputs + p->outputs);
}

/* Convolve with transformed weights. `bias` and `residual`, which may be the result itself, may be
 * NULL. Below zero results are multiplied by `slope`: 1 for no activation, 0 for ReLU. */
TARGET void winograd_convolve(const Problem *p, const float *data, const float *weights,
                              const float *bias, const float *residual, float slope,
                              float *result, float *scratch) {
  const long all = count_tiles(p), inputs = p->inputs, outputs = p->outputs, size = p->tiles;
  const long chunks = (all + size - 1) / size;
#pragma omp parallel num_threads(threads_for(p->threads, chunks))
  {
    float *tiles = scratch + omp_get_thread_num() * winograd_convolve_scratch(p);
    float *products = tiles + PLACES * size * inputs;
#pragma omp for schedule(static)
    for (long chunk = 0; chunk < chunks; chunk++) {
      const long count = least(size, all - chunk * size);
      const Tile begin = tile_at(p, chunk * size);
      for (long c = 0; c < inputs; c += LANES) {
        Tile tile = begin;
        for (long t = 0; t < count; t++, next(p, &tile))
          transform_data(&p->data, data + tile.image * p->data.image + c / LANES * p->data.block,
                         tile.y - p->pad_y, tile.x - p->pad_x, p->dilation, tiles + t * inputs + c,
                         size * inputs);
      }
      for (int i = 0; i < PLACES; i++)
        multiply_all(count, inputs, outputs, tiles + i * size * inputs,
                     weights + i * inputs * outputs, products + i * size * outputs);
      for (long k = 0; k < outputs; k += LANES) {
        const vector shift = bias ? _mm512_loadu_ps(bias + k) : _mm512_setzero_ps();
        Tile tile = begin;
        for (long t = 0; t < count; t++, next(p, &tile)) {
          const long start = tile.image * p->result.image + k / LANES * p->result.block;
          restore_result(products + t * outputs + k, size * outputs, &p->result,
                         residual ? residual + start : 0, result + start, tile.y, tile.x,
                         p->dilation, shift, slope);
        }
      }
    }
  }
}

/* Where the sums are too many for a thread's cache, they are computed in parts: the 4 places of a
 * row of tiles, for a band of output channels. A thread transforms what its part needs itself, some
 * of it again for each band: to wait for the other threads, and to fetch what they have written
 * from their caches, takes longer. */
#define PLACES_OF_ROW 4

/* So many bands that the parts can be shared evenly among the threads. */
static long bands_of(const Problem *p) {
  long bands = 1;
  while (PLACES / PLACES_OF_ROW * bands % p->threads && bands * LANES < p->outputs) bands++;
  return bands;
}

static long band_size(const Problem *p) {
  const long bands = bands_of(p);
  return (p->outputs / LANES + bands - 1) / bands * LANES;
}

#define ALL_ROWS (-1)

/* B^T data B in panels and A grad A^T of `count` tiles from `first` on, with all places or those of
 * a row, and with `outputs` channels of the gradient; `sums` of these, or NULL. There is room for
 * p->tiles tiles. */
INLINE void transform_tiles(const int row, const Problem *p, const float *data, const float *grad,
                            long first, long count, long outputs, float *tiles, float *grads,
                            float *sums) {
  const long inputs = p->inputs, depth = p->tiles;
  for (long c = 0; c < inputs; c += LANES) {
    const long panel = panel_of(inputs, c), width = panel_width(inputs, panel);
    Tile tile = tile_at(p, first);
    for (long t = 0; t < count; t++, next(p, &tile)) {
      const float *from = data + tile.image * p->data.image + c / LANES * p->data.block;
      float *to = tiles + panel * depth + t * width + c - panel;
      const long y = tile.y - p->pad_y, x = tile.x - p->pad_x, step = depth * inputs;
      if (row == ALL_ROWS) transform_data(&p->data, from, y, x, p->dilation, to, step);
      else transform_data_row(&p->data, from, y, x, p->dilation, row, to, step);
    }
  }
  for (long k = 0; k < outputs; k += LANES) {
    vector sum = _mm512_setzero_ps();
    Tile tile = tile_at(p, first);
    for (long t = 0; t < count; t++, next(p, &tile)) {
      const float *from = grad + tile.image * p->result.image + k / LANES * p->result.block;
      float *to = grads + t * outputs + k;
      const long step = depth * outputs;
      sum += row == ALL_ROWS
                 ? transform_grad(&p->result, from, tile.y, tile.x, p->dilation, to, step)
                 : transform_grad_row(&p->result, from, tile.y, tile.x, p->dilation, row, to, step);
    }
    /* Row 1 alone has the sum of all pixels. */
    if (sums && (row == ALL_ROWS || row == 1))
      _mm512_storeu_ps(sums + k, _mm512_loadu_ps(sums + k) + sum);
  }
}

/* One part of the sums, and for row 1 the sums of the gradient, or NULL. */
TARGET static void sum_part(const Problem *p, int row, long output, long outputs,
                            const float *data, const float *grad, float *tiles, float *sums,
                            float *bias_sums) {
  const long all = count_tiles(p), inputs = p->inputs, size = p->tiles;
  float *grads = tiles + PLACES_OF_ROW * size * inputs;
  grad += output / LANES * p->result.block;
  if (bias_sums) bias_sums += output;
  for (long first = 0; first < all; first += size) {
    const long count = least(size, all - first);
    switch (row) { /* so that the compiler knows it */
#define ROW(n) \
  case n: transform_tiles(n, p, data, grad, first, count, outputs, tiles, grads, bias_sums); break;
      ROW(0) ROW(1) ROW(2) ROW(3)
#undef ROW
    }
    for (int i = 0; i < PLACES_OF_ROW; i++) {
      float *out = sums + ((PLACES_OF_ROW * row + i) * p->outputs + output) * inputs;
      for (long panel = 0, width; panel < inputs; panel += width) {
        width = panel_width(inputs, panel);
        multiply(outputs, width,
                 (Factors){grads + i * size * outputs, tiles + (i * inputs + panel) * size,
                           out + panel, count, 1, outputs, width, inputs},
                 first > 0); /* the first tiles write the sums, which are not cleared */
      }
    }
  }
}

/* Scratch of all threads together for the gradient of the weights, in floats.
 *
 * Where the sums fit a thread's cache, each thread has its own, of a share of the tiles. Otherwise
 * there are sums in common (`shared` 1), of which each thread computes some, of all tiles. Sums of
 * the bias's gradient are small, so every thread always has its own. */
long winograd_weight_grad_scratch(const Problem *p, int shared) {
  const long sums = PLACES * p->inputs * p->outputs;
  const long places = shared ? PLACES_OF_ROW : PLACES;
  const long tiles = places * p->tiles * (p->inputs + (shared ? band_size(p) : p->outputs));
  return (shared ? 1 : p->threads) * sums + p->threads * (tiles + p->outputs);
}

/* Called by all threads of a team, which share the outputs among them. */
TARGET static void restore_all(const Problem *p, const float *sums, long parts, long size,
                               const float *bias_sums, long bias_parts, float *weight_grad,
                               float *bias_grad) {
#pragma omp for schedule(static)
  for (long k = 0; k < p->outputs; k++) {
    restore_weights(p, k, sums, parts, size, weight_grad);
    if (!bias_grad) continue;
    float sum = 0;
    for (long part = 0; part < bias_parts; part++) sum += bias_sums[part * p->outputs + k];
    bias_grad[k] = sum;
  }
}

/* The gradients of weights and bias; `bias_grad` may be NULL. */
TARGET void winograd_weight_grad(const Problem *p, const float *data, const float *grad,
                                 float *weight_grad, float *bias_grad, float *scratch, int shared) {
  const long all = count_tiles(p), inputs = p->inputs, outputs = p->outputs, size = p->tiles;
  const long chunks = (all + size - 1) / size, sums_size = PLACES * inputs * outputs;
  const long band = shared ? band_size(p) : outputs, bands = (outputs + band - 1) / band;
  const long parts = PLACES / PLACES_OF_ROW * bands;
  const long tiles_size = (shared ? PLACES_OF_ROW : PLACES) * size * (inputs + band);
  float *all_bias_sums = scratch, *all_sums = scratch + p->threads * outputs;
  float *all_tiles = all_sums + (shared ? 1 : p->threads) * sums_size;
#pragma omp parallel num_threads(threads_for(p->threads, shared ? parts : chunks))
  {
    /* OpenMP may provide fewer threads than requested. */
    const long team = omp_get_num_threads(), thread = omp_get_thread_num();
    float *bias_sums = all_bias_sums + thread * outputs, *tiles = all_tiles + thread * tiles_size;
    clear(bias_sums, outputs);
    if (shared) {
#pragma omp for schedule(static)
      for (long part = 0; part < parts; part++) {
        const long output = part % bands * band;
        sum_part(p, (int)(part / bands), output, least(band, outputs - output), data, grad, tiles,
                 all_sums, bias_grad ? bias_sums : 0);
      }
    } else {
      float *sums = all_sums + thread * sums_size, *grads = tiles + PLACES * size * inputs;
      clear(sums, sums_size);
#pragma omp for schedule(static)
      for (long chunk = 0; chunk < chunks; chunk++) {
        const long count = least(size, all - chunk * size);
        transform_tiles(ALL_ROWS, p, data, grad, chunk * size, count, outputs, tiles, grads,
                        bias_grad ? bias_sums : 0);
        for (int i = 0; i < PLACES; i++)
          for (long first = 0, width; first < inputs; first += width) {
            width = panel_width(inputs, first);
            multiply(outputs, width,
                     (Factors){grads + i * size * outputs, tiles + (i * inputs + first) * size,
                               sums + i * inputs * outputs + first, count, 1, outputs, width,
                               inputs},
                     1);
          }
      }
    }
    restore_all(p, all_sums, shared ? 1 : team, sums_size, all_bias_sums, team, weight_grad,
                bias_grad);
  }
}
