// Included before a CUDA C++ file so that g++ compiles it: its kernels then run on the host, under
// `runner.cpp`.
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <utility>

#define RUNS_ON_HOST
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict
// Blocks run one after the other. What is shared lies in a section of its own, to be poisoned before
// each of them.
#define __shared__ static __attribute__((section("of_block")))

struct Dimensions {
  unsigned x = 1, y = 1, z = 1;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

extern "C" {
extern Dimensions host_thread, host_block, host_threads, host_blocks;
void host_barrier(void);
// Exchanges a word with other lanes of the warp: each gets that of lane ^ by, lane + by or lane - by.
uint32_t host_shuffle(uint32_t mask, uint32_t word, int how, int by);
void host_run(void (*body)(void *), void *of, const unsigned *grid, unsigned threads, unsigned seed,
              char *shared, size_t bytes);
}

#define threadIdx host_thread
#define blockIdx host_block
#define blockDim host_threads
#define gridDim host_blocks
#define __syncthreads() host_barrier()

inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline long long min(long long a, long long b) { return a < b ? a : b; }
inline long long max(long long a, long long b) { return a > b ? a : b; }

inline uint32_t __float_as_uint(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return bits;
}
inline float __uint_as_float(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}
inline float host_shuffled(unsigned mask, float x, int how, int by) {
  return __uint_as_float(host_shuffle(mask, __float_as_uint(x), how, by));
}
inline int host_shuffled(unsigned mask, int x, int how, int by) {
  return (int)host_shuffle(mask, (uint32_t)x, how, by);
}
template <class E> E __shfl_xor_sync(unsigned mask, E x, int by) { return host_shuffled(mask, x, 0, by); }
template <class E> E __shfl_down_sync(unsigned mask, E x, int by) { return host_shuffled(mask, x, 1, by); }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }

inline float host_from_half(unsigned short bits) {
  _Float16 x;
  memcpy(&x, &bits, 2);
  return (float)x;
}
inline unsigned short host_to_half(float x) {
  const _Float16 rounded = (_Float16)x;
  unsigned short bits;
  memcpy(&bits, &rounded, 2);
  return bits;
}

// -- calling a kernel whose arguments are given by their addresses, as cuLaunchKernel does ----------

template <class... A> struct HostCall {
  void (*kernel)(A...);
  void **arguments;

  template <size_t... I> void spread(std::index_sequence<I...>) {
    kernel(*static_cast<A *>(arguments[I])...);
  }
  static void body(void *self) { static_cast<HostCall *>(self)->spread(std::index_sequence_for<A...>()); }
};

extern "C" char __start_of_block[] __attribute__((weak)), __stop_of_block[] __attribute__((weak));

template <class... A>
long host_launch(void (*kernel)(A...), void **arguments, const unsigned *grid, unsigned threads,
                 unsigned seed) {
  HostCall<A...> call{kernel, arguments};
  host_run(HostCall<A...>::body, &call, grid, threads, seed, __start_of_block,
           (size_t)(__stop_of_block - __start_of_block));
  return 0;
}

// The sizes of a kernel's parameters, for the check that arguments are packed as it expects them.
template <class... A> int host_sizes(void (*)(A...), int *sizes) {
  const int found[] = {(int)sizeof(A)...};
  memcpy(sizes, found, sizeof found);
  return (int)sizeof...(A);
}
