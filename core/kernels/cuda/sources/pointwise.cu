// Functions of one number and their gradients.
// `FUNCTION` is the name of a class below. `slope` reads the result where the formula is simpler then,
// else the data (`pointwise.py` tells which).
#include "common.cuh"

// NaN above comparisons: a function that "keeps" it passes it on, as MXNet's does.
struct Relu {  // alpha * x below zero; NaN becomes 0
  __device__ static float of(float x, float, float) { return fmaxf(x, 0.f); }
  __device__ static float slope(float y, float, float) { return y > 0 ? 1.f : 0.f; }
};
struct KeepingRelu {
  __device__ static float of(float x, float, float) { return x <= 0 ? 0.f : x; }
  __device__ static float slope(float y, float, float) { return y > 0 ? 1.f : y != y ? y : 0.f; }
};
struct LeakyRelu {
  __device__ static float of(float x, float alpha, float) { return x > 0 ? x : alpha * x; }
  __device__ static float slope(float y, float alpha, float) { return y <= 0 ? alpha : 1.f; }
};
struct Elu {
  __device__ static float of(float x, float alpha, float) { return x > 0 ? x : alpha * expm1f(x); }
  __device__ static float slope(float y, float alpha, float) { return y <= 0 ? y + alpha : 1.f; }
};
struct Sigmoid {
  __device__ static float of(float x, float, float) { return 1 / (1 + expf(-x)); }
  __device__ static float slope(float y, float, float) { return y * (1 - y); }
};
struct Tanh {
  __device__ static float of(float x, float, float) { return tanhf(x); }
  __device__ static float slope(float y, float, float) { return 1 - y * y; }
};
struct SoftRelu {
  __device__ static float of(float x, float, float) {
    return (x > 0 ? x : x != x ? x : 0.f) + log1pf(expf(-fabsf(x)));
  }
  // sigmoid(x) = 1 - exp(-y); expm1 is accurate where y is small.
  __device__ static float slope(float y, float, float) { return -expm1f(-y); }
};
struct SquareRoot {
  __device__ static float of(float x, float, float) { return sqrtf(x); }
  __device__ static float slope(float y, float, float) { return 0.5f / y; }
};
struct Square {
  __device__ static float of(float x, float, float) { return x * x; }
  __device__ static float slope(float x, float, float) { return 2 * x; }
};
struct Absolute {
  __device__ static float of(float x, float, float) { return fabsf(x); }
  __device__ static float slope(float x, float, float) { return x > 0 ? 1.f : x < 0 ? -1.f : 0.f; }
};
struct Gelu {
  __device__ static float of(float x, float, float) {
    return x * (0.5f + 0.5f * erff(x * 0.70710678118654752f));
  }
  __device__ static float slope(float x, float, float) {
    const float density = 0.3989422804014327f * expf(-0.5f * x * x);
    return 0.5f + 0.5f * erff(x * 0.70710678118654752f) + x * density;
  }
};
struct Linear {
  __device__ static float of(float x, float alpha, float beta) { return alpha * x + beta; }
  __device__ static float slope(float, float alpha, float) { return alpha; }
};
struct Clip {
  __device__ static float of(float x, float low, float high) {
    return x < low ? low : x > high ? high : x;
  }
  __device__ static float slope(float x, float low, float high) {
    return x < low || x > high ? 0.f : 1.f;
  }
};
struct HardSigmoid {
  __device__ static float of(float x, float alpha, float beta) {
    return Clip::of(alpha * x + beta, 0, 1);
  }
  __device__ static float slope(float x, float alpha, float beta) {
    const float y = alpha * x + beta;
    return y > 0 && y < 1 ? alpha : 0.f;
  }
};
struct HardSwish {
  __device__ static float of(float x, float alpha, float beta) {
    return x * HardSigmoid::of(x, alpha, beta);
  }
  __device__ static float slope(float x, float alpha, float beta) {
    return HardSigmoid::of(x, alpha, beta) + x * HardSigmoid::slope(x, alpha, beta);
  }
};
struct Swish {
  __device__ static float of(float x, float alpha, float) { return x / (1 + expf(-alpha * x)); }
  __device__ static float slope(float x, float alpha, float) {
    const float share = 1 / (1 + expf(-alpha * x));
    return share + alpha * x * share * (1 - share);
  }
};

extern "C" __global__ void pointwise(Size size, const T *data, T *out, float alpha, float beta) {
  const T *const in[1] = {data};
  map(size, out, in,
      [=](const float(&x)[1], Size) { return FUNCTION::of(x[0], alpha, beta); });
}

extern "C" __global__ void pointwise_backward(Size size, const T *seen, const T *grad, T *data_grad,
                                              float alpha, float beta) {
  const T *const in[2] = {seen, grad};
  map(size, data_grad, in, [=](const float(&x)[2], Size) {
    return x[1] * FUNCTION::slope(x[0], alpha, beta);
  });
}
