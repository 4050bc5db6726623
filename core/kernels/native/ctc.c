/* The CTC loss and its gradient by the forward-backward algorithm (A. Graves et al.: Connectionist
 * Temporal Classification, 2006).
 *
 * Probabilities of long alignments are smaller than any double, so each has an exponent of its own;
 * sums and products of such numbers take a tenth of the time of logarithms.
 *
 * The gradient is the softmax less, for each step and channel, the probability that the alignment
 * is there, given the labels.
 */
#include <math.h>

#include "simd.h"

typedef struct {
  long steps, batch, channels, labels, blank, threads;
} Alignment;

/* Of each example: labels (with the blank behind the last), how many, steps, whether they fit. */
typedef struct {
  const long *labels, *label_lengths, *data_lengths;
  const char *is_possible;
} Targets;

/* value * 2^(256 exponent); value is 0, NaN, or in [2^-128, 2^128), so that the product of two is
 * far within the range of a double and is scaled by one unit at most. */
typedef struct {
  double value;
  double exponent; /* of data such as -1e30, beyond any integer */
} Number;

#define UNIT 0x1p256
#define LOG_UNIT 177.445678223346 /* 256 log(2) */

static inline Number scaled(double value, double exponent) {
  if (value >= 0x1p128) return (Number){value / UNIT, exponent + 1};
  if (value < 0x1p-128 && value > 0) return (Number){value * UNIT, exponent - 1};
  return (Number){value, exponent};
}

static inline Number product(Number a, Number b) {
  return scaled(a.value * b.value, a.exponent + b.exponent);
}

static inline Number sum(Number a, Number b) {
  if (a.value == 0) return b; /* whatever its exponent */
  if (b.value == 0) return a;
  if (a.exponent == b.exponent) return scaled(a.value + b.value, a.exponent);
  if (a.exponent < b.exponent) {
    const Number larger = b;
    b = a;
    a = larger;
  }
  /* By two units or more b is less than 2^-256 of a. */
  if (a.exponent - b.exponent == 1) a.value += b.value / UNIT;
  return scaled(a.value, a.exponent);
}

/* A share of the likelihood, at most about 1, so its exponent is at most a unit larger. Where it is
 * too small for a double it is 0, but NaN if either number is. */
static inline double quotient(Number a, Number b) {
  const double exponent = a.exponent - b.exponent;
  const double unit = exponent < -1 ? 0 : exponent < 0 ? 1 / UNIT : exponent > 0 ? UNIT : 1;
  return a.value / b.value * unit;
}

static inline Number exponential(double x) {
  if (!(x < -80)) return scaled(exp(x), 0); /* above 2^-128; also NaN */
  if (x == -INFINITY) return (Number){0, 0};
  const double exponent = ceil(x / LOG_UNIT);
  return scaled(exp(x - exponent * LOG_UNIT), exponent);
}

/* One example and the scratch for it. State 2i + 1 is its label i; even states are blanks. */
typedef struct {
  const Alignment *shape;
  const float *data; /* of its first step */
  const long *labels;
  long states, steps, stride;
  double *softmax;        /* (steps, channels) */
  Number *emissions;      /* (steps, labels + 1): of the labels, then of the blank */
  Number *forward;        /* (steps, states): paths to each state, with its emission */
  Number *behind, *after; /* (states): paths from each state at a step, and at the next one */
} Example;

static inline long channel_of(const Example *e, long state) {
  return state % 2 ? e->labels[state / 2] : e->shape->blank;
}

static inline Number emission(const Example *e, long step, long state) {
  const long count = e->shape->labels;
  return e->emissions[step * (count + 1) + (state % 2 ? state / 2 : count)];
}

/* Whether a path may come to a state from the label before it, past the blank between. Not to an
 * equal label: without the blank the two would be one. */
static inline int may_skip(const Example *e, long state) {
  const long *label = e->labels + state / 2;
  return state % 2 && state > 1 && label[0] != label[-1] && label[0] != e->shape->blank;
}

static void normalize(const Example *e) {
  const long channels = e->shape->channels, count = e->shape->labels;
  for (long t = 0; t < e->steps; t++) {
    const float *x = e->data + t * e->stride;
    double *p = e->softmax + t * channels, peak = x[0], total = 0;
    for (long c = 1; c < channels; c++) peak = x[c] > peak ? x[c] : peak;
    for (long c = 0; c < channels; c++) total += p[c] = exp(x[c] - peak);
    for (long c = 0; c < channels; c++) p[c] /= total;
    Number *to = e->emissions + t * (count + 1);
    for (long i = 0; i <= count; i++) {
      const long c = i < e->states / 2 ? e->labels[i] : e->shape->blank;
      /* By its logarithm, where the softmax is close to underflow or has underflown. */
      to[i] = p[c] > 1e-30 ? scaled(p[c], 0) : exponential(x[c] - peak - log(total));
    }
  }
}

