// Rows: the elements along the second axis of data that are seen as (outer, classes, inner). The macro
// ROW says who computes one: BY_THREAD, BY_WARP or BY_BLOCK.
#pragma once
#include "common.cuh"

#define BY_THREAD 0
#define BY_WARP 1
#define BY_BLOCK 2

// A row, and which of its elements a thread takes: `first`, and then every `step`-th.
struct Row {
  Size number, start, stride;
  int first, step;

  __device__ Row(Size classes, Divisor inner) {
    number = ROW == BY_BLOCK ? (Size)blockIdx.x : ROW == BY_WARP ? first_index() / WARP : first_index();
    first = ROW == BY_BLOCK ? threadIdx.x : ROW == BY_WARP ? threadIdx.x % WARP : 0;
    step = ROW == BY_BLOCK ? THREADS : ROW == BY_WARP ? WARP : 1;
    Size outer = number;
    const Size pixel = inner.split(outer);
    start = outer * classes * inner.by + pixel;
    stride = inner.by;
  }
  __device__ Size at(Size place) const { return start + place * stride; }
};

__device__ inline float row_sum(float x, float *shared) {
  return ROW == BY_BLOCK ? block_sum(x, shared) : ROW == BY_WARP ? warp_sum(x) : x;
}
__device__ inline float row_max(float x, float *shared) {
  return ROW == BY_BLOCK ? block_max(x, shared) : ROW == BY_WARP ? warp_max(x) : x;
}
