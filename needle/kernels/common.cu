// What the kernels share; it is put in front of each of them. A Python integer arrives as Int, a Python float as double,
// and T is float or double. Sums are taken in an order that never changes, so that a kernel gives the same bits each time.

using Int = long long;

extern __shared__ double arena[];  // a block's shared memory, sized by the launch

// The result of `combine` over all threads of a block with one threadIdx.x. `shared` has a T for each thread, and
// blockDim.y is a power of two.
template <typename T, typename Combine>
__device__ T reduce_over_y(T value, T* shared, Combine combine) {
    T* column = shared + threadIdx.x;
    const unsigned int width = blockDim.x;
    column[threadIdx.y * width] = value;
    __syncthreads();
    for (unsigned int half = blockDim.y / 2; half > 0; half /= 2) {
        if (threadIdx.y < half) {
            T& own = column[threadIdx.y * width];
            own = combine(own, column[(threadIdx.y + half) * width]);
        }
        __syncthreads();
    }
    const T result = column[0];
    __syncthreads();  // everybody has read it before `shared` is used again
    return result;
}

struct Sum {
    template <typename T>
    __device__ T operator()(T a, T b) const {
        return a + b;
    }
};

struct Largest {  // NaN if one is NaN
    template <typename T>
    __device__ T operator()(T a, T b) const {
        return a > b || a != a ? a : b;
    }
};

template <typename T>
__device__ T sum_over_y(T value, T* shared) {
    return reduce_over_y(value, shared, Sum());
}

// The sum of `value` over the lanes below, for all 32 lanes of a warp.
template <typename T>
__device__ T sum_of_lanes_below(T value) {
    const int lane = threadIdx.x % 32;
    T total = value;
    for (int distance = 1; distance < 32; distance *= 2) {
        const T other = __shfl_up_sync(0xffffffffu, total, distance);
        if (lane >= distance) total += other;
    }
    const T below = __shfl_up_sync(0xffffffffu, total, 1);
    return lane == 0 ? T(0) : below;
}

// The sum of `value` over all lanes of a warp, in every lane.
template <typename T>
__device__ T sum_of_warp(T value) {
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
    return value;
}

// A float and a double version of a kernel under the names NAME_float and NAME_double.
#define BOTH(NAME, PARAMETERS, ...)                                                                                 \
    extern "C" __global__ void NAME##_float PARAMETERS(float) { NAME<float>(__VA_ARGS__); }                         \
    extern "C" __global__ void NAME##_double PARAMETERS(double) { NAME<double>(__VA_ARGS__); }
