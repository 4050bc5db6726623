// Pooling of windows over up to three axes, and its gradient. Each element of a gradient is gathered
// from the windows that it lies in, so that no two threads write to the same place.
//
// Data are seen as (outer, depth, height, width, inner): inner is 1 with channels first, and the
// channels with channels last. `POOL` is MAX, AVERAGE, SUM or NORM.
#include "common.cuh"

#define MAX 0
#define AVERAGE 1
#define SUM 2
#define NORM 3

struct Axis {
  int size, count, kernel, stride, pad;  // count windows over size elements
};

struct Windows {
  Axis depth, height, width;
  Divisor inner, out_depths, out_heights, out_widths, depths, heights, widths;
  int counts_padding;  // whether means count padding
  int power;           // of NORM
};

// The elements of a window along an axis, [begin, end), and how many count in a mean.
struct Span {
  int begin, end, start, counted;
  __device__ Span(const Axis &axis, int window, int counts_padding) {
    start = window * axis.stride - axis.pad;
    begin = max(start, 0);
    end = min(start + axis.kernel, axis.size);
    counted = counts_padding ? min(start + axis.kernel, axis.size + axis.pad) - start : end - begin;
  }
};

__device__ inline float power_of(float x, int power) {
  return power == 1 ? x : power == 2 ? x * x : x * x * x;
}

__device__ inline float divisor_of(const Span &d, const Span &h, const Span &w) {
  return (float)max(1, max(0, d.counted) * max(0, h.counted) * max(0, w.counted));
}

// With a workspace, `places` gets which element of each window is the first maximum, counted from 1.
extern "C" __global__ void pooling(Size size, const T *data, T *out, unsigned *places, Windows by,
                                   float lowest) {
  for (Size at = first_index(); at < size; at += index_step()) {
    Size rest = at;
    const Size channel = by.inner.split(rest);
    const Span w(by.width, (int)by.out_widths.split(rest), by.counts_padding);
    const Span h(by.height, (int)by.out_heights.split(rest), by.counts_padding);
    const Span d(by.depth, (int)by.out_depths.split(rest), by.counts_padding);
    float result = POOL == MAX ? lowest : 0.f;
    unsigned place = 0;
    for (int z = d.begin; z < d.end; z++)
      for (int y = h.begin; y < h.end; y++) {
        const Size row = ((rest * by.depth.size + z) * by.height.size + y) * by.width.size;
        for (int x = w.begin; x < w.end; x++) {
          const float seen = widen(data[(row + x) * by.inner.by + channel]);
          if (POOL != MAX) {
            result += POOL == NORM ? power_of(seen, by.power) : seen;
          } else if (seen > result || (!place && seen == result)) {
            result = seen;
            place = 1 + ((z - d.start) * by.height.kernel + (y - h.start)) * by.width.kernel +
                    (x - w.start);
          }
        }
      }
    if (POOL == AVERAGE) result /= divisor_of(d, h, w);
    if (POOL == NORM) result = by.power == 2 ? sqrtf(result) : by.power == 3 ? cbrtf(result) : result;
    narrow(out[at], result);
    if (POOL == MAX && places) places[at] = place;
  }
}

// The windows along an axis that an element lies in, [begin, end).
struct Covers {
  int begin, end;
  __device__ Covers(const Axis &axis, int element) {
    const int shifted = element + axis.pad, past = shifted - axis.kernel;
    begin = past < 0 ? 0 : past / axis.stride + 1;
    end = min(shifted / axis.stride + 1, axis.count);
  }
};

extern "C" __global__ void pooling_backward(Size size, const T *data, const T *out,
                                            const unsigned *places, const T *grad, T *data_grad,
                                            Windows by) {
  for (Size at = first_index(); at < size; at += index_step()) {
    Size rest = at;
    const Size channel = by.inner.split(rest);
    const int x = (int)by.widths.split(rest), y = (int)by.heights.split(rest);
    const int z = (int)by.depths.split(rest);
    const Covers across(by.width, x), down(by.height, y), deep(by.depth, z);
    float result = 0;
    for (int i = deep.begin; i < deep.end; i++)
      for (int j = down.begin; j < down.end; j++) {
        const Size row = ((rest * by.depth.count + i) * by.height.count + j) * by.width.count;
        for (int k = across.begin; k < across.end; k++) {
          const Size window = (row + k) * by.inner.by + channel;
          if (POOL == MAX) {
            const int dz = z - (i * by.depth.stride - by.depth.pad);
            const int dy = y - (j * by.height.stride - by.height.pad);
            const int dx = x - (k * by.width.stride - by.width.pad);
            const unsigned place = 1 + (dz * by.height.kernel + dy) * by.width.kernel + dx;
            if (places[window] == place) result += widen(grad[window]);
            continue;
          }
          float share = widen(grad[window]);
          if (POOL == AVERAGE) {
            const Span d(by.depth, i, by.counts_padding), h(by.height, j, by.counts_padding);
            share /= divisor_of(d, h, Span(by.width, k, by.counts_padding));
          }
          if (POOL == NORM && by.power > 1) {
            const float root = power_of(widen(out[window]), by.power - 1);
            if (root != 0) share /= root;
          }
          result += share;
        }
      }
    if (POOL == NORM && by.power > 1) result *= power_of(widen(data[at]), by.power - 1);
    narrow(data_grad[at], result);
  }
}

// -- one window for all of an image: a warp for each, whose lanes take elements in turn -------------

extern "C" __global__ void pooling_whole(Size images, Size elements, const T *data, T *out,
                                         unsigned *places, int power, float lowest) {
  const Size warp = first_index() / WARP, lane = threadIdx.x % WARP;
  for (Size image = warp; image < images; image += index_step() / WARP) {
    const T *from = data + image * elements;
    float result = POOL == MAX ? lowest : 0.f;
    unsigned place = 0xffffffffu;
    for (Size i = lane; i < elements; i += WARP) {
      const float seen = widen(from[i]);
      if (POOL != MAX) {
        result += POOL == NORM ? power_of(seen, power) : seen;
      } else if (seen > result || (place == 0xffffffffu && seen == result)) {
        result = seen;
        place = (unsigned)i + 1;
      }
    }
    if (POOL == MAX) {
      for (int by = WARP / 2; by; by /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, result, by);
        const unsigned its = (unsigned)__shfl_xor_sync(0xffffffffu, (int)place, by);
        if (other > result || (other == result && its < place)) result = other, place = its;
      }
    } else {
      result = warp_sum(result);
    }
    if (POOL == AVERAGE) result /= (float)elements;
    if (POOL == NORM) result = power == 2 ? sqrtf(result) : power == 3 ? cbrtf(result) : result;
    if (lane == 0) {
      narrow(out[image], result);
      if (POOL == MAX && places) places[image] = place == 0xffffffffu ? 0 : place;
    }
  }
}
