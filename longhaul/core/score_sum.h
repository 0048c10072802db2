#pragma once
// ScoreSum adds up scores where every site holds test samples of its own: each worker has its copy
// of the model scored on them and tells the senior worker. The senior adds loss, hits and samples
// in the order of ranks, and tells all the sum. At the end of the run every worker tells all its
// part.
//
// Without samples of its own a worker tells an empty score. Of whoever came back while others had
// scored a round, the senior waits for none before it has heard one. A new senior is told again
// what has no sum yet. Between sums this node keeps at most kMostOpen rounds of each worker.
#include <map>
#include <optional>
#include <set>

#include "longhaul/base/queue.h"
#include "longhaul/core/machine.h"

namespace longhaul {

class ScoreSum final : public Machine {
 public:
  static constexpr ChildName kName{3, "scores"};  // as a child of the node
  static constexpr Round kAtEnd = Round(-1);      // stands for the model that a node ends with
  static constexpr std::size_t kMostOpen = 1024;

  struct Part {
    static constexpr std::uint16_t kKind = 1;
    static constexpr std::string_view kName = "part";
    Round round = 0;
    double loss = 0;
    double accuracy = 0;
    std::uint64_t samples = 0;
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(round);
      LONGHAUL_FIELD(loss);
      LONGHAUL_FIELD(accuracy, .min = 0, .max = 1);
      LONGHAUL_FIELD(samples, .max = 0x1p50);
    }
  };
  struct Total : Part {  // of all parts; from the senior to all
    static constexpr std::uint16_t kKind = 2;
    static constexpr std::string_view kName = "total";
  };
  using Messages = MessageList<Part, Total>;

  // What this node's copy of the round's model is worth on its own samples.
  void scored(Round, const Evaluation&, Turn&);
  struct Sum {
    Round round = 0;
    Rank senior = 0;  // that has made it
    Evaluation evaluation;
    void state(auto& archive) { archive(round, senior, evaluation); }
  };
  // The next sum that this node has not taken yet; rounds ascend.
  std::optional<Sum> take();
  // All live workers have said what they end with.
  bool ended(const Place&, const View&) const;
  // What each has said, by rank, and the sum; of a run that has ended.
  const std::map<Rank, Evaluation>& at_end() const { return at_end_; }
  static Evaluation sum(const std::map<Rank, Evaluation>& by_rank);
  // This node has said what it ends with.
  bool has_said_end() const { return own_.contains(kAtEnd); }

  Status on_message(Rank from, const Message&, Turn&) override;
  void on_view(const View& before, Turn&) override;
  void state(Archive& ar) override { ar(own_, parts_, at_end_, sums_, heard_, newest_); }

 private:
  void tell(Round, const Evaluation&, Turn&) const;
  void note(Rank from, Round, const Evaluation&, Turn&);
  bool complete(const std::map<Rank, Evaluation>& parts, const Turn&) const;
  void settle(Turn&);
  void learn(const Sum&);

  std::map<Round, Evaluation> own_;                    // after the newest sum
  std::map<Round, std::map<Rank, Evaluation>> parts_;  // at the senior
  std::map<Rank, Evaluation> at_end_;
  Queue<Sum> sums_;              // not taken yet
  std::optional<Round> newest_;  // sum that this node knows
  std::map<Rank, Epoch> heard_;  // of those who came back: since when, if a part has come
};

}  // namespace longhaul
