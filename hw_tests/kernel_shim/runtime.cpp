// Runs a kernel's blocks and threads in a random order, and watches what they do to memory.
//
// The kernel's own file is compiled with -fsanitize=thread, which makes the compiler call __tsan_read4(address) and the
// like at every access to memory. Those functions are defined here, in place of a sanitizer's library, so that
//
//   * an access outside of the kernel's arguments, its shared memory and the thread's own stack is an error;
//   * two accesses of different threads to the same place, one of them a write and not both atomic, are a race unless
//     something orders them: within a block a __syncthreads between them, within a warp a __syncwarp. Between blocks
//     nothing does. The run does not have to go wrong for a race to be seen.
//
// Compiled without the flag, the same kernel runs at full speed and nothing is watched.

#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <ucontext.h>
#include <unordered_map>
#include <vector>

#include "shim.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;
constexpr size_t ARENA = 232448;  // what a block may have on an H100 or H200
alignas(128) double arena[ARENA / 8];

namespace {

constexpr size_t STACK = 256 * 1024;
constexpr int WARP = 32;

enum class State { ready, at_block, at_warp, done };

struct Fiber {
    ucontext_t context;
    jmp_buf place;
    char* stack = nullptr;
    bool started;
    State state;
    unsigned int mask;        // of the lanes it waits for
    unsigned long long slot;  // what it gives to a shuffle
    uint3 thread;
    int index;
};

// One access to memory as far as later ones have to know.
struct Access {
    int block = -1, thread = -1;
    unsigned int block_epoch = 0, warp_epoch = 0;
    bool atomic = false;
};
struct Cell {
    Access write, read, other_read;
};
struct Region {
    uintptr_t begin;
    size_t size, item;
    int argument;  // -1: shared memory
    std::vector<Cell> cells;
};

std::vector<Fiber> fibers;
Fiber* current;
jmp_buf scheduler;
void (*entry)(void**);
void** arguments;
std::mt19937 order;
std::vector<Region> regions;
Region* last_region;
std::string error;
bool watching;
int block_number;
unsigned int block_epoch;
std::vector<unsigned int> warp_epochs;

[[noreturn]] void fail(const std::string& text) {
    if (error.empty()) {
        char where[160];
        std::snprintf(where, sizeof where, " (block %u,%u,%u, thread %u,%u,%u)", blockIdx.x, blockIdx.y, blockIdx.z,
                      threadIdx.x, threadIdx.y, threadIdx.z);
        error = text + where;
    }
    _longjmp(scheduler, 2);
}

void start() {
    entry(arguments);
    current->state = State::done;
    _longjmp(scheduler, 1);
}

void wait(State state) {
    current->state = state;
    if (!_setjmp(current->place)) _longjmp(scheduler, 1);
}

void resume(Fiber& fiber) {
    current = &fiber;
    threadIdx = fiber.thread;
    // The fiber comes back by a jump, which leaves this frame as it is.
    if (_setjmp(scheduler)) return;
    if (fiber.started) _longjmp(fiber.place, 1);
    fiber.started = true;
    setcontext(&fiber.context);
}

// Lets go on whoever has everybody that it waited for.
void release() {
    size_t at_block = 0, done = 0;
    for (auto& f : fibers) {
        at_block += f.state == State::at_block;
        done += f.state == State::done;
    }
    if (at_block == fibers.size()) {
        ++block_epoch;
        for (auto& f : fibers) f.state = State::ready;
        return;
    }
    if (at_block && at_block + done == fibers.size()) {
        error = "some threads of a block ended while others wait at __syncthreads";
        return;
    }
    for (size_t first = 0; first < fibers.size(); first += WARP) {
        const size_t last = std::min(fibers.size(), first + WARP);
        for (size_t i = first; i < last; ++i) {
            if (fibers[i].state != State::at_warp) continue;
            bool all = true;
            for (size_t j = first; j < last; ++j)
                if (fibers[i].mask >> (j - first) & 1) {
                    if (fibers[j].state == State::done) {
                        error = "a lane ended while others of its warp wait for it in a shuffle or at __syncwarp";
                        return;
                    }
                    all = all && fibers[j].state == State::at_warp && fibers[j].mask == fibers[i].mask;
                }
            if (!all) continue;
            const unsigned int mask = fibers[i].mask;
            for (size_t j = first; j < last; ++j)
                if (mask >> (j - first) & 1) fibers[j].state = State::ready;
        }
    }
}

void run_block(size_t shared_bytes) {
    // Shared memory starts out with what another kernel left there.
    for (size_t i = 0; i < (shared_bytes + 7) / 8; ++i) {
        const uint64_t garbage = (uint64_t(order()) << 32) | order();
        std::memcpy(&arena[i], &garbage, 8);
    }
    block_epoch = 0;
    warp_epochs.assign(fibers.size() / WARP + 1, 0);
    for (auto& f : fibers) {
        f.started = false;
        f.state = State::ready;
        getcontext(&f.context);
        f.context.uc_stack.ss_sp = f.stack;
        f.context.uc_stack.ss_size = STACK;
        f.context.uc_link = nullptr;
        makecontext(&f.context, start, 0);
    }
    std::vector<Fiber*> ready;
    while (error.empty()) {
        ready.clear();
        size_t done = 0;
        for (auto& f : fibers) {
            if (f.state == State::ready) ready.push_back(&f);
            done += f.state == State::done;
        }
        if (done == fibers.size()) return;
        if (ready.empty()) {
            release();
            bool any = false;
            for (auto& f : fibers) any = any || f.state == State::ready;
            if (!any && error.empty()) error = "the threads of a block wait for each other for ever";
            continue;
        }
        for (size_t i = ready.size(); i > 1; --i) std::swap(ready[i - 1], ready[order() % i]);
        for (Fiber* f : ready) {
            resume(*f);
            if (!error.empty()) return;
        }
    }
}

// ------------------------------------------------------------------------------------------- what is done to memory

bool ordered(const Access& before) {
    if (before.thread < 0) return true;
    if (before.block != block_number) return false;
    if (before.thread == current->index) return true;
    if (before.block_epoch < block_epoch) return true;
    return before.thread / WARP == current->index / WARP && before.warp_epoch < warp_epochs[current->index / WARP];
}

// threadIdx and its like are registers on a GPU, and globals here.
bool is_coordinate(uintptr_t address) {
    for (const void* variable : {static_cast<const void*>(&threadIdx), static_cast<const void*>(&blockIdx),
                                 static_cast<const void*>(&blockDim), static_cast<const void*>(&gridDim)}) {
        const auto begin = reinterpret_cast<uintptr_t>(variable);
        if (address >= begin && address < begin + sizeof(dim3)) return true;
    }
    return false;
}

void describe(const Region& region, size_t offset, char* text, size_t size) {
    if (region.argument < 0)
        std::snprintf(text, size, "byte %zu of shared memory", offset);
    else
        std::snprintf(text, size, "element %zu of argument %d", offset / region.item, region.argument);
}

// Names the nearest of the kernel's arrays, since that is what the index was meant for.
[[noreturn]] void fail_outside(uintptr_t address, const std::string& what) {
    const Region* nearest = nullptr;
    size_t least = 1 << 20;
    for (auto& r : regions) {
        const size_t distance = address < r.begin ? r.begin - address : address - (r.begin + r.size);
        if (distance < least) {
            least = distance;
            nearest = &r;
        }
    }
    if (nearest == nullptr) fail(what + " of memory that is none of the kernel's");
    if (address < nearest->begin)
        fail(what + " before the start of " +
             (nearest->argument < 0 ? "shared memory" : "argument " + std::to_string(nearest->argument)));
    char place[120];
    describe(*nearest, address - nearest->begin, place, sizeof place);
    fail(what + " past the end: " + place + ", which has " + std::to_string(nearest->size / nearest->item));
}

void touch(uintptr_t address, size_t size, bool write, bool atomic) {
    if (!watching || current == nullptr) return;
    Region* region = last_region;
    if (region == nullptr || address < region->begin || address >= region->begin + region->size) {
        region = nullptr;
        for (auto& r : regions)
            if (address >= r.begin && address < r.begin + r.size) region = &r;
        if (region == nullptr) {
            const auto stack = reinterpret_cast<uintptr_t>(current->stack);
            if (address >= stack && address < stack + STACK) return;
            if (!write && is_coordinate(address)) return;
            fail_outside(address, write ? "a write" : "a read");
        }
        last_region = region;
    }
    const size_t offset = address - region->begin;
    if (offset + size > region->size) {
        char place[120];
        describe(*region, offset, place, sizeof place);
        fail(std::string(write ? "a write" : "a read") + " past the end: it begins in " + place);
    }
    if (size > 1 && address % (size > 8 ? 8 : size)) fail("an access that is not aligned to its size");
    const size_t grain = region->item < 4 ? region->item : 4;
    const Access now{block_number, current->index, block_epoch, warp_epochs[current->index / WARP], atomic};
    for (size_t i = offset / grain; i * grain < offset + size; ++i) {
        Cell& cell = region->cells[i];
        const bool after_write = ordered(cell.write) || (atomic && cell.write.atomic);
        const bool after_reads = !write || (ordered(cell.read) && ordered(cell.other_read));
        if (!after_write || !after_reads) {
            char place[120];
            describe(*region, i * grain, place, sizeof place);
            fail(std::string("a race: ") + place + (write ? " is written" : " is read") + ", and another thread " +
                 (after_write ? "reads" : "writes") + " it, with nothing between that orders them");
        }
        if (write) {
            cell.write = now;
        } else if (cell.read.thread != now.thread || cell.read.block != now.block) {
            cell.other_read = cell.read;
            cell.read = now;
        } else {
            cell.read = now;
        }
    }
}

template <typename T, typename F>
T atomic(T* address, F change) {
    touch(reinterpret_cast<uintptr_t>(address), sizeof(T), true, true);
    const T before = *address;
    *address = change(before);
    return before;
}

}  // namespace

