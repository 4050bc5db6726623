/* Pooling of regions of interest, and its gradients: maxima (R. Girshick: Fast R-CNN, 2015,
 * arXiv:1504.08083), and means over bins with separate channels (J. Dai et al.: R-FCN, 2016,
 * arXiv:1605.06409).
 *
 * Regions of an image overlap, so threads divide the channels among them where they add gradients
 * up, and no two write the same element.
 *
 * Bins are pairs (start, end) along each axis, (regions, bins, 2); a region whose image is below 0
 * has none. Data (images, channels, height, width).
 */
#include <float.h>
#include <string.h>

#include "blocks.h"

typedef struct {
  long images, channels, height, width;
  long regions, rows, columns; /* bins down and across */
  long groups;                 /* per side, if each has separate channels */
  long threads;                /* maximum; scratch is allocated for each */
} Regions;


/* -- maxima ---------------------------------------------------------------------------------- */

/* Scratch of each thread, in floats: a block of channels, its maxima and their positions. */
long roi_pool_scratch(const Regions *r) {
  return (r->height * r->width + 2 * r->rows * r->columns) * LANES;
}

typedef struct {
  vector value;
  __m512i place;
} Maximum;

/* The first of the largest numbers of a bin; at -1, 0 where it has none, and the lowest where they
 * are all nan, as in MXNet. */
INLINE Maximum largest(const float *rows, long width, const int *down, const int *across) {
  Maximum found = {_mm512_setzero_ps(), _mm512_set1_epi32(-1)};
  if (down[0] >= down[1] || across[0] >= across[1]) return found;
  found.value = _mm512_set1_ps(-FLT_MAX);
  for (long y = down[0]; y < down[1]; y++)
    for (long x = across[0]; x < across[1]; x++) {
      const long place = y * width + x;
      const vector value = _mm512_loadu_ps(rows + place * LANES);
      const __mmask16 is_larger = _mm512_cmp_ps_mask(value, found.value, _CMP_GT_OQ);
      found.value = _mm512_mask_mov_ps(found.value, is_larger, value);
      found.place = _mm512_mask_mov_epi32(found.place, is_larger, _mm512_set1_epi32((int)place));
    }
  return found;
}

/* Write (regions, channels, rows, columns), and where the maxima are in their planes, -1 for those
 * of empty bins; `found` is NULL where nobody asks. */
TARGET void roi_pool(const Regions *r, const int *images, const int *down, const int *across,
                          const float *data, float *out, int *found, float *scratch) {
  const long blocks = (r->channels + LANES - 1) / LANES, places = r->height * r->width;
  const long bins = r->rows * r->columns;
#pragma omp parallel for num_threads(threads_for(r->threads, blocks))
  for (long b = 0; b < blocks; b++) {
    const long c = b * LANES, count = r->channels - c;
    float *rows = scratch + omp_get_thread_num() * roi_pool_scratch(r);
    float *values = rows + places * LANES, *where = values + bins * LANES;
    /* Image by image, so that each is packed once for all its regions, in whatever order these
     * are. */
    for (long image = -1; image < r->images; image++) {
      int is_packed = 0;
      for (long n = 0; n < r->regions; n++) {
        if (images[n] != image) continue;
        const long start = (n * r->channels + c) * bins;
        if (image < 0) {
          memset(out + start, 0, (size_t)(least(LANES, count) * bins) * sizeof(float));
          if (found) memset(found + start, -1, (size_t)(least(LANES, count) * bins) * sizeof(int));
          continue;
        }
        if (!is_packed)
          pack(data + (image * r->channels + c) * places, count, places, rows, LANES);
        is_packed = 1;
        for (long i = 0; i < bins; i++) {
          const Maximum one = largest(rows, r->width, down + 2 * (n * r->rows + i / r->columns),
                                      across + 2 * (n * r->columns + i % r->columns));
          _mm512_storeu_ps(values + i * LANES, one.value);
          _mm512_storeu_ps(where + i * LANES, _mm512_castsi512_ps(one.place));
        }
        unpack(values, count, bins, out + start);
        /* Positions as if they were floats: only copied, their bits stay. */
        if (found) unpack(where, count, bins, (float *)(found + start));
      }
    }
  }
}

#define TOGETHER 8 /* channels at a time, so that their planes stay in the cache for all regions */

