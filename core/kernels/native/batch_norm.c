/* Batch normalization in training, alone or followed by ReLU or a clip, and its gradients.
 *
 * S. Ioffe, C. Szegedy: Batch Normalization, 2015 (arXiv:1502.03167). Tensors are float32 with 16
 * channels in a row, in blocks of channels (nChw16c) or channels last; `Maps` says which.
 *
 * Memory bandwidth limits the speed. Each thread traverses its part of the data once for the
 * statistics and once backwards to apply them, when what it has seen last is still in its cache.
 * Results are written through the cache, where the next layer finds them.
 *
 * The variance is that of two passes over each piece, mean first, and pieces are combined by Chan's
 * formula: the sum of squares less the square of the sum would cancel where the mean is large.
 */
#include <math.h>

#include "simd.h"

/* Pixels whose statistics are taken at a time: 16 KiB, which stay in the first-level cache between
 * the two passes over them. */
#define PIECE 256
#define RUN 16 /* pixels that are added to the same sum of gradients */

typedef struct {
  long images, channels, pixels;
  long image, block, pixel; /* strides in elements; a block is 16 channels */
  long threads;             /* maximum; scratch is allocated for each */
} Maps;

typedef struct {
  long offset, channel, count; /* start, first channel, number of pixels */
} Piece;

enum { NONE, RELU, KEEPING_RELU, CLIP };

/* What follows the batch norm; only a clip has bounds. */
typedef struct {
  long kind;
  float low, high;
} Activation;

static long count_pieces(const Maps *m) {
  return m->images * (m->channels / LANES) * ((m->pixels + PIECE - 1) / PIECE);
}

/* Pieces in the order of their addresses: with channels last, the blocks of the same pixels are
 * neighbours. */
static Piece piece_at(const Maps *m, long index) {
  const long blocks = m->channels / LANES, parts = (m->pixels + PIECE - 1) / PIECE;
  const int is_last = m->block == LANES;
  const long inner = is_last ? blocks : parts, outer = index / inner % (is_last ? parts : blocks);
  const long image = index / (blocks * parts);
  const long block = is_last ? index % inner : outer, part = is_last ? outer : index % inner;
  return (Piece){image * m->image + block * m->block + part * PIECE * m->pixel, block * LANES,
                 least(PIECE, m->pixels - part * PIECE)};
}

/* The pieces [first, last) of a thread. */
static void share_of(const Maps *m, long thread, long team, long *first, long *last) {
  const long pieces = count_pieces(m);
  *first = pieces * thread / team;
  *last = pieces * (thread + 1) / team;
}

/* -- forward ---------------------------------------------------------------------------------- */

/* Elements of scratch that each thread needs: for each channel count, mean and squares, or sums. */
long batch_norm_scratch(const Maps *m) { return 3 * m->channels; }

/* Combines the statistics of two sets: T. Chan, G. Golub, R. LeVeque: Updating Formulae and a
 * Pairwise Algorithm for Computing Sample Variances, 1979. `squares` are sums of squared
 * differences from the mean. The first set may be empty, with zeros. */
INLINE void join(float *count, float *mean, float *squares, vector more, vector more_mean,
                 vector more_squares) {
  const vector before = _mm512_loadu_ps(count), together = before + more;
  const vector delta = more_mean - _mm512_loadu_ps(mean), weight = more / together;
  _mm512_storeu_ps(count, together);
  _mm512_storeu_ps(mean, _mm512_loadu_ps(mean) + delta * weight);
  _mm512_storeu_ps(squares,
                   _mm512_loadu_ps(squares) + more_squares + delta * delta * before * weight);
}

INLINE vector difference(const float *pixel, vector center, const int squared) {
  const vector delta = _mm512_loadu_ps(pixel) - center;
  return squared ? (vector)(delta * delta) : delta;
}

/* The sum of a channel's differences from a center, or of their squares. */
INLINE vector sum_pixels(const float *first, long count, long stride, vector center,
                         const int squared) {
  vector sums[4] = {{0}}; /* several, because each addition waits for the one before */
  long i = 0;
  for (; i + 4 <= count; i += 4)
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) sums[j] += difference(first + (i + j) * stride, center, squared);
  for (; i < count; i++) sums[0] += difference(first + i * stride, center, squared);
  return sums[0] + sums[1] + (sums[2] + sums[3]);
}

