#pragma once
// The state server of ESync and those who ask it: one machine on every node. Where it stands all
// nodes know from the view: the lowest live node with the role state_server, else with the role
// server, else the lowest live worker. A new one knows nothing, and is asked again what the old one
// was.
#include <optional>

#include "longhaul/core/machine.h"
#include "longhaul/sync/esync_reach.h"

namespace longhaul::sync::esync {

class States final : public Machine {
 public:
  struct Query {
    static constexpr std::uint16_t kKind = 1;
    static constexpr std::string_view kName = "query";
    Round round = 0;
    std::uint32_t steps = 0, ahead = 0;
    double step_s = 0, push_s = 0, rtt_s = 0;
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(round);
      LONGHAUL_FIELD(steps, .doc = "local steps when those granted are done", .max = 1e9);
      LONGHAUL_FIELD(ahead, .doc = "of them, still to be done", .max = 1e6);
      LONGHAUL_FIELD(step_s, .min = 0, .max = 1e9);
      LONGHAUL_FIELD(push_s, .min = 0, .max = 1e9);
      LONGHAUL_FIELD(rtt_s, .doc = "from a query to its grant", .min = 0, .max = 1e9);
    }
  };
  struct Grant {
    static constexpr std::uint16_t kKind = 2;
    static constexpr std::string_view kName = "grant";
    Round round = 0;
    std::uint32_t steps = 0;  // of the query
    std::uint32_t more = 0;   // 0: give the update
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(round);
      LONGHAUL_FIELD(steps);
      LONGHAUL_FIELD(more, .doc = "steps; 0: give the update", .max = 1e6);
    }
  };
  // Of a worker that has missed the deadline of a round: nobody is to wait for it until it asks.
  struct Late {
    static constexpr std::uint16_t kKind = 3;
    static constexpr std::string_view kName = "late";
    Round round = 0;
    LONGHAUL_FIELDS(round)
  };
  using Messages = MessageList<Query, Grant, Late>;

  // `with_delay`: a query counts from when it was sent, half the round trip ago.
  States(const ReachTime::Config& config, bool with_delay)
      : reach_(config), with_delay_(with_delay) {}

  // --- for the strategy of this node
  void ask(const Standing&, Turn&);
  bool asking() const { return asked_.has_value(); }
  // The answer to the last question, once.
  std::optional<std::uint32_t> granted();
  // What comes is ignored, and what has come.
  void give_up() {
    asked_.reset();
    answer_.reset();
  }
  void tell_late(Round, Turn&);
  Time rtt() const { return rtt_; }  // of the last question; 0: none is answered yet
  std::string waiting_for() const;

  static Rank server(const Place&, const View&);

  void on_start(Turn&) override;
  Status on_message(Rank from, const Message&, Turn&) override;
  void on_view(const View& before, Turn&) override;
  void on_timer(TimerId, Turn& turn) override { answer_all(turn); }
  void state(Archive&) override;

 private:
  static constexpr TimerId kDue{1};
  void send_query(Turn&);
  void send_late(Turn&);
  Status take(Rank from, const Query&, Turn&);
  Status take(Rank from, const Late&, Turn&);
  void answer_all(Turn&);
  void meet(const Turn&);

  ReachTime reach_;         // at the state server: questions come in order, once
  std::set<Rank> waiting_;  // for an answer
  // Workers that have come back or are late, and have asked nothing since: who takes no steps of
  // the round is waited for by none.
  std::set<Rank> absent_;
  const bool with_delay_;
  std::optional<Query> asked_;
  std::optional<Late> late_;  // until this worker asks again
  Rank asks_ = 0;             // whom
  std::optional<std::uint32_t> answer_;
  Time since_{0};
  Time rtt_{0};
};

}  // namespace longhaul::sync::esync
