/* Convolutions with windows of 3x3 by Winograd's minimal filtering F(2x2, 3x3) and F(4x4, 3x3), in
 * AVX-512.
 *
 * Tiles of data, which overlap, are transformed so that products of matrices, one for each place of
 * a tile, replace the sliding window: 4 or 2.25 multiplications for each result, not 9. See
 * winograd_tiles.h for the formula.
 *
 * Both gradients are of the same form: that of the data is a convolution with the weights turned
 * around, that of the weights is the derivative of the formula:
 *
 *     G^T [ (A grad A^T) . (B^T data B) ] G
 *
 * Each thread transforms some tiles, multiplies and transforms back, so that all three find their
 * operands in its cache. Its scratch holds tiles[place][tile][input] and
 * products[place][tile][output], in this order because a product needs one place of all tiles and
 * channels.
 *
 * Nothing is allocated here.
 */
#include "blocks.h"
#include "winograd_tiles.h"

typedef struct {
  long images, inputs, outputs; /* inputs, outputs: channels */
  long results;                 /* of a tile, along an axis: 2 or 4 */
  long pad_y, pad_x;
  long dilation; /* distance between the pixels of a tile, in both directions */
  Tensor data, result;
  long form;    /* of the weights, if it convolves */
  long tiles;   /* tiles transformed together */
  long threads; /* maximum; scratch is allocated for each */
} Problem;

/* -- tiles ------------------------------------------------------------------------------------ */

/* With a dilation of d, results that are d pixels apart share data with no others in between, so
 * each axis is d interleaved ones, every one with its own tiles. The first `size % d` of these are
 * longer by one. */
typedef struct {
  long image, y, x; /* the first result */
} Tile;

/* Tiles along an axis: r results that are `step` pixels apart, the last perhaps not full. */
static long count_along(long r, long size, long step) {
  const long longer = size % step, each = size / step;
  return longer * ((each + r) / r) + (step - longer) * ((each + r - 1) / r);
}

/* Where the tile of this index along an axis begins. */
static long begin_along(long r, long index, long size, long step) {
  const long longer = size % step, each = size / step;
  const long of_longer = (each + r) / r, of_others = (each + r - 1) / r;
  if (index < longer * of_longer) return index / of_longer + index % of_longer * r * step;
  index -= longer * of_longer;
  return longer + index / of_others + index % of_others * r * step;
}

/* Where the next tile begins; 0 behind the last. */
static long next_along(long r, long place, long size, long step) {
  if (place + r * step < size) return place + r * step;
  const long first = place % step + 1;
  return first < least(step, size) ? first : 0;
}

static long count_tiles(const Problem *p) {
  return p->images * count_along(p->results, p->result.height, p->dilation) *
         count_along(p->results, p->result.width, p->dilation);
}

static Tile tile_at(const Problem *p, long index) {
  const long height = p->result.height, width = p->result.width, step = p->dilation;
  const long rows = count_along(p->results, height, step);
  const long columns = count_along(p->results, width, step);
  return (Tile){index / (rows * columns),
                begin_along(p->results, index / columns % rows, height, step),
                begin_along(p->results, index % columns, width, step)};
}

static void next(const Problem *p, Tile *tile) {
  tile->x = next_along(p->results, tile->x, p->result.width, p->dilation);
  if (tile->x) return;
  tile->y = next_along(p->results, tile->y, p->result.height, p->dilation);
  if (!tile->y) tile->image++;
}

/* -- weights ---------------------------------------------------------------------------------- */

/* G weights G^T of weights[outputs][inputs][3][3] into [place][panel of outputs][inputs][outputs].
 * Turned around they are those of the data's gradient, where inputs and outputs change roles. */
