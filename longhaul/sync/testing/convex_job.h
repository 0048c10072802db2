#pragma once
// ConvexJob runs a strategy for convex models on quadratic forms, one a worker, and reads the
// models, duals and objectives of every iteration off what the learners were asked for.
#include <cmath>

#include "longhaul/core/testing/least_squares.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync::testing {

using longhaul::testing::LeastSquares;
using longhaul::testing::QuadraticForm;

// f(t) = 1/2 (t - y)^2
inline QuadraticForm parabola(double y) { return {{1}, {y}, y * y}; }

inline QuadraticForm sum_of(const std::vector<QuadraticForm>& forms) {
  QuadraticForm sum;
  for (const QuadraticForm& form : forms) sum += form;
  return sum;
}

struct ConvexJob {
  using Vector = std::vector<double>;

  static TestJob::Config config(const std::string& sync, std::vector<QuadraticForm> forms,
                                std::vector<Setting> settings, Round rounds) {
    TestJob::Config config;
    config.sync = sync;
    config.settings = std::move(settings);
    config.size = forms.at(0).size();
    config.learners.resize(forms.size());
    config.make_learner = [forms](Rank rank) {
      return std::make_unique<LeastSquares>(forms[rank]);
    };
    config.stop = {.max_rounds = rounds, .report_every = rounds + 2};
    return config;
  }
  ConvexJob(const std::string& sync, std::vector<QuadraticForm> all, std::vector<Setting> settings,
            Round rounds)
      : ConvexJob(all, config(sync, all, std::move(settings), rounds)) {}
  ConvexJob(std::vector<QuadraticForm> all, TestJob::Config config)
      : forms(std::move(all)), whole(sum_of(forms)), job(std::move(config)) {}

  // One that has run to its end, after `most` events at most.
  static ConvexJob ended(const std::string& sync, std::vector<QuadraticForm> all,
                         std::vector<Setting> settings, Round rounds, std::uint64_t most = 100000) {
    return ConvexJob(all, config(sync, all, std::move(settings), rounds), most);
  }

  std::size_t size() const { return forms.size(); }
  const std::vector<LeastSquares::Solved>& solved(Rank rank) {
    return dynamic_cast<LeastSquares&>(job.any_learner(rank)).solved;
  }
  // Of iteration k, from 0.
  const Vector& model(Rank rank, Round k) { return solved(rank).at(k).solution; }
  // Sum of the duals that the worker holds after iteration k.
  const Vector& duals(Rank rank, Round k) { return solved(rank).at(k + 1).linear; }
  // What `published` stops by: sum of f_n(theta_n) - F*.
  double published(Round k, double least) {
    double sum = 0;
    for (Rank n = 0; n < size(); ++n) sum += forms[n].value(model(n, k));
    return sum - least;
  }
  // What `every_model` stops by: max of F(theta_n) - F*.
  double every_model(Round k, double least) {
    double most = 0;
    for (Rank n = 0; n < size(); ++n) most = std::max(most, whole.value(model(n, k)) - least);
    return most;
  }

  std::vector<QuadraticForm> forms;
  QuadraticForm whole;
  TestJob job;

 private:
  ConvexJob(std::vector<QuadraticForm> all, TestJob::Config config, std::uint64_t most)
      : ConvexJob(std::move(all), std::move(config)) {
    job.run(most);
  }
};

// The first iteration, from 1, of which the figure is below `tolerance`; 0: none of so many.
Round first_below(double tolerance, Round most, auto&& figure) {
  for (Round k = 0; k < most; ++k)
    if (std::abs(figure(k)) < tolerance) return k + 1;
  return 0;
}

// From which iteration on it stays below; 0: it does not.
Round settled_below(double tolerance, Round most, auto&& figure) {
  Round from = most;
  while (from > 0 && std::abs(figure(from - 1)) < tolerance) --from;
  return from == most ? 0 : from + 1;
}

}  // namespace longhaul::sync::testing
