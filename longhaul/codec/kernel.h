#pragma once
// LONGHAUL_KERNEL marks a function whose loop over values uses all of the processor's vector
// instructions. The function is compiled for any x86-64, for AVX2 and for AVX-512, and the loader
// chooses the version that fits the machine. Their results are bit-identical: the build contracts
// no multiplication with an addition (-ffp-contract=off). Nothing else in IEEE arithmetic depends
// on the vector length. Sums of floats keep their order in the source. On other targets, and under
// sanitizers, whose code cannot run when the loader chooses, the macro is empty.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LONGHAUL_KERNEL __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define LONGHAUL_KERNEL
#endif