void __syncthreads() { wait(State::at_block); }

namespace {
void meet(unsigned int mask) {
    const int first = current->index / WARP * WARP;
    const int lanes = static_cast<int>(fibers.size()) - first;
    if (lanes < WARP) mask &= (1u << lanes) - 1;
    if (!(mask >> (current->index - first) & 1)) fail("a lane takes part whose bit is not set in the mask");
    current->mask = mask;
    wait(State::at_warp);
}
}  // namespace

void __syncwarp(unsigned int mask) {
    meet(mask);
    // Everybody has arrived, so that every lane may move the epoch on: to one more than it saw on arrival.
    static std::unordered_map<int, unsigned int> seen;
    const int warp = current->index / WARP;
    const unsigned int before = warp_epochs[warp];
    seen[current->index] = before;
    meet(mask);
    warp_epochs[warp] = seen[current->index] + 1;
    meet(mask);
}

unsigned long long shim_shuffle(unsigned int mask, unsigned long long bits, int source_lane) {
    current->slot = bits;
    meet(mask);
    const size_t source = current->index / WARP * WARP + source_lane;
    if (source_lane < 0 || source_lane >= WARP || source >= fibers.size()) fail("a shuffle from a lane that is not there");
    const unsigned long long value = fibers[source].slot;
    meet(mask);
    return value;
}

