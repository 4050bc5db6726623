/* The gamma function, its logarithm, the inverse error function, and their gradients. */
/* For lgammaf_r: lgammaf writes the sign to a variable that all threads share. */
#define _DEFAULT_SOURCE
#include <float.h>
#include <math.h>

#include "simd.h"

#define PIECE 4096 /* elements that a thread takes at a time */
#define PI 3.14159265358979323846

enum Function { GAMMA, LOG_GAMMA, INVERSE_ERF };

/* M. Giles: Approximating the erfinv function, 2012, its polynomials for single precision; exact to
 * 4e-7. */
static double inverse_erf(double x) {
  static const double middle[] = {2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                                  -4.39150654e-06, 0.00021858087,  -0.00125372503,
                                  -0.00417768164,  0.246640727,    1.50140941};
  static const double tail[] = {-0.000200214257, 0.000100950558, 0.00134934322,
                                -0.00367342844,  0.00573950773,  -0.0076224613,
                                0.00943887047,   1.00167406,     2.83297682};
  if (fabs(x) == 1) return copysign(INFINITY, x);
  double w = -log((1 - x) * (1 + x)); /* 1 - x * x would cancel near 1 */
  const double *terms = w < 5 ? middle : tail;
  w = w < 5 ? w - 2.5 : sqrt(w) - 3;
  double sum = terms[0];
  for (int i = 1; i < 9; i++) sum = sum * w + terms[i];
  return sum * x;
}

/* The derivative of the logarithm of the gamma function (M. Abramowitz, I. Stegun: Handbook of
 * Mathematical Functions, 6.3): its asymptotic series (6.3.18) 8 steps further (6.3.5), and below
 * 1/2 its reflection (6.3.7). From 8.5 on, the terms of the series that are left out are below
 * 2e-13. At its poles it is the largest number, as in MXNet. */
static double digamma(double x) {
  if (x <= 0 && x == floor(x)) return DBL_MAX;
  if (x == INFINITY) return x;
  const double z = x < 0.5 ? 1 - x : x, far = z + 8, u = z * (z + 7);
  /* 1 / z + ... + 1 / (z + 7), the first with the last: half as many divisions. */
  const double steps = (2 * z + 7) * (1 / u + 1 / (u + 6) + 1 / (u + 10) + 1 / (u + 12));
  const double s = 1 / (far * far);
  const double series = s * (1. / 12 - s * (1. / 120 - s * (1. / 252 - s * (1. / 240 - s / 132))));
  const double found = log(far) - 0.5 / far - series - steps;
  return x < 0.5 ? found - PI / tan(PI * x) : found;
}

static float value(enum Function function, float x) {
  int sign;
  if (function == GAMMA) return tgammaf(x);
  return function == LOG_GAMMA ? lgammaf_r(x, &sign) : (float)inverse_erf(x);
}

/* The derivative at x; that of the inverse error function from its value. */
static float slope(enum Function function, float seen) {
  if (function == INVERSE_ERF) return (float)(exp((double)seen * seen) * sqrt(PI) / 2);
  const float change = (float)digamma(seen);
  return function == GAMMA ? change * tgammaf(seen) : change;
}

void special_forward(int function, long count, const float *x, float *y, long threads) {
  const long pieces = (count + PIECE - 1) / PIECE;
#pragma omp parallel for num_threads(threads_for(threads, pieces))
  for (long p = 0; p < pieces; p++)
    for (long i = p * PIECE; i < least(count, (p + 1) * PIECE); i++) y[i] = value(function, x[i]);
}

void special_backward(int function, long count, const float *seen, const float *grad, float *out,
                      long threads) {
  const long pieces = (count + PIECE - 1) / PIECE;
#pragma omp parallel for num_threads(threads_for(threads, pieces))
  for (long p = 0; p < pieces; p++)
    for (long i = p * PIECE; i < least(count, (p + 1) * PIECE); i++)
      out[i] = grad[i] * slope(function, seen[i]);
}
