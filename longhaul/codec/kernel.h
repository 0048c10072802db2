#pragma once
// LONGHAUL_KERNEL stands before a loop over values that is to use all of the processor's vector
// instructions: it is compiled for any x86-64, for AVX2 and for AVX-512, and the loader takes the
// one that the machine has. All give the same bits: the build contracts no multiplication with an
// addition (-ffp-contract=off), and nothing else in IEEE arithmetic depends on how many values go
// at a time. Sums of floats keep their order in the source. Elsewhere, and under sanitizers, whose
// code cannot run when the loader chooses, it is nothing.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LONGHAUL_KERNEL __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define LONGHAUL_KERNEL
#endif
