/* Means of points in bins displaced by an input, `DeformablePSROIPooling`, and their gradients (J.
 * Dai et al.: Deformable Convolutional Networks, 2017, arXiv:1703.06211).
 *
 * Work is divided so that no two threads write the same element: by regions, or, where the
 * gradients of regions overlap in the data, by channels.
 */
#include <math.h>
#include <string.h>

#include "simd.h"

typedef struct {
  long images, channels, height, width; /* channels of the output */
  long regions, bins;                   /* of each side */
  long groups;                          /* of each side; each has separate channels */
  long classes, parts, samples; /* classes of channels; parts per side; points per side of a bin */
  long threads;
  float reach; /* displacement by an offset of 1, relative to the region's size */
} DeformablePsroi;

#define MOST_SAMPLES 32 /* per side of a bin, which bounds `Side`; `deformable_psroi_samples` */

/* The points along a side of a bin that count, and the two elements around each of them. */
typedef struct {
  long count;
  long place[MOST_SAMPLES][2];
  float share[MOST_SAMPLES][2];
  float slope[MOST_SAMPLES]; /* 0 for a point on an element, else 1: MXNet takes floor and ceiling,
                              * which are then the same element */
} Side;

/* A bin of a region in a class of channels. */
typedef struct {
  Side down, across;
  long shift; /* index of its offset across; the one down is `parts` squared further */
} MovedBin;

long deformable_psroi_samples(void) { return MOST_SAMPLES; }

/* Points up to half an element outside count, too, as if they were on the edge. */
static inline void find_side(float start, float step, long samples, long size, Side *side) {
  const float last = (float)(size - 1);
  side->count = 0;
  for (long i = 0; i < samples; i++) {
    float at = start + (float)i * step;
    if (!(at >= -0.5f && at <= last + 0.5f)) continue;
    at = at < 0 ? 0 : at > last ? last : at;
    const float low = floorf(at);
    const long n = side->count++, is_between = at > low;
    side->place[n][0] = (long)low, side->place[n][1] = (long)low + is_between;
    side->share[n][0] = 1 - (at - low), side->share[n][1] = at - low;
    side->slope[n] = (float)is_between;
  }
}

static void find_bin(const DeformablePsroi *r, const float *start, const float *size,
                     const float *trans, long n, long class, long i, MovedBin *bin) {
  const long y = i / r->bins, x = i % r->bins, area = r->parts * r->parts;
  const float wide = size[0] / (float)r->bins, tall = size[1] / (float)r->bins;
  float left = (float)x * wide + start[0], top = (float)y * tall + start[1];
  bin->shift = 2 * (n * r->classes + class) * area +
               y * r->parts / r->bins * r->parts + x * r->parts / r->bins;
  if (trans) {
    left += trans[bin->shift] * r->reach * size[0];
    top += trans[bin->shift + area] * r->reach * size[1];
  }
  find_side(left, wide / (float)r->samples, r->samples, r->width, &bin->across);
  find_side(top, tall / (float)r->samples, r->samples, r->height, &bin->down);
}

/* A function applied to a bin in one channel, given the plane and the place in the output. */
typedef void (*Visit)(const DeformablePsroi *r, const MovedBin *bin, long n, long plane, long at,
                      void *arrays);

/* Visit all bins of some regions and channels; the points of a bin are computed once per class.
 * Inlined, so that the calls of `visit` are, too. */
static inline __attribute__((always_inline)) void visit_bins(
    const DeformablePsroi *r, const int *images, const float *starts, const float *sizes,
    const float *trans, long region, long last_region, long channel, long last_channel,
    Visit visit, void *arrays) {
  const long bins = r->bins * r->bins, planes = r->groups * r->groups;
  const long together = r->channels / r->classes;
  MovedBin bin;
  for (long n = region; n < last_region; n++)
    for (long i = 0; i < bins && images[n] >= 0; i++) {
      const long y = i / r->bins, x = i % r->bins;
      const long group = y * r->groups / r->bins * r->groups + x * r->groups / r->bins;
      for (long c = channel; c < last_channel; c++) {
        if (c == channel || c % together == 0)
          find_bin(r, starts + 2 * n, sizes + 2 * n, trans, n, c / together, i, &bin);
        if (bin.down.count && bin.across.count)
          visit(r, &bin, n, ((images[n] * r->channels + c) * planes + group) * r->height * r->width,
                (n * r->channels + c) * bins + i, arrays);
      }
    }
}

static inline float count_points(const MovedBin *bin) {
  return (float)(bin->down.count * bin->across.count);
}

/* -- forward --------------------------------------------------------------------------------- */

typedef struct {
  const float *data;
  float *out;
} Reading;

static inline float mix(const float *row, const Side *side, long i) {
  return side->share[i][0] * row[side->place[i][0]] + side->share[i][1] * row[side->place[i][1]];
}

