#pragma once
// A step uses one thread; parallelism comes from sites that compute at the same time. Two threads
// that each step with a threaded BLAS compete for cores and are several times slower than one.

namespace longhaul::learn {

// For the whole process: torch, OpenMP and OpenBLAS use the calling thread alone. Every learner and
// scorer calls it when it is made; a program calls it first to cover its own use of torch. Cheap
// when repeated. What an environment variable (OMP_NUM_THREADS ...) says is overridden.
void use_one_thread_per_learner();

// For the calling thread, before it uses a learner: the settings that torch and OpenMP keep per
// thread (number of threads, denormals, the graph optimiser), so that a step's bits do not depend
// on which thread takes it. Learners and scorers call it in every step; cheap when repeated.
void prepare_compute_thread();

}  // namespace longhaul::learn
