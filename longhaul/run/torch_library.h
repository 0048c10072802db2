#pragma once
// Loads liblonghaul_torch.so, the libtorch learner (learn/torch_functions.h), the first time that
// it is needed. It stays loaded until the process ends, as the learners made by it do.
#include "longhaul/base/result.h"
#include "longhaul/learn/torch_functions.h"

namespace longhaul::run {

struct Job;  // run/job/job.h

// Any thread. Found as the dynamic linker finds libraries: by the program's run path (beside a
// build, ../lib of an installed program), then LD_LIBRARY_PATH and the system's folders. An Error
// says what the linker said, or that the library is of another version.
Result<const learn::TorchFunctions*> torch_library();

// For a process that is to be copied for each run or node of the job (ChildSpec::instead): they
// need not load it again. What cannot be loaded is theirs to report.
void preload_torch_library(const Job&);

}  // namespace longhaul::run