TARGET static void take_statistics(const Maps *m, const float *data, Piece piece, float *all) {
  const float *first = data + piece.offset;
  const vector count = _mm512_set1_ps((float)piece.count);
  const vector mean = sum_pixels(first, piece.count, m->pixel, _mm512_setzero_ps(), 0) / count;
  const vector squares = sum_pixels(first, piece.count, m->pixel, mean, 1);
  float *to = all + piece.channel;
  join(to, to + m->channels, to + 2 * m->channels, count, mean, squares);
}

/* Mean, variance and 1 / sqrt(variance + eps) of the batch, from the threads' statistics. */
TARGET static void join_threads(const Maps *m, const float *scratch, long team, float eps,
                                float *mean, float *variance, float *inverse) {
  const long channels = m->channels;
  for (long c = 0; c < channels; c += LANES) {
    float count[LANES] = {0}, means[LANES] = {0}, squares[LANES] = {0};
    for (long thread = 0; thread < team; thread++) {
      const float *from = scratch + thread * batch_norm_scratch(m) + c;
      if (from[0] > 0) /* two empty sets would give 0 / 0 */
        join(count, means, squares, _mm512_loadu_ps(from), _mm512_loadu_ps(from + channels),
             _mm512_loadu_ps(from + 2 * channels));
    }
    for (long i = 0; i < LANES; i++) {
      mean[c + i] = means[i];
      variance[c + i] = squares[i] / count[i]; /* MXNet keeps the biased variance, too */
      inverse[c + i] = 1 / sqrtf(variance[c + i] + eps);
    }
  }
}

/* data -> (data - center) * scale + shift of 16 channels. The difference comes first: where the
 * mean is large beside the deviation, products would have no digits left for it. */
typedef struct {
  vector center, scale, shift;
} Affine;

INLINE Affine affine_of(long c, const float *gamma, const float *beta, const float *mean,
                        const float *inverse) {
  const vector rate = _mm512_loadu_ps(inverse + c);
  const vector scale = rate * (gamma ? _mm512_loadu_ps(gamma + c) : _mm512_set1_ps(1));
  return (Affine){_mm512_loadu_ps(mean + c), scale, _mm512_loadu_ps(beta + c)};
}

INLINE vector apply(Affine affine, vector x) {
  return _mm512_fmadd_ps(x - affine.center, affine.scale, affine.shift);
}

/* ReLU makes 0 of NaN. Where y stands second in a comparison, NaN is kept. */
INLINE vector activate(vector y, const Activation *activation) {
  if (activation->kind == RELU) return _mm512_max_ps(y, _mm512_setzero_ps());
  if (activation->kind == KEEPING_RELU) return _mm512_max_ps(_mm512_setzero_ps(), y);
  if (activation->kind == NONE) return y;
  return _mm512_min_ps(_mm512_set1_ps(activation->high),
                       _mm512_max_ps(_mm512_set1_ps(activation->low), y));
}

/* Normalize; `gamma` NULL stands for ones. Writes the statistics as well. */
TARGET void batch_norm_forward(const Maps *m, const float *data, const float *gamma,
                               const float *beta, float eps, const Activation *activation,
                               float *result, float *mean, float *variance, float *inverse,
                               float *scratch) {
  const Activation follows = *activation;
#pragma omp parallel num_threads(threads_for(m->threads, count_pieces(m)))
  {
    const long team = omp_get_num_threads(), thread = omp_get_thread_num();
    float *own = scratch + thread * batch_norm_scratch(m);
    long first, last;
    share_of(m, thread, team, &first, &last);
    clear(own, batch_norm_scratch(m));
    for (long i = first; i < last; i++) take_statistics(m, data, piece_at(m, i), own);
    /* `single` makes the threads wait at its end only. */
#pragma omp barrier
#pragma omp single
    join_threads(m, scratch, team, eps, mean, variance, inverse);
    for (long i = last - 1; i >= first; i--) {
      const Piece piece = piece_at(m, i);
      const Affine affine = affine_of(piece.channel, gamma, beta, mean, inverse);
      for (long j = 0; j < piece.count; j++) {
        const long place = piece.offset + j * m->pixel;
        const vector y = apply(affine, _mm512_loadu_ps(data + place));
        _mm512_storeu_ps(result + place, activate(y, &follows));
      }
    }
  }
}

/* -- backward --------------------------------------------------------------------------------- */

