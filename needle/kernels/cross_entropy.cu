// Cross entropy of rows of logits and their labels. A block of (1, threads) takes a row.

// loss = ln Σ eˣ − x[label] and log_sum = ln Σ eˣ of each row. A label that is out of range makes the loss NaN, since a
// kernel cannot raise, and is never used as an index.
template <typename T>
__device__ void cross_entropy(const T* logits, const Int* labels, T* losses, T* log_sums, Int classes) {
    T* shared = reinterpret_cast<T*>(arena);
    const Int row = blockIdx.x;
    const T* x = logits + row * classes;
    T top = x[0];
    for (Int j = threadIdx.y; j < classes; j += blockDim.y) top = Largest()(top, x[j]);
    top = reduce_over_y(top, shared, Largest());
    T total = T(0);
    for (Int j = threadIdx.y; j < classes; j += blockDim.y) total += exp(x[j] - top);
    total = sum_over_y(total, shared);
    if (threadIdx.y == 0) {
        const Int label = labels[row];
        const T log_sum = log(total) + top;
        log_sums[row] = log_sum;
        losses[row] = label >= 0 && label < classes ? log_sum - x[label] : T(nan(""));
    }
}
#define CROSS_ENTROPY(T) (const T* logits, const Int* labels, T* losses, T* log_sums, Int classes)
BOTH(cross_entropy, CROSS_ENTROPY, logits, labels, losses, log_sums, classes)

// The gradient (softmax − onehot)·ȳ/rows, where ȳ is the one element of `out_grad`.
template <typename T>
__device__ void cross_entropy_gradient(const T* logits, const Int* labels, const T* log_sums, const T* out_grad,
                                       T* gradient, Int rows, Int classes) {
    const Int row = blockIdx.x;
    const T each = out_grad[0] / T(rows), log_sum = log_sums[row];
    const Int label = labels[row];
    for (Int j = threadIdx.y; j < classes; j += blockDim.y) {
        const Int i = row * classes + j;
        gradient[i] = (exp(logits[i] - log_sum) - (j == label ? T(1) : T(0))) * each;
    }
}
#define CROSS_ENTROPY_GRADIENT(T)                                                                                   \
    (const T* logits, const Int* labels, const T* log_sums, const T* out_grad, T* gradient, Int rows, Int classes)
BOTH(cross_entropy_gradient, CROSS_ENTROPY_GRADIENT, logits, labels, log_sums, out_grad, gradient, rows, classes)
