#pragma once
// What tests of learners do in each line. An error fails the test with its text.
#include "longhaul/base/archive.h"
#include "longhaul/learn/learner.h"

namespace longhaul::learn::testing {

std::unique_ptr<Learner> make(LearnerParts);
StepResult take(Learner&, const Work&);
Buffer save(Learner&);  // its state

}  // namespace longhaul::learn::testing
