// Sums into places that occur several times, in an order that never changes: no atomic operations.

// target[places[order[i]]] += values[order[i]], where `order` sorts `places` (stably). The thread at the first of equal
// places adds all of them up.
template <typename T>
__device__ void scatter_add(const Int* order, const Int* places, const T* values, T* target, Int count) {
    const Int step = Int(gridDim.x) * blockDim.x;
    for (Int i = Int(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
        const Int place = places[order[i]];
        if (i > 0 && places[order[i - 1]] == place) continue;
        T total = target[place];
        for (Int j = i; j < count && places[order[j]] == place; ++j) total += values[order[j]];
        target[place] = total;
    }
}
#define SCATTER_ADD(T) (const Int* order, const Int* places, const T* values, T* target, Int count)
BOTH(scatter_add, SCATTER_ADD, order, places, values, target, count)