/* The gradient that the activation lets through. Its input is computed again, exactly as in the
 * forward pass, because reading the output would take more of the memory's bandwidth. As in MXNet,
 * a clip lets the gradient through where the input is on a bound or NaN; a ReLU that keeps NaN
 * makes the gradient NaN there. */
INLINE vector let_through(vector grad, vector x, Affine affine, const Activation *activation) {
  if (activation->kind == NONE) return grad;
  const vector y = apply(affine, x);
  if (activation->kind == RELU || activation->kind == KEEPING_RELU) {
    const vector passed =
        _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y, _mm512_setzero_ps(), _CMP_GT_OQ), grad);
    if (activation->kind == RELU) return passed;
    return _mm512_mask_mov_ps(passed, _mm512_cmp_ps_mask(y, y, _CMP_UNORD_Q), y);
  }
  const __mmask16 kept = _mm512_cmp_ps_mask(y, _mm512_set1_ps(activation->low), _CMP_NLT_UQ);
  return _mm512_maskz_mov_ps(
      _mm512_mask_cmp_ps_mask(kept, y, _mm512_set1_ps(activation->high), _CMP_NGT_UQ), grad);
}

/* Gradients of data, gamma and beta. */
TARGET void batch_norm_backward(const Maps *m, const float *data, const float *gamma,
                                const float *beta, const float *mean, const float *inverse,
                                const Activation *activation, const float *grad,
                                float *data_grad, float *gamma_grad, float *beta_grad,
                                float *scratch) {
  const Activation follows = *activation;
  const long channels = m->channels;
  const float count = (float)(m->images * m->pixels);
#pragma omp parallel num_threads(threads_for(m->threads, count_pieces(m)))
  {
    const long team = omp_get_num_threads(), thread = omp_get_thread_num();
    float *own = scratch + thread * batch_norm_scratch(m);
    long first, last;
    share_of(m, thread, team, &first, &last);
    clear(own, batch_norm_scratch(m));
    for (long i = first; i < last; i++) {
      const Piece piece = piece_at(m, i);
      const long c = piece.channel;
      const Affine affine = affine_of(c, gamma, beta, mean, inverse);
      vector sum = {0}, product = {0};
      /* In runs: errors grow with the number of terms that are added to the same sum. */
      for (long start = 0; start < piece.count; start += RUN) {
        vector run_sum = {0}, run_product = {0};
        for (long j = start; j < least(piece.count, start + RUN); j++) {
          const long place = piece.offset + j * m->pixel;
          const vector x = _mm512_loadu_ps(data + place);
          const vector dy = let_through(_mm512_loadu_ps(grad + place), x, affine, &follows);
          run_sum += dy;
          run_product = _mm512_fmadd_ps(dy, x - affine.center, run_product);
        }
        sum += run_sum;
        product += run_product;
      }
      _mm512_storeu_ps(own + c, _mm512_loadu_ps(own + c) + sum);
      _mm512_storeu_ps(own + channels + c, _mm512_loadu_ps(own + channels + c) + product);
    }
#pragma omp barrier
#pragma omp single
    for (long c = 0; c < channels; c++) {
      double sum = 0, product = 0;
      for (long i = 0; i < team; i++) {
        sum += scratch[i * batch_norm_scratch(m) + c];
        product += scratch[i * batch_norm_scratch(m) + channels + c];
      }
      beta_grad[c] = (float)sum;
      gamma_grad[c] = (float)(product * inverse[c]);
    }
    /* scale * (grad - mean of grad - normalized * mean of grad * normalized) */
    for (long i = last - 1; i >= first; i--) {
      const Piece piece = piece_at(m, i);
      const long c = piece.channel;
      const Affine affine = affine_of(c, gamma, beta, mean, inverse);
      const vector share = _mm512_set1_ps(1 / count);
      const vector grad_mean = share * _mm512_loadu_ps(beta_grad + c);
      const vector rate = share * _mm512_loadu_ps(gamma_grad + c) * _mm512_loadu_ps(inverse + c);
      for (long j = 0; j < piece.count; j++) {
        const long place = piece.offset + j * m->pixel;
        const vector x = _mm512_loadu_ps(data + place);
        const vector dy = let_through(_mm512_loadu_ps(grad + place), x, affine, &follows);
        /* Subtract first, because the differences may cancel almost entirely. */
        _mm512_storeu_ps(data_grad + place,
                         affine.scale * (dy - grad_mean - (x - affine.center) * rate));
      }
    }
  }
}
