// Runs kernels on the host: one fiber for each thread of a block, in an order drawn from a seed
// whenever all have come to a barrier or an exchange between lanes. Blocks run in a drawn order, too.
// So a missing barrier, or a sum that depends on the order of threads, shows.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <random>
#include <vector>

struct Dimensions {
  unsigned x = 1, y = 1, z = 1;
};
extern "C" {
Dimensions host_thread, host_block, host_threads, host_blocks;

// Saves the registers that a function must keep on the stack, and goes on with another stack.
void host_switch(void **from, void *to);
asm(R"(
.text
.globl host_switch
.type host_switch, @function
host_switch:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
)");
}

namespace {
enum State { READY, AT_BARRIER, EXCHANGES, DONE };
constexpr unsigned WARP = 32;
constexpr size_t STACK = 32 << 10;
constexpr unsigned MOST = 1024;

struct Fiber {
  void *stack;
  State state;
  uint32_t mask, word;
  int how, by;
};

Fiber fibers[MOST];
alignas(16) char stacks[MOST][STACK];
void *scheduler;
unsigned current;
void (*kernel)(void *);
void *call;

[[noreturn]] void fail(const char *what) {
  fprintf(stderr, "kernel on the host: %s (thread %u, block %u %u)\n", what, current, host_block.x,
          host_block.y);
  abort();
}

void leave(State state) {
  const unsigned self = current;
  fibers[self].state = state;
  host_switch(&fibers[self].stack, scheduler);
}

void enter() {
  kernel(call);
  leave(DONE);
  fail("a thread went on after its end");
}

void start(unsigned thread) {
  void **top = reinterpret_cast<void **>(stacks[thread] + STACK);
  *--top = nullptr;  // so that the stack is aligned as after a call
  *--top = reinterpret_cast<void *>(enter);
  for (int i = 0; i < 6; i++) *--top = nullptr;
  fibers[thread].stack = top;
  fibers[thread].state = READY;
}

void resume(unsigned thread) {
  current = thread;
  host_thread.x = thread;
  host_switch(&scheduler, fibers[thread].stack);
}

// Exchanges words within a warp, all of whose threads that have not ended must have asked for it.
bool exchange(unsigned first, unsigned count) {
  unsigned live = 0;
  for (unsigned i = 0; i < count; i++) {
    const Fiber &one = fibers[first + i];
    if (one.state != EXCHANGES && one.state != DONE) return false;
    live += one.state == EXCHANGES;
  }
  if (!live) return false;
  uint32_t words[WARP];
  for (unsigned i = 0; i < count; i++) {
    Fiber &one = fibers[first + i];
    if (one.state == DONE) continue;
    unsigned other = one.how == 0 ? i ^ one.by : one.how == 1 ? i + one.by : i - one.by;
    if (other >= WARP) other = i;
    current = first + i;
    if (!(one.mask >> i & 1)) fail("a lane exchanges without being in the mask");
    if (other >= count || fibers[first + other].state == DONE) fail("a lane to read has ended");
    if (one.how != fibers[first + other].how) fail("lanes are in different exchanges");
    words[i] = fibers[first + other].word;
  }
  for (unsigned i = 0; i < count; i++) {
    Fiber &one = fibers[first + i];
    if (one.state == DONE) continue;
    one.word = words[i];
    one.state = READY;
  }
  return true;
}

void run_block(unsigned threads, std::mt19937 &random) {
  std::vector<unsigned> order(threads);
  for (unsigned i = 0; i < threads; i++) {
    start(i);
    order[i] = i;
  }
  std::shuffle(order.begin(), order.end(), random);
  for (;;) {
    bool moved = false;
    const uint32_t slow = random();  // warps that fall behind, so that others overtake them
    for (unsigned i : order) {
      if (fibers[i].state != READY) continue;
      if (!(slow >> i / WARP & 1)) resume(i);
      moved = true;
    }
    for (unsigned first = 0; first < threads; first += WARP)
      moved |= exchange(first, std::min(WARP, threads - first));
    unsigned waiting = 0, done = 0;
    for (unsigned i = 0; i < threads; i++) {
      waiting += fibers[i].state == AT_BARRIER;
      done += fibers[i].state == DONE;
    }
    if (done == threads) return;
    if (waiting && waiting + done == threads) {
      if (done) fail("some threads wait at a barrier, others have ended");
      for (unsigned i = 0; i < threads; i++) fibers[i].state = READY;
      std::rotate(order.begin(), order.begin() + random() % threads, order.end());
      if (random() & 1) std::reverse(order.begin(), order.end());
      moved = true;
    }
    if (!moved) fail("threads wait for each other");
  }
}
}  // namespace

extern "C" {
void host_barrier(void) { leave(AT_BARRIER); }

uint32_t host_shuffle(uint32_t mask, uint32_t word, int how, int by) {
  const unsigned self = current;
  Fiber &one = fibers[self];
  one.mask = mask, one.word = word, one.how = how, one.by = by;
  leave(EXCHANGES);
  return fibers[self].word;
}

void host_run(void (*body)(void *), void *of, const unsigned *grid, unsigned threads, unsigned seed,
              char *shared, size_t bytes) {
  if (threads > MOST) fail("too many threads in a block");
  std::mt19937 random(seed);
  kernel = body, call = of;
  host_blocks = {grid[0], grid[1], grid[2]};
  host_threads = {threads, 1, 1};
  std::vector<unsigned> blocks(grid[0] * grid[1] * grid[2]);
  for (unsigned i = 0; i < blocks.size(); i++) blocks[i] = i;
  std::shuffle(blocks.begin(), blocks.end(), random);
  for (unsigned i : blocks) {
    host_block = {i % grid[0], i / grid[0] % grid[1], i / (grid[0] * grid[1])};
    if (bytes) memset(shared, 0xff, bytes);  // NaN
    run_block(threads, random);
  }
}
}
