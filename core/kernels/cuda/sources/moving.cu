// Copies of parts, and other orders of axes. UNIT is a type of the size of what is moved at a time.
#include "common.cuh"

// Rows of `columns`, at the given distances from each other.
extern "C" __global__ void copy_rows(Size size, Divisor columns, const UNIT *data, Size data_pitch, UNIT *out,
                                     Size out_pitch) {
  for (Size at = first_index(); at < size; at += index_step()) {
    Size row = at;
    const Size column = columns.split(row);
    out[row * out_pitch + column] = data[row * data_pitch + column];
  }
}

extern "C" __global__ void gather(Size size, const UNIT *data, UNIT *out, Places from) {
  for (Size at = first_index(); at < size; at += index_step()) out[at] = data[from.of(at)];
}

extern "C" __global__ void scatter(Size size, const UNIT *data, UNIT *out, Places to) {
  for (Size at = first_index(); at < size; at += index_step()) out[to.of(at)] = data[at];
}

extern "C" __global__ void clear(Size size, UNIT *out) {
  for (Size at = first_index(); at < size; at += index_step()) out[at] = UNIT();
}

#define TILE 32

// Matrices (rows, columns) to (columns, rows), by way of tiles in shared memory so that both reads and
// writes are of neighbours: grid (tiles of columns * matrices, tiles of rows).
extern "C" __global__ void transpose(const UNIT *data, UNIT *out, Size rows, Size columns, Divisor tiles) {
  __shared__ UNIT tile[TILE][TILE + 1];
  Size matrix = blockIdx.x;
  const Size first_column = tiles.split(matrix) * TILE, first_row = (Size)blockIdx.y * TILE;
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  data += matrix * rows * columns;
  out += matrix * rows * columns;
  for (int i = warp; i < TILE; i += WARPS)
    if (first_row + i < rows && first_column + lane < columns)
      tile[i][lane] = data[(first_row + i) * columns + first_column + lane];
  __syncthreads();
  for (int i = warp; i < TILE; i += WARPS)
    if (first_column + i < columns && first_row + lane < rows)
      out[(first_column + i) * rows + first_row + lane] = tile[lane][i];
}
