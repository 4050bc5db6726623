/* Convolutions with windows of 1xN or Nx1 by Winograd's minimal filtering along lines, in AVX-512.
 *
 * As in winograd.c, but in one dimension: six data give four results of a window of 3, F(4, 3), or
 * three of a window of 4, F(3, 4). Longer windows are two of 4, whose products are added up: the
 * second has zeros behind its end, and begins four data later. A window of 7 takes 12
 * multiplications for three results, not 21. The points are 0, 1, -1, -1/2, 2 and infinity, which
 * round half as much as with -2 in place of -1/2 (B. Barabasz et al.: Error Analysis and Improving
 * the Accuracy of Winograd Convolution for Deep Neural Networks, 2020, arXiv:1803.10986).
 *
 * This is Toom and Cook's product of polynomials, transposed: G evaluates the window at the points
 * and divides by the products of the differences from the other points. Where -1/2 is among these,
 * the row of G is halved and that of B^T doubled, so that B^T has whole numbers only.
 */
#include "winograd.h"

#define PLACES 6 /* data of a tile */
#define SHORT 4  /* largest window of one part */

typedef struct {
  long images, inputs, outputs; /* inputs, outputs: channels */
  long taps;                    /* length of the window */
  long is_vertical;
  long pad; /* data missing before the line */
  Tensor data, result;
  long tiles;   /* tiles transformed together */
  long threads; /* maximum; scratch is allocated for each */
} Lines;

static inline long parts_of(long taps) { return taps > SHORT ? 2 : 1; }

/* Results of a tile. */
static inline long results_of(long taps) { return taps < SHORT ? 4 : 3; }

/* The lines of a tensor, which all have the same length. */
typedef struct {
  long length, step;  /* pixels of a line, and how far apart they are */
  long count, apart;  /* lines of an image, and how far apart they are */
} Axis;

static Axis axis_of(const Lines *p, const Tensor *t) {
  if (p->is_vertical) return (Axis){t->height, t->row, t->width, t->pixel};
  return (Axis){t->width, t->pixel, t->height, t->row};
}

typedef struct {
  long image, line, first; /* the first result's place in its line */
} Tile;

static long tiles_along(const Lines *p) {
  const long each = results_of(p->taps);
  return (axis_of(p, &p->result).length + each - 1) / each;
}

static Tile tile_at(const Lines *p, long index) {
  const long along = tiles_along(p), lines = axis_of(p, &p->result).count;
  return (Tile){index / along / lines, index / along % lines, index % along * results_of(p->taps)};
}

static void next(const Lines *p, const Axis *axis, Tile *tile) {
  tile->first += results_of(p->taps);
  if (tile->first < axis->length) return;
  tile->first = 0;
  if (++tile->line < axis->count) return;
  tile->line = 0, tile->image++;
}

/* B^T of the data from a place on; zeros beyond the ends of the line. */
INLINE void transform_part(const Axis *axis, const float *line, long first, float *out, long step) {
  vector d[PLACES];
#pragma GCC unroll 6
  for (long i = 0; i < PLACES; i++) {
    const long place = first + i;
    const int is_inside = (place >= 0) & (place < axis->length);
    d[i] = _mm512_maskz_loadu_ps((__mmask16)-is_inside, line + (is_inside ? place * axis->step : 0));
  }
  const vector two = _mm512_set1_ps(2), three = _mm512_set1_ps(3), four = _mm512_set1_ps(4);
  const vector five = _mm512_set1_ps(5), odd = d[1] - d[3], even = d[2] - d[4];
  const vector places[PLACES] = {
      _mm512_fmadd_ps(three, odd, _mm512_fnmadd_ps(four, d[2], two * (d[0] + d[4]))),
      _mm512_fmsub_ps(two, d[4] - d[1], _mm512_fmadd_ps(five, d[2], d[3])),
      _mm512_fmadd_ps(two, d[4] + d[1], _mm512_fnmadd_ps(five, d[3], d[2])),
      _mm512_fmsub_ps(two, odd, even),
      _mm512_fnmsub_ps(two, even, odd),
      _mm512_fmadd_ps(three, even, _mm512_fnmadd_ps(four, d[3], two * (d[1] + d[5]))),
  };
#pragma GCC unroll 6
  for (long i = 0; i < PLACES; i++) _mm512_storeu_ps(out + i * step, places[i]);
}

/* A^T of the products: the results of a tile, as far as they lie in the line. */
INLINE void restore(const Lines *p, const Axis *axis, const float *in, long step, vector bias,
                    const float *residual, float slope, float *line, long first) {
  vector m[PLACES];
#pragma GCC unroll 6
  for (long i = 0; i < PLACES; i++) m[i] = _mm512_loadu_ps(in + i * step);
  const vector sum = m[1] + m[2], gap = m[1] - m[2];
  vector results[4] = {m[0] + sum + m[3] + m[4],
                       _mm512_fmadd_ps(_mm512_set1_ps(2), m[4], gap - _mm512_set1_ps(.5f) * m[3]),
                       _mm512_fmadd_ps(_mm512_set1_ps(4), m[4], sum + _mm512_set1_ps(.25f) * m[3]),
                       _mm512_fmadd_ps(_mm512_set1_ps(8), m[4], gap - _mm512_set1_ps(.125f) * m[3])};
  const long count = results_of(p->taps);
  results[count - 1] += m[5]; /* the point at infinity: the highest coefficient */
  for (long i = 0; i < least(count, axis->length - first); i++) {
    const long place = (first + i) * axis->step;
    finish(results[i] + bias, residual ? residual + place : 0, slope, line + place);
  }
}

