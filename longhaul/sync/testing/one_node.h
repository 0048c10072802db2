#pragma once
// OneNode is what a machine of sync/ stands in, without a node or a host around it: a place, a view
// and a quadratic learner. A test hands out turns and reads the actions that they collect.
#include "longhaul/base/settings.h"
#include "longhaul/core/testing/message_of.h"
#include "longhaul/core/testing/quadratic.h"
#include "longhaul/core/turn.h"

namespace longhaul::sync::testing {

using longhaul::testing::Quadratic;

inline Setting set_count(std::string key, std::int64_t value) { return {std::move(key), {value}}; }
inline Setting set_name(std::string key, std::string value) {
  return {std::move(key), {std::move(value)}};
}

struct OneNode {
  // The learner has `size` values, of which the last like.buffers are buffers.
  explicit OneNode(std::uint64_t size, Quadratic::Config like = {}, Members members = {{"oregon"}})
      : learner(size, like) {
    place.members = std::make_shared<const Members>(std::move(members));
    place.layout = learner.layout();
    for (Rank rank = 0; rank < place.size(); ++rank) view.live.insert(rank);
    context.place = &place;
    context.view = &view;
    context.learner = &learner;
    context.credits = &credits;
  }
  OneNode(const OneNode&) = delete;
  OneNode& operator=(const OneNode&) = delete;

  std::span<float> params() { return learner.params(); }
  std::vector<float> all() { return {params().begin(), params().end()}; }
  template <class Action>
  std::vector<Action> done() const {  // actions of this kind so far
    std::vector<Action> found;
    for (const auto& action : context.actions)
      if (const auto* one = std::get_if<Action>(&action)) found.push_back(*one);
    return found;
  }

  Quadratic learner;
  Place place;
  View view;
  Credits credits;
  TurnContext context;
  Turn turn{context};
};

}  // namespace longhaul::sync::testing
