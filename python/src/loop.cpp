#include "loop.h"

#include <algorithm>

#include <fmt/format.h>
#include <xxhash.h>

#include "longhaul/run/interrupt.h"

namespace longhaul::python {
namespace {

std::mutex& one_loop_at_a_time() {
  static std::mutex mutex;
  return mutex;
}

Status readable(std::span<const float> packed) {
  const auto bytes = unpack_bytes(packed);
  return bytes ? Status(Ok{}) : Status(bytes.error());
}

}  // namespace

std::unique_lock<std::mutex> Loop::hold_all() { return std::unique_lock(one_loop_at_a_time()); }

void Loop::attach(Attached to) {
  const std::lock_guard lock(mutex_);
  attached_ = std::move(to);
  changed_.notify_all();
}

Request Loop::next() {
  for (const auto until = Clock::now() + kWatch; requests_ == taken_ && Clock::now() < until;) {
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return request_.has_value(); });
  ++taken_;
  Request request = *std::move(request_);
  request_.reset();
  return request;
}

void Loop::answer(Result<Reply> reply) {
  {
    const std::lock_guard lock(mutex_);
    reply_ = std::move(reply);
  }
  changed_.notify_all();  // without the mutex: a thread that wakes on this core needs it at once
}

void Loop::leave(std::string why) {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(left_, true)) why_ = std::move(why);
  changed_.notify_all();
}

Error Loop::left_error() const {
  if (!why_.empty()) return invalid(fmt::format("site {}: {}", site_, why_));
  if (!attached_)
    return invalid(
        fmt::format("site {}: train() returned without site.attach(model, optimizer)", site_));
  return invalid(fmt::format(
      "site {}: train() returned after {} steps, before the run had ended; take batches from "
      "site.batches(loader), which ends when the run ends",
      site_, asked_ > 0 ? asked_ - 1 : 0));
}

Status Loop::wait_for(std::unique_lock<std::mutex>& lock, const char* what,
                      const std::function<bool()>& ready) {
  const auto begun = Clock::now();
  auto pause = std::chrono::minutes(1);
  bool stops = false;
  while (!changed_.wait_for(lock, kLook, ready)) {
    lock.unlock();
    if (Clock::now() - begun > pause) {
      note_(fmt::format("site {}: {} takes more than {} min", site_, what, pause.count()));
      pause *= 2;
    }
    if (run::interrupted() && !std::exchange(stops, true))
      note_(
          fmt::format("site {}: stops, and waits for {}; a second Ctrl-C, or another signal more "
                      "than 1 s later, ends all at once",
                      site_, what));
    LH_TRY(look_());
    lock.lock();
  }
  return Ok{};
}

Result<Attached> Loop::attached() {
  std::unique_lock lock(mutex_);
  LH_TRY(wait_for(lock, "site.attach()", [&] { return attached_ || left_; }));
  if (!attached_) return left_error();
  return *attached_;
}

Result<Reply> Loop::ask(const Request& request) {
  const std::lock_guard turn(one_loop_at_a_time());
  std::unique_lock lock(mutex_);
  if (left_) return left_error();
  const auto* work = std::get_if<const Work*>(&request);
  asked_ += work && trains(**work);
  request_ = request;
  reply_.reset();
  lock.unlock();
  ++requests_;
  changed_.notify_all();
  lock.lock();
  LH_TRY(wait_for(lock, "one step of its loop", [&] { return reply_ || left_; }));
  if (!reply_) return left_error();
  return *std::move(reply_);
}

bool Loop::is_fresh() {
  const std::lock_guard lock(mutex_);
  return !left_ && requests_ == 0;
}

void Loop::end() {
  const std::lock_guard turn(one_loop_at_a_time());
  std::unique_lock lock(mutex_);
  if (left_) return;
  request_ = End{};
  ++requests_;
  changed_.notify_all();
  (void)wait_for(lock, "the end of train(), after the run,", [&] { return left_; });
}

Result<std::unique_ptr<LoopLearner>> LoopLearner::make(std::shared_ptr<Loop> loop,
                                                       GiveBack give_back) {
  LH_LET(to, loop->attached());
  return std::unique_ptr<LoopLearner>(
      new LoopLearner(std::move(loop), std::move(to), std::move(give_back)));
}

LoopLearner::~LoopLearner() {
  if (loop_->is_fresh() && digest() == began_with_)
    give_back_(std::move(loop_));
  else
    loop_->end();
}

std::uint64_t LoopLearner::digest() const {
  return XXH3_64bits(to_.params, std::size_t(to_.layout->size()) * sizeof(float));
}

std::span<float> LoopLearner::params() {
  if (!fetched_)
    if (auto reply = loop_->ask(Fetch{}); !reply) failed_ = reply.error();
  fetched_ = true;
  lent_ = to_.wants_put;
  return {to_.params, std::size_t(to_.layout->size())};
}

Status LoopLearner::put() {
  if (failed_) return *failed_;
  if (!lent_) return Ok{};
  lent_ = false;
  LH_TRY(loop_->ask(Put{}));
  return Ok{};
}

Result<StepResult> LoopLearner::step(const Work& work) {
  if (const auto* state = std::get_if<OptimizerState>(&work))
    if (state->whole && !state->set.empty()) LH_TRY(readable(state->set));
  LH_TRY(put());
  fetched_ = !to_.mirrored;
  LH_LET(reply, loop_->ask(&work));
  return std::move(reply.step);
}

void LoopLearner::state(Archive& ar) {
  ar.expect("own loop");
  ar.floats(params());
  ar.floats(grads());
  Buffer bytes;
  if (!ar.loading()) {
    auto reply = loop_->ask(Save{});
    if (!reply) return ar.fail(reply.error().what);
    bytes = std::move(reply->bytes);
  }
  ar(bytes);
  if (!ar.loading() || ar.failed()) return;
  if (const Status sent = put(); !sent) return ar.fail(sent.error().what);
  if (auto reply = loop_->ask(Load{std::move(bytes)}); !reply) ar.fail(reply.error().what);
}

}  // namespace longhaul::python
