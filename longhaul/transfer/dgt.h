#pragma once
// Differential gradient transmission: of a vector of gradients, or of differences of models, the
// blocks that contribute much go reliably and first, the others best effort; the receiver goes on
// when the reliable ones are in. docs/transfer/dgt.md
//
// Source: "DGT: A contribution-aware differential gradient transmission mechanism for distributed
// machine learning", Future Generation Computer Systems 2021, doi 10.1016/j.future.2021.03.006, and
// its public code; what is ours is said in the page.
//
// Differential are parts that a node gives in the job's codec (Coding::up), from the second one of
// a stream on. All else, means and buffers among it, goes as `reliable` sends it.
#include "longhaul/core/registry.h"
#include "longhaul/transfer/dgt/receiver.h"
#include "longhaul/transfer/dgt/sender.h"
#include "longhaul/transfer/dgt/share.h"
#include "longhaul/transfer/reliable.h"

namespace longhaul::transfer {

class Dgt final : public Transfer {
 public:
  using Config = dgt::Config;
  using Messages = dgt::Messages;
  static TransferEntry entry();
  static Status check(const Config&);

  Dgt(const Config&, const Place&);

  void attach(VectorPort&) override;
  void begin(Outgoing, Turn&) override;
  void cancel(const TransferKey&, std::optional<Rank> to) override;
  std::uint64_t remaining(const TransferKey&, Rank to) const override;
  void reprioritise(const TransferKey&, Rank to, Service, Turn&) override;
  std::optional<Arrival> arrived() override;
  std::optional<Sent> sent() override;
  void training_loss(double loss) override { share_.observe(loss); }

  Status on_message(Rank from, const Message&, Turn&) override;
  void on_timer(TimerId, Turn&) override;
  void on_writable(Rank, Turn&) override;
  void on_view(const View& before, Turn&) override;
  void on_progress(Turn&) override;
  void state(Archive&) override;

  const dgt::Receiver& receiver() const { return receiver_; }
  const dgt::Sender& sender() const { return sender_; }

 private:
  void finish(Turn&);  // after any input

  const Config config_;
  Reliable reliable_;
  dgt::ReliableShare share_;
  dgt::Sender sender_;
  dgt::Receiver receiver_;
  std::optional<Time> alarm_;  // the timer that is set
};

}  // namespace longhaul::transfer
