/* Non-maximum suppression: of overlapping boxes only the first is kept.
 *
 * Each box is compared with those kept so far only. Their sides are copied to arrays of their own,
 * so that 16 are read at once. */
#include "simd.h"

typedef struct {
  const float *left, *top, *right, *bottom, *area;
  const long *classes; /* boxes suppress only those of their class; NULL for one class */
} Boxes;

typedef struct {
  float threshold;
  int includes_threshold;
} Limit;

/* Sides of the kept boxes, each an array of `size`; 16 boxes are compared at a time. */
typedef struct {
  float *sides[5];
  int *places;
} Staying;

INLINE __mmask16 removers(const Boxes *b, const Limit *limit, long i, const Staying *s, long at) {
  const vector none = _mm512_setzero_ps();
#define SIDE(k) _mm512_loadu_ps(s->sides[k] + at)
  const vector wide = _mm512_min_ps(SIDE(2), _mm512_set1_ps(b->right[i])) -
                      _mm512_max_ps(SIDE(0), _mm512_set1_ps(b->left[i]));
  const vector tall = _mm512_min_ps(SIDE(3), _mm512_set1_ps(b->bottom[i])) -
                      _mm512_max_ps(SIDE(1), _mm512_set1_ps(b->top[i]));
  const vector inside = _mm512_max_ps(none, wide) * _mm512_max_ps(none, tall);
  const vector share = inside / (SIDE(4) + _mm512_set1_ps(b->area[i]) - inside);
#undef SIDE
  const vector threshold = _mm512_set1_ps(limit->threshold);
  return limit->includes_threshold ? _mm512_cmp_ps_mask(share, threshold, _CMP_GE_OQ)
                                   : _mm512_cmp_ps_mask(share, threshold, _CMP_GT_OQ);
}

INLINE int is_removed(const Boxes *b, const Limit *limit, long i, const Staying *s, long count) {
  for (long at = 0; at < count; at += LANES) {
    unsigned mask = removers(b, limit, i, s, at);
    if (count - at < LANES) mask &= (1u << (count - at)) - 1; /* no boxes there yet */
    if (!b->classes && mask) return 1;
    for (; mask; mask &= mask - 1)
      if (b->classes[s->places[at + __builtin_ctz(mask)]] == b->classes[i]) return 1;
  }
  return 0;
}

/* Scratch, in floats. */
long nms_scratch(long count) { return 6 * ((count + LANES - 1) / LANES * LANES); }

/* Mark the kept boxes, at most `most`; boxes are sorted, the best first. */
TARGET void suppress(long count, const Boxes *boxes, const Limit *limit, long most,
                     unsigned char *stays, float *scratch) {
  const long size = nms_scratch(count) / 6;
  Staying s;
  for (int k = 0; k < 5; k++) s.sides[k] = scratch + k * size;
  s.places = (int *)(scratch + 5 * size);
  const float *const sides[] = {boxes->left, boxes->top, boxes->right, boxes->bottom, boxes->area};
  long found = 0;
  for (long i = 0; i < count; i++) {
    stays[i] = found < most && !is_removed(boxes, limit, i, &s, found);
    if (!stays[i]) continue;
    for (int k = 0; k < 5; k++) s.sides[k][found] = sides[k][i];
    s.places[found++] = (int)i;
  }
}
