// Normalizations of each sample by itself: layer, instance and group norm, and L2 normalization.
//
// Statistics are of rows. VECTOR says which element of gamma and beta belongs to an element: OF_PLACE
// that of its place in the row, OF_ROW that of its row's number modulo their length.
#include "rows.cuh"

#define OF_PLACE 0
#define OF_ROW 1

__device__ inline Size vector_index(const Row &row, Size place, Divisor channels) {
  Size number = row.number;
  return VECTOR == OF_PLACE ? place : channels.split(number);
}

extern "C" __global__ void sample_norm(Size rows, Size classes, Divisor inner, const T *data,
                                       const T *gamma, const T *beta, T *out, T *mean, T *deviation,
                                       float eps, Divisor channels) {
  __shared__ float shared[WARPS];
  const Row row(classes, inner);
  if (row.number >= rows) return;
  float sum = 0, squares = 0;
  for (Size i = row.first; i < classes; i += row.step) sum += widen(data[row.at(i)]);
  const float center = row_sum(sum, shared) / (float)classes;
  // Not as the mean of squares less the squared mean, which would cancel where the mean is large.
  for (Size i = row.first; i < classes; i += row.step) {
    const float delta = widen(data[row.at(i)]) - center;
    squares += delta * delta;
  }
  const float root = sqrtf(row_sum(squares, shared) / (float)classes + eps);
  for (Size i = row.first; i < classes; i += row.step) {
    const Size at = row.at(i), channel = vector_index(row, i, channels);
    const float x = (widen(data[at]) - center) / root;
    narrow(out[at], x * widen(gamma[channel]) + widen(beta[channel]));
  }
  if (row.first) return;
  narrow(mean[row.number], center);
  narrow(deviation[row.number], root);
}

extern "C" __global__ void sample_norm_backward(Size rows, Size classes, Divisor inner, const T *data,
                                                const T *gamma, const T *mean, const T *deviation,
                                                const T *grad, T *data_grad, Divisor channels) {
  __shared__ float shared[WARPS];
  const Row row(classes, inner);
  if (row.number >= rows) return;
  const float center = widen(mean[row.number]), root = widen(deviation[row.number]);
  float sum = 0, products = 0;
  for (Size i = row.first; i < classes; i += row.step) {
    const Size at = row.at(i);
    const float scaled = widen(grad[at]) * widen(gamma[vector_index(row, i, channels)]);
    sum += scaled;
    products += scaled * ((widen(data[at]) - center) / root);
  }
  sum = row_sum(sum, shared) / (float)classes;
  products = row_sum(products, shared) / (float)classes;
  for (Size i = row.first; i < classes; i += row.step) {
    const Size at = row.at(i);
    const float scaled = widen(grad[at]) * widen(gamma[vector_index(row, i, channels)]);
    narrow(data_grad[at], (scaled - sum - (widen(data[at]) - center) / root * products) / root);
  }
}

// -- the gradients of gamma and beta ----------------------------------------------------------------

struct Sums {
  float grads, products;
};

// Data as (outer, channels, inner): statistics are of outer and channel, or with OF_PLACE of outer and
// inner. Grid (channels, parts).
extern "C" __global__ void vector_sums(const T *data, const T *mean, const T *deviation, const T *grad,
                                       Sums *parts, Size channels, Size count, Size each,
                                       Divisor inner) {
  __shared__ float shared[WARPS];
  const Size channel = blockIdx.x, begin = blockIdx.y * each, end = min(begin + each, count);
  float grads = 0, products = 0;
  for (Size i = begin + threadIdx.x; i < end; i += THREADS) {
    Size outer = i;
    const Size pixel = inner.split(outer), at = (outer * channels + channel) * inner.by + pixel;
    const Size row = VECTOR == OF_PLACE ? outer * inner.by + pixel : outer * channels + channel;
    const float dy = widen(grad[at]);
    grads += dy;
    products += dy * ((widen(data[at]) - widen(mean[row])) / widen(deviation[row]));
  }
  grads = block_sum(grads, shared);
  products = block_sum(products, shared);
  if (threadIdx.x == 0) parts[blockIdx.y * channels + channel] = {grads, products};
}

// The same for inner = 1: grid (channels / 32, parts), a warp for every eighth row of 32 channels.
extern "C" __global__ void vector_sums_of_columns(const T *data, const T *mean, const T *deviation,
                                                  const T *grad, Sums *parts, Size channels,
                                                  Size count, Size each, Divisor inner) {
  __shared__ Sums of_rows[WARPS][WARP];
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  const Size channel = (Size)blockIdx.x * WARP + lane;
  const Size begin = blockIdx.y * each, end = min(begin + each, count);
  Sums sums = {0, 0};
  if (channel < channels)
    for (Size i = begin + warp; i < end; i += WARPS) {
      const Size at = i * channels + channel, row = VECTOR == OF_PLACE ? i : at;
      const float dy = widen(grad[at]);
      sums.grads += dy;
      sums.products += dy * ((widen(data[at]) - widen(mean[row])) / widen(deviation[row]));
    }
  of_rows[warp][lane] = sums;
  __syncthreads();
  if (warp || channel >= channels) return;
  for (int i = 1; i < WARPS; i++) {
    sums.grads += of_rows[i][lane].grads;
    sums.products += of_rows[i][lane].products;
  }
  parts[blockIdx.y * channels + channel] = sums;
}

// Either gradient may be null.
extern "C" __global__ void vector_totals(const Sums *parts, int part_count, Size channels,
                                         T *gamma_grad, T *beta_grad) {
  const Size channel = first_index();
  if (channel >= channels) return;
  Sums sums = {0, 0};
  for (int i = 0; i < part_count; i++) {
    sums.grads += parts[i * channels + channel].grads;
    sums.products += parts[i * channels + channel].products;
  }
  if (gamma_grad) narrow(gamma_grad[channel], sums.products);
  if (beta_grad) narrow(beta_grad[channel], sums.grads);
}

// -- L2 normalization -------------------------------------------------------------------------------

extern "C" __global__ void l2_norm(Size rows, Size classes, Divisor inner, const T *data, T *out,
                                   T *length, float eps) {
  __shared__ float shared[WARPS];
  const Row row(classes, inner);
  if (row.number >= rows) return;
  float squares = 0;
  for (Size i = row.first; i < classes; i += row.step) {
    const float x = widen(data[row.at(i)]);
    squares += x * x;
  }
  const float root = sqrtf(row_sum(squares, shared) + eps);
  for (Size i = row.first; i < classes; i += row.step)
    narrow(out[row.at(i)], widen(data[row.at(i)]) / root);
  if (row.first == 0) narrow(length[row.number], root);
}

extern "C" __global__ void l2_norm_backward(Size rows, Size classes, Divisor inner, const T *out,
                                            const T *length, const T *grad, T *data_grad) {
  __shared__ float shared[WARPS];
  const Row row(classes, inner);
  if (row.number >= rows) return;
  float along = 0;
  for (Size i = row.first; i < classes; i += row.step)
    along += widen(grad[row.at(i)]) * widen(out[row.at(i)]);
  along = row_sum(along, shared);
  const float root = widen(length[row.number]);
  for (Size i = row.first; i < classes; i += row.step) {
    const Size at = row.at(i);
    narrow(data_grad[at], (widen(grad[at]) - widen(out[at]) * along) / root);
  }
}
