#pragma once
// The Desk of an attempt: what an Exchange lets it do.
#include "longhaul/overlay/exchange.h"

namespace longhaul::overlay {

class Exchange::Scene final : public Desk {
 public:
  Scene(Exchange& exchange, Round round, Time now, Payload arrived = {})
      : exchange_(exchange), round_(round), now_(now), arrived_(std::move(arrived)) {}

  Payload own_bytes(std::size_t piece) override;
  std::vector<float> own_values(std::size_t piece) override;
  Payload write(std::size_t piece, Coding, std::span<const float>) override;
  std::vector<float> read(std::size_t piece, Coding, const Payload&) override;
  void have_mean(std::size_t piece, std::vector<float> values) override {
    exchange_.put_piece(round_, piece, values);
  }
  void have_roster(const std::vector<Rank>& counted, double weight) override {
    exchange_.put_roster(round_, counted, weight, exchange_.team_.epoch);
  }
  void post(Outgoing outgoing) override { posts_.push_back(std::move(outgoing)); }
  void tell(Rank to, const Share& share) override { shares_.emplace_back(to, share); }
  void tell(Rank to, const Roster& roster) override {
    if (!roster_) roster_ = Payload(share(to_wire(roster)));  // one buffer for all
    rosters_.push_back(to);
  }
  void tell(const VectorId& about, Rank to, Note note, Service service) override {
    note.epoch = exchange_.team_.epoch;
    note.vector = {about, exchange_.team_.self};
    notes_.push_back({to, std::move(note), service});
  }
  void cancel(const TransferKey& key, Rank to) override { cancelled_.emplace_back(key, to); }
  void give_up(std::string reason) override { given_up_ = std::move(reason); }
  Payload arrived_bytes() override { return arrived_; }
  Time now() const override { return now_; }

  // What the attempt asked for, carried out when it has returned.
  void carry_out(GroupTurn&);

 private:
  struct Told {
    Rank to;
    Note note;
    Service service;
  };
  Coding own_coding() const { return exchange_.exact_ ? Coding::exact : Coding::up; }

  Exchange& exchange_;
  const Round round_;
  const Time now_;
  const Payload arrived_;
  std::vector<Outgoing> posts_;
  std::vector<std::pair<Rank, Share>> shares_;
  std::optional<Payload> roster_;
  std::vector<Rank> rosters_;
  std::vector<Told> notes_;
  std::vector<std::pair<TransferKey, Rank>> cancelled_;
  std::optional<std::string> given_up_;
};

}  // namespace longhaul::overlay