static Number sum_forward(const Example *e) {
  const long states = e->states;
  for (long s = 0; s < states; s++)
    e->forward[s] = s < 2 ? emission(e, 0, s) : (Number){0, 0};
  for (long t = 1; t < e->steps; t++) {
    const Number *before = e->forward + (t - 1) * states;
    Number *now = e->forward + t * states;
    for (long s = 0; s < states; s++) {
      Number paths = before[s];
      if (s > 0) paths = sum(paths, before[s - 1]);
      if (may_skip(e, s)) paths = sum(paths, before[s - 2]);
      now[s] = product(paths, emission(e, t, s));
    }
  }
  const Number *last = e->forward + (e->steps - 1) * states;
  return states > 1 ? sum(last[states - 1], last[states - 2]) : last[states - 1];
}

/* Subtract from the softmax what each state has a share in. */
static void subtract_shares(Example *e, Number likelihood) {
  const long states = e->states;
  for (long t = e->steps - 1; t >= 0; t--) {
    for (long s = 0; s < states; s++) {
      /* A path ends with the last label or the blank behind it. */
      Number paths = {t == e->steps - 1 && s >= states - 2, 0};
      if (t < e->steps - 1) {
        paths = product(e->after[s], emission(e, t + 1, s));
        if (s + 1 < states)
          paths = sum(paths, product(e->after[s + 1], emission(e, t + 1, s + 1)));
        if (s + 2 < states && may_skip(e, s + 2))
          paths = sum(paths, product(e->after[s + 2], emission(e, t + 1, s + 2)));
      }
      e->behind[s] = paths;
      e->softmax[t * e->shape->channels + channel_of(e, s)] -=
          quotient(product(e->forward[t * states + s], paths), likelihood);
    }
    Number *const free = e->after;
    e->after = e->behind;
    e->behind = free;
  }
}

static long states_of(const Alignment *a) { return 2 * a->labels + 1; }

/* Bytes of scratch that each thread needs. */
long ctc_scratch(const Alignment *a) {
  const long numbers = a->steps * (a->labels + 1) + (a->steps + 2) * states_of(a);
  return a->steps * a->channels * (long)sizeof(double) + numbers * (long)sizeof(Number);
}

/* Losses, and their gradients where `gradient` is not NULL; both are 0 of labels that do not fit.
 * Data and gradient are (steps, batch, channels), gradients of steps that are not read 0. */
void ctc_loss(const Alignment *a, const Targets *targets, const float *data, float *losses,
              float *gradient, char *scratch) {
  const long channels = a->channels, stride = a->batch * channels;
  /* Dynamic, because examples differ in steps and labels. */
#pragma omp parallel for schedule(dynamic) num_threads(threads_for(a->threads, a->batch))
  for (long n = 0; n < a->batch; n++) {
    double *own = (double *)(scratch + omp_get_thread_num() * ctc_scratch(a));
    Number *numbers = (Number *)(own + a->steps * channels);
    Number *const lattice = numbers + a->steps * (a->labels + 1);
    Number *const ends = lattice + a->steps * states_of(a);
    Example e = {.shape = a,
                 .data = data + n * channels,
                 .labels = targets->labels + n * a->labels,
                 .states = 2 * targets->label_lengths[n] + 1,
                 .steps = targets->is_possible[n] ? targets->data_lengths[n] : 0,
                 .stride = stride,
                 .softmax = own,
                 .emissions = numbers,
                 .forward = lattice,
                 .behind = ends,
                 .after = ends + states_of(a)};
    losses[n] = 0;
    if (e.steps) {
      normalize(&e);
      const Number likelihood = sum_forward(&e);
      losses[n] = (float)-(log(likelihood.value) + likelihood.exponent * LOG_UNIT);
      if (gradient) subtract_shares(&e, likelihood);
    }
    if (!gradient) continue;
    for (long t = 0; t < a->steps; t++)
      for (long c = 0; c < channels; c++)
        gradient[t * stride + n * channels + c] =
            t < e.steps ? (float)own[t * channels + c] : 0;
  }
}
