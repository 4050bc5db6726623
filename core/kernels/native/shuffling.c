/* Shuffling of a vector as NumPy's `Generator(SFC64).permutation` does: by the same random numbers,
 * so that a seed gives the same order with and without this kernel.
 *
 * The shuffle is R. Fisher's and F. Yates's, from the end (D. Knuth: The Art of Computer
 * Programming, 3.4.2, algorithm P). SFC64 is C. Doty-Humphrey's generator. NumPy takes 32 bits at a
 * time from it, the lower half of each number first. */
#include <stdint.h>

typedef struct {
  uint64_t a, b, c, counter;
  uint32_t kept; /* the other half of the last number */
  int has_kept;
} Source;

static inline uint32_t draw(Source *s) {
  if (s->has_kept) {
    s->has_kept = 0;
    return s->kept;
  }
  const uint64_t found = s->a + s->b + s->counter++;
  s->a = s->b ^ (s->b >> 11);
  s->b = s->c + (s->c << 3);
  s->c = ((s->c << 24) | (s->c >> 40)) + found;
  s->has_kept = 1;
  s->kept = (uint32_t)(found >> 32);
  return (uint32_t)found;
}

/* A number from 0 to `last`, which is above 0: as many bits as `last` has, drawn again while they
 * make a larger number. */
static inline uint32_t draw_to(Source *s, uint32_t last) {
  const uint32_t mask = UINT32_MAX >> __builtin_clz(last);
  uint32_t found;
  do found = draw(s) & mask;
  while (found > last);
  return found;
}

#define SHUFFLE(type) \
  for (long i = count - 1; i > 0; i--) { \
    type *one = (type *)data + i; \
    type *other = (type *)data + draw_to(&s, (uint32_t)i); \
    const type held = *one; \
    *one = *other; \
    *other = held; \
  } \
  break

/* Shuffle elements of 1, 2, 4 or 8 bytes; `state` is the four words of the generator. */
void shuffle(long count, long width, const uint64_t *state, void *data) {
  Source s = {state[0], state[1], state[2], state[3], 0, 0};
  switch (width) {
    case 1: SHUFFLE(uint8_t);
    case 2: SHUFFLE(uint16_t);
    case 4: SHUFFLE(uint32_t);
    case 8: SHUFFLE(uint64_t);
  }
}
