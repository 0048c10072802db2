#pragma once
// The Desk of an attempt: what AgreedMean lets it do to the exchange it belongs to.
#include "longhaul/overlay/agreed.h"

namespace longhaul::overlay {

class AgreedMean::Scene final : public Desk {
 public:
  Scene(AgreedMean& overlay, Sequence& sequence, Round round, Time now, Payload arrived = {})
      : overlay_(overlay),
        sequence_(sequence),
        round_(round),
        now_(now),
        arrived_(std::move(arrived)) {}

  Payload own_bytes(std::size_t piece) override;
  std::vector<float> own_values(std::size_t piece) override;
  Payload write(std::size_t piece, Coding, std::span<const float>) override;
  std::vector<float> read(std::size_t piece, Coding, const Payload&) override;
  void have_mean(std::size_t piece, std::vector<float> values) override {
    overlay_.put_piece(sequence_, round_, piece, values);
  }
  void have_roster(const std::vector<Rank>& counted, double weight) override {
    overlay_.put_roster(sequence_, round_, counted, weight, overlay_.team_.epoch);
  }
  void post(Outgoing outgoing) override { posts_.push_back(std::move(outgoing)); }
  void tell(Rank to, const Share& share) override { shares_.emplace_back(to, share); }
  void tell(Rank to, const Roster& roster) override {
    if (!roster_) roster_ = Payload(share(to_wire(roster)));  // one buffer for all
    rosters_.push_back(to);
  }
  void tell(const VectorId& about, Rank to, Note note, Service service) override {
    note.epoch = overlay_.team_.epoch;
    note.vector = {about, overlay_.team_.self};
    notes_.push_back({to, std::move(note), service});
  }
  void cancel(const TransferKey& key, Rank to) override { cancelled_.emplace_back(key, to); }
  void give_up(std::string reason) override { given_up_ = std::move(reason); }
  Payload arrived_bytes() override { return arrived_; }
  Time now() const override { return now_; }

  // What the attempt asked for, carried out when it has returned.
  void carry_out(Turn& own, Turn& transfer);

 private:
  struct Told {
    Rank to;
    Note note;
    Service service;
  };
  CodecKey self_key() const { return sequence_.vector(round_, overlay_.team_.self); }
  Coding own_coding() const { return sequence_.exact ? Coding::exact : Coding::up; }

  AgreedMean& overlay_;
  Sequence& sequence_;
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