INLINE void transform_weights(const int r, long part, long outputs, long inputs, int turned,
                              const float *weights, float *out) {
  const long columns = turned ? inputs : outputs, depth = turned ? outputs : inputs;
  const long column_stride = turned ? TAPS : inputs * TAPS;
  const long depth_stride = turned ? inputs * TAPS : TAPS;
  /* Weights are read in the order of their addresses. */
  const long others = turned ? columns / LANES : depth;
  for (long other = 0; other < others; other++) {
    const long column = LANES * (turned ? other : part), k = turned ? part : other;
    const long panel = panel_of(columns, column), width = panel_width(columns, panel);
    vector windows[LANES], window[TAPS];
    load_tile(weights + column * column_stride + k * depth_stride, column_stride, LANES, TAPS,
              windows);
#pragma GCC unroll 9
    for (int tap = 0; tap < TAPS; tap++) window[tap] = windows[turned ? TAPS - 1 - tap : tap];
    transform_window(r, window, out + panel * depth + k * width + column - panel, columns * depth);
  }
}

/* The weights are transformed in so many parts. */
static long parts_of_weights(long outputs, int turned) {
  return turned ? outputs : outputs / LANES;
}

TARGET static void transform_part(long results, long part, long outputs, long inputs, int turned,
                                  const float *weights, float *out) {
  if (results == 4) transform_weights(4, part, outputs, inputs, turned, weights, out);
  else transform_weights(2, part, outputs, inputs, turned, weights, out);
}

TARGET void winograd_transform_weights(long results, long outputs, long inputs, int turned,
                                       const float *weights, float *out) {
  const long parts = parts_of_weights(outputs, turned);
#pragma omp parallel for schedule(static)
  for (long part = 0; part < parts; part++)
    transform_part(results, part, outputs, inputs, turned, weights, out);
}

/* G^T sums G of sums[place][outputs][inputs] into the gradient of weights[outputs][inputs][3][3],
 * for one output. */
INLINE void restore_weights(const int r, const Problem *p, long output, const float *sums,
                            float *grad) {
  const long inputs = p->inputs, step = p->outputs * inputs;
  const int n = r + 2;
  for (long input = 0; input < inputs; input += LANES) {
    vector places[MOST][MOST], windows[LANES] = {0};
#pragma GCC unroll 6
    for (int i = 0; i < n; i++)
#pragma GCC unroll 6
      for (int j = 0; j < n; j++)
        places[i][j] =
            _mm512_loadu_ps(sums + (n * i + j) * step + output * inputs + input);
    restore_window(r, places, windows);
    store_tile(windows, grad + (output * inputs + input) * TAPS, TAPS, LANES, TAPS);
  }
}

/* -- the passes ------------------------------------------------------------------------------- */

/* How weights are passed: transformed, or as they are stored, in windows [outputs][inputs][3][3] or
 * those turned around. Then each thread transforms all of them for itself: to fetch what another
 * has transformed from its cache takes longer. */
enum { TRANSFORMED, STORED, TURNED };

/* Scratch of each thread for a convolution, in floats. */
long winograd_convolve_scratch(const Problem *p) {
  const long weights = p->form == TRANSFORMED ? 0 : p->inputs * p->outputs;
  return PLACES(p->results) * (p->tiles * (p->inputs + p->outputs) + weights);
}

/* What is convolved: with transformed weights, and what follows the sums. */
typedef struct {
  const float *data, *weights, *bias, *residual;
  float slope;
  float *result;
} Convolution;

