// Batch normalization (S. Ioffe, C. Szegedy, 2015), alone or followed by an activation, and its
// gradients. Data are seen as (outer, channels, inner).
//
// Sums over a channel are taken in parts, of which a block each adds up one; then a warp adds up the
// parts of each channel. What follows, `FOLLOWS`, is applied to the result and computed again in the
// backward pass, so that nothing between the two is stored.
#include "common.cuh"

#define NOTHING 0
#define RELU 1          /* NaN becomes 0 */
#define KEEPING_RELU 2  /* NaN stays */
#define CLIP 3

#define FULL 0xffffffffu

struct Range {
  float low, high;
};

__device__ inline float activated(float y, Range range) {
  if (FOLLOWS == RELU) return fmaxf(y, 0.f);
  if (FOLLOWS == KEEPING_RELU) return y <= 0 ? 0.f : y;
  if (FOLLOWS == CLIP) return y < range.low ? range.low : y > range.high ? range.high : y;
  return y;
}

// The gradient of y from that of its activation.
__device__ inline float let_through(float grad, float y, Range range) {
  if (FOLLOWS == RELU) return grad * (y > 0 ? 1.f : 0.f);
  if (FOLLOWS == KEEPING_RELU) return grad * (y > 0 ? 1.f : y != y ? y : 0.f);
  if (FOLLOWS == CLIP) return y < range.low || y > range.high ? 0.f : grad;
  return grad;
}

// -- mean and variance ----------------------------------------------------------------------------

struct Moments {
  float count, mean, squares;  // squares of differences from the mean, added up
};

// T. Chan, G. Golub, R. LeVeque: Updating Formulae and a Pairwise Algorithm for Computing Sample
// Variances, 1979.
__device__ inline Moments joined(Moments a, Moments b) {
  const float count = a.count + b.count;
  if (b.count == 0) return a;
  const float delta = b.mean - a.mean, share = b.count / count;
  return {count, a.mean + delta * share, a.squares + b.squares + delta * delta * a.count * share};
}

// Numbers seen by one thread, as differences from the first: a sum of squares less the square of the
// sum would cancel where the mean is large, but not where some number is zero.
struct Seen {
  float first = 0, sum = 0, squares = 0;
  int count = 0;

  __device__ void add(float x) {
    if (!count) first = x;
    const float delta = x - first;
    sum += delta;
    squares += delta * delta;
    count++;
  }
  __device__ Moments moments() const {
    if (!count) return {0, 0, 0};
    const float mean = sum / (float)count;
    return {(float)count, first + mean, fmaxf(squares - sum * mean, 0.f)};
  }
};

__device__ inline Moments shuffled_down(Moments one, int lanes) {
  return {__shfl_down_sync(FULL, one.count, lanes), __shfl_down_sync(FULL, one.mean, lanes),
          __shfl_down_sync(FULL, one.squares, lanes)};
}

// In lane 0, those of all lanes.
__device__ inline Moments joined_warp(Moments one) {
  for (int lanes = WARP / 2; lanes; lanes /= 2) {
    const Moments other = shuffled_down(one, lanes);
    if (threadIdx.x % WARP + lanes < WARP) one = joined(one, other);
  }
  return one;
}

// The part of a channel's elements that a block adds up: [begin, end) of outer * inner.
struct Part {
  Size begin, end;
  __device__ Part(Size count, Size each) {
    begin = blockIdx.y * each;
    end = min(begin + each, count);
  }
};

// Calls add(index) or add_pack(index of 16 bytes) for a thread's elements of a channel.
template <class A, class P>
__device__ inline void of_channel(Part part, Size channel, Size channels, Divisor inner,
                                  Divisor packs, bool packed, int lanes, A add, P add_pack) {
  if (packed) {
    for (Size at = part.begin / lanes + threadIdx.x; at < part.end / lanes; at += THREADS) {
      Size outer = at;
      const Size pixel = packs.split(outer);
      add_pack((outer * channels + channel) * packs.by + pixel);
    }
  } else {
    for (Size at = part.begin + threadIdx.x; at < part.end; at += THREADS) {
      Size outer = at;
      const Size pixel = inner.split(outer);
      add((outer * channels + channel) * inner.by + pixel);
    }
  }
}

