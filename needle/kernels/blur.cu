// The adaptive blur along the middle axis of [outer, K, inner]; needle.ops.blur_scan has the mathematics and the names.
//
// A block takes `columns` neighbouring columns (one warp for each) and keeps K+1 rows of two numbers for each of them in
// shared memory: bends and jumps on the way forward, two prefix sums on the way back.
//
// Forward is a scatter. Floating-point sums would depend on the order in which threads come by, so the numbers are
// integers in fixed point, 61 bits below the sum of |x| of the column, and integer sums commute. A 64-bit atomic addition
// in shared memory is a loop; two 32-bit ones with a carry are not.

struct Column {
    Int base, stride;  // where it begins, and from one row to the next
    bool exists;
    __device__ Column(Int number, Int outer, Int size, Int inner)
        : base(number / inner * size * inner + number % inner), stride(inner), exists(number < outer * inner) {}
};

// Which column of the block a thread reads and from which row on: neighbouring threads read neighbouring elements.
struct Reader {
    int column;
    Int row;
    __device__ Reader(int columns, Int inner)
        : column(inner == 1 ? threadIdx.x / 32 : threadIdx.x % columns),
          row(inner == 1 ? threadIdx.x % 32 : threadIdx.x / columns) {}
};

// What a radius says about a source at p; see Triangles in needle.ops.blur_scan.
struct Triangle {
    bool identity;
    double radius, fraction, left, right, mass, slope, on_grid, on_grid_slope;
    __device__ Triangle(double m, Int p, Int size, int edge, int seed) {
        identity = m < 1;
        radius = identity ? 1.0 : m < 1e18 ? m : 1e18;
        const double f = seed ? ceil(radius) - 1 : floor(radius), before = double(p), after = double(size - 1 - p);
        fraction = radius - f;
        left = f < before ? f : before;
        right = f < after ? f : after;
        on_grid = (left + 1) * (radius - left / 2) + right * (radius - (right + 1) / 2);
        on_grid_slope = 1 + left + right;
        mass = edge == 2 ? on_grid : f * f + fraction * (2 * f + 1);
        slope = edge == 2 ? on_grid_slope : seed ? 2 * radius : 2 * f + 1;
    }
};

__device__ inline void add_fixed(unsigned int* number, Int value) {
    const unsigned int low = static_cast<unsigned int>(value), before = atomicAdd(number, low);
    const unsigned int carry = before + low < low ? 1u : 0u;
    const unsigned int high = static_cast<unsigned int>(static_cast<unsigned long long>(value) >> 32) + carry;
    if (high != 0) atomicAdd(number + 1, high);
}

__device__ inline Int to_fixed(double value, double scale) { return static_cast<Int>(rint(value * scale)); }

