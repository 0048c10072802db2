#include "longhaul/net/event_loop.h"

#include <fmt/format.h>

namespace longhaul::net {

using namespace std::chrono_literals;

namespace {
constexpr Time kDialWithin = 5s, kPartWithin = 5s, kTick = 50ms;
}

EventLoop::EventLoop(EventLoopConfig config, Place place, Learner* learner, Scorer scorer,
                     Observer observer)
    : config_(std::move(config)),
      place_(std::move(place)),
      identity_{config_.job_hash, place_.self, place_.me().incarnation, config_.process,
                place_.members.get()},
      learner_(learner),
      scorer_(std::move(scorer)),
      observer_(std::move(observer)),
      scoring_(std::make_unique<Worker>(config_.on_thread_start)),
      computing_(std::make_unique<Worker>(config_.on_thread_start)) {
  for (Rank rank = 0; rank < place_.size(); ++rank)
    if (rank != place_.self) links_.emplace(rank, std::make_unique<Link>(rank, *this));
}

EventLoop::~EventLoop() = default;

std::string EventLoop::name(Rank rank) const {
  return fmt::format("rank {} ({})", rank, place_.member(rank).site);
}

void EventLoop::note(const std::string& text) const {
  if (observer_.on_note) observer_.on_note(text);
}

// --- meeting and parting ------------------------------------------------------------------------

Result<std::uint16_t> EventLoop::listen() {
  auto listener =
      net::listen(loop_, config_.addresses.at(place_.self), [this](std::unique_ptr<Stream> stream) {
        Greeting::begin(std::move(stream), std::nullopt, greeting_host());
      });
  if (!listener) return listener.error();
  listener_ = *std::move(listener);
  return listener_->port();
}

Greeting::Host EventLoop::greeting_host() {
  return {loop_, identity_, [this](Rank rank) { return links_.at(rank).get(); },
          [this](std::optional<Rank> peer, bool refused, const Error& why) {
            if (!peer) return note("turned away " + why.what);
            troubles_[*peer] = why.what;
            if (refused && !failure_) failure_ = unavailable(name(*peer) + " at " + why.what);
            dial_later(*peer);
          },
          [this](Rank peer) {
            troubles_.erase(peer);
            pauses_.erase(peer);
          }};
}

void EventLoop::dial(Rank peer) {
  if (over() || links_.at(peer)->connected()) return;
  connect(loop_, config_.addresses.at(peer), kDialWithin, [this, peer](auto stream) {
    if (over()) return;
    if (stream) return Greeting::begin(*std::move(stream), peer, greeting_host());
    troubles_[peer] = stream.error().what;
    dial_later(peer);
  });
}

// The pause doubles, and is drawn anew from half of it to all of it: many nodes that lost one
// another at the same moment must not come back at the same moment.
void EventLoop::dial_later(Rank peer) {
  Time& pause = pauses_.emplace(peer, config_.retry).first->second;
  Random random(place_.seed, {Purpose::jitter, dials_++, place_.self, peer});
  const Time wait = pause / 2 + Time(random.below(std::uint64_t(pause.count() / 2 + 1)));
  pause = std::min(2 * pause, config_.longest_retry);
  loop_.at(loop_.now() + wait, [this, peer] { dial(peer); });
}

Status EventLoop::meet() {
  for (const auto& [peer, link] : links_)
    if (peer > place_.self) dial(peer);
  const auto all = [this] {
    return failure_ || std::all_of(links_.begin(), links_.end(),
                                   [](const auto& entry) { return entry.second->connected(); });
  };
  if (loop_.run_until(loop_.now() + config_.meet, all))
    return failure_ ? Status(*failure_) : Status(Ok{});
  std::string missing;
  for (const auto& [peer, link] : links_) {
    if (link->connected()) continue;
    missing += fmt::format("\n  {}: {}", name(peer),
                           troubles_.contains(peer) ? troubles_[peer] : "has not called");
  }
  return unavailable(
      fmt::format("not all nodes met within {:g} s:{}", seconds(config_.meet), missing));
}

// All have finished; whoever still lacks our last words gets them, for a while.
void EventLoop::part() {
  for (auto& [peer, link] : links_) link->say_bye();
  (void)loop_.run_until(loop_.now() + kPartWithin, [this] {
    return std::all_of(links_.begin(), links_.end(), [this](const auto& entry) {
      return entry.second->settled() || !node_->view().has(entry.first);
    });
  });
}

Status EventLoop::run(Node& node) {
  LH_CHECK(!node_);
  node_ = &node;
  if (!listener_) {
    const auto port = listen();
    if (!port) return port.error();
  }
  LH_TRY(meet());
  started_ = loop_.now();
  for (auto& [peer, link] : links_) link->heard(loop_.now());
  running_ = true;
  node.start(now());
  for (const auto& [from, message] : std::exchange(early_, {})) on_message(from, message);
  tick();
  while (!over()) (void)loop_.run_until(loop_.now() + 1s, [this] { return over(); });
  running_ = false;
  if (failure_) return *failure_;
  part();
  return Ok{};
}

// --- peers --------------------------------------------------------------------------------------

void EventLoop::tick() {
  if (!running_ || over()) return;
  for (auto& [peer, link] : links_) watch(peer, *link);
  loop_.at(loop_.now() + kTick, [this] { tick(); });
}

void EventLoop::watch(Rank peer, Link& link) {
  const Time now = loop_.now();
  link.tick(now, config_.heartbeat);
  const bool silent = !link.peer_is_done() && now - link.last_heard() > config_.silence;
  if (silent && link.connected()) {
    link.disconnect(
        {Error::Kind::timed_out, fmt::format("not a byte for {:g} s", seconds(config_.silence))});
  }
  if (silent == unreachable_.contains(peer) || !node_->view().has(peer)) return;
  if (silent) {
    unreachable_.insert(peer);
    note(fmt::format("lost touch with {}: {}; waiting for {}", name(peer), troubles_[peer],
                     node_->waiting_for()));
  } else {
    unreachable_.erase(peer);
  }
  node_->unreachable(this->now(), peer, silent);
}

void EventLoop::on_disconnected(Rank peer, const Error& why) {
  troubles_[peer] = why.what;
  if (over()) return;
  if (peer > place_.self) dial_later(peer);
}

void EventLoop::break_connections() {
  loop_.post([this] {
    for (auto& [peer, link] : links_) link->disconnect(unavailable("broken on purpose"));
  });
}

void EventLoop::on_message(Rank from, const Message& message) {
  if (!running_) return early_.emplace_back(from, message), void();
  if (over()) return;
  if (const Status good = node_->deliver(now(), from, message); !good)
    note(fmt::format("{} sent what it must not: {}", name(from), good.error().what));
}

void EventLoop::on_writable(Rank peer, unsigned service_class) {
  if (running_ && !over()) node_->writable(now(), peer, service_class);
}

// --- what the node asks for ---------------------------------------------------------------------

void EventLoop::send(Rank, Send send) { links_.at(send.to)->send(send.message, send.service); }

void EventLoop::set_timer(Rank, const SetTimer& timer) {
  const std::pair key{timer.machine.bits(), timer.id};
  const std::uint64_t number = timers_[key] = ++timers_set_;
  loop_.at(started_ + timer.at, [this, key, number] {
    const auto it = timers_.find(key);
    if (!running_ || over() || it == timers_.end() || it->second != number) return;
    timers_.erase(it);
    node_->timer(now(), Path::from_bits(key.first), key.second);
  });
}

void EventLoop::cancel_timer(Rank, const CancelTimer& timer) {
  timers_.erase({timer.machine.bits(), timer.id});
}

void EventLoop::compute(Rank, ComputeStep step) {
  LH_CHECK(learner_);
  const Time begin = now();
  computing_->submit([this, begin, work = std::move(step.work)] {
    auto result = std::make_shared<Result<StepResult>>(learner_->step(work));
    loop_.post([this, begin, result] {
      if (!running_ || over()) return;
      if (!*result) {
        failure_ = (*result).error();
        return;
      }
      (*result)->elapsed = now() - begin;
      node_->stepped(now(), **result);
    });
  });
}

void EventLoop::report(Rank, Report report) {
  Snapshot model = std::move(report.model);
  if (!model && learner_) {
    const auto params = learner_->params();
    model = std::make_shared<const std::vector<float>>(params.begin(), params.end());
  }
  scoring_->submit([this, round = report.round, model] {
    auto result = std::make_shared<Result<Evaluation>>(
        model && scorer_ ? scorer_(*model) : Result<Evaluation>(Evaluation{}));
    loop_.post([this, round, result] {
      if (!running_ || over()) return;
      if (!*result) {
        failure_ = (*result).error();
        return;
      }
      if (observer_.on_report) observer_.on_report(now(), round, **result);
      node_->scored(now(), round, **result);
    });
  });
}

void EventLoop::record(Rank, const Record& record) {
  if (observer_.on_record) observer_.on_record(now(), record);
}

void EventLoop::fail(Rank, const Error& error) {
  if (!failure_) failure_ = error;
}

}  // namespace longhaul::net