static inline void read_bin(const DeformablePsroi *r, const MovedBin *bin, long n, long plane, long at,
                            void *arrays) {
  const Reading *a = arrays;
  const Side *down = &bin->down, *across = &bin->across;
  float sum = 0;
  (void)n;
  for (long i = 0; i < down->count; i++) {
    const float *above = a->data + plane + down->place[i][0] * r->width;
    const float *below = a->data + plane + down->place[i][1] * r->width;
    for (long j = 0; j < across->count; j++)
      sum += down->share[i][0] * mix(above, across, j) + down->share[i][1] * mix(below, across, j);
  }
  a->out[at] = sum / count_points(bin);
}

/* Write (regions, channels, bins, bins); `trans` (regions, 2 * classes, parts, parts) or NULL. */
void deformable_psroi(const DeformablePsroi *r, const int *images, const float *starts, const float *sizes,
                 const float *trans, const float *data, float *out) {
  const long own = r->channels * r->bins * r->bins;
  Reading arrays = {data, out};
#pragma omp parallel for num_threads(threads_for(r->threads, r->regions))
  for (long n = 0; n < r->regions; n++) {
    memset(out + n * own, 0, (size_t)own * sizeof(float));
    visit_bins(r, images, starts, sizes, trans, n, n + 1, 0, r->channels, read_bin, &arrays);
  }
}

/* -- gradients ------------------------------------------------------------------------------- */

typedef struct {
  const float *grad;
  float *data_grad;
} Spreading;

static inline void spread_bin(const DeformablePsroi *r, const MovedBin *bin, long n, long plane,
                              long at, void *arrays) {
  const Spreading *a = arrays;
  const Side *down = &bin->down, *across = &bin->across;
  const float share = a->grad[at] / count_points(bin);
  (void)n;
  for (long i = 0; i < down->count; i++)
    for (long k = 0; k < 2; k++) {
      float *row = a->data_grad + plane + down->place[i][k] * r->width;
      const float part = share * down->share[i][k];
      for (long j = 0; j < across->count; j++) {
        row[across->place[j][0]] += part * across->share[j][0];
        row[across->place[j][1]] += part * across->share[j][1];
      }
    }
}

/* Spread each gradient over the elements around the bin's points. */
void deformable_psroi_spread(const DeformablePsroi *r, const int *images, const float *starts,
                        const float *sizes, const float *trans, const float *grad,
                        float *data_grad) {
  const long own = r->groups * r->groups * r->height * r->width;
  Spreading arrays = {grad, data_grad};
#pragma omp parallel num_threads(threads_for(r->threads, r->channels))
  {
    const long team = omp_get_num_threads(), thread = omp_get_thread_num();
    const long first = r->channels * thread / team, last = r->channels * (thread + 1) / team;
    for (long image = 0; image < r->images; image++)
      memset(data_grad + (image * r->channels + first) * own, 0,
             (size_t)((last - first) * own) * sizeof(float));
    visit_bins(r, images, starts, sizes, trans, 0, r->regions, first, last, spread_bin, &arrays);
  }
}

typedef struct {
  const float *grad, *data, *sizes;
  float *trans_grad;
} Pulling;

static inline void pull_bin(const DeformablePsroi *r, const MovedBin *bin, long n, long plane, long at,
                            void *arrays) {
  const Pulling *a = arrays;
  const Side *down = &bin->down, *across = &bin->across;
  float runs = 0, falls = 0;
  for (long i = 0; i < down->count; i++) {
    const float *above = a->data + plane + down->place[i][0] * r->width;
    const float *below = a->data + plane + down->place[i][1] * r->width;
    for (long j = 0; j < across->count; j++) {
      const long left = across->place[j][0], right = across->place[j][1];
      runs += across->slope[j] * (down->share[i][0] * (above[right] - above[left]) +
                                  down->share[i][1] * (below[right] - below[left]));
      falls += down->slope[i] * (mix(below, across, j) - mix(above, across, j));
    }
  }
  const float share = a->grad[at] / count_points(bin) * r->reach;
  a->trans_grad[bin->shift] += share * runs * a->sizes[2 * n];
  a->trans_grad[bin->shift + r->parts * r->parts] += share * falls * a->sizes[2 * n + 1];
}

/* The gradient of the offsets. */
void deformable_psroi_pull(const DeformablePsroi *r, const int *images, const float *starts,
                      const float *sizes, const float *trans, const float *grad,
                      const float *data, float *trans_grad) {
  const long own = 2 * r->classes * r->parts * r->parts;
  Pulling arrays = {grad, data, sizes, trans_grad};
#pragma omp parallel for num_threads(threads_for(r->threads, r->regions))
  for (long n = 0; n < r->regions; n++) {
    memset(trans_grad + n * own, 0, (size_t)own * sizeof(float));
    visit_bins(r, images, starts, sizes, trans, n, n + 1, 0, r->channels, pull_bin, &arrays);
  }
}
