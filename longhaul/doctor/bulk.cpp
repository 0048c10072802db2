#include "longhaul/doctor/bulk.h"

namespace longhaul::doctor {
namespace {

// Random enough that no box on the way makes less of it, and the same for all.
Buffer noise() {
  Buffer bytes(kHead + kMaxMessage);
  const auto head = encode({Kind::bulk, kMaxMessage});
  std::copy(head.begin(), head.end(), bytes.begin());
  std::uint64_t state = 1;
  for (std::size_t i = kHead; i < bytes.size(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    bytes[i] = std::byte(state >> 56);
  }
  return bytes;
}

}  // namespace

Status send_bulk(const Channel& channel, const MeasurementPlan& plan, const Deadline& deadline) {
  channel.socket().ask_for(plan.congestion);
  const Buffer bytes = noise();
  const auto end = Clock::now() + from_seconds(plan.seconds);
  for (double left = plan.mbytes * 1e6; left > 0 && Clock::now() < end && !deadline.stopped();
       left -= double(bytes.size())) {
    const Status sent = channel.socket().write(bytes, deadline.at_most(kStallTimeout));
    if (!sent) return channel.wrong(Kind::bulk, "it does not take it: " + sent.error().what);
  }
  return channel.send(Kind::bulk_end, channel.socket().path(), deadline.at_most(kStallTimeout));
}

void RateMeter::add(double at, double bytes) {
  const bool due = samples_.size() < 2 || at >= samples_[samples_.size() - 2].at + every_;
  if (!due) {  // the last one moves on
    samples_.back() = {at, bytes};
    return;
  }
  samples_.push_back({at, bytes});
  if (samples_.size() < kMaxSamples) return;
  for (std::size_t i = 1; i < samples_.size() / 2; ++i) samples_[i] = samples_[2 * i];
  const Sample last = samples_.back();
  samples_.resize(samples_.size() / 2);
  samples_.push_back(last);
  every_ *= 2;
}

BulkResult RateMeter::received() const {
  if (samples_.empty()) return {};
  const Sample &first = samples_.front(), &last = samples_.back();
  return {last.bytes, last.at - first.at, steady_rate(samples_)};
}

Result<Bulk> receive_bulk(const Channel& channel, const Deadline& deadline) {
  const auto begin = Clock::now();
  const auto so_far = [&] { return seconds(Clock::now() - begin); };
  const auto over = [&](const std::string& why) {
    if (deadline.stopped()) return channel.wrong(Kind::bulk, "stopped");
    const bool late = Clock::now() >= deadline.end;
    return channel.wrong(Kind::bulk, late ? "it does not end" : "it stalls: " + why);
  };
  RateMeter meter;
  double bytes = 0;
  Buffer store(kMaxMessage);
  for (;;) {
    if (deadline.stopped() || Clock::now() >= deadline.end) return over("");
    std::array<std::byte, kHead> start;
    Status read = channel.socket().read(start, deadline.at_most(kStallTimeout));
    if (!read) return over(read.error().what);
    const auto head = decode(start);
    if (!head) return channel.wrong(Kind::bulk, head.error().what);
    std::span<std::byte> left = std::span(store).first(head->size);
    while (!left.empty()) {
      const auto count = channel.socket().read_some(left, deadline.at_most(kStallTimeout));
      if (!count) return over(count.error().what);
      left = left.subspan(*count);
      if (head->kind == Kind::bulk) meter.add(so_far(), bytes += double(*count));
    }
    if (head->kind == Kind::bulk) continue;
    if (head->kind != Kind::bulk_end) return channel.wrong(Kind::bulk, "something else came");
    auto sent =
        channel.read<PathInfo>(Kind::bulk_end, Buffer(store.begin(), store.begin() + head->size));
    if (!sent) return sent.error();
    return Bulk{meter.received(), *std::move(sent)};
  }
}

}  // namespace longhaul::doctor