int shim_lane() { return current->index % WARP; }

unsigned int atomicAdd(unsigned int* address, unsigned int value) {
    return atomic(address, [=](unsigned int old) { return old + value; });
}
int atomicAdd(int* address, int value) {
    return atomic(address, [=](int old) { return old + value; });
}
float atomicAdd(float* address, float value) {
    return atomic(address, [=](float old) { return old + value; });
}
unsigned int atomicMax(unsigned int* address, unsigned int value) {
    return atomic(address, [=](unsigned int old) { return old < value ? value : old; });
}
int atomicMax(int* address, int value) {
    return atomic(address, [=](int old) { return old < value ? value : old; });
}

extern "C" {

// Arrays that the next launch may touch: place, bytes, bytes of an element, number of the argument.
void shim_region(void* begin, size_t size, size_t item, int argument) {
    const size_t grain = item < 4 ? item : 4;
    regions.push_back({reinterpret_cast<uintptr_t>(begin), size, item, argument, std::vector<Cell>(size / grain + 1)});
}

// 0 if the kernel ran; else shim_error tells.
int shim_launch(void (*kernel)(void**), void** args, const unsigned int* grid, const unsigned int* block,
                size_t shared_bytes, unsigned int seed, int watch) {
    error.clear();
    watching = watch;
    last_region = nullptr;
    entry = kernel;
    arguments = args;
    order.seed(seed);
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
    const size_t threads = size_t(block[0]) * block[1] * block[2], blocks = size_t(grid[0]) * grid[1] * grid[2];
    if (threads == 0 || threads > 1024) error = "a block has 1 to 1024 threads";
    if (blocks == 0) error = "a grid has at least one block";
    if (shared_bytes > ARENA) error = "a block has at most 227 KB of shared memory";
    if (!error.empty()) {
        regions.clear();
        return 1;
    }
    while (fibers.size() > threads) {
        std::free(fibers.back().stack);
        fibers.pop_back();
    }
    while (fibers.size() < threads) {
        fibers.emplace_back();
        fibers.back().stack = static_cast<char*>(std::malloc(STACK));
    }
    for (size_t i = 0; i < threads; ++i) {
        fibers[i].index = static_cast<int>(i);
        fibers[i].thread = {unsigned(i % block[0]), unsigned(i / block[0] % block[1]), unsigned(i / block[0] / block[1])};
    }
    std::vector<size_t> sequence(blocks);
    for (size_t i = 0; i < blocks; ++i) sequence[i] = i;
    for (size_t i = blocks; i > 1; --i) std::swap(sequence[i - 1], sequence[order() % i]);
    for (size_t number : sequence) {
        block_number = static_cast<int>(number);
        blockIdx = {unsigned(number % grid[0]), unsigned(number / grid[0] % grid[1]), unsigned(number / grid[0] / grid[1])};
        // Each block has shared memory of its own, though it lies in the same place.
        if (watch) {
            if (!regions.empty() && regions.back().argument == -1) regions.pop_back();
            if (shared_bytes) shim_region(arena, shared_bytes, 4, -1);
            last_region = nullptr;
        }
        run_block(shared_bytes);
        if (!error.empty()) break;
    }
    current = nullptr;
    regions.clear();
    return error.empty() ? 0 : 1;
}

const char* shim_error() { return error.c_str(); }

// -------------------------------------------------------- what the compiler calls at each access of a watched kernel

#define WATCH(N)                                                                                                  \
    void __tsan_read##N(void* a) { touch(reinterpret_cast<uintptr_t>(a), N, false, false); }                      \
    void __tsan_write##N(void* a) { touch(reinterpret_cast<uintptr_t>(a), N, true, false); }                      \
    void __tsan_unaligned_read##N(void* a) { touch(reinterpret_cast<uintptr_t>(a), N, false, false); }            \
    void __tsan_unaligned_write##N(void* a) { touch(reinterpret_cast<uintptr_t>(a), N, true, false); }            \
    void __tsan_volatile_read##N(void* a) { touch(reinterpret_cast<uintptr_t>(a), N, false, false); }             \
    void __tsan_volatile_write##N(void* a) { touch(reinterpret_cast<uintptr_t>(a), N, true, false); }
WATCH(1)
WATCH(2)
WATCH(4)
WATCH(8)
WATCH(16)
void __tsan_read_range(void* a, size_t n) { touch(reinterpret_cast<uintptr_t>(a), n, false, false); }
void __tsan_write_range(void* a, size_t n) { touch(reinterpret_cast<uintptr_t>(a), n, true, false); }
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_init() {}
}
