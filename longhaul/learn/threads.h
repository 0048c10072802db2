#pragma once
// A step uses one thread; parallelism comes from sites that compute at the same time. Two threads
// that each step with a threaded BLAS compete for cores and are several times slower than one.

namespace longhaul::learn {

// Makes torch, OpenMP and OpenBLAS use only the calling thread, in the whole process. Every learner
// and scorer calls it when it is made; a program calls it first to cover its own use of torch.
// Cheap when repeated. Overrides environment variables (OMP_NUM_THREADS ...).
void use_one_thread_per_learner();

// Prepares the calling thread before it uses a learner. Sets the values that torch and OpenMP keep
// per thread (number of threads, denormals, the graph optimiser), so that a step's bits do not
// depend on its thread. Learners and scorers call it in every step; cheap when repeated.
void prepare_compute_thread();

}  // namespace longhaul::learn
