/* Steps of optimizers, each in one pass over weights, states and gradients: memory bandwidth limits
 * them, and an operation at a time would read and write everything several times. `../steps.py` has
 * the formulas and their sources.
 */
#include "simd.h"

#define PIECE 8192 /* elements that are worth a thread */
#define STATES 3   /* most arrays of states that a rule has */

typedef struct {
  float rescale, clip, decay; /* of the gradient; clip is 0 for no limit */
  int decays_first;           /* whether the decayed gradient is clipped */
  float factors[5];           /* the parameters of the rule */
} Step;

typedef vector Lanes[STATES];

INLINE vector all(float number) { return _mm512_set1_ps(number); }

/* NaN, as the second operand, stays NaN. */
INLINE vector within(float limit, vector x) {
  return _mm512_max_ps(all(-limit), _mm512_min_ps(all(limit), x));
}

INLINE vector prepared(const Step *step, vector gradient, vector weight) {
  const vector decay = step->decay * weight;
  vector g = gradient * step->rescale;
  if (step->decays_first) g += decay;
  if (step->clip > 0) g = within(step->clip, g);
  if (!step->decays_first) g += decay;
  return g;
}

/* -- rules: from a register of weights, states and gradients to the new weights and states ---- */

typedef struct {
  float rate;
} Plain;

INLINE vector plain(const float *factors, vector w, vector g, Lanes state) {
  const Plain *by = (const Plain *)factors;
  (void)state;
  return w + g * -by->rate;
}

typedef struct {
  float rate, momentum;
} Momentum;

INLINE vector momentum(const float *factors, vector w, vector g, Lanes state) {
  const Momentum *by = (const Momentum *)factors;
  state[0] = g * -by->rate + state[0] * by->momentum;
  return w + state[0];
}

typedef struct {
  float rate, momentum, late_decay;
} Nesterov;

INLINE vector nesterov(const float *factors, vector w, vector g, Lanes state) {
  const Nesterov *by = (const Nesterov *)factors;
  const vector move = g * by->rate, velocity = state[0] * by->momentum - move;
  const vector change = velocity * by->momentum - move;
  state[0] = velocity - change * (by->rate * by->late_decay);
  return w + change;
}

typedef struct {
  float rate, momentum, keep;
} Signs;

/* A number with the sign of another, or 0 where that is 0, or NaN. */
INLINE vector signed_as(float size, vector x) {
  const __mmask16 up = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GT_OQ);
  const __mmask16 down = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
  return _mm512_mask_blend_ps(down, _mm512_mask_blend_ps(up, x * 0.f, all(size)), all(-size));
}

INLINE vector signs(const float *factors, vector w, vector g, Lanes state) {
  const Signs *by = (const Signs *)factors;
  state[0] = state[0] * by->momentum - g * (1 - by->momentum);
  return w * by->keep + signed_as(by->rate, state[0]);
}

typedef struct {
  float rate, keep_mean, keep_square, epsilon;
} Adam;

INLINE vector adam(const float *factors, vector w, vector g, Lanes state) {
  const Adam *by = (const Adam *)factors;
  state[0] = state[0] * by->keep_mean + g * (1 - by->keep_mean);
  state[1] = state[1] * by->keep_square + g * g * (1 - by->keep_square);
  return w - state[0] / (_mm512_sqrt_ps(state[1]) + by->epsilon) * by->rate;
}

typedef struct {
  float rate, epsilon, decay;
} AdaGrad;

INLINE vector adagrad(const float *factors, vector w, vector g, Lanes state) {
  const AdaGrad *by = (const AdaGrad *)factors;
  state[0] += g * g;
  return w - (g / _mm512_sqrt_ps(state[0] + by->epsilon) + w * by->decay) * by->rate;
}

typedef struct {
  float rate, keep, epsilon, limit; /* of the weights; 0 for none */
} RMSProp;

INLINE vector root_mean_square(const float *factors, vector w, vector g, Lanes state) {
  const RMSProp *by = (const RMSProp *)factors;
  state[0] = state[0] * by->keep + g * g * (1 - by->keep);
  const vector moved = w - g / _mm512_sqrt_ps(state[0] + by->epsilon) * by->rate;
  return by->limit > 0 ? within(by->limit, moved) : moved;
}

typedef struct {
  float rate, keep, momentum, epsilon, limit;
} Centered;

