#pragma once
// ParameterServerWorker is what a node with a learner does in a strategy with a server: it
// computes, pushes what it computed, and reads the server's model when its strategy wants it. It
// answers envelopes with envelopes, also if the server is on its own node; ServerStrategy sends
// them.
//
// The lowest live worker sends the server the model to start from, which is equal on all; each
// begins when the server has it. The last envelope holds the model that the run ends with: the
// worker stops computing at the next boundary and takes it.
#include <deque>

#include "longhaul/sync/flat.h"
#include "longhaul/sync/server/server_header.h"
#include "longhaul/sync/server/setup.h"

namespace longhaul::sync::server {

class ParameterServerWorker : public Machine {
 public:
  explicit ParameterServerWorker(const Setup& setup) : setup_(setup) {}

  void on_start(Turn&) final;
  void on_view(const View& before, Turn&) final;
  void state(Archive&) override;

  // --- from ServerStrategy ----------------------------------------------------------------------
  void on_computed(const Computed&, Turn&);
  // Is it in order that the server sends this, with a vector or without?
  Status admit(const ServerHeader&, bool carries);
  void take(const Envelope&, Turn&);
  std::optional<Envelope> outgoing();  // to be sent
  // This node has returned, and hears who serves. `wants_start`: it has no model to start from.
  void begin_with(Rank server, bool wants_start, Turn&);
  // The server is lost and another node serves: what was on its way to the old one is lost, and
  // what is being computed is given up. It asks for the model, or tells the one that the run ended
  // with.
  void on_new_server(Rank, Turn&);
  // Of what it sends; a change also holds for the push that is under way.
  virtual Service service() const { return {}; }
  bool wants_stop() const { return ending_ && phase_ == Phase::computing; }
  bool begun() const { return begun_; }  // has had a model
  bool ended() const { return phase_ == Phase::ended; }
  bool failed() const { return phase_ == Phase::failed; }
  std::uint64_t version() const { return version_; }  // of the newest model that it read
  std::string waiting_for() const;

 protected:
  // --- what a strategy is made of ---------------------------------------------------------------
  // params() is the model to go on from: compute().
  virtual void begin(Turn&) = 0;
  // What compute() asked for is done: push(), compute() or ask().
  virtual void computed(const Computed&, Turn&) = 0;
  // The model came; null in the first answer, if params() is it already. Compute.
  virtual void read(const ServerHeader&, const Snapshot& model, Turn&);
  // After on_new_server(): the steps under way are done; ask(), at last.
  virtual void given_up(const Computed&, Turn& turn) { ask(turn); }
  // Has it something to compute before it asks for the first model? Then compute() and, at last,
  // ask(). params() is W_0.
  virtual bool prepares(Turn&) { return false; }
  // What only this strategy's pulls and pushes say.
  virtual Extension pull_extension() const { return {}; }
  virtual Extension push_extension(const Computed&) const { return {}; }
  // Is the extension of a model or a notice in order? A strategy without one has no notices.
  virtual Status check_extension(const ServerHeader&) const;
  // The server sends notices at any time after the first model.
  virtual void on_notice(const ServerHeader&, Turn&) {}

  // --- what it calls ----------------------------------------------------------------------------
  void compute(Work, std::uint32_t steps, Turn&);
  // Local steps on the loss + prox/2 |x - x_0|^2, x_0 being params(). 0: plain ones.
  void compute_near(double prox, std::uint32_t steps, Turn&);
  // Gives the server `parameters`, empty for phantoms, and the buffers beside them. With `asks`,
  // read() follows, of a model in which this push is.
  void push(std::span<const float> parameters, const Computed&, bool asks, Turn&);
  void ask(Turn&);                                // for the model; read() follows
  std::uint64_t clock() const { return clock_; }  // pushes so far
  void set_clock(std::uint64_t clock) { clock_ = clock; }
  const Setup& setup() const { return setup_; }

 private:
  enum class Phase : std::uint8_t { not_started, waiting, computing, ended, failed };
  void send_start(Turn&);
  void wait(Turn&);
  void end(Turn&);
  void set_model(const Snapshot&, Turn&) const;

  Setup setup_;
  Phase phase_ = Phase::not_started;
  bool gives_up_ = false;      // what is being computed: it was for a server that is lost
  bool begun_ = false;         // has had an answer
  bool knows_server_ = true;   // false: it has returned, and not heard yet
  bool start_is_due_ = false;  // it is to send the server the model to start from
  bool ending_ = false;        // the last envelope is coming
  std::uint64_t version_ = 0, oldest_ = 0;  // of its model; that the next one may have
  std::uint64_t clock_ = 0;
  Time asked_{0};
  std::optional<Envelope> last_;
  std::deque<Envelope> out_;
};

}  // namespace longhaul::sync::server
