#pragma once
// The Host of a replayed node, without network, clock or threads. It records the node's actions, to
// compare them and to accept only inputs that the node asked for.
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "longhaul/core/node.h"
#include "longhaul/record/entries.h"

namespace longhaul::record {

class ReplayHost final : public Host, public Tap {
 public:
  // `fresh`: the node has taken no input yet. Else its earlier requests are unknown.
  explicit ReplayHost(bool fresh) : fresh_(fresh) {}

  // Why no host could give the node this input now; empty if one could. A valid recording has such
  // an input only after an answer that differs.
  std::optional<std::string> impossible(const Input& input, const Node& node) const {
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

  // The work of the current step; empty: it began before the recording.
  std::optional<Work> take_work() { return std::exchange(work_, std::nullopt); }

  const std::vector<Answer>& answers() const { return answers_; }  // to the last input

  // Host
  void send(Rank, Send) override {}
  void set_timer(Rank, const SetTimer& timer) override {
    timers_.emplace(timer.machine.bits(), timer.id);
  }

  void cancel_timer(Rank, const CancelTimer& timer) override {
    timers_.erase({timer.machine.bits(), timer.id});
  }

  void compute(Rank, ComputeStep step) override { work_ = std::move(step.work); }
  void report(Rank, Report report) override { ++reports_[report.round]; }
  void record(Rank, const Record&) override {}
  void append(Rank, const Append&) override {}
  void reply(Rank, const Reply&) override {}
  void finish(Rank) override {}
  void fail(Rank, const Error&) override {}
  // Tap
  void input(Time, const Input& input, Node&, Learner*) override {
    answers_.clear();
    if (std::holds_alternative<Started>(input)) started_ = true;
    if (const auto* i = std::get_if<TimerFired>(&input)) timers_.erase({i->machine.bits(), i->id});
    if (const auto* i = std::get_if<Scored>(&input))
      if (const auto it = reports_.find(i->round); it != reports_.end() && --it->second == 0)
        reports_.erase(it);
  }

  void action(const Action& action, Learner* idle) override {
    answers_.push_back(answer_of(action, idle));
  }

  void answered(const Status& status) override {
    if (!status) answers_.push_back(refusal(status.error()));
  }

 private:
  bool fresh_;
  bool started_ = false;
  std::set<std::pair<std::uint32_t, TimerId>> timers_;
  std::map<Round, std::uint64_t> reports_;
  std::optional<Work> work_;
  std::vector<Answer> answers_;
};

}  // namespace longhaul::record
