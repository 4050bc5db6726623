/* Softmax of few elements, over the last axis.
 *
 * By expf, which rounds nearly always correctly: scores that are equal but for rounding are often
 * sorted next, and the order has to be MXNet's. The largest element is subtracted first, so that no
 * exponential overflows. */
#include <math.h>

typedef struct {
  long rows, columns;
  const float *data;
  float *result;
} Softmax;

void softmax(const Softmax *of) {
  const float *data = of->data;
  float *result = of->result;
  for (long row = 0; row < of->rows; row++, data += of->columns, result += of->columns) {
    float most = -INFINITY, sum = 0;
    for (long c = 0; c < of->columns; c++) most = data[c] > most ? data[c] : most;
    for (long c = 0; c < of->columns; c++) sum += result[c] = expf(data[c] - most);
    for (long c = 0; c < of->columns; c++) result[c] /= sum;
  }
}