// Grid (channels, parts). `packs` divides by inner / elements in 16 bytes; by 0 if these do not fit.
extern "C" __global__ void batch_moments(const T *data, Moments *parts, Size channels, Size count,
                                         Size each, Divisor inner, Divisor packs) {
  __shared__ Moments of_warps[WARPS];
  constexpr int LANES = 16 / sizeof(T);
  Seen seen;
  const bool packed = packs.by && (unsigned long long)data % 16 == 0;
  of_channel(
      Part(count, each), blockIdx.x, channels, inner, packs, packed, LANES,
      [&](Size index) { seen.add(widen(data[index])); },
      [&](Size index) {
        Pack<T> pack;
        pack.whole = reinterpret_cast<const uint4 *>(data)[index];
#pragma unroll
        for (int lane = 0; lane < LANES; lane++) seen.add(widen(pack.at[lane]));
      });
  const Moments of_warp = joined_warp(seen.moments());
  if (threadIdx.x % WARP == 0) of_warps[threadIdx.x / WARP] = of_warp;
  __syncthreads();
  if (threadIdx.x) return;
  Moments all = of_warps[0];
  for (int i = 1; i < WARPS; i++) all = joined(all, of_warps[i]);
  parts[blockIdx.y * channels + blockIdx.x] = all;
}

// The same for inner = 1, where the channels of an element lie side by side: grid (channels / 32,
// parts), a warp for each row.
extern "C" __global__ void batch_moments_of_columns(const T *data, Moments *parts, Size channels,
                                                    Size count, Size each) {
  __shared__ Moments of_rows[WARPS][WARP];
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  const Size channel = (Size)blockIdx.x * WARP + lane;
  const Part part(count, each);
  Seen seen;
  if (channel < channels)
    for (Size row = part.begin + warp; row < part.end; row += WARPS)
      seen.add(widen(data[row * channels + channel]));
  of_rows[warp][lane] = seen.moments();
  __syncthreads();
  if (warp || channel >= channels) return;
  Moments all = of_rows[0][lane];
  for (int i = 1; i < WARPS; i++) all = joined(all, of_rows[i][lane]);
  parts[blockIdx.y * channels + channel] = all;
}

// A warp for each channel, which has at most 32 parts.
extern "C" __global__ void batch_statistics(const Moments *parts, int part_count, Size channels,
                                            float eps, float *mean, float *inverse) {
  const Size channel = first_index() / WARP;
  if (channel >= channels) return;
  const int lane = threadIdx.x % WARP;
  Moments one = {0, 0, 0};
  if (lane < part_count) one = parts[lane * channels + channel];
  one = joined_warp(one);
  if (lane) return;
  mean[channel] = one.mean;
  inverse[channel] = 1 / sqrtf(one.squares / one.count + eps);
}

// -- forward --------------------------------------------------------------------------------------

struct Affine {
  float mean, inverse, gamma, beta;
  __device__ float standardized(float x) const { return (x - mean) * inverse; }
  __device__ float of(float x) const { return (x - mean) * (inverse * gamma) + beta; }
};

// Vectors of all channels. With `eps` not below 0, `spread` is the variance, else the inverse of its
// root. gamma may be null, for 1.
struct Vectors {
  const float *mean, *spread, *gamma, *beta;
  float eps;

  __device__ Affine of(Size channel) const {
    const float found = spread[channel];
    return {mean[channel], eps < 0 ? found : 1 / sqrtf(found + eps), gamma ? gamma[channel] : 1.f,
            beta ? beta[channel] : 0.f};
  }
};

// `mean_out` and `inverse_out`, if not null, get the statistics used.
extern "C" __global__ void batch_normalize(Size size, const T *data, T *out, const float *mean,
                                           const float *spread, const float *gamma,
                                           const float *beta, float eps, Divisor inner,
                                           Divisor channels, float low, float high, float *mean_out,
                                           float *inverse_out) {
  const T *const in[1] = {data};
  const Vectors vectors = {mean, spread, gamma, beta, eps};
  if (mean_out)
    for (Size channel = first_index(); channel < channels.by; channel += index_step()) {
      mean_out[channel] = mean[channel];
      inverse_out[channel] = vectors.of(channel).inverse;
    }
  map_channels(
      size, out, in, inner, channels, [=](Size channel) { return vectors.of(channel); },
      [=](const float(&x)[1], Affine by) { return activated(by.of(x[0]), {low, high}); });
}

// -- backward -------------------------------------------------------------------------------------

struct Sums {
  float grads, products;  // of gradients, and of these times the standardized data
};

__device__ inline void add_to(Sums &sums, float x, float grad, Affine by, Range range) {
  const float passed = let_through(grad, by.of(x), range);
  sums.grads += passed;
  sums.products += passed * by.standardized(x);
}

