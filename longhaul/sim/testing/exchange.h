#pragma once
// A strategy for tests of the simulator: every round each node takes some steps, sends its whole
// vector to all others in chunks as the host has room, waits for theirs and goes on with the mean
// in rank order. It uses every action there is. A lost peer is left out (nothing is agreed).
#include <map>

#include "longhaul/core/strategy.h"

namespace longhaul::sim::testing {

class Exchange final : public Strategy {
 public:
  struct Config {
    Round rounds = 3;
    std::uint32_t steps = 2;
    std::uint64_t chunk = 16;  // elements a message
    Round report_every = 1;    // by rank 0
  };
  struct Piece {
    LONGHAUL_MESSAGE(1, "piece");
    Round round = 0;
    Range range;
    LONGHAUL_FIELDS(round, range)
  };

  Exchange(Config config, const Place& place);

  void on_start(Turn&) override;
  void on_computed(const Computed&, Turn&) override;
  Status on_message(Rank from, const Message&, Turn&) override;
  void on_writable(Rank, Turn& turn) override { pump(turn); }
  void on_timer(TimerId, Turn&) override;
  void on_view(const View&, Turn& turn) override { pump(turn); }
  void state(Archive&) override;
  Round rounds_done() const override { return round_; }
  std::string waiting_for() const override;

 private:
  struct Part {
    std::uint64_t received = 0;
    std::vector<float> values;
    void state(auto& ar) { ar(received, values); }
  };
  void pump(Turn&);
  void end_round(Turn&);

  const Config config_;
  const std::uint64_t size_;
  const bool phantom_;
  Round round_ = 0;
  bool sending_ = false;
  std::vector<float> mine_;
  std::map<Rank, std::uint64_t> sent_;           // elements of this round
  std::map<Round, std::map<Rank, Part>> parts_;  // of this round and the next
  std::vector<Rank> awaited_;                    // for waiting_for()
};

}  // namespace longhaul::sim::testing
