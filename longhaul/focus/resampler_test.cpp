#include "longhaul/focus/resampler.h"

#include <gtest/gtest.h>

#include "longhaul/core/cheap_models.h"
#include "longhaul/focus/tracks.h"

namespace longhaul::focus {
namespace {

constexpr std::uint32_t kSample = 240;

ResampleConfig two_models() {
  return {.drift = 0.2,
          .sample = kSample,
          .models = {{0.0004, Tracks::kClasses}, {0.0001, Tracks::kClasses}},
          .grid = {{4, 16, 100}, {0, 0.5}},
          .targets = {0.9, 0.8, 5},
          .policy = "opt_ingest"};
}

// What a cheap model that never errs says of an object of one of two classes.
Seen seen_as(const Item& item, std::uint32_t cls) {
  Seen seen{item.seq, item.at.count(), item.values, std::vector<float>(Tracks::kClasses + 1, 0)};
  seen.scores[cls] = 1;
  return seen;
}

class ResamplerTest : public ::testing::Test {
 protected:
  void feed(std::uint32_t cls, std::uint32_t objects) {
    for (std::uint32_t i = 0; i < objects; ++i, ++seq_) {
      const Item item = tracks_.item(seq_, 10);
      resampler_.indexed(item, seen_as(item, cls));
    }
  }
  // Runs the models until a choice; the work by model.
  std::map<Infer::Model, std::size_t> work() {
    std::map<Infer::Model, std::size_t> objects;
    while (resampler_.has_work()) {
      const Infer infer = resampler_.work(32);
      EXPECT_LE(infer.items.size(), 32u);
      objects[infer.model] += infer.items.size();
      const auto result = learner_.step(infer);
      EXPECT_TRUE(result);
      resampler_.done(result->outputs, infer.items.size(), now_);
    }
    return objects;
  }

  Tracks tracks_{1, 0};
  TracksLearner learner_{1, {TracksLearner::Cheap{}, TracksLearner::Cheap{}}};
  Resampler resampler_{two_models()};
  IndexConfig now_;
  std::uint64_t seq_ = 1;
};

TEST_F(ResamplerTest, SameClassesNeedNoNewSample) {
  feed(3, 4 * kSample);
  EXPECT_FALSE(resampler_.has_work());
  EXPECT_FALSE(resampler_.take());
}

TEST_F(ResamplerTest, OtherClassesGiveASampleOfEachModelAndAChoice) {
  feed(3, kSample);
  feed(4, kSample);  // all in one class, then all in another: total variation 1
  EXPECT_FALSE(resampler_.has_work());
  feed(4, kSample - 1);
  EXPECT_FALSE(resampler_.has_work());  // the sample is of the objects after that
  feed(4, 1);
  const auto objects = work();
  EXPECT_EQ(objects.at(Infer::Model::accurate), kSample);
  EXPECT_EQ(objects.at(cheap_model(0)), kSample);
  EXPECT_EQ(objects.at(cheap_model(1)), kSample);
  const auto chosen = resampler_.take();
  ASSERT_TRUE(chosen && *chosen) << (chosen ? chosen->error().what : "");
  EXPECT_EQ((*chosen)->cheap, 1u);  // as good, and cheaper
  EXPECT_GE((*chosen)->K, 4u);
  EXPECT_EQ(resampler_.samples(), 1u);
  EXPECT_FALSE(resampler_.take());
}

TEST_F(ResamplerTest, SavedAndLoadedItGoesOn) {
  feed(3, kSample);
  feed(4, kSample + 100);
  Archive saved;
  resampler_.state(saved);
  const Buffer bytes = saved.take();
  resampler_ = Resampler(two_models());
  Archive loaded{bytes};
  resampler_.state(loaded);
  ASSERT_TRUE(loaded.finish());
  feed(4, kSample - 100);
  EXPECT_EQ(work().size(), 3u);
  EXPECT_TRUE(resampler_.take());
}

TEST_F(ResamplerTest, ATargetOutOfReachLeavesThingsAsTheyAre) {
  ResampleConfig config = two_models();
  config.grid = {{1}, {2}};
  config.targets = {1.5, 1, 5};  // no recall is
  resampler_ = Resampler(config);
  feed(3, kSample);
  feed(4, 2 * kSample);
  (void)work();
  const auto chosen = resampler_.take();
  ASSERT_TRUE(chosen);
  EXPECT_FALSE(*chosen);
}

}  // namespace
}  // namespace longhaul::focus