extern "C" __global__ void batch_sums(const T *data, const T *grad, const float *mean,
                                      const float *spread, const float *gamma, const float *beta,
                                      float eps, Sums *parts, Size channels, Size count, Size each,
                                      Divisor inner, Divisor packs, float low, float high) {
  __shared__ float shared[WARPS];
  constexpr int LANES = 16 / sizeof(T);
  const Vectors vectors = {mean, spread, gamma, beta, eps};
  const Affine by = vectors.of(blockIdx.x);
  const Range range = {low, high};
  Sums sums = {0, 0};
  const bool packed = packs.by && ((unsigned long long)data | (unsigned long long)grad) % 16 == 0;
  of_channel(
      Part(count, each), blockIdx.x, channels, inner, packs, packed, LANES,
      [&](Size index) { add_to(sums, widen(data[index]), widen(grad[index]), by, range); },
      [&](Size index) {
        Pack<T> x, dy;
        x.whole = reinterpret_cast<const uint4 *>(data)[index];
        dy.whole = reinterpret_cast<const uint4 *>(grad)[index];
#pragma unroll
        for (int lane = 0; lane < LANES; lane++)
          add_to(sums, widen(x.at[lane]), widen(dy.at[lane]), by, range);
      });
  const float grads = block_sum(sums.grads, shared), products = block_sum(sums.products, shared);
  if (threadIdx.x == 0) parts[blockIdx.y * channels + blockIdx.x] = {grads, products};
}

extern "C" __global__ void batch_sums_of_columns(const T *data, const T *grad, const float *mean,
                                                 const float *spread, const float *gamma,
                                                 const float *beta, float eps, Sums *parts,
                                                 Size channels, Size count, Size each, float low,
                                                 float high) {
  __shared__ Sums of_rows[WARPS][WARP];
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  const Size channel = (Size)blockIdx.x * WARP + lane;
  const Part part(count, each);
  Sums sums = {0, 0};
  if (channel < channels) {
    const Vectors vectors = {mean, spread, gamma, beta, eps};
    const Affine by = vectors.of(channel);
    for (Size row = part.begin + warp; row < part.end; row += WARPS) {
      const Size index = row * channels + channel;
      add_to(sums, widen(data[index]), widen(grad[index]), by, {low, high});
    }
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

// The gradients of beta and gamma, the means that the data's gradient needs, and the moving averages,
// which MXNet updates in the backward pass. Any of the pointers may be null.
extern "C" __global__ void batch_totals(const Sums *parts, int part_count, Size channels, float count,
                                        Sums *means, float *gamma_grad, float *beta_grad,
                                        int fixes_gamma, const float *mean, const float *inverse,
                                        float eps, float momentum, float share, float *moving_mean,
                                        float *moving_var) {
  const Size channel = first_index() / WARP;
  if (channel >= channels) return;
  const int lane = threadIdx.x % WARP;
  Sums one = {0, 0};
  if (lane < part_count) one = parts[lane * channels + channel];
  const float grads = warp_sum(one.grads), products = warp_sum(one.products);
  if (lane) return;
  if (means) means[channel] = {grads / count, products / count};
  if (beta_grad) beta_grad[channel] = grads;
  if (gamma_grad) gamma_grad[channel] = fixes_gamma ? 0.f : products;
  if (!moving_mean) return;
  const float root = inverse[channel], variance = 1 / (root * root) - eps;
  moving_mean[channel] = moving_mean[channel] * momentum + mean[channel] * share;
  moving_var[channel] = moving_var[channel] * momentum + variance * share;
}

struct Gradient {
  Affine by;
  Sums means;
};

// Without `means` the statistics do not depend on the data.
extern "C" __global__ void batch_normalize_backward(
    Size size, const T *data, const T *grad, T *data_grad, const float *mean, const float *spread,
    const float *gamma, const float *beta, float eps, const Sums *means, Divisor inner,
    Divisor channels, float low, float high) {
  const T *const in[2] = {data, grad};
  const Vectors vectors = {mean, spread, gamma, beta, eps};
  map_channels(
      size, data_grad, in, inner, channels,
      [=](Size channel) {
        return Gradient{vectors.of(channel), means ? means[channel] : Sums{0, 0}};
      },
      [=](const float(&x)[2], Gradient known) {
        const float passed = let_through(x[1], known.by.of(x[0]), {low, high});
        const float moved = known.by.standardized(x[0]) * known.means.products + known.means.grads;
        return (passed - moved) * (known.by.inverse * known.by.gamma);
      });
}
