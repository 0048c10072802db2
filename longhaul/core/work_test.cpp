#include "longhaul/core/work.h"

#include <gtest/gtest.h>

#include "longhaul/base/archive.h"

namespace longhaul {
namespace {

Work back_and_forth(Work work) {
  Archive out;
  archive_work(out, work);
  const Buffer bytes = out.take();
  Work loaded;
  Archive in(bytes);
  archive_work(in, loaded);
  EXPECT_TRUE(in.finish());
  return loaded;
}

TEST(Computed, WhatIsAddedCountsByItsSteps) {
  Computed sum;
  sum.add(Computed{});
  EXPECT_EQ(sum.loss, 0);  // no step: no mean
  sum.add(Computed{.steps = 3, .loss = 2, .samples = 30, .shard_size = 90, .elapsed = Time{5}});
  sum.add(Computed{.steps = 1, .loss = 6, .samples = 7, .shard_size = 91, .elapsed = Time{2}});
  EXPECT_EQ(sum.steps, 4u);
  EXPECT_EQ(sum.loss, 3);
  EXPECT_EQ(sum.samples, 37u);
  EXPECT_EQ(sum.shard_size, 91u);
  EXPECT_EQ(sum.elapsed, Time{7});
  sum.add(Computed{});
  EXPECT_EQ(sum.loss, 3);
}

TEST(Work, EveryKindSurvivesAnArchive) {
  EXPECT_TRUE(std::holds_alternative<ApplyGradient>(back_and_forth(ApplyGradient{})));
  const auto anchor = std::make_shared<const std::vector<float>>(3, 2.f);
  const Work near = back_and_forth(ProximalStep{0.5, anchor});
  EXPECT_EQ(std::get<ProximalStep>(near).mu, 0.5);
  EXPECT_EQ(*std::get<ProximalStep>(near).anchor, *anchor);
  EXPECT_EQ(std::get<SufficientFactors>(back_and_forth(SufficientFactors{{4, 6}})).layers,
            (std::vector<std::uint32_t>{4, 6}));
  EXPECT_EQ(std::get<Score>(back_and_forth(Score{})).model, nullptr);
  const Work solve = back_and_forth(LocalSolve{{1, 2}, {{0.5, {3, 4}}}, 1e-6});
  EXPECT_EQ(std::get<LocalSolve>(solve).anchors.at(0).second.at(1), 4);
  EXPECT_FALSE(std::get<LocalSolve>(solve).summed);
  const Work gradient = back_and_forth(FullGradient{{5, 6}, true});
  EXPECT_EQ(std::get<FullGradient>(gradient).at, (std::vector<double>{5, 6}));
  EXPECT_TRUE(std::get<FullGradient>(gradient).summed);
}

Buffer saved(Work work) {
  Archive out;
  archive_work(out, work);
  return out.take();
}

TEST(Work, AllOfEveryKindIsSaved) {
  const auto model = std::make_shared<const std::vector<float>>(3, 2.f);
  const std::vector<std::pair<Work, Work>> filled_and_empty = {
      {LocalStep{2}, LocalStep{}},
      {ApplyGradient{1, 3}, ApplyGradient{}},
      {ProximalStep{0.5, model}, ProximalStep{}},
      {SufficientFactors{{4}}, SufficientFactors{}},
      {ForwardPart{1, 3, 0.5}, ForwardPart{}},
      {BackwardPart{1, 3, true, {2}, 0.5}, BackwardPart{}},
      {LocalSolve{{1}, {{2, {3}}}, 1e-6, true}, LocalSolve{}},
      {FullGradient{{1}, true}, FullGradient{}},
      {Score{model}, Score{}},
      {OptimizerState{{1}, true}, OptimizerState{}},
      {Infer{Infer::Model::accurate, {Item{1, 2, Time{3}, {4}}}}, Infer{}},
      {FixedGradient{7}, FixedGradient{}}};
  for (const auto& [filled, empty] : filled_and_empty) {
    EXPECT_NE(saved(filled), saved(empty)) << name_of(filled);
    EXPECT_EQ(saved(back_and_forth(filled)), saved(filled)) << name_of(filled);
  }
}

TEST(Work, StepsOnABatchForTheModelTrain) {
  for (const Work& work : std::vector<Work>{LocalStep{}, Gradient{}, ProximalStep{},
                                            SufficientFactors{}, BackwardPart{}})
    EXPECT_TRUE(trains(work)) << name_of(work);
  for (const Work& work :
       std::vector<Work>{ApplyGradient{}, LocalSolve{}, ScratchStep{}, Score{}, ResetOptimizer{},
                         FullGradient{}, Infer{}, FixedGradient{}, OptimizerState{}, ForwardPart{}})
    EXPECT_FALSE(trains(work)) << name_of(work);
}

TEST(Work, AnUnknownKindIsAnErrorOfTheFile) {
  const std::uint32_t index = 99;
  Buffer bytes(4);
  std::memcpy(bytes.data(), &index, 4);
  Archive in(bytes);
  Work work;
  archive_work(in, work);
  EXPECT_FALSE(in.finish());
}

}  // namespace
}  // namespace longhaul
