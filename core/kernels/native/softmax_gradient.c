/* The gradient of a softmax loss: probabilities minus one for the label, each row times a factor.
 *
 * A row has the probabilities of one label. They are `places` elements apart, as with one label
 * for each pixel, where channels are the classes. */
#include "simd.h"

#define FEW 16384 /* elements, for which further threads take longer to wake than to compute */

typedef struct {
  long samples, classes, places;
  long labels; /* may be more than rows; further ones count as valid, and are not read otherwise */
  const float *probabilities, *label;
  float *grad;
  double scale;        /* factor of a row, before it is divided by the number of valid ones */
  float ignored_label; /* of rows that are not valid */
  int ignores;         /* whether the gradient of these is 0 */
  int counts;          /* whether the factor is divided by how many are valid */
} SoftmaxGradient;

/* The position in a row; -1 for a label that is no class, also NaN. Fractions are cut off. */
INLINE long class_of(float label, long classes) {
  return label > -1 && label < (float)classes ? (long)label : -1;
}

TARGET void softmax_gradient(const SoftmaxGradient *of) {
  const long classes = of->classes, places = of->places, rows = of->samples * places;
  const int is_large = rows * classes > FEW, ignores = of->ignores;
  const float ignored = of->ignored_label, *label = of->label;
  double scale = of->scale;
  if (of->counts) {
    long valid = 0;
    for (long i = 0; i < of->labels; i++) valid += label[i] != ignored;
    scale /= (double)(valid ? valid : 1);
  }
  const float factor = (float)scale;
  if (places == 1) {
#pragma omp parallel for schedule(static) if (is_large)
    for (long row = 0; row < rows; row++) {
      const float *from = of->probabilities + row * classes;
      float *to = of->grad + row * classes;
      const float own = ignores && label[row] == ignored ? 0 : factor;
      for (long c = 0; c < classes; c++) to[c] = from[c] * own;
      const long chosen = class_of(label[row], classes);
      if (chosen >= 0) to[chosen] -= own;
    }
    return;
  }
#pragma omp parallel for schedule(static) if (is_large)
  for (long line = 0; line < of->samples * classes; line++) {
    const float *from = of->probabilities + line * places;
    const float *labels = label + line / classes * places, own = (float)(line % classes);
    float *to = of->grad + line * places;
    for (long i = 0; i < places; i++) {
      const float scaled = ignores && labels[i] == ignored ? 0 : factor;
      /* Compared as class_of does: -0.5 is class 0, and 2.5 is class 2. */
      const int is_chosen = labels[i] > own - 1 && labels[i] < own + 1 &&
                            (labels[i] >= own || own == 0);
      to[i] = from[i] * scaled - (is_chosen ? scaled : 0);
    }
  }
}
