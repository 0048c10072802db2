#include "longhaul/transfer/dgt.h"

#include "longhaul/transfer/entry.h"

namespace longhaul::transfer {

TransferEntry Dgt::entry() {
  return transfer_entry<Dgt>(
      {.name = "dgt",
       .summary = "blocks that contribute much go reliably and first, the others best effort",
       .traits = {.lossless = false, .bits = Bits::schedule}});
}

Status Dgt::check(const Config& config) {
  if (config.k_min <= config.k0) return Ok{};
  return invalid("[transfer] k_min = " + std::to_string(config.k_min) +
                 " is more than k0 = " + std::to_string(config.k0) + ", the share at first");
}

Dgt::Dgt(const Config& config, const Place& place)
    : config_(config),
      reliable_(place),
      share_(config),
      sender_(config, place),
      receiver_(config, place) {
  own(reliable_);
}

void Dgt::attach(VectorPort& port) {
  reliable_.attach(port);
  sender_.attach(port);
  receiver_.attach(port);
}

void Dgt::begin(Outgoing out, Turn& turn) {
  std::erase_if(out.ranges, [](const Range& range) { return range.length == 0; });
  const bool differential =
      config_.mode != "off" && out.key.coding == Coding::up && !out.ranges.empty();
  if (!differential || !sender_.knows(out)) {
    if (differential) sender_.note_first(out);
    Turn below = within(reliable_, turn);
    return reliable_.begin(std::move(out), below);
  }
  turn.record("dgt_k", out.key.vector.round, share_.k());
  const Rank to = out.to;
  sender_.begin(std::move(out), share_.k(), turn);
  sender_.pump(to, !reliable_.has_queued(to), turn);
}

void Dgt::cancel(const TransferKey& key, std::optional<Rank> to) {
  reliable_.cancel(key, to);
  sender_.cancel(key, to);
}

std::uint64_t Dgt::remaining(const TransferKey& key, Rank to) const {
  return reliable_.remaining(key, to) + sender_.remaining(key, to);
}

void Dgt::reprioritise(const TransferKey& key, Rank to, Service service, Turn& turn) {
  Turn below = within(reliable_, turn);
  reliable_.reprioritise(key, to, service, below);
  sender_.reprioritise(key, to, service);
  finish(turn);
}

std::optional<Arrival> Dgt::arrived() {
  if (auto whole = reliable_.arrived()) return whole;
  if (receiver_.arrivals.empty()) return std::nullopt;
  Arrival first = std::move(receiver_.arrivals.front());
  receiver_.arrivals.pop_front();
  return first;
}

std::optional<Sent> Dgt::sent() {
  if (auto whole = reliable_.sent()) return whole;
  if (sender_.sent.empty()) return std::nullopt;
  const Sent first = sender_.sent.front();
  sender_.sent.pop_front();
  return first;
}

Status Dgt::on_message(Rank from, const Message& message, Turn& turn) {
  struct Take {
    Dgt& self;
    Rank from;
    const Message& message;
    Time now;
    Status operator()(const dgt::Blocks& one) const {
      return self.receiver_.take(from, one, message.body, now);
    }
    Status operator()(const dgt::End& one) const { return self.receiver_.take(from, one, now); }
    Status operator()(const dgt::Expired& one) const { return self.receiver_.take(from, one); }
    Status operator()(const dgt::Receipt& one) const { return self.sender_.take(from, one); }
  };
  const Status taken = dispatch(Messages{}, message, Take{*this, from, message, turn.now()});
  finish(turn);
  return taken;
}

void Dgt::on_timer(TimerId, Turn& turn) {
  alarm_.reset();
  receiver_.on_time(turn.now());
  finish(turn);
}

void Dgt::on_writable(Rank peer, Turn& turn) {
  sender_.pump(peer, !reliable_.has_queued(peer), turn);
}

void Dgt::on_progress(Turn& turn) { finish(turn); }

// Whoever is lost, or has come back, begins anew.
void Dgt::on_view(const View& before, Turn& turn) {
  for (Rank rank = 0; rank < turn.place().size(); ++rank) {
    if (turn.view().has(rank) && turn.view().since(rank) == before.since(rank)) continue;
    sender_.lose(rank);
    receiver_.lose(rank);
  }
  finish(turn);
}

void Dgt::finish(Turn& turn) {
  // In the class of the means and before them: it comes before the next vector is made.
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

void Dgt::state(Archive& ar) {
  ar.expect("dgt");
  ar(share_, sender_, receiver_, alarm_);
}

}  // namespace longhaul::transfer
