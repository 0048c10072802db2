#pragma once
// What tests of learners share: small data sets that can be learned, made from a seed; steps;
// files.
#include <memory>
#include <string>

#include "longhaul/base/archive.h"
#include "longhaul/learn/learner.h"

namespace longhaul::learn::testing {

// Noisy copies of one random pattern a class.
std::shared_ptr<const DataSet> patterns(std::vector<std::int64_t> sample, std::int64_t classes,
                                        std::size_t samples, std::uint64_t seed = 1);
// Numbers that are a linear function of the sample, plus a little noise.
std::shared_ptr<const DataSet> plane(std::int64_t features, std::size_t samples,
                                     std::uint64_t seed = 1);
// So many labels of each sample: on which side of a plane it lies.
std::shared_ptr<const DataSet> half_planes(std::int64_t features, std::int64_t labels,
                                           std::size_t samples, std::uint64_t seed = 1);
// Text of words that repeat: what comes next is mostly told by what was.
std::shared_ptr<const DataSet> words(std::uint32_t context, std::size_t samples,
                                     std::uint64_t seed = 1);
// A node that holds all samples.
LearnerParts parts_for(std::shared_ptr<const DataSet>, const std::string& kind,
                       OptimizerConfig = {});

// An error fails the test with its text.
std::unique_ptr<Learner> make(LearnerParts);
StepResult take(Learner&, const Work&);
Buffer save(Learner&);  // its state
void load(Learner&, const Buffer& state);

// A folder that is removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string write(const std::string& name, const std::string& bytes) const;  // its path

 private:
  std::string folder_;
};

// Exit code of `/usr/bin/python3 tests/python/SCRIPT ARGUMENTS`; tests run in the repository's
// root.
int run_python(const std::string& script, const std::string& arguments);

}  // namespace longhaul::learn::testing
