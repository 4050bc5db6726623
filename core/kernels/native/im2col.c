/* Windows of images as columns (im2col), and images as sums over the windows that cover them
 * (col2im).
 *
 * The matrix of columns is traversed row by row. A row holds the same element of all windows, so
 * that both sides are traversed in the order of their addresses, and which windows reach beyond an
 * edge is known for a whole row of the image.
 */
#include <string.h>

#include "simd.h"

typedef struct {
  long planes, height, width; /* images times channels, and their size */
  long kernel[2], stride[2], pad[2], dilate[2];
  long rows, columns; /* windows down and across */
  long threads;
} Windows;

/* Divide, rounding up; the divisor is positive. */
static inline long ceiling(long a, long b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }

/* Add an element of all windows of a row to a row of the image, `offset` from their first. */
TARGET static void add_row(const Windows *w, const float *from, float *row, long offset) {
  const long step = w->stride[1], first = offset < 0 ? ceiling(-offset, step) : 0;
  const long end = least(w->columns, ceiling(w->width - offset, step));
  if (step == 1) /* by itself, so that the compiler makes vectors of it */
    for (long i = first; i < end; i++) row[offset + i] += from[i];
  else
    for (long i = first; i < end; i++) row[offset + i * step] += from[i];
}

static void add_plane(const Windows *w, const float *from, float *image) {
  memset(image, 0, (size_t)(w->height * w->width) * sizeof(float));
  for (long y = 0; y < w->kernel[0]; y++)
    for (long x = 0; x < w->kernel[1]; x++)
      for (long i = 0; i < w->rows; i++, from += w->columns) {
        const long row = i * w->stride[0] - w->pad[0] + y * w->dilate[0];
        if (row >= 0 && row < w->height)
          add_row(w, from, image + row * w->width, x * w->dilate[1] - w->pad[1]);
      }
}

/* Write an element of all windows of a row, `offset` from the first; outside of the image are
 * zeros. */
TARGET static void read_row(const Windows *w, const float *row, float *to, long offset) {
  const long step = w->stride[1], end = least(w->columns, ceiling(w->width - offset, step));
  long i = 0;
  for (; i < least(w->columns, offset < 0 ? ceiling(-offset, step) : 0); i++) to[i] = 0;
  if (step == 1)
    for (; i < end; i++) to[i] = row[offset + i];
  else
    for (; i < end; i++) to[i] = row[offset + i * step];
  for (; i < w->columns; i++) to[i] = 0;
}

static void read_plane(const Windows *w, const float *image, float *to) {
  for (long y = 0; y < w->kernel[0]; y++)
    for (long x = 0; x < w->kernel[1]; x++)
      for (long i = 0; i < w->rows; i++, to += w->columns) {
        const long row = i * w->stride[0] - w->pad[0] + y * w->dilate[0];
        if (row >= 0 && row < w->height)
          read_row(w, image + row * w->width, to, x * w->dilate[1] - w->pad[1]);
        else
          memset(to, 0, (size_t)w->columns * sizeof(float));
      }
}

void im2col(const Windows *w, const float *images, float *patches) {
  const long size = w->kernel[0] * w->kernel[1] * w->rows * w->columns;
#pragma omp parallel for num_threads(threads_for(w->threads, w->planes))
  for (long p = 0; p < w->planes; p++)
    read_plane(w, images + p * w->height * w->width, patches + p * size);
}

void col2im(const Windows *w, const float *patches, float *images) {
  const long size = w->kernel[0] * w->kernel[1] * w->rows * w->columns;
#pragma omp parallel for num_threads(threads_for(w->threads, w->planes))
  for (long p = 0; p < w->planes; p++)
    add_plane(w, patches + p * size, images + p * w->height * w->width);
}
