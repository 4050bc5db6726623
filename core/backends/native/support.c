/* Whether the library fits: the processor that it shall run on, and the code that loads it. */

int native_is_supported(void) {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") != 0;
}

/* CRC-32 of the source files as they were compiled (hatch_build.py). */
unsigned native_source(void) { return SOURCE; }
