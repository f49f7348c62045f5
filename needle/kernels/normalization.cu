// Batch and layer normalisation. A mean is taken over a group of `count` elements: a channel's, or a row's. Element i of
// group c lies at (i / inner)·outer + c·stride + i % inner. Threads of a block with the same threadIdx.x share a group, so
// that neighbouring threads read neighbouring elements: blocks of (32, 8) where groups lie side by side, of (1, 256) where
// a group's own elements do.

struct Groups {
    Int groups, count, inner, outer, stride;
    Int group;
    __device__ Groups(Int groups, Int count, Int inner, Int outer, Int stride)
        : groups(groups), count(count), inner(inner), outer(outer), stride(stride),
          group(Int(blockIdx.x) * blockDim.x + threadIdx.x) {}
    __device__ bool mine() const { return group < groups; }
    __device__ Int at(Int i) const { return i / inner * outer + group * stride + i % inner; }
};

// y = γ·x̂ + β with x̂ = r·(x − mean), r = (variance + eps)^(−½); γ and β belong to groups (by_group) or to elements.
template <typename T>
__device__ void normalize(const T* x, const T* weight, const T* bias, T* y, T* means, T* variances, T* factors,
                          Int groups, Int count, Int inner, Int outer, Int stride, Int by_group, double eps) {
    T* shared = reinterpret_cast<T*>(arena);
    const Groups at(groups, count, inner, outer, stride);
    // Threads beyond the last group sum nothing, but they have to come along: reductions wait for the whole block.
    const Int end = at.mine() ? count : 0;
    T total = T(0);
    for (Int i = threadIdx.y; i < end; i += blockDim.y) total += x[at.at(i)];
    const T mean = sum_over_y(total, shared) / T(count);
    T squares = T(0);
    for (Int i = threadIdx.y; i < end; i += blockDim.y) {
        const T d = x[at.at(i)] - mean;
        squares += d * d;
    }
    const T variance = sum_over_y(squares, shared) / T(count);
    const T r = T(1) / sqrt(variance + T(eps));
    for (Int i = threadIdx.y; i < end; i += blockDim.y) {
        const Int parameter = by_group ? at.group : i, j = at.at(i);
        y[j] = (x[j] - mean) * r * weight[parameter] + bias[parameter];
    }
    if (at.mine() && threadIdx.y == 0) {
        means[at.group] = mean;
        variances[at.group] = variance;
        factors[at.group] = r;
    }
}
#define NORMALIZE(T)                                                                                                \
    (const T* x, const T* weight, const T* bias, T* y, T* means, T* variances, T* factors, Int groups, Int count,   \
     Int inner, Int outer, Int stride, Int by_group, double eps)
BOTH(normalize, NORMALIZE, x, weight, bias, y, means, variances, factors, groups, count, inner, outer, stride, by_group,
     eps)

// x̄ = r·(k − ⟨k⟩ − x̂·⟨k·x̂⟩) with k = γ·ȳ and, where γ belongs to the group, γ̄ = Σ ȳ·x̂ and β̄ = Σ ȳ.
template <typename T>
__device__ void normalize_gradient(const T* x, const T* weight, const T* out_grad, const T* means, const T* factors,
                                   T* to_x, T* to_weight, T* to_bias, Int groups, Int count, Int inner, Int outer,
                                   Int stride, Int by_group) {
    T* shared = reinterpret_cast<T*>(arena);
    const Groups at(groups, count, inner, outer, stride);
    const Int end = at.mine() ? count : 0;
    const T mean = at.mine() ? means[at.group] : T(0), r = at.mine() ? factors[at.group] : T(0);
    T sum = T(0), product = T(0);
    for (Int i = threadIdx.y; i < end; i += blockDim.y) {
        const Int j = at.at(i);
        const T k = by_group ? out_grad[j] : out_grad[j] * weight[i];
        sum += k;
        product += k * ((x[j] - mean) * r);
    }
    sum = sum_over_y(sum, shared);
    product = sum_over_y(product, shared);
    if (by_group && at.mine() && threadIdx.y == 0) {
        to_weight[at.group] = product;
        to_bias[at.group] = sum;
    }
    const T gamma = by_group && at.mine() ? weight[at.group] : T(1);
    const T scale = r * gamma, average = sum / T(count), slope = product / T(count);
    for (Int i = threadIdx.y; i < end; i += blockDim.y) {
        const Int j = at.at(i);
        const T k = by_group ? out_grad[j] : out_grad[j] * weight[i];
        to_x[j] = scale * (k - average - (x[j] - mean) * r * slope);
    }
}
#define NORMALIZE_GRADIENT(T)                                                                                       \
    (const T* x, const T* weight, const T* out_grad, const T* means, const T* factors, T* to_x, T* to_weight,       \
     T* to_bias, Int groups, Int count, Int inner, Int outer, Int stride, Int by_group)
BOTH(normalize_gradient, NORMALIZE_GRADIENT, x, weight, out_grad, means, factors, to_x, to_weight, to_bias, groups,
     count, inner, outer, stride, by_group)

// γ̄ = Σ ȳ·x̂ and β̄ = Σ ȳ over rows, for layer normalisation. A block of (32, 8) takes 32 columns of its share of the rows:
// number blockIdx.y of gridDim.y, which is the row of `to_weight` and `to_bias` that its sums go into.
template <typename T>
__device__ void row_parameters_gradient(const T* x, const T* out_grad, const T* means, const T* factors, T* to_weight,
                                        T* to_bias, Int rows, Int columns) {
    T* shared = reinterpret_cast<T*>(arena);
    const Int column = Int(blockIdx.x) * blockDim.x + threadIdx.x;
    const Int share = (rows + gridDim.y - 1) / gridDim.y, begin = blockIdx.y * share;
    const Int end = column < columns ? min(rows, begin + share) : 0;
    T sum = T(0), product = T(0);
    for (Int i = begin + threadIdx.y; i < end; i += blockDim.y) {
        const Int j = i * columns + column;
        sum += out_grad[j];
        product += out_grad[j] * ((x[j] - means[i]) * factors[i]);
    }
    sum = sum_over_y(sum, shared);
    product = sum_over_y(product, shared);
    if (column < columns && threadIdx.y == 0) {
        to_weight[blockIdx.y * columns + column] = product;
        to_bias[blockIdx.y * columns + column] = sum;
    }
}
#define ROW_PARAMETERS_GRADIENT(T)                                                                                  \
    (const T* x, const T* out_grad, const T* means, const T* factors, T* to_weight, T* to_bias, Int rows, Int columns)
BOTH(row_parameters_gradient, ROW_PARAMETERS_GRADIENT, x, out_grad, means, factors, to_weight, to_bias, rows, columns)
