/* Bilinear sampling of maps, and its gradients, for spatial transformers (M. Jaderberg et al.,
 * 2015, arXiv:1506.02025) and deformable convolutions (J. Dai et al., 2017, arXiv:1703.06211; with
 * a mask: X. Zhu et al., 2018, arXiv:1811.11168).
 *
 * The four elements around each point of a map (`Near`) are found first. Then 16 channels at a
 * time, which are all read at the same points, are interleaved, so that each element is a whole
 * vector.
 */
#include <math.h>

#include "blocks.h"

typedef struct {
  long maps;     /* each with separate points */
  long channels; /* per map */
  long height, width;
  long points;  /* per map */
  long threads; /* maximum; scratch is allocated for each */
} Sampling;

/* Around a point: where the four elements are, what is taken of the two rows and columns, and how
 * much more that is with each step down or across. Elements outside of the map count nothing. */
typedef struct {
  int place[4];
  float rows[2], columns[2];
  float down[2], across[2];
} Near;

typedef struct {
  long kernel[2], stride[2], pad[2], dilate[2];
  long output[2];
  long fades; /* whether points just beyond the last row or column interpolate towards 0 */
} Window;

long sampling_near_bytes(const Sampling *s) { return s->maps * s->points * (long)sizeof(Near); }

/* -- where points are ------------------------------------------------------------------------ */

static inline void find_along(float at, long size, int place[2], float share[2], float slope[2]) {
  const float low = floorf(at), beyond = at - low;
  for (int i = 0; i < 2; i++) {
    const float index = low + (float)i;
    /* Points at NaN have no neighbors, so that NaN does not spread. */
    const int is_inside = index >= 0 && index <= (float)(size - 1);
    place[i] = is_inside ? (int)index : 0;
    share[i] = is_inside ? (i ? beyond : 1 - beyond) : 0;
    slope[i] = is_inside ? (i ? 1.f : -1.f) : 0;
  }
}

static inline Near find(const Sampling *s, float y, float x) {
  Near near;
  int rows[2], columns[2];
  find_along(y, s->height, rows, near.rows, near.down);
  find_along(x, s->width, columns, near.columns, near.across);
  for (int i = 0; i < 4; i++) near.place[i] = rows[i / 2] * (int)s->width + columns[i % 2];
  return near;
}

static inline float within(float at, long size) {
  const float last = (float)(size - 1);
  return at < 0 ? 0 : at > last ? last : at;
}

/* As `find`, but within one element beyond the last row or column the last one counts in full, and
 * points before the first are 0: so `DeformableConvolution` in MXNet, unlike the one with a
 * mask. */
static inline Near find_unfaded(const Sampling *s, float y, float x) {
  const int counts = y >= 0 && y < (float)s->height && x >= 0 && x < (float)s->width;
  Near near = find(s, within(y, s->height), within(x, s->width));
  for (int i = 0; i < 2; i++) {
    if (!counts) near.rows[i] = 0;
    if (!counts || !(y < (float)(s->height - 1))) near.down[i] = 0;
    if (!counts || !(x < (float)(s->width - 1))) near.across[i] = 0;
  }
  return near;
}

/* Points of grids (maps, 2, points): x, then y, from -1 to 1. */
void sampling_find_grid(const Sampling *s, const float *grid, Near *near) {
  const float tall = (float)(s->height - 1) / 2, wide = (float)(s->width - 1) / 2;
#pragma omp parallel for num_threads(threads_for(s->threads, s->maps))
  for (long m = 0; m < s->maps; m++)
    for (long i = 0; i < s->points; i++) {
      const float x = (grid[2 * m * s->points + i] + 1) * wide;
      const float y = (grid[(2 * m + 1) * s->points + i] + 1) * tall;
      near[m * s->points + i] = find(s, y, x);
    }
}

/* Points of windows, displaced by offsets (maps, kernel, 2, places): y, then x. */
void sampling_find_window(const Sampling *s, const Window *w, const float *offset, Near *near) {
  const long places = w->output[0] * w->output[1], size = w->kernel[0] * w->kernel[1];
#pragma omp parallel for num_threads(threads_for(s->threads, s->maps * size))
  for (long j = 0; j < s->maps * size; j++) {
    const float *own = offset + 2 * j * places;
    const long k = j % size, row = k / w->kernel[1] * w->dilate[0] - w->pad[0];
    const long column = k % w->kernel[1] * w->dilate[1] - w->pad[1];
    for (long i = 0; i < places; i++) {
      const float y = own[i] + (float)(i / w->output[1] * w->stride[0] + row);
      const float x = own[places + i] + (float)(i % w->output[1] * w->stride[1] + column);
      near[j * places + i] = w->fades ? find(s, y, x) : find_unfaded(s, y, x);
    }
  }
}

/* -- reading --------------------------------------------------------------------------------- */

static inline long count_blocks(const Sampling *s) { return (s->channels + LANES - 1) / LANES; }

static inline long count_places(const Sampling *s) { return s->height * s->width; }

/* Scratch of each thread, in floats. */
long sampling_scratch(const Sampling *s) { return count_places(s) * LANES; }

/* The weights of the four elements, times a mask. */
INLINE void shares(const Near *near, const float *mask, vector w[4]) {
  const float factor = mask ? *mask : 1;
  for (int i = 0; i < 4; i++)
    w[i] = _mm512_set1_ps(near->rows[i / 2] * near->columns[i % 2] * factor);
}