// W·x. `edge` is 0 for drop, 1 for return, 2 for renorm.
template <typename T>
__device__ void blur_spread(const T* x, const T* radius, T* y, Int outer, Int size, Int inner, Int edge) {
    const int columns = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const Int rows = size + 1;
    Int* numbers = reinterpret_cast<Int*>(arena);                                          // bends, then jumps
    double* partial = reinterpret_cast<double*>(numbers + 2 * columns * rows);             // 32 for each column
    Int* front = reinterpret_cast<Int*>(partial + 32 * columns);                           // 2·32 for each column
    double* scales = reinterpret_cast<double*>(front + 64 * columns);                      // one for each column

    const Reader reader(columns, inner);
    const Column own(Int(blockIdx.x) * columns + reader.column, outer, size, inner);
    const Int end = own.exists ? size : 0;
    for (Int i = threadIdx.x; i < 2 * columns * rows; i += blockDim.x) numbers[i] = 0;
    double sum = 0;
    for (Int p = reader.row; p < end; p += 32) {
        const Int i = own.base + p * own.stride;
        const double m = double(radius[i]);
        sum += fabs(double(x[i])) + (m == m ? 0 : m);  // a NaN radius spoils its column, and no index
    }
    partial[reader.column * 32 + reader.row] = sum;
    __syncthreads();
    sum = sum_of_warp(partial[warp * 32 + lane]);
    if (lane == 0) {
        int exponent = 0;
        frexp(sum, &exponent);
        scales[warp] = sum < 1.7e308 ? ldexp(1.0, 61 - exponent < 1000 ? 61 - exponent : 1000) : 0.0;
    }
    __syncthreads();

    const double scale = scales[reader.column];
    Int* bends = numbers + 2 * reader.column * rows;
    Int* jumps = bends + rows;
    Int front_bend = 0, front_jump = 0;  // of row 0, where wide triangles meet
    for (Int p = reader.row; scale > 0 && p < end; p += 32) {
        const Int i = own.base + p * own.stride;
        const Triangle t(double(radius[i]), p, size, int(edge), 0);
        if (t.identity) continue;
        const double weight = double(x[i]) / t.mass;
        const Int bend = to_fixed(weight, scale);
        const Int jump = bend - to_fixed(weight * (t.radius - t.left), scale);
        const Int left = p - Int(t.left), right = p + Int(t.right) + 1;
        if (left == 0) {
            front_bend += bend;
            front_jump += jump;
        } else {
            add_fixed(reinterpret_cast<unsigned int*>(bends + left), bend);
            add_fixed(reinterpret_cast<unsigned int*>(jumps + left), jump);
        }
        add_fixed(reinterpret_cast<unsigned int*>(bends + p + 1), -2 * bend);
        if (right < size) {  // row K is beyond the last position
            add_fixed(reinterpret_cast<unsigned int*>(bends + right), bend);
            add_fixed(reinterpret_cast<unsigned int*>(jumps + right), to_fixed(weight * t.fraction, scale));
        }
    }
    front[reader.column * 64 + reader.row] = front_bend;
    front[reader.column * 64 + 32 + reader.row] = front_jump;
    __syncthreads();

    // A warp sums up its column: each lane a stretch of rows, then the stretches before it.
    bends = numbers + 2 * warp * rows;
    jumps = bends + rows;
    front_bend = sum_of_warp(front[warp * 64 + lane]);
    front_jump = sum_of_warp(front[warp * 64 + 32 + lane]);
    const Int stretch = (size + 31) / 32;
    const Int first = min(size, lane * stretch), last = min(size, first + stretch);
    Int slope = 0;
    for (Int i = first; i < last; ++i) slope += bends[i];
    slope = sum_of_lanes_below(slope) + (lane == 0 ? 0 : front_bend);
    Int value = 0, step = slope;
    for (Int i = first; i < last; ++i) {
        step += bends[i] + (i == 0 ? front_bend : 0);
        value += step - jumps[i] - (i == 0 ? front_jump : 0);
    }
    value = sum_of_lanes_below(value);
    for (Int i = first; i < last; ++i) {
        slope += bends[i] + (i == 0 ? front_bend : 0);
        value += slope - jumps[i] - (i == 0 ? front_jump : 0);
        bends[i] = value;
    }
    __syncthreads();

    bends = numbers + 2 * reader.column * rows;
    for (Int p = reader.row; p < end; p += 32) {
        const Int i = own.base + p * own.stride;
        const Triangle t(double(radius[i]), p, size, int(edge), 0);
        const T source = x[i];
        if (!(scale > 0)) {
            y[i] = T(nan(""));  // the column holds NaN or infinity
        } else if (t.identity) {
            y[i] = bends[p] == 0 ? source : T(double(source) + double(bends[p]) / scale);
        } else {
            const double kept = edge == 1 ? double(source) - double(source) / t.mass * t.on_grid : 0.0;
            y[i] = T(kept + double(bends[p]) / scale);
        }
    }
}
#define BLUR_SPREAD(T) (const T* x, const T* radius, T* y, Int outer, Int size, Int inner, Int edge)
BOTH(blur_spread, BLUR_SPREAD, x, radius, y, outer, size, inner, edge)

