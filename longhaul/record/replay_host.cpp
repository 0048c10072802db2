#include "longhaul/record/replay_host.h"

#include <utility>

namespace longhaul::record {

std::optional<std::string> ReplayHost::impossible(const Input& input, const Node& node) const {
  const Place& place = node.place();
  const auto no = [](bool good, const char* why) {
    return good ? std::nullopt : std::optional<std::string>(why);
  };
  if (std::holds_alternative<Started>(input))
    return no(fresh_ && !started_, "the node has started already");
  if (std::holds_alternative<Stepped>(input)) return no(node.computing(), "no step is under way");
  if (const auto* i = std::get_if<Delivered>(&input)) {
    if (i->message.body.is_phantom() && !place.phantom) return "a body without its bytes";
    return no(i->from != place.self, "a node's message to itself never comes by way of the host");
  }
  if (const auto* i = std::get_if<TimerFired>(&input))
    return no(!fresh_ || timers_.contains({i->machine.bits(), i->id}), "the timer is not set");
  if (const auto* i = std::get_if<Scored>(&input))
    return no(!fresh_ || reports_.contains(i->round), "no score of that round was asked for");
  if (std::holds_alternative<Arrived>(input) || std::holds_alternative<Requested>(input) ||
      std::holds_alternative<Stored>(input))
    return no(!fresh_ || started_, "the node has not started");
  if (std::holds_alternative<Remembered>(input))
    return no(place.comes_back() && (!fresh_ || !started_),
              "only a node that comes back has a past");
  Rank peer = 0;
  if (const auto* departed = std::get_if<Departed>(&input)) peer = departed->peer;
  if (const auto* lost = std::get_if<Reachability>(&input)) peer = lost->peer;
  if (const auto* back = std::get_if<Returned>(&input)) peer = back->peer;
  return no(peer < place.size() && peer != place.self, "there is no such peer");
}

std::optional<Work> ReplayHost::take_work() { return std::exchange(work_, std::nullopt); }

void ReplayHost::set_timer(Rank, const SetTimer& timer) {
  timers_.emplace(timer.machine.bits(), timer.id);
}

void ReplayHost::cancel_timer(Rank, const CancelTimer& timer) {
  timers_.erase({timer.machine.bits(), timer.id});
}

void ReplayHost::input(Time, const Input& input, Node&, Learner*) {
  answers_.clear();
  if (std::holds_alternative<Started>(input)) started_ = true;
  if (const auto* i = std::get_if<TimerFired>(&input)) timers_.erase({i->machine.bits(), i->id});
  if (const auto* i = std::get_if<Scored>(&input))
    if (const auto it = reports_.find(i->round); it != reports_.end() && --it->second == 0)
      reports_.erase(it);
}

void ReplayHost::action(const Action& action, Learner* idle) {
  answers_.push_back(answer_of(action, idle));
}

void ReplayHost::answered(const Status& status) {
  if (!status) answers_.push_back(refusal(status.error()));
}

}  // namespace longhaul::record
