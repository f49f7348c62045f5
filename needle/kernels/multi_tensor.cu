// Optimizer steps over all parameters in one launch. Each block has a row of `table`: the addresses of its part of the
// parameter, the gradient, the new parameter and the state, and how many elements they have.

// M ← β₁·M + g, V ← β₂·V + g², p ← keep·p − rate·M/(√V + eps), with g + penalty·p for g. See needle.optim.adam.
template <typename T>
__device__ void adam(const Int* table, double beta1, double beta2, double rate, double eps, double penalty,
                     double keep) {
    const Int* row = table + Int(blockIdx.x) * 6;
    const T* p = reinterpret_cast<const T*>(row[0]);
    const T* gradient = reinterpret_cast<const T*>(row[1]);
    T* out = reinterpret_cast<T*>(row[2]);
    T* total = reinterpret_cast<T*>(row[3]);
    T* squares = reinterpret_cast<T*>(row[4]);
    const Int count = row[5];
    for (Int i = threadIdx.x; i < count; i += blockDim.x) {
        const T old = p[i];
        const T g = gradient[i] + T(penalty) * old;
        const T m = T(beta1) * total[i] + g;
        const T v = T(beta2) * squares[i] + g * g;
        total[i] = m;
        squares[i] = v;
        out[i] = T(keep) * old - T(rate) * (m / (sqrt(v) + T(eps)));
    }
}
#define ADAM(T) (const Int* table, double beta1, double beta2, double rate, double eps, double penalty, double keep)
BOTH(adam, ADAM, table, beta1, beta2, rate, eps, penalty, keep)

// p ← p − rate·g; with a state U ← β·U + g, along U, or along g + β·U (nesterov). See needle.optim.sgd.
template <typename T>
__device__ void sgd(const Int* table, double beta, double rate, double penalty, Int nesterov) {
    const Int* row = table + Int(blockIdx.x) * 6;
    const T* p = reinterpret_cast<const T*>(row[0]);
    const T* gradient = reinterpret_cast<const T*>(row[1]);
    T* out = reinterpret_cast<T*>(row[2]);
    T* total = reinterpret_cast<T*>(row[3]);
    const Int count = row[5];
    for (Int i = threadIdx.x; i < count; i += blockDim.x) {
        const T old = p[i];
        T direction = gradient[i] + T(penalty) * old;
        if (total != nullptr) {
            const T u = T(beta) * total[i] + direction;
            total[i] = u;
            direction = nesterov ? direction + T(beta) * u : u;
        }
        out[i] = old - T(rate) * direction;
    }
}
#define SGD(T) (const Int* table, double beta, double rate, double penalty, Int nesterov)
BOTH(sgd, SGD, table, beta, rate, penalty, nesterov)
