#pragma once
// The Host of a replayed node, without network, clock or threads. It records the node's actions, to
// compare them and to accept only inputs that the node asked for.
#include <map>
#include <optional>
#include <set>

#include "longhaul/core/node.h"
#include "longhaul/record/digest.h"

namespace longhaul::record {

class ReplayHost final : public Host, public Tap {
 public:
  // `fresh`: the node has taken no input yet. Else its earlier requests are unknown.
  explicit ReplayHost(bool fresh) : fresh_(fresh) {}

  // Why no host could give the node this input now; empty if one could. A valid recording has such
  // an input only after an answer that differs.
  std::optional<std::string> impossible(const Input&, const Node&) const;
  // The work of the current step; empty: it began before the recording.
  std::optional<Work> take_work();
  const std::vector<Answer>& answers() const { return answers_; }  // to the last input

  // Host
  void send(Rank, Send) override {}
  void set_timer(Rank, const SetTimer&) override;
  void cancel_timer(Rank, const CancelTimer&) override;
  void compute(Rank, ComputeStep step) override { work_ = std::move(step.work); }
  void report(Rank, Report report) override { ++reports_[report.round]; }
  void record(Rank, const Record&) override {}
  void append(Rank, const Append&) override {}
  void reply(Rank, const Reply&) override {}
  void finish(Rank) override {}
  void fail(Rank, const Error&) override {}
  // Tap
  void input(Time, const Input&, Node&, Learner*) override;
  void action(const Action&, Learner* idle) override;
  void answered(const Status&) override;

 private:
  bool fresh_;
  bool started_ = false;
  std::set<std::pair<std::uint32_t, TimerId>> timers_;
  std::map<Round, std::uint64_t> reports_;
  std::optional<Work> work_;
  std::vector<Answer> answers_;
};

}  // namespace longhaul::record
