// Arithmetic of two tensors, equal in shape or broadcast, and its gradients. FUNCTION is the name of a
// class below.
#include "common.cuh"

struct Add {
  __device__ static float of(float a, float b) { return a + b; }
  __device__ static float left(float dy, float, float) { return dy; }
  __device__ static float right(float dy, float, float) { return dy; }
};
struct Subtract {
  __device__ static float of(float a, float b) { return a - b; }
  __device__ static float left(float dy, float, float) { return dy; }
  __device__ static float right(float dy, float, float) { return -dy; }
};
struct Multiply {
  __device__ static float of(float a, float b) { return a * b; }
  __device__ static float left(float dy, float, float b) { return dy * b; }
  __device__ static float right(float dy, float a, float) { return dy * a; }
};
struct Divide {
  __device__ static float of(float a, float b) { return a / b; }
  __device__ static float left(float dy, float, float b) { return dy / b; }
  __device__ static float right(float dy, float a, float b) { return dy * (-a / (b * b)); }
};

extern "C" __global__ void arithmetic(Size size, const T *left, const T *right, T *out) {
  const T *const in[2] = {left, right};
  map(size, out, in, [](const float(&x)[2], Size) { return FUNCTION::of(x[0], x[1]); });
}

extern "C" __global__ void arithmetic_broadcast(Size size, const T *left, const T *right, T *out,
                                                Places lefts, Places rights) {
  for (Size at = first_index(); at < size; at += index_step())
    narrow(out[at], FUNCTION::of(widen(left[lefts.of(at)]), widen(right[rights.of(at)])));
}

// Operands that the gradient does not need may be any of this size.
extern "C" __global__ void arithmetic_left(Size size, const T *grad, const T *left, const T *right,
                                           T *left_grad) {
  const T *const in[3] = {grad, left, right};
  map(size, left_grad, in, [](const float(&x)[3], Size) { return FUNCTION::left(x[0], x[1], x[2]); });
}

extern "C" __global__ void arithmetic_right(Size size, const T *grad, const T *left, const T *right,
                                            T *right_grad) {
  const T *const in[3] = {grad, left, right};
  map(size, right_grad, in,
      [](const float(&x)[3], Size) { return FUNCTION::right(x[0], x[1], x[2]); });
}

// The gradient of the operand that is not broadcast; the left one if `of_left`.
extern "C" __global__ void arithmetic_wide(Size size, const T *grad, const T *left, const T *right,
                                           T *wide_grad, Places lefts, Places rights, int of_left) {
  for (Size at = first_index(); at < size; at += index_step()) {
    const float dy = widen(grad[at]), a = widen(left[lefts.of(at)]), b = widen(right[rights.of(at)]);
    narrow(wide_grad[at], of_left ? FUNCTION::left(dy, a, b) : FUNCTION::right(dy, a, b));
  }
}

struct Addends {
  const T *at[8];
  int count;
};

extern "C" __global__ void add_all(Size size, Addends addends, T *out) {
  for (Size at = first_index(); at < size; at += index_step()) {
    float sum = widen(addends.at[0][at]);
#pragma unroll
    for (int i = 1; i < 8; i++)
      if (i < addends.count) sum += widen(addends.at[i][at]);
    narrow(out[at], sum);
  }
}
