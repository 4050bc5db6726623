// Steps of optimizers, each in one pass over weights, states and gradients. `../../steps.py` has the
// formulas and their sources; RULE is the name of a class below.
#include "common.cuh"

struct Step {
  float rescale, clip, decay;  // of the gradient; clip is 0 for no limit
  int decays_first;            // whether the decayed gradient is clipped
  float factors[5];            // the parameters of the rule, in the order of its fields
};

__device__ inline float within(float limit, float x) {  // NaN stays
  return x < -limit ? -limit : x > limit ? limit : x;
}

__device__ inline float prepared(const Step &step, float gradient, float weight) {
  float g = gradient * step.rescale;
  if (step.decays_first) g += step.decay * weight;
  if (step.clip > 0) g = within(step.clip, g);
  if (!step.decays_first) g += step.decay * weight;
  return g;
}

// Each returns the new weight and changes the states.
struct SGD {  // rate
  static constexpr int STATES = 0;
  __device__ static float of(const float *by, float w, float g, float *) { return w - by[0] * g; }
};
struct Momentum {  // rate, momentum
  static constexpr int STATES = 1;
  __device__ static float of(const float *by, float w, float g, float *state) {
    state[0] = state[0] * by[1] - g * by[0];
    return w + state[0];
  }
};
struct NAG {  // rate, momentum, late_decay
  static constexpr int STATES = 1;
  __device__ static float of(const float *by, float w, float g, float *state) {
    const float move = g * by[0], velocity = state[0] * by[1] - move;
    const float change = velocity * by[1] - move;
    state[0] = velocity - change * (by[0] * by[2]);
    return w + change;
  }
};
struct Signum {  // rate, momentum, keep
  static constexpr int STATES = 1;
  __device__ static float of(const float *by, float w, float g, float *state) {
    const float v = state[0] = state[0] * by[1] - g * (1 - by[1]);
    return w * by[2] + (v > 0 ? by[0] : v < 0 ? -by[0] : v * 0);
  }
};
struct Adam {  // rate, keep_mean, keep_square, epsilon
  static constexpr int STATES = 2;
  __device__ static float of(const float *by, float w, float g, float *state) {
    state[0] = state[0] * by[1] + g * (1 - by[1]);
    state[1] = state[1] * by[2] + g * g * (1 - by[2]);
    return w - state[0] / (sqrtf(state[1]) + by[3]) * by[0];
  }
};
struct AdaGrad {  // rate, epsilon, decay
  static constexpr int STATES = 1;
  __device__ static float of(const float *by, float w, float g, float *state) {
    state[0] += g * g;
    return w - (g / sqrtf(state[0] + by[1]) + w * by[2]) * by[0];
  }
};
struct RMSProp {  // rate, keep, epsilon, limit
  static constexpr int STATES = 1;
  __device__ static float of(const float *by, float w, float g, float *state) {
    state[0] = state[0] * by[1] + g * g * (1 - by[1]);
    const float moved = w - g / sqrtf(state[0] + by[2]) * by[0];
    return by[3] > 0 ? within(by[3], moved) : moved;
  }
};
struct CenteredRMSProp {  // rate, keep, momentum, epsilon, limit
  static constexpr int STATES = 3;
  __device__ static float of(const float *by, float w, float g, float *state) {
    state[0] = state[0] * by[1] + g * g * (1 - by[1]);
    state[1] = state[1] * by[1] + g * (1 - by[1]);
    const float variance = state[0] - state[1] * state[1] + by[3];
    state[2] = state[2] * by[2] - g / sqrtf(variance) * by[0];
    const float moved = w + state[2];
    return by[4] > 0 ? within(by[4], moved) : moved;
  }
};
struct FTRL {  // rate, threshold, beta, decay
  static constexpr int STATES = 2;
  __device__ static float of(const float *by, float w, float g, float *state) {
    const float squares = state[1] + g * g, root = sqrtf(squares);
    state[0] += g - (root - sqrtf(state[1])) * w / by[0];
    state[1] = squares;
    // 0 as long as |z| is below the threshold, which keeps weights at 0.
    const float above = within(by[1], state[0]) - state[0];
    return above / ((root + by[2]) / by[0] + by[3]);
  }
};

extern "C" __global__ void update(Size size, float *weight, const float *gradient, float *first,
                                  float *second, float *third, Step step) {
  constexpr int STATES = RULE::STATES, LANES = 4;
  float *const states[3] = {first, second, third};
  unsigned long long bits = (unsigned long long)weight | (unsigned long long)gradient;
  for (int s = 0; s < STATES; s++) bits |= (unsigned long long)states[s];
  const Size whole = bits % 16 ? 0 : size / LANES;
  for (Size p = first_index(); p < whole; p += index_step()) {
    Pack<float> w, g, kept[3];
    w.whole = reinterpret_cast<const uint4 *>(weight)[p];
    g.whole = reinterpret_cast<const uint4 *>(gradient)[p];
#pragma unroll
    for (int s = 0; s < STATES; s++) kept[s].whole = reinterpret_cast<const uint4 *>(states[s])[p];
#pragma unroll
    for (int lane = 0; lane < LANES; lane++) {
      float state[3];
#pragma unroll
      for (int s = 0; s < STATES; s++) state[s] = kept[s].at[lane];
      const float change = prepared(step, g.at[lane], w.at[lane]);
      w.at[lane] = RULE::of(step.factors, w.at[lane], change, state);
#pragma unroll
      for (int s = 0; s < STATES; s++) kept[s].at[lane] = state[s];
    }
    reinterpret_cast<uint4 *>(weight)[p] = w.whole;
#pragma unroll
    for (int s = 0; s < STATES; s++) reinterpret_cast<uint4 *>(states[s])[p] = kept[s].whole;
  }
  for (Size at = whole * LANES + first_index(); at < size; at += index_step()) {
    float state[3];
    for (int s = 0; s < STATES; s++) state[s] = states[s][at];
    const float change = prepared(step, gradient[at], weight[at]);
    weight[at] = RULE::of(step.factors, weight[at], change, state);
    for (int s = 0; s < STATES; s++) states[s][at] = state[s];
  }
}
