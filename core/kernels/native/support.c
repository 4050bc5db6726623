/* Checks that the library fits the processor and the Python code that loads it. */

int native_is_supported(void) {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") != 0;
}

/* CRC-32 of the source files at compile time (hatch_build.py). */
unsigned native_source(void) { return SOURCE; }