/* Add each gradient at the position of its maximum. */
void roi_pool_backward(const Regions *r, const int *images, const float *grad,
                            const int *found, float *data_grad) {
  const long places = r->height * r->width, bins = r->rows * r->columns;
  const long blocks = (r->channels + TOGETHER - 1) / TOGETHER;
#pragma omp parallel for num_threads(threads_for(r->threads, blocks))
  for (long b = 0; b < blocks; b++) {
    const long first = b * TOGETHER, last = least(first + TOGETHER, r->channels);
    for (long image = 0; image < r->images; image++)
      memset(data_grad + (image * r->channels + first) * places, 0,
             (size_t)((last - first) * places) * sizeof(float));
    for (long n = 0; n < r->regions; n++) {
      if (images[n] < 0) continue;
      for (long c = first; c < last; c++) {
        float *plane = data_grad + (images[n] * r->channels + c) * places;
        const long start = (n * r->channels + c) * bins;
        for (long i = start; i < start + bins; i++)
          if (found[i] >= 0) plane[found[i]] += grad[i];
      }
    }
  }
}

/* -- means, with separate channels for each bin ----------------------------------------------- */

typedef struct {
  long plane; /* of the data */
  int top, bottom, left, right;
  float share; /* of each element */
} Cell;

/* The bin of a region's output in a class of channels; `share` is 0 where it is empty. */
static inline Cell cell_at(const Regions *r, const int *images, const int *down, const int *across,
                           long n, long c, long i) {
  const long y = i / r->columns, x = i % r->columns, groups = r->groups;
  const int *rows = down + 2 * (n * r->rows + y), *columns = across + 2 * (n * r->columns + x);
  const long group = y * groups / r->rows * groups + x * groups / r->columns;
  const long channels = r->channels * groups * groups;
  const long size = (long)(rows[1] - rows[0]) * (columns[1] - columns[0]);
  const int is_empty = rows[0] >= rows[1] || columns[0] >= columns[1];
  const Cell cell = {images[n] * channels + c * groups * groups + group,
                     rows[0],
                     rows[1],
                     columns[0],
                     columns[1],
                     is_empty ? 0 : 1 / (float)size};
  return cell;
}

/* Write (regions, channels, rows, columns); data has `groups` squared times as many channels. */
void psroi_pool(const Regions *r, const int *images, const int *down, const int *across,
                  const float *data, float *out) {
  const long places = r->height * r->width, bins = r->rows * r->columns;
#pragma omp parallel for num_threads(threads_for(r->threads, r->regions))
  for (long n = 0; n < r->regions; n++)
    for (long c = 0; c < r->channels; c++)
      for (long i = 0; i < bins; i++) {
        float *target = out + (n * r->channels + c) * bins + i;
        *target = 0;
        if (images[n] < 0) continue;
        const Cell cell = cell_at(r, images, down, across, n, c, i);
        if (cell.share == 0) continue;
        float sum = 0;
        for (long y = cell.top; y < cell.bottom; y++) {
          const float *row = data + cell.plane * places + y * r->width;
          for (long x = cell.left; x < cell.right; x++) sum += row[x];
        }
        *target = sum * cell.share;
      }
}

/* Spread each gradient over the elements of its bin. */
void psroi_pool_backward(const Regions *r, const int *images, const int *down, const int *across,
                           const float *grad, float *data_grad) {
  const long places = r->height * r->width, bins = r->rows * r->columns;
  const long planes = r->groups * r->groups;
#pragma omp parallel for num_threads(threads_for(r->threads, r->channels))
  for (long c = 0; c < r->channels; c++) {
    for (long image = 0; image < r->images; image++)
      memset(data_grad + (image * r->channels + c) * planes * places, 0,
             (size_t)(planes * places) * sizeof(float));
    for (long n = 0; n < r->regions; n++) {
      if (images[n] < 0) continue;
      for (long i = 0; i < bins; i++) {
        const Cell cell = cell_at(r, images, down, across, n, c, i);
        if (cell.share == 0) continue;
        const float share = grad[(n * r->channels + c) * bins + i] * cell.share;
        for (long y = cell.top; y < cell.bottom; y++) {
          float *row = data_grad + cell.plane * places + y * r->width;
          for (long x = cell.left; x < cell.right; x++) row[x] += share;
        }
      }
    }
  }
}
