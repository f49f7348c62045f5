// Elementwise functions of a tensor and what broadcasts to it, in one pass over memory.

// y = max(x + bias, 0) for rows of `columns` elements; NaN stays NaN.
template <typename T>
__device__ void bias_relu(const T* x, const T* bias, T* y, Int size, Int columns) {
    const Int step = Int(gridDim.x) * blockDim.x;
    for (Int i = Int(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step) {
        const T value = x[i] + bias[i % columns];
        y[i] = value < T(0) ? T(0) : value;
    }
}
#define BIAS_RELU(T) (const T* x, const T* bias, T* y, Int size, Int columns)
BOTH(bias_relu, BIAS_RELU, x, bias, y, size, columns)

// scale = 1/keep where the uniform number is below `keep`, else 0; y = x·scale.
template <typename T>
__device__ void dropout(const T* x, const T* uniform, T* y, T* scale, Int size, double keep) {
    const Int step = Int(gridDim.x) * blockDim.x;
    const T threshold = T(keep), kept = T(1 / keep);
    for (Int i = Int(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step) {
        const T factor = uniform[i] < threshold ? kept : T(0);
        scale[i] = factor;
        y[i] = x[i] * factor;
    }
}
#define DROPOUT(T) (const T* x, const T* uniform, T* y, T* scale, Int size, double keep)
BOTH(dropout, DROPOUT, x, uniform, y, scale, size, keep)

// y = (1 − share)·a + share·b.
template <typename T>
__device__ void blend(const T* a, const T* b, T* y, Int size, double share) {
    const Int step = Int(gridDim.x) * blockDim.x;
    const T rest = T(1 - share), part = T(share);
    for (Int i = Int(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step) y[i] = rest * a[i] + part * b[i];
}
#define BLEND(T) (const T* a, const T* b, T* y, Int size, double share)
BOTH(blend, BLEND, a, b, y, size, share)
