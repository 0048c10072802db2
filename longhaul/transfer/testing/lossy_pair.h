#pragma once
// Two ends of a differential transfer and a network between them that loses, repeats and reorders
// best-effort messages; reliable ones of a class stay in order. It watches every block from
// outside, in ways of its own, and knows what has to come out.
//
// Round r + 1 is pushed when the receiver has been handed round r. One seed is one run.
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "longhaul/transfer/dgt.h"

namespace longhaul::transfer::testing {

struct LossyOptions {
  dgt::Config config;
  double loss = 0, duplicated = 0;
  std::uint64_t seed = 1;
  Round rounds = 6;
  std::shared_ptr<const Layout> layout = {};  // absent: 4 tensors, 103 values
  double repeats = 0;                         // that a round is repeated though it was handed on
  bool save_and_load = false;                 // of both ends, after every event
  bool phantom = false;
  // Values of a round; absent: drawn by (seed, round).
  std::function<std::vector<float>(Round)> gradient = {};
  std::function<double(Round)> training_loss = {};
};

class LossyPair {
 public:
  static constexpr Rank kSender = 0, kReceiver = 1;
  explicit LossyPair(LossyOptions);

  bool step();  // false: nothing is left to do
  void run();
  void crash_sender();  // and the receiver is told
  Status inject(const Message&, Rank from = kSender);
  Dgt& sender() { return *nodes_[kSender].dgt; }
  Dgt& receiver() { return *nodes_[kReceiver].dgt; }

  struct Id {
    std::uint64_t push = 0;
    std::uint32_t number = 0;
    friend auto operator<=>(const Id&, const Id&) = default;
  };
  // What was seen on the wire, and what came out.
  std::map<std::uint64_t, dgt::End> ends;   // by push
  std::map<Id, std::vector<float>> blocks;  // as they were sent
  std::map<Id, int> outcome;                // 1 fresh, 2 carried or late; once for each
  std::map<Round, std::vector<float>> given, handed_on;
  std::map<Round, std::vector<float>> expected;  // computed here, from blocks
  std::map<std::string, double> records;         // sums of Turn::record, at the receiver
  std::vector<std::string> errors;
  std::uint64_t rounds_done = 0;
  std::uint64_t dropped = 0;    // messages
  std::uint64_t most_kept = 0;  // bytes at the receiver

 private:
  class Port;
  struct Node {
    Place place;
    View view;
    Credits credits;
    std::shared_ptr<Port> port;
    std::unique_ptr<Dgt> dgt;
    std::map<TimerId, Time> timers;
  };
  struct Sent {
    Rank from = 0;
    Message message;
    unsigned service_class = 0;
  };

  std::unique_ptr<Dgt> make(Node&);
  void turn(Rank, const std::function<void(Turn&)>&);
  void carry(Rank, std::vector<Action>&);
  void send(Rank from, Send&&);
  void deliver(const Sent&);
  void deliver_datagram(std::size_t);
  void deliver_first(std::deque<Sent>& line);
  void free_room(std::size_t);
  bool fire_timer();
  void watch(const Message&);
  void watch_blocks(const dgt::Blocks&);
  void collect();
  void push_round();
  void expect(std::uint64_t push, Round);
  static std::vector<dgt::Block> blocks_of(const dgt::End&, const Layout&, const dgt::Config&);

  const LossyOptions options_;
  Random random_;
  std::vector<Node> nodes_;
  std::map<std::pair<Rank, unsigned>, std::deque<Sent>> lines_;  // reliable, by sender and class
  std::vector<Sent> datagrams_;
  std::vector<std::pair<Rank, unsigned>> writable_;
  std::map<Id, std::vector<float>> carried_;
  std::map<std::uint64_t, std::set<std::uint32_t>> fresh_;  // by push not handed on
  std::map<Round, std::uint64_t> push_of_;
  std::uint64_t next_push_ = 0;  // that is not handed on
  Round begun_ = 0;
  Epoch epoch_ = 0;
  TransferKey key_of(Round round) const { return {epoch_, {{round, 0, 0}, 0}, 0, Coding::up}; }
  bool alive_ = true;
  Time now_{0};
};

}  // namespace longhaul::transfer::testing
