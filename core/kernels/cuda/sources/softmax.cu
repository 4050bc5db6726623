// Softmax, its logarithm, their gradients, and the losses that are computed from them.
//
// A row is the classes at one place of all other axes.
#include "rows.cuh"

// The largest number of a row, and the sum of exponentials of differences from it.
struct Scale {
  float most, sum;
  __device__ Scale(const T *data, Row row, Size classes, float factor, float *shared) {
    most = __uint_as_float(0xff800000u);  // -inf
    for (Size i = row.first; i < classes; i += row.step)
      most = fmaxf(most, widen(data[row.at(i)]) * factor);
    most = row_max(most, shared);
    sum = 0;
    for (Size i = row.first; i < classes; i += row.step)
      sum += expf(widen(data[row.at(i)]) * factor - most);
    sum = row_sum(sum, shared);
  }
};

extern "C" __global__ void softmax(Size rows, Size classes, Divisor inner, const T *data, T *out,
                                   float factor, int of_logarithm) {
  __shared__ float shared[WARPS];
  const Row row(classes, inner);
  if (row.number >= rows) return;
  const Scale scale(data, row, classes, factor, shared);
  const float logarithm = logf(scale.sum);
  for (Size i = row.first; i < classes; i += row.step) {
    const float below = widen(data[row.at(i)]) * factor - scale.most;
    narrow(out[row.at(i)], of_logarithm ? below - logarithm : expf(below) / scale.sum);
  }
}

extern "C" __global__ void softmax_backward(Size rows, Size classes, Divisor inner, const T *out,
                                            const T *grad, T *data_grad, float factor,
                                            int of_logarithm) {
  __shared__ float shared[WARPS];
  const Row row(classes, inner);
  if (row.number >= rows) return;
  float total = 0;
  for (Size i = row.first; i < classes; i += row.step) {
    const float dy = widen(grad[row.at(i)]);
    total += of_logarithm ? dy : dy * widen(out[row.at(i)]);
  }
  total = row_sum(total, shared);
  for (Size i = row.first; i < classes; i += row.step) {
    const float y = widen(out[row.at(i)]), dy = widen(grad[row.at(i)]);
    narrow(data_grad[row.at(i)], (of_logarithm ? dy - expf(y) * total : (dy - total) * y) * factor);
  }
}

// -- the sum of cross entropies ------------------------------------------------------------------

__device__ inline bool is_class(float label, Size place) { return truncf(label) == (float)place; }

// `losses` gets the logarithm of the label's probability in each row.
extern "C" __global__ void cross_entropy(Size rows, Size classes, Divisor inner, const T *data,
                                         const T *labels, float *losses) {
  __shared__ float shared[WARPS];
  const Row row(classes, inner);
  if (row.number >= rows) return;
  const Scale scale(data, row, classes, 1.f, shared);
  const float label = widen(labels[row.number]);
  float probability = 0;
  for (Size i = row.first; i < classes; i += row.step)
    if (is_class(label, i)) probability = expf(widen(data[row.at(i)]) - scale.most) / scale.sum;
  probability = row_sum(probability, shared);
  if (row.first == 0) losses[row.number] = logf(fmaxf(probability, 1e-8f));  // MXNet's bound
}

// One block.
extern "C" __global__ void cross_entropy_total(Size rows, const float *losses, T *out) {
  __shared__ float shared[WARPS];
  float sum = 0;
  for (Size i = threadIdx.x; i < rows; i += THREADS) sum += losses[i];
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) narrow(*out, -sum);
}

extern "C" __global__ void cross_entropy_backward(Size rows, Size classes, Divisor inner,
                                                  const T *data, const T *labels, const T *grad,
                                                  T *data_grad) {
  __shared__ float shared[WARPS];
  const Row row(classes, inner);
  if (row.number >= rows) return;
  const Scale scale(data, row, classes, 1.f, shared);
  const float label = widen(labels[row.number]), factor = widen(*grad);
  for (Size i = row.first; i < classes; i += row.step) {
    const float probability = expf(widen(data[row.at(i)]) - scale.most) / scale.sum;
    narrow(data_grad[row.at(i)], (probability - (is_class(label, i) ? 1.f : 0.f)) * factor);
  }
}

// -- the loss layer --------------------------------------------------------------------------------

// How many labels of each block's share are not ignored.
extern "C" __global__ void count_labels(Size count, const T *labels, float ignored, int *counts) {
  __shared__ float shared[WARPS];
  float valid = 0;  // below 2^24 for each block, so that sums are exact
  for (Size i = first_index(); i < count; i += index_step())
    valid += widen(labels[i]) != ignored ? 1.f : 0.f;
  valid = block_sum(valid, shared);
  if (threadIdx.x == 0) counts[blockIdx.x] = (int)valid;
}

struct Labelled {
  float scale;            // of the gradient
  float ignored;          // the label without a gradient
  float smoothed, rest;   // what smoothing takes from the label, and gives to each other class
  int ignores, multiplies;  // whether there is such a label; whether by the output
};

// `counts`, if not null, are those of `blocks` blocks; the gradient is divided by their sum.
extern "C" __global__ void labels_backward(Size size, Divisor inner, Divisor classes, const T *out,
                                           const T *labels, T *data_grad, const int *counts,
                                           int blocks, Labelled by) {
  float scale = by.scale;
  if (counts) {
    Size valid = 0;
    for (int i = 0; i < blocks; i++) valid += counts[i];
    scale /= (float)max(valid, (Size)1);
  }
  const T *const in[1] = {out};
  map(size, data_grad, in, [=](const float(&x)[1], Size index) {
    Size outer = index;
    const Size pixel = inner.split(outer), place = classes.split(outer);
    const float label = widen(labels[outer * inner.by + pixel]);
    float grad = x[0];
    if (is_class(label, place)) grad += by.smoothed - 1;
    grad -= by.rest;
    if (by.ignores && label == by.ignored) grad *= 0;
    grad *= scale;
    return by.multiplies ? grad * x[0] : grad;
  });
}

// For labels that are probabilities.
extern "C" __global__ void distribution_backward(Size size, const T *out, const T *labels,
                                                 T *data_grad, float scale, int multiplies) {
  const T *const in[2] = {out, labels};
  map(size, data_grad, in, [=](const float(&x)[2], Size) {
    const float grad = (x[0] - x[1]) * scale;
    return multiplies ? grad * x[0] : grad;
  });
}
