// The words of CUDA that needle's kernels use, for a C++ compiler: the same source runs on the CPU.
//
// A thread of a kernel is a fiber here, and one at a time runs, until it waits for others (__syncthreads, __syncwarp, a
// shuffle) or ends; which one goes on next, and which block comes next, is drawn at random. runtime.cpp does that.

#pragma once
#include <cmath>
#include <cstddef>

#define __global__
#define __device__
#define __host__
#define __shared__
#define __restrict__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct dim3 {
    unsigned int x, y, z;
};
struct uint3 {
    unsigned int x, y, z;
};

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
extern double arena[];  // a block's dynamic shared memory

void __syncthreads();
void __syncwarp(unsigned int mask = 0xffffffffu);

unsigned int atomicAdd(unsigned int* address, unsigned int value);
int atomicAdd(int* address, int value);
float atomicAdd(float* address, float value);
unsigned int atomicMax(unsigned int* address, unsigned int value);
int atomicMax(int* address, int value);

// Eight bytes carry every type that is shuffled.
unsigned long long shim_shuffle(unsigned int mask, unsigned long long bits, int source_lane);
int shim_lane();

template <typename T>
unsigned long long shim_bits(T value) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most eight bytes");
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return bits;
}
template <typename T>
T shim_value(unsigned long long bits) {
    T value;
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}
template <typename T>
T __shfl_sync(unsigned int mask, T value, int lane) {
    return shim_value<T>(shim_shuffle(mask, shim_bits(value), lane & 31));
}
template <typename T>
T __shfl_xor_sync(unsigned int mask, T value, int lane_mask) {
    return shim_value<T>(shim_shuffle(mask, shim_bits(value), shim_lane() ^ lane_mask));
}
template <typename T>
T __shfl_up_sync(unsigned int mask, T value, unsigned int delta) {
    int lane = shim_lane() - static_cast<int>(delta);
    return shim_value<T>(shim_shuffle(mask, shim_bits(value), lane < 0 ? shim_lane() : lane));
}
template <typename T>
T __shfl_down_sync(unsigned int mask, T value, unsigned int delta) {
    int lane = shim_lane() + static_cast<int>(delta);
    return shim_value<T>(shim_shuffle(mask, shim_bits(value), lane > 31 ? shim_lane() : lane));
}

// CUDA has these overloaded in the global namespace.
using std::ceil;
using std::exp;
using std::fabs;
using std::floor;
using std::frexp;
using std::ldexp;
using std::log;
using std::nan;
using std::rint;
using std::sqrt;
template <typename T>
T min(T a, T b) {
    return b < a ? b : a;
}
template <typename T>
T max(T a, T b) {
    return a < b ? b : a;
}
inline int __float_as_int(float value) { return shim_value<int>(shim_bits(value)); }
inline float __int_as_float(int value) { return shim_value<float>(shim_bits(value)); }