// Wᵀ·g and Dᵀ·g. With `seed` the derivative in the radius is the one from the left and has 2m for that of S.
template <typename T>
__device__ void blur_gather(const T* g, const T* radius, T* value, T* slope, Int outer, Int size, Int inner, Int edge,
                            Int seed) {
    const int columns = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const Int rows = size + 1;
    double* sums = arena;                             // for each column: Σ_{i<q} g_i, then Σ_{i<q} (q−i)·g_i
    double* means = sums + 2 * columns * rows;        // one for each column

    const Reader reader(columns, inner);
    const Column own(Int(blockIdx.x) * columns + reader.column, outer, size, inner);
    const Int end = own.exists ? size : 0;
    double* first_sums = sums + 2 * reader.column * rows;
    double* second_sums = first_sums + rows;
    for (Int p = reader.row; p < size; p += 32)
        second_sums[p + 1] = p < end ? double(g[own.base + p * own.stride]) : 0.0;
    __syncthreads();

    // A warp sums up its column: each lane a stretch of rows, then the stretches before it.
    first_sums = sums + 2 * warp * rows;
    second_sums = first_sums + rows;
    const Int stretch = (size + 31) / 32;
    const Int first = min(size, lane * stretch), last = min(size, first + stretch);
    double total = 0;
    for (Int i = first; i < last; ++i) total += second_sums[i + 1];
    // Any number will do for the mean. With one of 24 bits its products with small integers are exact.
    double mean = sum_of_warp(total) / double(size);
    if (fabs(mean) < 1e38) mean = double(float(mean));
    total = 0;
    for (Int i = first; i < last; ++i) total += second_sums[i + 1] - mean;
    total = sum_of_lanes_below(total);
    double totals = 0;
    for (Int i = first; i < last; ++i) {
        total += second_sums[i + 1] - mean;
        first_sums[i + 1] = total;
        totals += total;
    }
    totals = sum_of_lanes_below(totals);
    for (Int i = first; i < last; ++i) {
        totals += first_sums[i + 1];
        second_sums[i + 1] = totals;
    }
    if (lane == 0) {
        first_sums[0] = 0;
        second_sums[0] = 0;
        means[warp] = mean;
    }
    __syncthreads();

    first_sums = sums + 2 * reader.column * rows;
    second_sums = first_sums + rows;
    const double average = means[reader.column];
    for (Int p = reader.row; p < end; p += 32) {
        const Int i = own.base + p * own.stride;
        const double m = double(radius[i]), here = double(g[i]);
        const Triangle t(m, p, size, int(edge), int(seed));
        if (t.identity) {
            value[i] = g[i];
            slope[i] = T(0);
            continue;
        }
        if (m != m) {
            value[i] = slope[i] = T(m);
            continue;
        }
        const Int left = p - Int(t.left), right = p + Int(t.right) + 1;
        double box = first_sums[right] - first_sums[left] + average * t.on_grid_slope;
        double tri = second_sums[left] - (t.radius - t.left) * first_sums[left] + second_sums[right] +
                     (t.radius - t.right - 1) * first_sums[right] - 2 * second_sums[p] + average * t.on_grid;
        if (edge == 1) {
            tri -= t.on_grid * here;
            box -= t.on_grid_slope * here;
        }
        const double mixed = tri / t.mass;
        value[i] = T(edge == 1 ? mixed + here : mixed);
        slope[i] = T((box - t.slope * mixed) / t.mass);
    }
}
#define BLUR_GATHER(T)                                                                                              \
    (const T* g, const T* radius, T* value, T* slope, Int outer, Int size, Int inner, Int edge, Int seed)
BOTH(blur_gather, BLUR_GATHER, g, radius, value, slope, outer, size, inner, edge, seed)
