/* Resizing of uint8 images: the same as `core/imgproc/resize.py`, for methods with two taps.
 *
 * Each source row is resized once, and kept as long as the next target rows need it.
 *
 * The integers are those of OpenCV's `resize`, bit by bit: weights have 11 bits, so a row's sums
 * have 19, of which it drops 4; the products with a column's weights have 26, of which it drops 16,
 * and 2 more with rounding.
 */
#include <stdint.h>

#include "simd.h"

typedef struct {
  long height, width, channels; /* of the image, whose pixels are contiguous within a row */
  long row;                     /* bytes between its rows */
  long new_height, new_width;
} Resizing;

typedef struct {
  const int *near;   /* the two source rows or columns of each target one */
  const int *weight; /* and their weights, in units of 1 / 2048 */
} Taps;

/* Scratch integers for two rows of the target width. */
long resize_scratch(const Resizing *r) { return 2 * r->new_width * r->channels; }

static inline void widen_any(
    const uint8_t *row, long channels, long width, Taps across, int *restrict wide) {
  for (long x = 0; x < width; x++) {
    const uint8_t *left = row + across.near[2 * x] * channels;
    const uint8_t *right = row + across.near[2 * x + 1] * channels;
    const int w0 = across.weight[2 * x], w1 = across.weight[2 * x + 1];
    for (long c = 0; c < channels; c++)
      /* Truncate here, as OpenCV does. */
      wide[x * channels + c] = (left[c] * w0 + right[c] * w1) >> 4;
  }
}

static void widen(const uint8_t *row, long channels, long width, Taps across, int *wide) {
  /* A constant number of channels lets the compiler unroll the innermost loop. */
  if (channels == 3)
    widen_any(row, 3, width, across, wide);
  else if (channels == 1)
    widen_any(row, 1, width, across, wide);
  else
    widen_any(row, channels, width, across, wide);
}

__attribute__((target("avx512f"))) static void mix(
    const int *upper, const int *lower, int w0, int w1, long count, uint8_t *restrict out) {
  for (long i = 0; i < count; i++)
    out[i] = (uint8_t)(((upper[i] * w0 >> 16) + (lower[i] * w1 >> 16) + 2) >> 2);
}

void resize_images(
    const Resizing *r, const uint8_t *image, Taps *down, Taps *across, int *scratch, uint8_t *out) {
  const long count = r->new_width * r->channels;
  int *wide[2] = {scratch, scratch + count};
  int held[2] = {-1, -1};
  for (long y = 0; y < r->new_height; y++, out += count) {
    const int *near = down->near + 2 * y;
    if (held[1] == near[0]) { /* the lower row has become the upper one */
      int *first = wide[1];
      wide[1] = wide[0], wide[0] = first;
      held[1] = held[0], held[0] = near[0];
    }
    for (int i = 0; i < 2; i++) {
      if (held[i] == near[i]) continue;
      widen(image + near[i] * r->row, r->channels, r->new_width, *across, wide[i]);
      held[i] = near[i];
    }
    mix(wide[0], wide[1], down->weight[2 * y], down->weight[2 * y + 1], count, out);
  }
}
