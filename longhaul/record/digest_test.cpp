#include "longhaul/record/entries.h"

#include <gtest/gtest.h>

#include <functional>

#include "longhaul/core/testing/quadratic.h"

namespace longhaul::record {
namespace {

using longhaul::testing::Quadratic;
using namespace std::chrono_literals;

Payload bytes(std::initializer_list<int> values) {
  Buffer buffer;
  for (int value : values) buffer.push_back(std::byte(value));
  return Payload(share(std::move(buffer)));
}

Send send() {
  Send a;
  a.to = 2;
  a.message.machine = Path().child(2).child(0);
  a.message.kind = 3;
  a.message.head = bytes({1, 2});
  a.message.body = bytes({5, 6, 7});
  return a;
}

std::uint64_t hash(const Action& action, Learner* idle = nullptr) {
  return answer_of(action, idle).hash;
}

// Every field of every action counts.
TEST(Digest, EveryFieldOfASendCounts) {
  const std::function<void(Send&)> changes[] = {
      [](Send& a) { a.to = 1; },
      [](Send& a) { a.service.delivery = Service::Delivery::best_effort; },
      [](Send& a) { a.service.priority = 5; },
      [](Send& a) { a.service.order = 9; },
      [](Send& a) { a.message.machine = Path().child(1); },
      [](Send& a) { a.message.kind = 4; },
      [](Send& a) { a.message.epoch = 1; },
      [](Send& a) {
        a.message.head = bytes({1, 3});
      },
      [](Send& a) {
        a.message.body = bytes({5, 6, 8});
      },
      [](Send& a) { a.message.body = Payload::phantom(3); },
      [](Send& a) {  // the same bytes, cut elsewhere
        a.message.head = bytes({1, 2, 5});
        a.message.body = bytes({6, 7});
      }};
  EXPECT_EQ(hash(send()), hash(send()));
  for (std::size_t i = 0; i < std::size(changes); ++i) {
    Send changed = send();
    changes[i](changed);
    EXPECT_NE(hash(changed), hash(send())) << i;
  }
}

TEST(Digest, NoTwoActionsAreTheSame) {
  const auto model = std::make_shared<const std::vector<float>>(3, 1.5f);
  const auto other = std::make_shared<const std::vector<float>>(3, 1.25f);
  const Path path = Path().child(2);
  const std::vector<Action> actions = {send(),
                                       SetTimer{path, TimerId{1}, 2s},
                                       SetTimer{path, TimerId{1}, 3s},
                                       SetTimer{path, TimerId{2}, 2s},
                                       CancelTimer{path, TimerId{1}},
                                       CancelTimer{path, TimerId{2}},
                                       ComputeStep{LocalStep{}},
                                       ComputeStep{Gradient{}},
                                       ComputeStep{ProximalStep{0.5, model}},
                                       ComputeStep{ProximalStep{0.5, other}},
                                       Report{1, nullptr},
                                       Report{2, nullptr},
                                       Report{1, model},
                                       Report{1, other},
                                       Record{"loss", 1, 0.25},
                                       Record{"loss", 1, 0.5},
                                       Record{"loss", 2, 0.25},
                                       Record{"los", 1, 0.25},
                                       Finish{},
                                       Fail{unavailable("a")},
                                       Fail{unavailable("b")},
                                       Fail{not_finite("a")}};
  for (std::size_t i = 0; i < actions.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_NE(hash(actions[i]), hash(actions[j])) << i << " " << j;
  EXPECT_NE(refusal(malformed("x")).hash, refusal(malformed("y")).hash);
}

// What a step begins with, what a report shows and what a node ends with is part of the action.
TEST(Digest, TheLearnersVectorsCount) {
  for (const Action& action :
       std::vector<Action>{ComputeStep{LocalStep{}}, Report{1, nullptr}, Finish{}}) {
    Quadratic learner(5, {});
    const std::uint64_t before = hash(action, &learner);
    learner.params()[3] += 1;
    EXPECT_NE(hash(action, &learner), before) << action.index();
    learner.params()[3] -= 1;
    learner.grads()[4] = -0.f;  // equal, but not the same bits
    EXPECT_NE(hash(action, &learner), before) << action.index();
  }
}

TEST(Describe, SaysWhatWhomAndHowMuch) {
  EXPECT_EQ(describe(Action(send())), "message to rank 2 for /2/0 kind 3, 2 + 3 bytes, class 4");
  EXPECT_EQ(describe(Action(SetTimer{Path().child(0), TimerId{1}, 2500ms})),
            "timer 1 of /0 at 2.500000000 s");
  EXPECT_EQ(describe(Action(Report{7, nullptr})), "report round 7, the model as it stands");
  EXPECT_EQ(describe(Input(Delivered{1, send().message})),
            "message from rank 1 for /2/0 kind 3, 2 + 3 bytes");
  EXPECT_EQ(describe(Input(Reachability{3, true})), "rank 3 is unreachable");
  EXPECT_EQ(describe(Time(-1)), "-0.000000001 s");
}

}  // namespace
}  // namespace longhaul::record
