#pragma once
// Elastic averaging between one trainer's parameters w and a centre c, as two machines without a
// network between them.
//   Zhang, Choromanska, LeCun, "Deep learning with elastic averaging SGD", NIPS 2015, section 3;
//   in the background of training: Zheng et al., arXiv 2003.03477.
//
//   trainer  pull; has c: d = alpha (w - c) at a step boundary, push d; acknowledged: w <- w - d at
//            a step boundary
//   centre   push d: c <- c + d, once; acknowledge
// Both sides add the same d, so w + c is conserved, independent of the trainer's steps in between.
// Running statistics are pushed unchanged: the centre moves towards them by the share alpha.
#include <map>
#include <span>
#include <vector>

#include "longhaul/sync/server/parameter_store.h"

namespace longhaul::sync::shadow {

// One trainer's exchange with the centre.
class ElasticExchange {
 public:
  enum class Phase : std::uint8_t {
    idle,
    asked,     // has asked for the centre
    has_c,     // has c; d is to be pushed
    pushed,    // d is pushed, not acknowledged
    has_moved  // the centre has moved; w is to follow
  };
  Phase phase() const { return phase_; }
  std::uint64_t seq() const { return seq_; }  // number of the newest exchange, from 1
  std::span<const float> centre() const { return c_ ? *c_ : std::span<const float>(); }

  void ask() {
    LH_CHECK(phase_ == Phase::idle);
    ++seq_;
    phase_ = Phase::asked;
  }

  // Returns false if no exchange waits for these values.
  bool on_data(std::uint64_t seq, Snapshot c) {
    if (phase_ != Phase::asked || seq != seq_) return false;
    c_ = std::move(c);
    phase_ = Phase::has_c;
    return true;
  }

  // Returns alpha (w - c) for the parameters, followed by the unchanged buffers.
  std::vector<float> difference(std::span<const float> w, std::size_t parameters,
                                double alpha) const {
    LH_CHECK(phase_ == Phase::has_c && c_->size() == w.size() && parameters <= w.size());
    std::vector<float> d(w.begin(), w.end());
    for (std::size_t i = 0; i < parameters; ++i)
      d[i] = float(alpha * (double(w[i]) - double((*c_)[i])));
    return d;
  }

  // `d`: as the centre reads it.
  void pushed(std::vector<float> d) {
    LH_CHECK(phase_ == Phase::has_c);
    c_.reset();
    d_ = std::move(d);
    phase_ = Phase::pushed;
  }

  bool on_ack(std::uint64_t seq) {
    if (phase_ != Phase::pushed || seq != seq_) return false;
    phase_ = Phase::has_moved;
    return true;
  }

  // Ends the exchange if its push had no effect, or an unknown one. A push that the centre is known
  // to have taken stays.
  void forget() {
    if (phase_ == Phase::has_moved) return;
    c_.reset();
    d_ = {};
    phase_ = Phase::idle;
  }

  // w <- w - d for the parameters.
  void follow(std::span<float> w, std::size_t parameters) {
    LH_CHECK(phase_ == Phase::has_moved && parameters <= d_.size() && parameters <= w.size());
    for (std::size_t i = 0; i < parameters; ++i) w[i] = float(double(w[i]) - double(d_[i]));
    d_ = {};
    phase_ = Phase::idle;
  }

  void state(Archive& ar) {
    ar(phase_, seq_, d_);
    archive_snapshot(ar, c_);
  }

 private:
  Phase phase_ = Phase::idle;
  std::uint64_t seq_ = 0;
  Snapshot c_;
  std::vector<float> d_;
};

// The centre at its server, with the number of each trainer's last push. A new server begins a new
// server epoch; pushes of other epochs have no effect.
class Centre {
 public:
  enum class Taken : std::uint8_t { moved, seen_before, other_epoch };

  bool has_values() const { return store_.filled(); }
  void begin(std::span<const float> values) { store_.fill(values); }
  Snapshot values() const { return store_.snapshot(); }
  // c <- c + d; buffers c_b <- (1 - share) c_b + share b. `exchanger`: number of the trainer's
  // exchanger; each one counts its own exchanges.
  Taken push(Rank from, std::uint32_t exchanger, bool same_epoch, std::uint64_t seq,
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

  void drop(Rank trainer) {
    std::erase_if(last_, [&](const auto& one) { return one.first.first == trainer; });
  }
  void state(Archive& ar) { ar(store_, last_); }

 private:
  server::ParameterStore store_;
  // number of the last push, by trainer and exchanger
  std::map<std::pair<Rank, std::uint32_t>, std::uint64_t> last_;
};

}  // namespace longhaul::sync::shadow