/* G weights of weights[outputs][inputs][taps] into
 * [6][panel of outputs][parts * inputs][outputs]. */
TARGET void winograd_1d_transform_weights(long outputs, long inputs, long taps, const float *weights,
                                    float *out) {
  const long parts = parts_of(taps), depth = parts * inputs;
  const __m512i lanes = _mm512_mullo_epi32(
      _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
      _mm512_set1_epi32((int)(inputs * taps)));
#pragma omp parallel for schedule(static)
  for (long column = 0; column < outputs; column += LANES) {
    const long panel = panel_of(outputs, column), width = panel_width(outputs, panel);
    for (long k = 0; k < depth; k++) {
      const long part = k / inputs, left = taps - part * SHORT;
      const float *window = weights + (column * inputs + k % inputs) * taps + part * SHORT;
      vector g[SHORT];
#pragma GCC unroll 4
      for (long i = 0; i < SHORT; i++)
        g[i] = i < left ? _mm512_i32gather_ps(lanes, window + i, 4) : _mm512_setzero_ps();
      const vector even = g[0] + g[2], odd = g[1] + g[3], half = _mm512_set1_ps(.5f);
      const vector two = _mm512_set1_ps(2), four = _mm512_set1_ps(4), eight = _mm512_set1_ps(8);
      /* -8 times the value at -1/2, so that its factors are whole. */
      const vector at_half = g[3] - two * g[2] + four * g[1] - eight * g[0];
      const vector at_two = g[0] + two * g[1] + four * g[2] + eight * g[3];
      const vector places[PLACES] = {half * g[0],
                                     (even + odd) * _mm512_set1_ps(-1.f / 6),
                                     (even - odd) * _mm512_set1_ps(1.f / 6),
                                     at_half * _mm512_set1_ps(2.f / 15),
                                     at_two * _mm512_set1_ps(1.f / 30),
                                     half * (taps < SHORT ? g[2] : g[3])};
      float *to = out + panel * depth + k * width + column - panel;
#pragma GCC unroll 6
      for (long i = 0; i < PLACES; i++) _mm512_storeu_ps(to + i * outputs * depth, places[i]);
    }
  }
}

/* Scratch of each thread, in floats. */
long winograd_1d_convolve_scratch(const Lines *p) {
  return PLACES * p->tiles * (parts_of(p->taps) * p->inputs + p->outputs);
}

/* Convolve with transformed weights; the parameters are those of winograd_convolve. */
TARGET void winograd_1d_convolve(const Lines *p, const float *data, const float *weights,
                           const float *bias, const float *residual, float slope, float *result,
                           float *scratch) {
  const Axis from = axis_of(p, &p->data), to = axis_of(p, &p->result);
  const long parts = parts_of(p->taps), inputs = p->inputs, outputs = p->outputs, size = p->tiles;
  const long depth = parts * inputs, all = p->images * to.count * tiles_along(p);
  const long chunks = (all + size - 1) / size;
#pragma omp parallel num_threads(threads_for(p->threads, chunks))
  {
    float *tiles = scratch + omp_get_thread_num() * winograd_1d_convolve_scratch(p);
    float *products = tiles + PLACES * size * depth;
#pragma omp for schedule(static)
    for (long chunk = 0; chunk < chunks; chunk++) {
      const long count = least(size, all - chunk * size);
      const Tile begin = tile_at(p, chunk * size);
      for (long c = 0; c < inputs; c += LANES) {
        Tile tile = begin;
        for (long t = 0; t < count; t++, next(p, &to, &tile)) {
          const float *line = data + tile.image * p->data.image + c / LANES * p->data.block +
                              tile.line * from.apart;
          for (long part = 0; part < parts; part++)
            transform_part(&from, line, tile.first - p->pad + part * SHORT,
                           tiles + t * depth + part * inputs + c, size * depth);
        }
      }
      for (long i = 0; i < PLACES; i++)
        multiply_all(count, depth, outputs, tiles + i * size * depth, weights + i * depth * outputs,
                     products + i * size * outputs);
      for (long k = 0; k < outputs; k += LANES) {
        const vector shift = bias ? _mm512_loadu_ps(bias + k) : _mm512_setzero_ps();
        Tile tile = begin;
        for (long t = 0; t < count; t++, next(p, &to, &tile)) {
          const long start = tile.image * p->result.image + k / LANES * p->result.block +
                             tile.line * to.apart;
          restore(p, &to, products + t * outputs + k, size * outputs, shift,
                  residual ? residual + start : 0, slope, result + start, tile.first);
        }
      }
    }
  }
}
