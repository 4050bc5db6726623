// What all kernels share: elements stored in 16 bits or 32 and computed in float, 16 bytes at a time
// where addresses allow, division by a constant of the launch, and sums whose order never changes.
//
// A kernel is compiled for one type of element, the macro T. `launch.py` puts this text in the place
// of the #include, because the cache of compiled kernels looks only at the source.
#pragma once

typedef long long Size;

// -- elements -------------------------------------------------------------------------------------

struct half16 {
  unsigned short bits;
};
struct brain16 {
  unsigned short bits;
};

__device__ inline float widen(float x) { return x; }
__device__ inline void narrow(float &to, float x) { to = x; }

#ifdef RUNS_ON_HOST
__device__ inline float widen(half16 x) { return host_from_half(x.bits); }
__device__ inline void narrow(half16 &to, float x) { to.bits = host_to_half(x); }
#else
__device__ inline float widen(half16 x) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
  return wide;
}
__device__ inline void narrow(half16 &to, float x) {
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(x));
}
#endif

__device__ inline float widen(brain16 x) { return __uint_as_float((unsigned)x.bits << 16); }

// By hand, because devices before sm_80 have no instruction for it.
__device__ inline void narrow(brain16 &to, float x) {
  const unsigned bits = __float_as_uint(x);
  const unsigned nearest = bits + 0x7fff + (bits >> 16 & 1);  // ties to even
  to.bits = (unsigned short)((x != x ? bits | 0x400000 : nearest) >> 16);
}

// The elements in 16 bytes.
template <class E> union Pack {
  uint4 whole;
  E at[16 / sizeof(E)];
};

__device__ inline Size first_index() { return (Size)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ inline Size index_step() { return (Size)gridDim.x * blockDim.x; }

// Applies f to the elements at each index of COUNT arrays: f(values, index) is stored in `out`, which
// may be one of them.
template <int COUNT, class E, class F>
__device__ inline void map(Size size, E *out, const E *const (&in)[COUNT], F f) {
  constexpr int LANES = 16 / sizeof(E);
  unsigned long long bits = (unsigned long long)out;
  for (int i = 0; i < COUNT; i++) bits |= (unsigned long long)in[i];
  const Size whole = bits % 16 ? 0 : size / LANES;
  for (Size p = first_index(); p < whole; p += index_step()) {
    Pack<E> packs[COUNT], result;
#pragma unroll
    for (int i = 0; i < COUNT; i++) packs[i].whole = reinterpret_cast<const uint4 *>(in[i])[p];
#pragma unroll
    for (int lane = 0; lane < LANES; lane++) {
      float x[COUNT];
#pragma unroll
      for (int i = 0; i < COUNT; i++) x[i] = widen(packs[i].at[lane]);
      narrow(result.at[lane], f(x, p * LANES + lane));
    }
    reinterpret_cast<uint4 *>(out)[p] = result.whole;
  }
  for (Size at = whole * LANES + first_index(); at < size; at += index_step()) {
    float x[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; i++) x[i] = widen(in[i][at]);
    narrow(out[at], f(x, at));
  }
}

// -- division -------------------------------------------------------------------------------------

// Division by a number that the host knows: T. Granlund, P. Montgomery: Division by Invariant Integers
// using Multiplication, 1994. The macro WIDE is set where indices may reach 2^31.
struct Divisor {
  Size by;
  unsigned magic, shift;

  __device__ Size of(Size number) const {
#ifdef WIDE
    return number / by;
#else
    return (__umulhi((unsigned)number, magic) + (unsigned)number) >> shift;
#endif
  }

  // Divides the number in place and returns the rest.
  __device__ Size split(Size &number) const {
    const Size quotient = of(number), rest = number - quotient * by;
    number = quotient;
    return rest;
  }
};

// As `map`, of tensors seen as (outer, channels, inner): f(values, of_channel(channel)).
template <int COUNT, class E, class C, class F>
__device__ inline void map_channels(Size size, E *out, const E *const (&in)[COUNT], Divisor inner,
                                    Divisor channels, C of_channel, F f) {
  constexpr int LANES = 16 / sizeof(E);
  auto channel_at = [&](Size index) {
    Size outer = inner.of(index);
    return channels.split(outer);
  };
  unsigned long long bits = (unsigned long long)out;
  for (int i = 0; i < COUNT; i++) bits |= (unsigned long long)in[i];
  const Size whole = bits % 16 ? 0 : size / LANES;
  const bool is_uniform = inner.by % LANES == 0;
  for (Size p = first_index(); p < whole; p += index_step()) {
    Pack<E> packs[COUNT], result;
#pragma unroll
    for (int i = 0; i < COUNT; i++) packs[i].whole = reinterpret_cast<const uint4 *>(in[i])[p];
    auto known = of_channel(channel_at(p * LANES));
#pragma unroll
    for (int lane = 0; lane < LANES; lane++) {
      if (lane && !is_uniform) known = of_channel(channel_at(p * LANES + lane));
      float x[COUNT];
#pragma unroll
      for (int i = 0; i < COUNT; i++) x[i] = widen(packs[i].at[lane]);
      narrow(result.at[lane], f(x, known));
    }
    reinterpret_cast<uint4 *>(out)[p] = result.whole;
  }
  for (Size at = whole * LANES + first_index(); at < size; at += index_step()) {
    float x[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; i++) x[i] = widen(in[i][at]);
    narrow(out[at], f(x, of_channel(channel_at(at))));
  }
}

// Where the elements of a tensor lie in another, given the tensor's axes from the last to the first and
// the distance in the other from one element to the next along each.
struct Places {
  Divisor sizes[6];
  Size strides[6];
  Size start;
  int rank;

  __device__ Size of(Size index) const {
    Size place = start;
#pragma unroll
    for (int axis = 0; axis < 6; axis++)
      if (axis < rank) place += sizes[axis].split(index) * strides[axis];
    return place;
  }
};

// -- sums -----------------------------------------------------------------------------------------

#define THREADS 256 /* in a block, for all kernels with sums over blocks */
#define WARP 32
#define WARPS (THREADS / WARP)

__device__ inline float warp_sum(float x) {
  for (int lane = WARP / 2; lane; lane /= 2) x += __shfl_xor_sync(0xffffffffu, x, lane);
  return x;
}

__device__ inline float warp_max(float x) {
  for (int lane = WARP / 2; lane; lane /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lane));
  return x;
}

// The sum over all threads of a block, which every thread gets. `shared` has WARPS elements.
__device__ inline float block_sum(float x, float *shared) {
  x = warp_sum(x);
  if (threadIdx.x % WARP == 0) shared[threadIdx.x / WARP] = x;
  __syncthreads();
  x = 0;
  for (int i = 0; i < WARPS; i++) x += shared[i];
  __syncthreads();  // before the next sum in the same memory
  return x;
}

__device__ inline float block_max(float x, float *shared) {
  x = warp_max(x);
  if (threadIdx.x % WARP == 0) shared[threadIdx.x / WARP] = x;
  __syncthreads();
  x = shared[0];
  for (int i = 1; i < WARPS; i++) x = fmaxf(x, shared[i]);
  __syncthreads();
  return x;
}