/* Write (maps, channels, points); `mask` (maps, points) or NULL. */
TARGET void sampling_read(const Sampling *s, const Near *near, const float *mask,
                          const float *data, float *out, float *scratch) {
  const long blocks = count_blocks(s), places = count_places(s), points = s->points;
#pragma omp parallel for num_threads(threads_for(s->threads, s->maps * blocks))
  for (long j = 0; j < s->maps * blocks; j++) {
    const long m = j / blocks, c = j % blocks * LANES, count = s->channels - c;
    float *rows = scratch + omp_get_thread_num() * sampling_scratch(s);
    pack(data + (m * s->channels + c) * places, count, places, rows, LANES);
    for (long i = 0; i < points; i += LANES) {
      vector r[LANES];
      for (int k = 0; k < LANES; k++) {
        if (i + k >= points) {
          r[k] = _mm512_setzero_ps();
          continue;
        }
        const long at = m * points + i + k;
        vector w[4];
        shares(near + at, mask ? mask + at : 0, w);
        r[k] = w[0] * _mm512_loadu_ps(rows + near[at].place[0] * LANES);
        for (int n = 1; n < 4; n++)
          r[k] = _mm512_fmadd_ps(w[n], _mm512_loadu_ps(rows + near[at].place[n] * LANES), r[k]);
      }
      store_tile(r, out + (m * s->channels + c) * points + i, points, count, points - i);
    }
  }
}

/* -- gradients ------------------------------------------------------------------------------- */

/* The gradient of the maps, given that of the samples. */
TARGET void sampling_spread(const Sampling *s, const Near *near, const float *mask,
                            const float *grad, float *data_grad, float *scratch) {
  const long blocks = count_blocks(s), places = count_places(s), points = s->points;
#pragma omp parallel for num_threads(threads_for(s->threads, s->maps * blocks))
  for (long j = 0; j < s->maps * blocks; j++) {
    const long m = j / blocks, c = j % blocks * LANES, count = s->channels - c;
    float *rows = scratch + omp_get_thread_num() * sampling_scratch(s);
    /* Points share elements, so the sums of a block of channels belong to one thread. */
    clear(rows, sampling_scratch(s));
    for (long i = 0; i < points; i += LANES) {
      vector r[LANES];
      load_tile(grad + (m * s->channels + c) * points + i, points, count, points - i, r);
      for (long k = 0; k < least(LANES, points - i); k++) {
        const long at = m * points + i + k;
        vector w[4];
        shares(near + at, mask ? mask + at : 0, w);
        for (int n = 0; n < 4; n++) {
          float *row = rows + near[at].place[n] * LANES;
          _mm512_storeu_ps(row, _mm512_fmadd_ps(w[n], r[k], _mm512_loadu_ps(row)));
        }
      }
    }
    unpack(rows, count, places, data_grad + (m * s->channels + c) * places);
  }
}

/* Scratch of all threads together, in floats: a point needs the sums over all channels, so all
 * blocks are packed first, and threads then share the points. */
long sampling_pull_scratch(const Sampling *s) {
  return s->maps * count_blocks(s) * count_places(s) * LANES;
}

/* The gradients by where the points are, (maps, points) twice, and by a mask, (maps, points), given
 * that of what was read. `value` and `mask` may be NULL. */
TARGET void sampling_pull(const Sampling *s, const Near *near, const float *mask,
                          const float *grad, const float *data, float *down, float *across,
                          float *value, float *scratch) {
  const long blocks = count_blocks(s), places = count_places(s), points = s->points;
  const long stride = blocks * LANES, parts = (points + LANES - 1) / LANES;
#pragma omp parallel num_threads(threads_for(s->threads, s->maps * parts))
  {
#pragma omp for
    for (long j = 0; j < s->maps * blocks; j++) {
      const long m = j / blocks, c = j % blocks * LANES;
      pack(data + (m * s->channels + c) * places, s->channels - c, places,
           scratch + m * places * stride + c, stride);
    }
#pragma omp for
    for (long j = 0; j < s->maps * parts; j++) {
      const long m = j / parts, i = j % parts * LANES, here = least(LANES, points - i);
      vector sums[LANES][4] = {0};
      for (long b = 0; b < blocks; b++) {
        vector r[LANES];
        const long c = b * LANES;
        const float *rows = scratch + m * places * stride + c;
        load_tile(grad + (m * s->channels + c) * points + i, points, s->channels - c, here, r);
        for (long k = 0; k < here; k++)
          for (int n = 0; n < 4; n++) {
            const float *row = rows + near[m * points + i + k].place[n] * stride;
            sums[k][n] = _mm512_fmadd_ps(r[k], _mm512_loadu_ps(row), sums[k][n]);
          }
      }
      for (long k = 0; k < here; k++) {
        const long at = m * points + i + k;
        const Near *one = near + at;
        const float factor = mask ? mask[at] : 1;
        float fall = 0, run = 0, whole = 0;
        for (int n = 0; n < 4; n++) {
          const float sum = _mm512_reduce_add_ps(sums[k][n]);
          fall += sum * one->down[n / 2] * one->columns[n % 2];
          run += sum * one->rows[n / 2] * one->across[n % 2];
          whole += sum * one->rows[n / 2] * one->columns[n % 2];
        }
        down[at] = fall * factor;
        across[at] = run * factor;
        if (value) value[at] = whole;
      }
    }
  }
}
