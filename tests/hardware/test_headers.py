"""Headers are parsed as C means them."""

from __future__ import annotations

import ctypes

from hardware.headers import parse_constants, parse_functions

HEADER = """
#define cudaStreamNonBlocking 0x01  /**< flag */
#define NOT_ONE (1 << 3)
typedef enum {
    CUDNN_A = 0, /* first, */
    CUDNN_OLD CUDNN_DEPRECATED_ENUM = 4,
#if 1
    CUDNN_NEXT,
#endif
    CUDNN_BOTH = CUDNN_OLD | 1u,
} cudnnKind_t;
enum __device_builtin__ cudaMemcpyKind { cudaMemcpyHostToDevice = 1 };
cudnnStatus_t CUDNNWINAPI
cudnnSet(cudnnHandle_t handle, // a handle
         const cudnnKind_t kind, const int dims[], size_t size, double alpha,
         const void *data, unsigned n, unsigned long long seed, int32_t mode, float);
extern __host__ cudaError_t CUDARTAPI cudaCopy(void *d, enum cudaMemcpyKind kind __dv(0));
cudaError_t cudaWait(void);
"""


def test_constants_are_parsed() -> None:
    assert parse_constants(HEADER) == {
        "cudaStreamNonBlocking": 1,
        "CUDNN_A": 0,
        "CUDNN_OLD": 4,
        "CUDNN_NEXT": 5,
        "CUDNN_BOTH": 5,
        "cudaMemcpyHostToDevice": 1,
    }


def test_functions_are_parsed() -> None:
    pointer, whole = ctypes.c_void_p, ctypes.c_int
    assert parse_functions(HEADER) == {
        "cudnnSet": [
            *(pointer, whole, pointer, ctypes.c_size_t, ctypes.c_double, pointer),
            *(ctypes.c_uint, ctypes.c_uint64, whole, ctypes.c_float),
        ],
        "cudaCopy": [pointer, whole],
        "cudaWait": [],
    }