/* Convolve `count` tiles from `first` on. */
INLINE void convolve_tiles(const int r, const Problem *p, const Convolution *c, long first,
                           long count, float *tiles) {
  const long inputs = p->inputs, outputs = p->outputs, size = p->tiles;
  float *products = tiles + PLACES(r) * size * inputs;
  const Tile begin = tile_at(p, first);
  for (long k = 0; k < inputs; k += LANES) {
    Tile tile = begin;
    for (long t = 0; t < count; t++, next(p, &tile))
      transform_data(r, ALL_ROWS, &p->data,
                     c->data + tile.image * p->data.image + k / LANES * p->data.block,
                     tile.y - p->pad_y, tile.x - p->pad_x, p->dilation, tiles + t * inputs + k,
                     size * inputs);
  }
  for (int i = 0; i < PLACES(r); i++)
    multiply_all(count, inputs, outputs, tiles + i * size * inputs,
                 c->weights + i * inputs * outputs, products + i * size * outputs);
  for (long k = 0; k < outputs; k += LANES) {
    const vector shift = c->bias ? _mm512_loadu_ps(c->bias + k) : _mm512_setzero_ps();
    Tile tile = begin;
    for (long t = 0; t < count; t++, next(p, &tile)) {
      const long start = tile.image * p->result.image + k / LANES * p->result.block;
      restore_result(r, products + t * outputs + k, size * outputs, &p->result,
                     c->residual ? c->residual + start : 0, c->result + start, tile.y, tile.x,
                     p->dilation, shift, c->slope);
    }
  }
}

/* Convolve. `bias` and `residual`, which may be the result itself, may be
 * NULL. Below zero results are multiplied by `slope`: 1 for no activation, 0 for ReLU. */
TARGET void winograd_convolve(const Problem *p, const float *data, const float *weights,
                              const float *bias, const float *residual, float slope,
                              float *result, float *scratch) {
  const long all = count_tiles(p), size = p->tiles, chunks = (all + size - 1) / size;
#pragma omp parallel num_threads(threads_for(p->threads, chunks))
  {
    float *tiles = scratch + omp_get_thread_num() * winograd_convolve_scratch(p);
    Convolution convolution = {data, weights, bias, residual, slope, result};
    if (p->form != TRANSFORMED) {
      float *own = tiles + PLACES(p->results) * size * (p->inputs + p->outputs);
      const int turned = p->form == TURNED;
      /* Of the stored weights the outputs are those of the convolution that they belong to. */
      const long outputs = turned ? p->inputs : p->outputs;
      const long inputs = turned ? p->outputs : p->inputs;
      for (long part = 0; part < parts_of_weights(outputs, turned); part++)
        transform_part(p->results, part, outputs, inputs, turned, weights, own);
      convolution.weights = own;
    }
#pragma omp for schedule(static)
    for (long chunk = 0; chunk < chunks; chunk++) {
      const long first = chunk * size, count = least(size, all - first);
      if (p->results == 4) convolve_tiles(4, p, &convolution, first, count, tiles);
      else convolve_tiles(2, p, &convolution, first, count, tiles);
    }
  }
}

/* Where the sums are too many for a thread's cache, they are computed in parts: the places of a
 * row of tiles, for a band of output channels. A thread transforms what its part needs itself, some
 * of it again for each band: to wait for the other threads, and to fetch what they have written
 * from their caches, takes longer. */

/* So many bands that the parts can be shared evenly among the threads. */
static long bands_of(const Problem *p) {
  long bands = 1;
  while ((p->results + 2) * bands % p->threads && bands * LANES < p->outputs) bands++;
  return bands;
}

static long band_size(const Problem *p) {
  const long bands = bands_of(p);
  return (p->outputs / LANES + bands - 1) / bands * LANES;
}

/* B^T data B in panels and A grad A^T of `count` tiles from `first` on, with all places or those of
 * a row, and with `outputs` channels of the gradient; `sums` of these, or NULL. There is room for
 * p->tiles tiles. */
INLINE void transform_tiles(const int r, const int row, const Problem *p, const float *data,
                            const float *grad, long first, long count, long outputs, float *tiles,
                            float *grads, float *sums) {
  const long inputs = p->inputs, depth = p->tiles;
  for (long c = 0; c < inputs; c += LANES) {
    const long panel = panel_of(inputs, c), width = panel_width(inputs, panel);
    Tile tile = tile_at(p, first);
    for (long t = 0; t < count; t++, next(p, &tile))
      transform_data(r, row, &p->data,
                     data + tile.image * p->data.image + c / LANES * p->data.block,
                     tile.y - p->pad_y, tile.x - p->pad_x, p->dilation,
                     tiles + panel * depth + t * width + c - panel, depth * inputs);
  }
  for (long k = 0; k < outputs; k += LANES) {
    vector sum = _mm512_setzero_ps();
    Tile tile = tile_at(p, first);
    for (long t = 0; t < count; t++, next(p, &tile))
      sum += transform_grad(r, row, &p->result,
                            grad + tile.image * p->result.image + k / LANES * p->result.block,
                            tile.y, tile.x, p->dilation, grads + t * outputs + k, depth * outputs);
    /* Of the rows only row 1 has the sum of all pixels. */
    if (sums && (row == ALL_ROWS || row == 1))
      _mm512_storeu_ps(sums + k, _mm512_loadu_ps(sums + k) + sum);
  }
}