INLINE vector centered(const float *factors, vector w, vector g, Lanes state) {
  const Centered *by = (const Centered *)factors;
  state[0] = state[0] * by->keep + g * g * (1 - by->keep);
  state[1] = state[1] * by->keep + g * (1 - by->keep);
  const vector variance = state[0] - state[1] * state[1] + by->epsilon;
  state[2] = state[2] * by->momentum - g / _mm512_sqrt_ps(variance) * by->rate;
  const vector moved = w + state[2];
  return by->limit > 0 ? within(by->limit, moved) : moved;
}

typedef struct {
  float rate, threshold, beta, decay;
} Leader;

INLINE vector leader(const float *factors, vector w, vector g, Lanes state) {
  const Leader *by = (const Leader *)factors;
  const vector squares = state[1] + g * g, root = _mm512_sqrt_ps(squares);
  state[0] += g - (root - _mm512_sqrt_ps(state[1])) * w / by->rate;
  state[1] = squares;
  /* The numerator is 0 as long as |z| is below the threshold, which keeps weights at 0. */
  return (within(by->threshold, state[0]) - state[0]) / ((root + by->beta) / by->rate + by->decay);
}

/* -- passes over memory ------------------------------------------------------------------------ */

/* One function for each rule, so that the compiler inlines the rule and unrolls the loops over its
 * states. */
typedef void Pass(const Step *step, long begin, long end, float *weight, const float *gradient,
                  float *const *states);

#define PASS(rule, count)                                                                         \
  TARGET static void pass_##rule(const Step *step, long begin, long end, float *weight,           \
                                 const float *gradient, float *const *states) {                   \
    for (long i = begin; i < end; i += LANES) {                                                   \
      Lanes state;                                                                                \
      for (int s = 0; s < count; s++) state[s] = _mm512_loadu_ps(states[s] + i);                  \
      const vector w = _mm512_loadu_ps(weight + i);                                               \
      const vector g = prepared(step, _mm512_loadu_ps(gradient + i), w);                          \
      _mm512_storeu_ps(weight + i, rule(step->factors, w, g, state));                             \
      for (int s = 0; s < count; s++) _mm512_storeu_ps(states[s] + i, state[s]);                  \
    }                                                                                             \
  }

PASS(plain, 0)
PASS(momentum, 1)
PASS(nesterov, 1)
PASS(signs, 1)
PASS(adam, 2)
PASS(adagrad, 1)
PASS(root_mean_square, 1)
PASS(centered, 3)
PASS(leader, 2)

/* In the order of `updates.py`. */
static const struct {
  Pass *pass;
  int states;
} RULES[] = {
    {pass_plain, 0},    {pass_momentum, 1},         {pass_nesterov, 1},
    {pass_signs, 1},    {pass_adam, 2},             {pass_adagrad, 1},
    {pass_centered, 3}, {pass_root_mean_square, 1}, {pass_leader, 2},
};

/* Update fewer than 16 weights, by way of copies: masked stores are slow. */
TARGET static void update_rest(const Step *step, int rule, long count, float *weight,
                               const float *gradient, float *const *states) {
  float w[LANES] = {0}, g[LANES] = {0}, kept[STATES][LANES] = {{0}};
  float *const copies[STATES] = {kept[0], kept[1], kept[2]};
  for (long i = 0; i < count; i++) {
    w[i] = weight[i];
    g[i] = gradient[i];
    for (int s = 0; s < RULES[rule].states; s++) kept[s][i] = states[s][i];
  }
  RULES[rule].pass(step, 0, LANES, w, g, copies);
  for (long i = 0; i < count; i++) {
    weight[i] = w[i];
    for (int s = 0; s < RULES[rule].states; s++) states[s][i] = kept[s][i];
  }
}

TARGET void update(const Step *step, int rule, long size, float *weight, const float *gradient,
                   float *first, float *second, float *third, long threads) {
  const long whole = size / LANES * LANES;
  const long shares = threads_for(threads, size / PIECE + 1);
  float *const states[STATES] = {first, second, third};
#pragma omp parallel for num_threads(shares)
  for (long i = 0; i < shares; i++) {
    const Span share = span_of(whole, i, shares);
    RULES[rule].pass(step, share.first, share.first + share.count, weight, gradient, states);
  }
  if (whole == size) return;
  float *const rest[STATES] = {first ? first + whole : 0, second ? second + whole : 0,
                               third ? third + whole : 0};
  update_rest(step, rule, size - whole, weight + whole, gradient + whole, rest);
}
