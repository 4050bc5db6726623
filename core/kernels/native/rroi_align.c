/* Means of interpolated points in rotated regions of images, `RROIAlign` (J. Ma et al.:
 * Arbitrary-Oriented Scene Text Detection via Rotation Proposals, 2017, arXiv:1703.01086; the
 * interpolation is that of K. He et al.: Mask R-CNN, 2017).
 *
 * Images are first packed into blocks of 16 channels, so that a point is read for 16 of them at
 * once.
 */
#include <math.h>

#include "blocks.h"

#define POINTS 64 /* of a bin, worked on at a time: found once for all blocks of channels */

typedef struct {
  long images, channels, height, width, regions, rows, columns, threads;
} RroiAlignment;

/* A region's center, the cosine and sine of its angle, size, and points of a bin down and
 * across. */
typedef struct {
  double x, y, cosine, sine, height, width, points_down, points_across;
} Frame;

/* The four elements around a point, and their weights. */
typedef struct {
  int place[4];
  float weight[4];
} Near;

static inline long blocks_of(const RroiAlignment *r) { return (r->channels + LANES - 1) / LANES; }

static inline long packed_floats(const RroiAlignment *r) {
  return r->images * blocks_of(r) * r->height * r->width * LANES;
}

static inline long sums_floats(const RroiAlignment *r) {
  return blocks_of(r) * r->rows * r->columns * LANES;
}

/* Floats of scratch memory. */
long rroi_align_scratch(const RroiAlignment *r) {
  return packed_floats(r) + r->threads * sums_floats(r);
}

static inline float within(float at, long size) {
  const float last = (float)(size - 1);
  return at < 0 ? 0 : at > last ? last : at;
}

/* Points up to one element outside count as if they were on the edge, all others as 0. */
static inline Near near_of(const RroiAlignment *r, float down, float across) {
  Near near = {{0}, {0}};
  if (!(down >= -1 && down <= (float)r->height && across >= -1 && across <= (float)r->width))
    return near;
  down = within(down, r->height);
  across = within(across, r->width);
  const long top = (long)down, left = (long)across;
  const float y = down - (float)top, x = across - (float)left;
  for (int i = 0; i < 4; i++) {
    const long row = top + i / 2, column = left + i % 2;
    if (row >= r->height || column >= r->width) continue;
    near.place[i] = (int)((row * r->width + column) * LANES);
    near.weight[i] = (i / 2 ? y : 1 - y) * (i % 2 ? x : 1 - x);
  }
  return near;
}

/* The distance of a bin's point from the center of its region. */
static inline float distance(double size, long bins, long bin, double points, long point) {
  return (float)(((double)bin + ((double)point + 0.5) / points) * (size / (double)bins) - size / 2);
}

static Near find(const RroiAlignment *r, const Frame *f, long bin, long point) {
  const long across = (long)f->points_across;
  const float y = distance(f->height, r->rows, bin / r->columns, f->points_down, point / across);
  const float x =
      distance(f->width, r->columns, bin % r->columns, f->points_across, point % across);
  const float cosine = (float)f->cosine, sine = (float)f->sine;
  return near_of(r, y * cosine - x * sine + (float)f->y, x * cosine + y * sine + (float)f->x);
}

/* Add up the points of a bin, for all blocks; their sums are `stride` apart. */
TARGET static void sum_bin(const RroiAlignment *r, const Frame *f, long bin, const float *packed,
                           float *sums, long stride) {
  const long plane = r->height * r->width * LANES;
  const double all = f->points_down * f->points_across;
  const long points = all >= 1 && all < 1e12 ? (long)all : 0; /* a size may be NaN or infinite */
  Near near[POINTS];
  if (points == 0)
    for (long block = 0; block < blocks_of(r); block++) clear(sums + block * stride, LANES);
  for (long start = 0; start < points; start += POINTS) {
    const long count = least(POINTS, points - start);
    for (long i = 0; i < count; i++) near[i] = find(r, f, bin, start + i);
    for (long block = 0; block < blocks_of(r); block++) {
      const float *from = packed + block * plane;
      vector sum = start ? _mm512_loadu_ps(sums + block * stride) : _mm512_setzero_ps();
      for (long i = 0; i < count; i++)
        for (int k = 0; k < 4; k++)
          sum += _mm512_loadu_ps(from + near[i].place[k]) * near[i].weight[k];
      _mm512_storeu_ps(sums + block * stride, sum);
    }
  }
  const float share = points ? 1 / (float)points : 0;
  for (long block = 0; block < blocks_of(r); block++)
    _mm512_storeu_ps(sums + block * stride, _mm512_loadu_ps(sums + block * stride) * share);
}

TARGET static void pool(const RroiAlignment *r, const Frame *f, const float *packed, float *sums,
                        float *out) {
  const long bins = r->rows * r->columns;
  for (long bin = 0; bin < bins; bin++)
    sum_bin(r, f, bin, packed, sums + bin * LANES, bins * LANES);
  for (long block = 0; block < blocks_of(r); block++) {
    const long first = block * LANES;
    unpack(sums + first * bins, least(LANES, r->channels - first), bins, out + first * bins);
  }
}

/* Regions of image -1 give zeros. */
TARGET void rroi_align(const RroiAlignment *r, const int *images, const Frame *frames,
                          const float *data, float *out, float *scratch) {
  const long places = r->height * r->width, blocks = blocks_of(r);
  const long bins = r->rows * r->columns;
#pragma omp parallel num_threads(threads_for(r->threads, r->threads))
  {
#pragma omp for
    for (long i = 0; i < r->images * blocks; i++) {
      const long first = i % blocks * LANES;
      pack(data + (i / blocks * r->channels + first) * places, least(LANES, r->channels - first),
           places, scratch + i * places * LANES, LANES);
    }
    float *sums = scratch + packed_floats(r) + omp_get_thread_num() * sums_floats(r);
    /* Dynamic, because larger regions have more points. */
#pragma omp for schedule(dynamic)
    for (long n = 0; n < r->regions; n++) {
      float *target = out + n * r->channels * bins;
      if (images[n] < 0)
        for (long i = 0; i < r->channels * bins; i++) target[i] = 0;
      else
        pool(r, frames + n, scratch + images[n] * blocks * places * LANES, sums, target);
    }
  }
}