/* For each of `places` sums[outputs][inputs] = or += grads[tile][outputs]^T tiles[tile][inputs];
 * those of a place are `next_sums` elements apart from those of the next. */
INLINE void sum_products(const Problem *p, int places, long count, long outputs,
                         const float *tiles, const float *grads, float *sums, long next_sums,
                         int accumulates) {
  const long inputs = p->inputs, size = p->tiles;
  for (int i = 0; i < places; i++)
    for (long panel = 0, width; panel < inputs; panel += width) {
      width = panel_width(inputs, panel);
      multiply(outputs, width,
               (Factors){grads + i * size * outputs, tiles + (i * inputs + panel) * size,
                         sums + i * next_sums + panel, count, 1, outputs, width, inputs},
               accumulates);
    }
}

typedef struct {
  const float *data, *grad;
  float *tiles, *sums, *bias_sums; /* bias_sums: of the thread, or NULL */
} Gradient;

/* One part of the sums in common: a row of places, and `outputs` channels from `output` on. */
INLINE void sum_row(const int r, const int row, const Problem *p, const Gradient *g, long output,
                    long outputs) {
  const long all = count_tiles(p), size = p->tiles, next_sums = p->inputs * p->outputs;
  float *grads = g->tiles + (r + 2) * size * p->inputs;
  for (long first = 0; first < all; first += size) {
    const long count = least(size, all - first);
    transform_tiles(r, row, p, g->data, g->grad + output / LANES * p->result.block, first, count,
                    outputs, g->tiles, grads, g->bias_sums ? g->bias_sums + output : 0);
    /* The first tiles write the sums, which are not cleared. */
    sum_products(p, r + 2, count, outputs, g->tiles, grads,
                 g->sums + (r + 2) * row * next_sums + output * p->inputs, next_sums, first > 0);
  }
}

/* The compiler must know the row. */
TARGET static void sum_part(const Problem *p, const Gradient *g, int row, long output,
                            long outputs) {
#define ROW(r, n) \
  case n: sum_row(r, n, p, g, output, outputs); break;
  if (p->results == 2) switch (row) { ROW(2, 0) ROW(2, 1) ROW(2, 2) ROW(2, 3) }
  else switch (row) { ROW(4, 0) ROW(4, 1) ROW(4, 2) ROW(4, 3) ROW(4, 4) ROW(4, 5) }
#undef ROW
}

/* The sums of `count` tiles from `first` on are added to those of the thread. */
INLINE void sum_tiles(const int r, const Problem *p, const Gradient *g, long first, long count) {
  float *grads = g->tiles + PLACES(r) * p->tiles * p->inputs;
  transform_tiles(r, ALL_ROWS, p, g->data, g->grad, first, count, p->outputs, g->tiles, grads,
                  g->bias_sums);
  sum_products(p, PLACES(r), count, p->outputs, g->tiles, grads, g->sums, p->inputs * p->outputs,
               1);
}

static long sums_size(const Problem *p) { return PLACES(p->results) * p->inputs * p->outputs; }

static long weights_size(const Problem *p) { return TAPS * p->inputs * p->outputs; }

/* The tiles that a thread has transformed. */
static long tiles_size(const Problem *p, int shared) {
  const long places = shared ? p->results + 2 : PLACES(p->results);
  return places * p->tiles * (p->inputs + (shared ? band_size(p) : p->outputs));
}

