#include "longhaul/learn/testing/steps.h"

#include <gtest/gtest.h>

namespace longhaul::learn::testing {

std::unique_ptr<Learner> make(LearnerParts parts) {
  auto learner = make_learner(std::move(parts));
  EXPECT_TRUE(learner) << (learner ? "" : learner.error().what);
  return *std::move(learner);
}

StepResult take(Learner& learner, const Work& work) {
  auto result = learner.step(work);
  EXPECT_TRUE(result) << (result ? "" : result.error().what);
  return *result;
}

Buffer save(Learner& learner) {
  Archive ar;
  learner.state(ar);
  return ar.take();
}

}  // namespace longhaul::learn::testing
