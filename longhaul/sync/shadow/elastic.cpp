#include "longhaul/sync/shadow/elastic.h"

namespace longhaul::sync::shadow {

void ElasticExchange::ask() {
  LH_CHECK(phase_ == Phase::idle);
  ++seq_;
  phase_ = Phase::asked;
}

bool ElasticExchange::on_data(std::uint64_t seq, Snapshot c) {
  if (phase_ != Phase::asked || seq != seq_) return false;
  c_ = std::move(c);
  phase_ = Phase::has_c;
  return true;
}

std::vector<float> ElasticExchange::difference(std::span<const float> w, std::size_t parameters,
                                               double alpha) const {
  LH_CHECK(phase_ == Phase::has_c && c_->size() == w.size() && parameters <= w.size());
  std::vector<float> d(w.begin(), w.end());
  for (std::size_t i = 0; i < parameters; ++i)
    d[i] = float(alpha * (double(w[i]) - double((*c_)[i])));
  return d;
}

void ElasticExchange::pushed(std::vector<float> d) {
  LH_CHECK(phase_ == Phase::has_c);
  c_.reset();
  d_ = std::move(d);
  phase_ = Phase::pushed;
}

bool ElasticExchange::on_ack(std::uint64_t seq) {
  if (phase_ != Phase::pushed || seq != seq_) return false;
  phase_ = Phase::has_moved;
  return true;
}

void ElasticExchange::forget() {
  if (phase_ == Phase::has_moved) return;
  c_.reset();
  d_ = {};
  phase_ = Phase::idle;
}

void ElasticExchange::follow(std::span<float> w, std::size_t parameters) {
  LH_CHECK(phase_ == Phase::has_moved && parameters <= d_.size() && parameters <= w.size());
  for (std::size_t i = 0; i < parameters; ++i) w[i] = float(double(w[i]) - double(d_[i]));
  d_ = {};
  phase_ = Phase::idle;
}

void ElasticExchange::state(Archive& ar) {
  ar(phase_, seq_, d_);
  archive_snapshot(ar, c_);
}

Centre::Taken Centre::push(Rank from, std::uint32_t exchanger, bool same_epoch, std::uint64_t seq,
                           std::span<const float> d, std::size_t parameters, double share) {
  if (!same_epoch) return Taken::other_epoch;
  std::uint64_t& last = last_[{from, exchanger}];
  if (seq <= last) return Taken::seen_before;
  last = seq;
  const auto c = store_.change();
  LH_CHECK(c.size() == d.size() && parameters <= c.size());
  for (std::size_t i = 0; i < parameters; ++i) c[i] = float(double(c[i]) + double(d[i]));
  for (std::size_t i = parameters; i < c.size(); ++i)
    c[i] = float((1 - share) * double(c[i]) + share * double(d[i]));
  return Taken::moved;
}

}  // namespace longhaul::sync::shadow