/* What a thread has for itself: sums of the bias's gradient, transformed tiles and, unless they are
 * in common, sums and the gradient of the weights that they amount to. */
static long own_size(const Problem *p, int shared) {
  return p->outputs + tiles_size(p, shared) + (shared ? 0 : sums_size(p) + weights_size(p));
}

/* Scratch of all threads together for the gradient of the weights, in floats.
 *
 * Where the sums fit a thread's cache, each thread has its own, of a share of the tiles. Otherwise
 * there are sums in common (`shared` 1), of which each thread computes some, of all tiles. */
long winograd_weight_grad_scratch(const Problem *p, int shared) {
  return (shared ? sums_size(p) : 0) + p->threads * own_size(p, shared);
}

TARGET static void restore_output(const Problem *p, long output, const float *sums, float *grad) {
  if (p->results == 4) restore_weights(4, p, output, sums, grad);
  else restore_weights(2, p, output, sums, grad);
}

/* Add up `count` numbers of each of `parts` arrays, `next` elements apart. */
TARGET static void add_up(const float *from, long parts, long next, long count, float *to) {
  for (long i = 0; i < count; i += LANES) {
    vector sum = _mm512_loadu_ps(from + i);
    for (long part = 1; part < parts; part++) sum += _mm512_loadu_ps(from + part * next + i);
    _mm512_storeu_ps(to + i, sum);
  }
}

/* The gradients of weights and bias; `bias_grad` may be NULL. */
TARGET void winograd_weight_grad(const Problem *p, const float *data, const float *grad,
                                 float *weight_grad, float *bias_grad, float *scratch, int shared) {
  const long all = count_tiles(p), outputs = p->outputs, size = p->tiles;
  const long chunks = (all + size - 1) / size, own_floats = own_size(p, shared);
  const long band = band_size(p), bands = (outputs + band - 1) / band;
  const long parts = (p->results + 2) * bands;
  float *common_sums = scratch, *all_own = scratch + (shared ? sums_size(p) : 0);
  const long before_weights = outputs + tiles_size(p, 0) + sums_size(p); /* of what is its own */
#pragma omp parallel num_threads(threads_for(p->threads, shared ? parts : chunks))
  {
    /* OpenMP may provide fewer threads than requested. */
    const long team = omp_get_num_threads();
    float *own = all_own + omp_get_thread_num() * own_floats, *tiles = own + outputs;
    const Gradient g = {data, grad, tiles, shared ? common_sums : tiles + tiles_size(p, 0),
                        bias_grad ? own : 0};
    clear(own, outputs);
    if (shared) {
#pragma omp for schedule(static)
      for (long part = 0; part < parts; part++) {
        const long output = part % bands * band;
        sum_part(p, &g, (int)(part / bands), output, least(band, outputs - output));
      }
#pragma omp for schedule(static)
      for (long k = 0; k < outputs; k++) restore_output(p, k, common_sums, weight_grad);
    } else {
      clear(g.sums, sums_size(p));
#pragma omp for schedule(static) nowait
      for (long chunk = 0; chunk < chunks; chunk++) {
        const long first = chunk * size, count = least(size, all - first);
        if (p->results == 4) sum_tiles(4, p, &g, first, count);
        else sum_tiles(2, p, &g, first, count);
      }
      /* Before they are added up, because windows are smaller than sums, and what another thread
       * has written takes long to fetch. */
      for (long k = 0; k < outputs; k++) restore_output(p, k, g.sums, own + before_weights);
#pragma omp barrier
      const long next = TAPS * p->inputs;
#pragma omp for schedule(static)
      for (long k = 0; k < outputs; k++)
        add_up(all_own + before_weights + k * next, team, own_floats, next, weight_grad + k * next);
    }
#pragma omp single
    if (bias_grad) add_up(all_own, team, own_floats, outputs, bias_grad);
  }
}
