// Reductions over some axes, and their gradients.
//
// Data are seen as (r0, k0, r1, k1), of which r0 and r1 are reduced. The elements of a result are
// divided into parts, of which a block each adds up one; the number of parts depends on the shape
// alone. REDUCE is the name of a class below; TERM says what is reduced: ALONE the data, PRODUCT or
// QUOTIENT the data times or by another tensor.
#include "common.cuh"

#define ALONE 0
#define PRODUCT 1
#define QUOTIENT 2

struct Sum {
  __device__ static float nothing() { return 0; }
  __device__ static float of(float a, float b) { return a + b; }
  __device__ static float term(float x) { return x; }
  __device__ static float end(float x, float factor) { return x * factor; }
  __device__ static float slope(float, float, float factor) { return factor; }
};
struct SumBelow : Sum {  // of what is below zero, or NaN
  __device__ static float term(float x) { return x >= 0 ? 0.f : x; }
};
struct Length : Sum {
  __device__ static float term(float x) { return x * x; }
  __device__ static float end(float x, float) { return sqrtf(x); }
  __device__ static float slope(float x, float y, float) { return x / y; }
};
struct Product : Sum {
  __device__ static float nothing() { return 1; }
  __device__ static float of(float a, float b) { return a * b; }
  __device__ static float end(float x, float) { return x; }
  __device__ static float slope(float x, float y, float) { return y / x; }
};
struct Maximum : Sum {  // NaN, if there is any
  __device__ static float nothing() { return __uint_as_float(0xff800000u); }
  __device__ static float of(float a, float b) { return a >= b || a != a ? a : b; }
  __device__ static float end(float x, float) { return x; }
  __device__ static float slope(float x, float y, float) { return x == y ? 1.f : 0.f; }
};
struct Minimum : Maximum {
  __device__ static float nothing() { return __uint_as_float(0x7f800000u); }
  __device__ static float of(float a, float b) { return a <= b || a != a ? a : b; }
};

struct View {
  Size k0, k1, count, each;  // count = r0 * r1, of which a part has `each`
  Divisor r1, by_k1, by_k0;

  __device__ Size at(Size reduced, Size first, Size last) const {
    Size outer = reduced;
    const Size inner = r1.split(outer);
    return ((outer * k0 + first) * r1.by + inner) * k1 + last;
  }
};

__device__ inline float term_at(const T *data, const T *other, Size at) {
  const float x = REDUCE::term(widen(data[at]));
  return TERM == PRODUCT ? x * widen(other[at]) : TERM == QUOTIENT ? x / widen(other[at]) : x;
}

// `squared`, if not null, is a tensor of the results' shape: each is divided by -its square.
__device__ inline float ended(float x, float factor, const T *squared, Size result) {
  x = REDUCE::end(x, factor);
  if (!squared) return x;
  const float by = widen(squared[result]);
  return -x / (by * by);
}

// Grid (k0, parts), for k1 = 1. With one part the result is written, else `parts` is.
extern "C" __global__ void reduce_rows(const T *data, const T *other, T *out, float *parts, View view,
                                       float factor, const T *squared) {
  __shared__ float shared[WARPS];
  const Size begin = blockIdx.y * view.each, end = min(begin + view.each, view.count);
  float x = REDUCE::nothing();
  for (Size i = begin + threadIdx.x; i < end; i += THREADS)
    x = REDUCE::of(x, term_at(data, other, view.at(i, blockIdx.x, 0)));
  for (int lane = WARP / 2; lane; lane /= 2)
    x = REDUCE::of(x, __shfl_xor_sync(0xffffffffu, x, lane));
  if (threadIdx.x % WARP == 0) shared[threadIdx.x / WARP] = x;
  __syncthreads();
  if (threadIdx.x) return;
  for (int i = 1; i < WARPS; i++) x = REDUCE::of(x, shared[i]);
  if (parts)
    parts[blockIdx.y * view.k0 + blockIdx.x] = x;
  else
    narrow(out[blockIdx.x], ended(x, factor, squared, blockIdx.x));
}

// A warp for each result, for k1 = 1 and few elements.
extern "C" __global__ void reduce_short_rows(const T *data, const T *other, T *out, View view,
                                             float factor, const T *squared) {
  const Size result = first_index() / WARP;
  if (result >= view.k0) return;
  float x = REDUCE::nothing();
  for (Size i = threadIdx.x % WARP; i < view.count; i += WARP)
    x = REDUCE::of(x, term_at(data, other, view.at(i, result, 0)));
  for (int lane = WARP / 2; lane; lane /= 2)
    x = REDUCE::of(x, __shfl_xor_sync(0xffffffffu, x, lane));
  if (threadIdx.x % WARP == 0) narrow(out[result], ended(x, factor, squared, result));
}

// Grid (k0 * tiles of 32 columns, parts): a warp takes every eighth row of 32 columns.
extern "C" __global__ void reduce_columns(const T *data, const T *other, T *out, float *parts,
                                          View view, float factor, const T *squared) {
  __shared__ float shared[WARPS][WARP];
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  const Size tiles = (view.k1 + WARP - 1) / WARP, first = blockIdx.x / tiles;
  const Size last = blockIdx.x % tiles * WARP + lane;
  const Size begin = blockIdx.y * view.each, end = min(begin + view.each, view.count);
  float x = REDUCE::nothing();
  if (last < view.k1)
    for (Size i = begin + warp; i < end; i += WARPS)
      x = REDUCE::of(x, term_at(data, other, view.at(i, first, last)));
  shared[warp][lane] = x;
  __syncthreads();
  if (warp || last >= view.k1) return;
  for (int i = 1; i < WARPS; i++) x = REDUCE::of(x, shared[i][lane]);
  const Size result = first * view.k1 + last;
  if (parts)
    parts[blockIdx.y * view.k0 * view.k1 + result] = x;
  else
    narrow(out[result], ended(x, factor, squared, result));
}

extern "C" __global__ void reduce_parts(const float *parts, int count, Size results, T *out,
                                        float factor, const T *squared) {
  for (Size result = first_index(); result < results; result += index_step()) {
    float x = parts[result];
    for (int i = 1; i < count; i++) x = REDUCE::of(x, parts[i * results + result]);
    narrow(out[result], ended(x, factor, squared, result));
  }
}

// `data` and `out` are null where the gradient does not depend on them.
extern "C" __global__ void reduce_backward(Size size, const T *data, const T *out, const T *grad,
                                           T *data_grad, View view, float factor) {
  for (Size at = first_index(); at < size; at += index_step()) {
    Size rest = at;
    const Size last = view.by_k1.split(rest);
    view.r1.split(rest);
    const Size result = view.by_k0.split(rest) * view.k1 + last;
    const float x = data ? widen(data[at]) : 0.f, y = out ? widen(out[result]) : 0.f;
    narrow(data_grad[at], widen(grad[result]) * REDUCE::slope(x, y, factor));
  }
}
