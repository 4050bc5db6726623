/* Images whose pixels were computed by phase (the second pass of deconvolution.py): pixel (y, x)
 * lies at (y / stride, x / stride), in the phase (y % stride, x % stride). */
#include "simd.h"

typedef struct {
  long images, channels, height, width; /* of the result, which is in C order */
  long stride_y, stride_x;
  long pad_y, pad_x; /* pixels before the result's first one */
  long rows, columns; /* pixels of each phase */
  long threads;
} PixelShuffle;

/* `phases`[images][rows][columns][channels][stride_y][stride_x] plus the bias, which may be NULL,
 * into `out`. */
TARGET void pixel_shuffle(const PixelShuffle *p, const float *phases, const float *bias, float *out) {
  const long step = p->channels * p->stride_y * p->stride_x, lines = p->channels * p->height;
#pragma omp parallel for num_threads(threads_for(p->threads, p->images * lines))
  for (long line = 0; line < p->images * lines; line++) {
    const long image = line / lines, channel = line % lines / p->height;
    const long y = line % p->height + p->pad_y;
    const float *from = phases + (image * p->rows + y / p->stride_y) * p->columns * step +
                        (channel * p->stride_y + y % p->stride_y) * p->stride_x;
    const float shift = bias ? bias[channel] : 0;
    float *to = out + line * p->width;
    /* Each place of `phases` has the next `stride_x` pixels; the first begins within one. */
    long first = p->pad_x % p->stride_x;
    from += p->pad_x / p->stride_x * step;
    for (long x = 0; x < p->width; from += step, first = 0) {
      const long count = least(p->stride_x - first, p->width - x);
      for (long i = 0; i < count; i++) to[x + i] = from[first + i] + shift;
      x += count;
    }
  }
}
