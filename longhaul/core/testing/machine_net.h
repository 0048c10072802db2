#pragma once
// MachineNet drives one bare machine per rank (no Node, no membership, no clock) and picks the next
// event at random among all that may come next: the head of any (from, to, class) queue, a
// writable, a timer, a crash's new view. So one seed is one interleaving, and a test goes through
// thousands.
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "longhaul/core/machine.h"
#include "longhaul/core/testing/message_of.h"

namespace longhaul::testing {

class MachineNet {
 public:
  using Factory = std::function<std::unique_ptr<Machine>(const Place&)>;
  struct Config {
    std::uint32_t ranks = 2;
    std::shared_ptr<const Layout> layout;
    std::uint64_t seed = 1;
    std::uint32_t chunk_bytes = 4096;
    bool phantom = false;
    Members members = {};  // empty: workers, one a site
  };

  MachineNet(Config config, Factory make);

  Machine& machine(Rank rank) { return *nodes_.at(rank).machine; }
  const Place& place(Rank rank) const { return nodes_.at(rank).place; }
  const View& view(Rank rank) const { return nodes_.at(rank).view; }
  bool alive(Rank rank) const { return nodes_.at(rank).alive; }

  // One turn by hand, as if the strategy acted; then on_progress and messages to itself.
  void act(Rank rank, const std::function<void(Turn&)>& what);
  // A message out of nowhere, as a lying peer would send it, right now.
  Status inject(Rank from, Rank to, Message message);
  // From now on the rank takes no input; a random part of what it sent is lost; each survivor gets
  // the next view at a random later event.
  void crash(Rank rank);
  // A crashed rank is there again, as a new machine with a new incarnation; each other gets the
  // next view at a random later event.
  void come_back(Rank rank);
  // A fresh machine from the factory, loaded with the state of the old one.
  void save_and_load(Rank rank);

  bool step();                            // one random event; false: none left
  std::uint64_t run(std::uint64_t most);  // events until idle; CHECKs that it gets idle
  std::uint64_t events() const { return events_; }

  // All messages between different ranks so far, frame headers counted.
  std::uint64_t bytes(Rank from, Rank to) const;
  std::uint64_t bytes_from(Rank from) const;
  std::uint64_t messages() const { return messages_; }
  // Messages of this class that have not arrived.
  std::size_t in_flight(Rank from, Rank to, unsigned service_class) const;
  std::vector<std::string> errors;         // what on_message answered, "rank 2 of 0: ..."
  std::map<std::string, double> records;   // sums of Turn::record by name
  std::map<Rank, std::string> failed;      // Turn::fail
  std::map<Rank, std::uint64_t> finished;  // Turn::finish

  // Called after every event; for invariants.
  std::function<void()> watch;

 private:
  struct NodeState {
    Place place;
    View view;
    std::unique_ptr<Machine> machine;
    Credits credits;
    bool alive = true;
    std::vector<View> views_to_come;
    std::map<std::pair<std::uint32_t, TimerId>, Time> timers;
    std::vector<Message> early;  // of views to come
    std::vector<Rank> early_from;
  };
  struct Packet {
    Message message;
    Service service;
  };
  using Line = std::tuple<Rank, Rank, unsigned>;  // from, to, class

  void turn(Rank rank, const std::function<void(Turn&)>& input);
  void carry(Rank rank, std::vector<Action>& actions);
  void deliver(Rank from, Rank to, const Message&);
  void next_view(Rank rank);
  void add_timers(std::vector<std::function<void()>>& choices);
  void send(Rank from, Send&& send);

  Config config_;
  Factory make_;
  Random random_;
  std::vector<NodeState> nodes_;
  std::map<Line, std::vector<Packet>> lines_;
  std::vector<std::tuple<Rank, Rank, unsigned>> writable_;
  std::map<std::pair<Rank, Rank>, std::uint64_t> bytes_;
  std::uint64_t messages_ = 0;
  std::uint64_t events_ = 0;
  View newest_;
};

}  // namespace longhaul::testing
