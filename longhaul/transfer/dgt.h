#pragma once
// Differential gradient transmission, for gradients or differences of models. Blocks that
// contribute much are sent reliably and first, the others best effort. The receiver continues when
// the reliable ones have arrived. docs/transfer/dgt.md
//
// Source: "DGT: A contribution-aware differential gradient transmission mechanism for distributed
// machine learning", Future Generation Computer Systems 2021, doi 10.1016/j.future.2021.03.006, and
// its public code; the page names the differences.
//
// Parts in the job's codec (Coding::up) are differential, from the second one of a stream on.
// Everything else, for example means and buffers, is sent as by `reliable`.
#include "longhaul/core/registry.h"
#include "longhaul/transfer/dgt/config.h"
#include "longhaul/transfer/dgt/receiver.h"
#include "longhaul/transfer/dgt/sender.h"
#include "longhaul/transfer/reliable.h"

namespace longhaul::transfer {

class Dgt final : public Transfer {
 public:
  using Config = dgt::Config;
  using Messages = dgt::Messages;
  static Status check(const Config& config) {
    if (config.k_min <= config.k0) return Ok{};
    return invalid("[transfer] k_min = " + std::to_string(config.k_min) +
                   " is more than k0 = " + std::to_string(config.k0) + ", the share at first");
  }

  Dgt(const Config& config, const Place& place)
      : config_(config),
        reliable_(place),
        share_(config),
        sender_(config, place),
        receiver_(config, place) {
    own(reliable_);
  }

  void attach(VectorPort& port) override {
    reliable_.attach(port);
    sender_.attach(port);
    receiver_.attach(port);
  }

  void begin(Outgoing out, Turn& turn) override {
    std::erase_if(out.ranges, [](const Range& range) { return range.length == 0; });
    const bool differential =
        config_.mode != "off" && out.key.coding == Coding::up && !out.ranges.empty();
    if (!differential || !sender_.knows(out)) {
      if (differential) sender_.note_first(out);
      return reliable_.begin(std::move(out), within(reliable_, turn));
    }
    turn.record("dgt_k", out.key.vector.round, share_.k());
    const Rank to = out.to;
    sender_.begin(std::move(out), share_.k(), turn);
    sender_.pump(to, !reliable_.has_queued(to), turn);
  }

  void cancel(const TransferKey& key, std::optional<Rank> to) override {
    reliable_.cancel(key, to);
    sender_.cancel(key, to);
  }

  std::uint64_t remaining(const TransferKey& key, Rank to) const override {
    return reliable_.remaining(key, to) + sender_.remaining(key, to);
  }

  void reprioritise(const TransferKey& key, Rank to, Service service, Turn& turn) override {
    reliable_.reprioritise(key, to, service, within(reliable_, turn));
    sender_.reprioritise(key, to, service);
    finish(turn);
  }

  std::optional<Arrival> arrived() override {
    if (auto whole = reliable_.arrived()) return whole;
    return take_front(receiver_.arrivals);
  }

  std::optional<Sent> sent() override {
    if (auto whole = reliable_.sent()) return whole;
    return take_front(sender_.sent);
  }

  void training_loss(double loss) override { share_.observe(loss); }

  Status on_message(Rank from, const Message& message, Turn& turn) override {
    const Status taken = dispatch(Messages{}, message, [&](const auto& one) -> Status {
      using One = std::decay_t<decltype(one)>;
      if constexpr (std::is_same_v<One, dgt::Receipt>)
        return sender_.take(from, one);
      else if constexpr (std::is_same_v<One, dgt::Expired>)
        return receiver_.take(from, one);
      else if constexpr (std::is_same_v<One, dgt::End>)
        return receiver_.take(from, one, turn.now());
      else
        return receiver_.take(from, one, message.body, turn.now());
    });
    finish(turn);
    return taken;
  }

  void on_timer(TimerId, Turn& turn) override {
    alarm_.reset();
    receiver_.on_time(turn.now());
    finish(turn);
  }

  void on_writable(Rank peer, Turn& turn) override {
    sender_.pump(peer, !reliable_.has_queued(peer), turn);
  }

  // Discards the state of lost and returned peers, which start again.
  void on_view(const View& before, Turn& turn) override {
    for (Rank rank = 0; rank < turn.place().size(); ++rank) {
      if (turn.view().has(rank) && turn.view().since(rank) == before.since(rank)) continue;
      sender_.lose(rank);
      receiver_.lose(rank);
    }
    finish(turn);
  }

  void on_progress(Turn& turn) override { finish(turn); }

  void state(Archive& ar) override {
    ar.expect("dgt");
    ar(share_, sender_, receiver_, alarm_);
  }

  const dgt::Receiver& receiver() const { return receiver_; }
  const dgt::Sender& sender() const { return sender_; }

 private:
  // Called after every input.
  void finish(Turn& turn) {
    // With the service of the means and before them: a receipt arrives before the next vector is
    // made.
    for (const auto& [to, receipt] : std::exchange(receiver_.receipts, {}))
      turn.send(to, receipt, {}, Service{});
    for (const dgt::Account& account : std::exchange(receiver_.accounts, {})) {
      const auto note = [&](const char* name, std::uint32_t blocks) {
        if (blocks > 0) turn.record(name, account.round, blocks);
      };
      note("dgt_fresh", account.fresh);
      note("dgt_carried", account.carried);
      note("dgt_returned", account.returned);
      note("dgt_late", account.late);
      note("dgt_expired", account.expired);
      note("dgt_bad", account.bad);
      note("dgt_lost", account.lost);
    }
    for (const Rank to : sender_.receivers()) sender_.pump(to, !reliable_.has_queued(to), turn);
    const std::optional<Time> due = receiver_.due();
    if (due == alarm_) return;
    alarm_ = due;
    due ? turn.set_timer(*this, TimerId{0}, *due) : turn.cancel_timer(*this, TimerId{0});
  }

  const Config config_;
  Reliable reliable_;
  dgt::ReliableShare share_;
  dgt::Sender sender_;
  dgt::Receiver receiver_;
  std::optional<Time> alarm_;  // the timer that is set
};

}  // namespace longhaul::transfer
