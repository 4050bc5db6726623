/* Runs primitives of oneDNN and functions of this library one after the other, without returning to
 * Python in between: a call through ctypes takes longer than a small layer. */

#include <omp.h>

typedef int Execute(const void *primitive, void *stream, int count, const void *arguments);

typedef void Compute(const void *parameters);

typedef struct {
  Compute *compute; /* a function of this library; null for a primitive */
  const void *primitive;
  const void *arguments; /* or the function's parameters */
  int count;
  int is_light; /* created for one thread, must run on the calling thread only */
} Launch;

typedef struct {
  Execute *execute; /* dnnl_primitive_execute */
  void *stream;
  const Launch *launches;
  long count;
  long done; /* launches that succeeded in the last run */
} Chain;

/* Returns 0, or the status of the first launch that fails, after which none is run. */
int chain_run(Chain *chain) {
  int many = omp_get_max_threads(), threads = many, status = 0;
  for (chain->done = 0; chain->done < chain->count; chain->done++) {
    const Launch *launch = chain->launches + chain->done;
    /* Functions of this library decide themselves how many threads they take. */
    int wanted = launch->is_light ? 1 : many;
    if (wanted != threads) omp_set_num_threads(threads = wanted);
    if (launch->compute) {
      launch->compute(launch->arguments);
      continue;
    }
    status = chain->execute(launch->primitive, chain->stream, launch->count, launch->arguments);
    if (status) break;
  }
  if (threads != many) omp_set_num_threads(many);
  return status;
}
