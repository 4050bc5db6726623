// Local response normalization (A. Krizhevsky et al., 2012) over neighbouring channels, and the leaky
// ReLU with a slope for each channel. Data are seen as (outer, channels, inner).
#include "common.cuh"

struct Window {
  float factor, beta, knorm;  // factor is alpha / size
  int half;                   // channels on either side
};

// `sums` gets knorm + factor * the sum of squares, and may be null.
extern "C" __global__ void local_response(Size size, const T *data, T *out, T *sums, Divisor inner,
                                          Divisor channels, Window by) {
  for (Size at = first_index(); at < size; at += index_step()) {
    Size outer = inner.of(at);
    const Size channel = channels.split(outer);
    const Size from = max(channel - by.half, (Size)0), to = min(channel + by.half, channels.by - 1);
    float squares = 0;
    for (Size c = from; c <= to; c++) {
      const float x = widen(data[at + (c - channel) * inner.by]);
      squares += x * x;
    }
    const float sum = by.knorm + by.factor * squares;
    narrow(out[at], widen(data[at]) * powf(sum, -by.beta));
    if (sums) narrow(sums[at], sum);
  }
}

extern "C" __global__ void local_response_backward(Size size, const T *data, const T *sums,
                                                   const T *grad, T *data_grad, Divisor inner,
                                                   Divisor channels, Window by) {
  for (Size at = first_index(); at < size; at += index_step()) {
    Size outer = inner.of(at);
    const Size channel = channels.split(outer);
    const Size from = max(channel - by.half, (Size)0), to = min(channel + by.half, channels.by - 1);
    float spread = 0;
    for (Size c = from; c <= to; c++) {
      const Size there = at + (c - channel) * inner.by;
      spread += widen(grad[there]) * widen(data[there]) * powf(widen(sums[there]), -by.beta - 1);
    }
    const float own = widen(grad[at]) * powf(widen(sums[at]), -by.beta);
    narrow(data_grad[at], own - 2 * by.factor * by.beta * widen(data[at]) * spread);
  }
}

extern "C" __global__ void prelu(Size size, const T *data, T *out, const T *slopes, Divisor inner,
                                 Divisor channels) {
  const T *const in[1] = {data};
  map_channels(
      size, out, in, inner, channels, [=](Size channel) { return widen(slopes[channel]); },
      [](const float(&x)[1], float slope) { return x[0] > 0 ? x[0] : slope * x[0]; });
}

extern "C" __global__ void prelu_backward(Size size, const T *data, const T *grad, T *data_grad,
                                          const T *slopes, Divisor inner, Divisor channels) {
  const T *const in[2] = {data, grad};
  map_channels(
      size, data_grad, in, inner, channels, [=](Size channel) { return widen(slopes[channel]); },
      [](const float(&x)[2], float slope) { return x[1] * (x[0] > 0 ? 1.f : slope); });
}
