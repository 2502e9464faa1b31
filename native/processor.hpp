// Which levels of x86-64 the processor and the system run. Asked of the processor itself: __builtin_cpu_supports needs
// a library that clang-cl does not link.
#pragma once

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

namespace bochner {

// Whether this thread takes numbers below the least normal one for zero, from now on; returns whether it did before.
// Some processors compute with such numbers a hundred times slower.
inline bool flush_subnormals(bool on) {
#ifdef __SSE2__
    constexpr unsigned flags = 0x8040;  // of results, and of operands
    const unsigned before = _mm_getcsr();
    _mm_setcsr(on ? before | flags : before & ~flags);
    return (before & flags) == flags;
#elif defined(__aarch64__) && !defined(_MSC_VER)
    constexpr unsigned long long flag = 1ull << 24;
    unsigned long long before;
    asm volatile("mrs %0, fpcr" : "=r"(before));
    asm volatile("msr fpcr, %0" : : "r"(on ? before | flag : before & ~flag));
    return (before & flag) != 0;
#else
    static_cast<void>(on);
    return false;
#endif
}

}  // namespace bochner

#ifdef BOCHNER_X86_LEVELS
#include <cpuid.h>

namespace bochner {

struct Processor {
    bool v3 = false, v4 = false, vnni = false;

    Processor() {
        unsigned a, b, c, d;
        const auto all = [](unsigned found, auto... bits) { return ((found >> bits & 1u) & ...) != 0; };
        // FMA, SSE4.2, MOVBE, POPCNT, XGETBV, AVX, F16C
        if (!__get_cpuid(1, &a, &b, &c, &d) || !all(c, 12, 20, 22, 23, 27, 28, 29)) return;
        if (!__get_cpuid(0x80000001u, &a, &b, &c, &d) || !all(c, 5)) return;  // LZCNT
        if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
        unsigned saved, high;  // registers that the system keeps for a thread: SSE, AVX, then those of AVX-512
        asm("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
        v3 = all(saved, 1, 2) && all(b, 3, 5, 8);                      // BMI1, AVX2, BMI2
        v4 = v3 && all(saved, 5, 6, 7) && all(b, 16, 17, 28, 30, 31);  // AVX-512 F, DQ, CD, BW, VL
        vnni = v4 && all(c, 11);
    }
};

}  // namespace bochner
#endif
