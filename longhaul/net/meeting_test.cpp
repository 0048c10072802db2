// Meeting with whole nodes and their membership, without sockets: processes die at any moment, all
// of them too, and are started again in any order. What processes do with a Meeting's answers is
// here as in EventLoop and SiteSession; connections break only when an end of them does.
//
// Invariants: each run reaches its last round, or ends with a true reason, in bounded time and with
// bounded messages. Two lives never both train.
//   These tests kill every subset of two to five processes before every event, and some again while
//   they return. tests/several_deaths_test.cpp does the same with real strategies in the simulator,
//   and tests/cli/deaths_test.py kills random real processes. `make nightly` tries more cases.
#include "longhaul/net/meeting.h"

#include <cstdlib>

#include <gmock/gmock.h>

#include "longhaul/base/archive.h"
#include "longhaul/base/testing/effort.h"
#include "longhaul/core/node.h"

namespace longhaul::net {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr Round kRounds = 12, kEvery = 3;  // a checkpoint after each so many
constexpr Time kDelay = 10ms, kTick = 50ms, kSilence = 10s, kMeet = 20s, kGrace = 3s;

// Counts rounds: one is done when all members have said that they are in it.
class Rounds final : public Strategy {
 public:
  struct InRound {
    LONGHAUL_MESSAGE(1, "in_round");
    Round round = 0;
    bool knows = false;
    LONGHAUL_FIELDS(round, knows)
  };
  explicit Rounds(const Place& place) : knows_(!place.comes_back()) {}
  void on_start(Turn& turn) override { say(turn); }
  void on_view(const View&, Turn& turn) override {
    std::erase_if(heard_, [&](const auto& one) {
      return !turn.view().has(one.first) || turn.view().since(one.first) == turn.view().epoch;
    });
    const Rank senior = senior_worker(turn.place(), turn.view());
    if (!knows_ && senior == turn.self())
      return turn.fail(state_lost("all sites that knew the model are lost"));
    say(turn);
  }
  Status on_message(Rank from, const Message& message, Turn& turn) override {
    return dispatch(MessageList<InRound>{}, message, [&](const InRound& m) -> Status {
      if (!m.knows) return Ok{};
      heard_[from] = std::max(heard_[from], m.round + 1);
      if (knows_) return advance(turn), Ok{};
      knows_ = true;
      round_ = m.round;
      if (round_ >= kRounds) end(turn);
      return say(turn), Ok{};
    });
  }
  void say(Turn& turn) {
    for (const Rank rank : turn.view().live)
      if (rank != turn.self()) turn.send(rank, InRound{round_, knows_}, {}, kControl);
    advance(turn);
  }
  void advance(Turn& turn) {
    if (!knows_ || finished_) return;
    for (const Rank rank : turn.view().live)
      if (rank != turn.self() && heard_[rank] <= round_) return;
    ++round_;
    if (round_ >= kRounds) end(turn);
    say(turn);
  }
  void end(Turn& turn) {
    finished_ = true;
    turn.finish();
  }
  Round rounds_done() const override { return round_; }
  bool lets_return() const override { return true; }
  std::string waiting_for() const override {
    return finished_ ? "" : "round " + std::to_string(round_);
  }
  void state(Archive& ar) override { ar(round_, knows_, finished_, heard_); }

 private:
  Round round_ = 0;
  bool knows_, finished_ = false;
  std::map<Rank, Round> heard_;  // the round that they are in, plus 1
};

struct Disk {
  struct Kept {
    Buffer state;
    View view;
  };
  std::map<std::uint64_t, Kept> checkpoints;  // the last two
  std::uint64_t life = 0;
  Buffer votes;
};

class Cluster;

// One session of one process of a site.
class Session final : public Host {
 public:
  struct Link {
    std::optional<std::uint64_t> process;
    Session* peer = nullptr;  // connected
    std::uint64_t connection = 0;
    Time heard{0}, tried{-1h};
    bool dropped = false, silent = false;
  };
  Session(Cluster&, Rank, bool asks);
  ~Session() override;

  void tick();
  Hello hello(Rank to) const;
  Meeting::Contact contact(Rank peer) const;
  void told(const Refusal&);
  void connected(Rank peer, Session& other, std::uint64_t connection, std::uint64_t process);
  void lost(Rank peer);
  void replace(Rank peer);
  void deliver(Rank from, const Message& message);
  bool may_dial(Rank peer) const { return asks_ || peer > rank_; }
  bool running() const { return node_ != nullptr; }
  Round rounds() const { return node_ ? node_->strategy().rounds_done() : 0; }
  void look();

  // Host
  void send(Rank, Send) override;
  void set_timer(Rank, const SetTimer&) override;
  void cancel_timer(Rank, const CancelTimer&) override;
  void compute(Rank, ComputeStep) override {}
  void report(Rank, Report) override {}
  void record(Rank, const Record&) override {}
  void finish(Rank) override {
    finished_at_ = now();
    meeting_.end();
    cluster_trace("finished");
  }
  void cluster_trace(const std::string& text) const;
  void fail(Rank, const Error&) override;
  void follow(Rank, const View&, const View&) override;
  void keep(Rank, const Buffer& votes) override;

  Time now() const;
  void begin();
  void left_out(bool lost);
  void resumes();
  void watch(Rank peer, Link&);
  void arm(std::pair<std::uint32_t, TimerId> key, Time at);
  void save_if_due();
  void save(std::uint64_t number);
  void transmit(std::uint64_t number);
  void acknowledged(std::uint64_t number, std::uint64_t their_checkpoint);

  Cluster& cluster_;
  const Rank rank_;
  const bool asks_;
  const std::uint64_t process_;
  Place place_;
  std::map<Rank, Link> links_;
  Meeting meeting_;
  std::unique_ptr<Node> node_;
  std::map<std::pair<std::uint32_t, TimerId>, std::pair<Time, std::uint64_t>> timers_;
  Time began_{0}, probed_{0};
  std::uint64_t newest_ = 0;  // checkpoint
  // As in the Outbox, until they are acknowledged; and the Inbox.
  std::map<std::uint64_t, std::pair<Rank, Message>> under_way_;
  std::set<std::uint64_t> seen_;
  std::optional<Time> finished_at_;
  // What the process does next, when the call that found it out is over.
  enum class Next : std::uint8_t { nothing, ask, arrive, end } next_ = Next::nothing;
  std::string reason_;
};

class Cluster {
 public:
  struct Kill {
    std::vector<Rank> who;
    std::uint64_t event = 0;
  };
  Cluster(std::uint32_t size, std::vector<Rank> named = {})
      : size_(size), named_(std::move(named)) {
    disks_.resize(size);
    sessions_.resize(size);
    done_.resize(size);
    for (Rank rank = 0; rank < size; ++rank) start(rank);
  }
  void start(Rank rank, bool asks = false) {
    sessions_[rank].reset();
    sessions_[rank] = std::make_unique<Session>(*this, rank, asks);
    trace(rank, std::string(asks ? "asks" : "arrives") + ", process " +
                    std::to_string(sessions_[rank]->process_));
    const std::uint64_t process = sessions_[rank]->process_;
    at(now_ + kTick, [this, rank, process] { tick(rank, process); });
  }
  void tick(Rank rank, std::uint64_t process) {
    Session* const session = session_of(rank, process);
    if (!session) return;
    session->tick();
    settle();
    if (session_of(rank, process)) at(now_ + kTick, [=, this] { tick(rank, process); });
  }
  Session* session_of(Rank rank, std::uint64_t process) {
    Session* const session = sessions_[rank].get();
    return session && session->process_ == process ? session : nullptr;
  }
  void at(Time when, std::function<void()> what) { queue_.emplace(when, std::move(what)); }
  // Something that a process hears: what kills are counted by.
  void event() { ++events_; }
  // With MEETING_TRACE=1, for whoever looks into a failure.
  void trace(Rank rank, const std::string& text) const {
    static const bool on = std::getenv("MEETING_TRACE") != nullptr;
    if (on)
      std::printf("%9.3f s, event %lu, rank %u: %s\n", seconds(now_), events_, rank, text.c_str());
  }
  void kill(Rank rank) {
    trace(rank, "killed");
    sessions_[rank].reset();
  }
  // What sessions found out while others were called.
  void settle() {
    for (bool again = true; std::exchange(again, false);)
      for (Rank rank = 0; rank < size_; ++rank) {
        Session* const session = sessions_[rank].get();
        if (!session || session->next_ == Session::Next::nothing) continue;
        again = true;
        const auto next = session->next_;
        if (next == Session::Next::end) {
          trace(rank, "ends: " + session->reason_);
          reasons_[rank] = session->reason_;
          done_[rank] = session->finished_at_.has_value();
          sessions_[rank].reset();
          if (!done_[rank] && restarts_ < 20) {  // whoever watches over it does
            ++restarts_;
            at(now_ + 1s, [this, rank] {
              if (!sessions_[rank]) start(rank);
            });
          }
        } else {
          ++turns_;
          start(rank, next == Session::Next::ask);
        }
      }
  }
  void dial(Session& from, Rank to) {
    const Rank rank = from.rank_;
    at(now_ + kDelay, [this, rank, process = from.process_, to] {
      Session* const dialling = session_of(rank, process);
      if (dialling && sessions_[to]) greet(*dialling, *sessions_[to]);
      settle();
    });
  }
  // The hello of `a` at `b`, and its answer.
  void greet(Session& a, Session& b) {
    event();
    ++hellos_;
    const Hello first = a.hello(b.rank_);
    if (b.meeting_.must_ask(first)) {
      const Hello asked = b.hello(a.rank_);
      auto answer = a.meeting_.hear(asked, now_);
      if (answer.refusal) return b.told(*answer.refusal);
      if (answer.replaces) a.replace(b.rank_);
      return b.meeting_.on_known(first);
    }
    auto answer = b.meeting_.hear(first, now_);
    if (answer.refusal) return a.told(*answer.refusal);
    if (answer.replaces) b.replace(a.rank_);
    // The link's own check.
    if (const Session::Link& link = b.links_.at(a.rank_);
        link.dropped || (link.process && *link.process != first.process && b.running()))
      return a.told({"refused by the link"});
    const Hello second = b.hello(a.rank_);
    if (a.meeting_.must_ask(second)) return;
    auto back = a.meeting_.hear(second, now_);
    if (back.refusal) return b.told(*back.refusal);
    if (back.replaces) a.replace(b.rank_);
    if (const Session::Link& link = a.links_.at(b.rank_);
        link.dropped || (link.process && *link.process != second.process && a.running()))
      return b.told({"refused by the link"});
    const std::uint64_t connection = ++connections_;
    a.connected(b.rank_, b, connection, second.process);
    b.connected(a.rank_, a, connection, first.process);
    a.look();
    b.look();
  }
  bool step() {
    if (queue_.empty()) return false;
    auto first = queue_.begin();
    now_ = first->first;
    const auto what = std::move(first->second);
    queue_.erase(first);
    what();
    return true;
  }
  // True: all that were not killed for good have finished.
  bool run(std::vector<Kill> kills, const std::vector<Time>& back, Time most = 300s) {
    while (now_ < most) {
      for (auto& kill : kills)
        if (!kill.who.empty() && events_ >= kill.event) {
          const std::vector<Rank> who = std::exchange(kill.who, {});
          for (std::size_t i = 0; i < who.size(); ++i) {
            const Rank rank = who[i];
            this->kill(rank);
            at(now_ + back.at(i), [this, rank] {
              if (!sessions_[rank] && !done_[rank]) start(rank);
            });
          }
        }
      if (std::ranges::all_of(done_, [](bool done) { return done; })) return true;
      // Those that were away while the others ended find nobody.
      bool nobody_runs = true;
      for (Rank rank = 0; rank < size_; ++rank)
        nobody_runs &= done_[rank] || (sessions_[rank] && !sessions_[rank]->running());
      if (nobody_runs && std::ranges::any_of(done_, [](bool done) { return done; })) return true;
      if (!step()) return false;
    }
    return false;
  }
  std::string describe() const {
    std::string text = "at " + std::to_string(seconds(now_)) + " s";
    for (Rank rank = 0; rank < size_; ++rank) {
      const Session* const session = sessions_[rank].get();
      text += "; " + std::to_string(rank) + ": ";
      if (!session)
        text += done_[rank] ? "done" : "dead";
      else
        text += std::string(session->asks_ ? "asks" : "arrives") + ", " +
                (session->node_ ? session->node_->waiting_for() + ", epoch " +
                                      std::to_string(session->node_->view().epoch)
                                : "meets");
    }
    return text;
  }
  // Two lives must never both do rounds.
  void did_round(std::uint64_t life) {
    if (lives_.empty() || lives_.back() != life) {
      EXPECT_EQ(std::ranges::count(lives_, life), 0) << "a life that was over does rounds";
      lives_.push_back(life);
    }
  }

  const std::uint32_t size_;
  const std::vector<Rank> named_;
  Time now_{0};
  std::multimap<Time, std::function<void()>> queue_;
  std::uint64_t events_ = 0, connections_ = 0, processes_ = 0, restarts_ = 0, turns_ = 0,
                hellos_ = 0;
  std::vector<Disk> disks_;
  std::vector<std::unique_ptr<Session>> sessions_;  // by rank
  std::vector<bool> done_;
  std::map<Rank, std::string> reasons_;
  std::vector<std::uint64_t> lives_;
};

Place place_in(const Cluster& cluster, Rank self, bool asks) {
  Members members;
  for (Rank rank = 0; rank < cluster.size_; ++rank)
    members.push_back({"site" + std::to_string(rank)});
  members[self].incarnation = asks ? 1 : 0;
  Place place{.self = self,
              .members = std::make_shared<const Members>(std::move(members)),
              .layout = Layout::flat(1)};
  place.quorum.named = cluster.named_;
  return place;
}

Session::Session(Cluster& cluster, Rank rank, bool asks)
    : cluster_(cluster),
      rank_(rank),
      asks_(asks),
      process_(++cluster.processes_),
      place_(place_in(cluster, rank, asks)),
      meeting_(place_,
               {.process = process_,
                .nothing_to_rejoin = kGrace,
                .told_so = 1s,
                .heard_within = 3s,
                .connect_within = 5s},
               [this](Rank peer) { return contact(peer); }),
      began_(cluster.now_),
      probed_(cluster.now_) {
  for (Rank peer = 0; peer < cluster.size_; ++peer)
    if (peer != rank) links_[peer];
  const auto& kept = cluster.disks_[rank].checkpoints;
  if (kept.empty()) return;
  newest_ = kept.rbegin()->first;
  if (!asks)
    meeting_.offer({.newest = newest_,
                    .members = cluster.size_,
                    .has_before = newest_ == 1 || kept.contains(newest_ - 1),
                    .view = kept.rbegin()->second.view});
}

void Session::cluster_trace(const std::string& text) const { cluster_.trace(rank_, text); }

Session::~Session() {
  for (auto& [peer, link] : links_)
    if (link.peer) link.peer->lost(rank_);
}

Time Session::now() const { return cluster_.now_; }

Hello Session::hello(Rank) const {
  const auto& kept = cluster_.disks_[rank_].checkpoints;
  const std::uint64_t taken = running() ? newest_ : 0;
  Hello hello{.rank = rank_,
              .site = place_.me().site,
              .incarnation = place_.me().incarnation,
              .process = process_,
              .checkpointed = {taken, running() ? taken : newest_},
              .running = running() && meeting_.is_member(),
              .life = meeting_.life(),
              .keys = {},
              .inputs = {},
              .have = {}};
  if (kept.empty() || asks_) return hello;
  const View& view = kept.rbegin()->second.view;
  hello.members = cluster_.size_;
  hello.has_before = newest_ == 1 || kept.contains(newest_ - 1);
  hello.epoch = view.epoch;
  for (Rank rank = 0; rank < cluster_.size_; ++rank)
    if (!view.has(rank)) hello.lost.push_back(rank);
  for (const auto& [rank, epoch] : view.returned) hello.returned.push_back({rank, epoch});
  return hello;
}

Meeting::Contact Session::contact(Rank peer) const {
  const Link& link = links_.at(peer);
  return {link.process, link.peer != nullptr, link.peer != nullptr, link.dropped};
}

void Session::told(const Refusal& refusal) {
  if (refusal.kind != RefusalKind::later) cluster_.trace(rank_, "told: " + refusal.reason);
  if (refusal.kind == RefusalKind::rejoin) left_out(false);
  if (refusal.kind == RefusalKind::lost) left_out(true);
  if (refusal.kind == RefusalKind::resume) meeting_.told_to_resume();
  if (refusal.kind == RefusalKind::final && !running()) {
    next_ = Next::end;
    reason_ = refusal.reason;
  }
}

void Session::left_out(bool lost) {
  if (finished_at_ || (running() && !lost && (node_->outside() || node_->has_quorum()))) return;
  next_ = Next::ask;
}

void Session::resumes() {
  if (!asks_ || finished_at_ || (running() && !node_->outside()) || meeting_.meets_member()) return;
  next_ = Next::arrive;
}

void Session::connected(Rank peer, Session& other, std::uint64_t connection,
                        std::uint64_t process) {
  Link& link = links_.at(peer);
  link.peer = &other;
  link.connection = connection;
  link.process = process;
  link.heard = now();
  if (running() && link.silent) {
    link.silent = false;
    node_->unreachable(now(), peer, false);
  }
  if (meeting_.is_stranger(peer) && !finished_at_) node_->returned(now(), peer);
}

void Session::lost(Rank peer) {
  Link& link = links_.at(peer);
  link.peer = nullptr;
  link.heard = now();
}

void Session::replace(Rank peer) {
  Link& link = links_.at(peer);
  if (link.peer) link.peer->lost(rank_);
  link = {.process = {}, .heard = now()};
  std::erase_if(under_way_, [&](const auto& one) { return one.second.first == peer; });
  meeting_.replaced(peer);
}

void Session::tick() {
  if (finished_at_ && now() - *finished_at_ > 2s) next_ = Next::end;
  if (next_ != Next::nothing) return;
  const bool probes = !asks_ && !running() && now() - probed_ >= 3s;
  if (probes) probed_ = now();
  const bool complete = !running() && meeting_.complete(now());
  if (!complete)
    for (const Rank peer : meeting_.to_ask())
      if (now() - links_.at(peer).tried >= 200ms) {
        links_.at(peer).tried = now();
        cluster_.dial(*this, peer);
      }
  for (auto& [peer, link] : links_) {
    if (link.peer && running()) link.heard = now();
    if (running() && !finished_at_ && !link.dropped) watch(peer, link);
    if (link.dropped || (link.peer && !probes)) continue;
    if (!may_dial(peer) && !probes && !(running() && now() - link.heard > kSilence / 3)) continue;
    if (now() - link.tried < 200ms) continue;
    link.tried = now();
    cluster_.dial(*this, peer);
  }
  if (meeting_.nothing_to_rejoin(now())) resumes();
  look();
}

// Peers::watch
void Session::watch(Rank peer, Link& link) {
  if (!node_) return;
  const bool silent = meeting_.has_restarted(peer) || (!link.peer && now() - link.heard > kSilence);
  if (silent == link.silent) return;
  link.silent = silent;
  if (silent && link.peer) link.peer->lost(rank_), link.peer = nullptr;
  if (silent && meeting_.forget_stranger(peer)) link.dropped = true;
  node_->unreachable(now(), peer, silent);
}

// Whether it may begin now.
void Session::look() {
  if (running() || next_ != Next::nothing) return;
  const Time waited = now() - began_;
  if (meeting_.complete(now()) || (waited > kMeet && !asks_ && meeting_.can_resume()))
    return begin();
  if (waited > (meeting_.holds_state() && !asks_ ? place_.majority_wait : kMeet)) {
    next_ = Next::end;
    reason_ = "not all are here";
  }
}

void Session::begin() {
  if (asks_) {
    meeting_.open();
    auto strategy = std::make_unique<Rounds>(place_);
    node_ = std::make_unique<Node>(place_, std::move(strategy), nullptr, *this);
    newest_ = 0;
    for (const auto& [peer, link] : links_)
      if (link.peer) newest_ = std::max(newest_, link.peer->newest_);
    const Disk& disk = cluster_.disks_[rank_];
    if (disk.life == meeting_.life() && !disk.votes.empty())
      LH_CHECK(node_->remember(now(), share(Buffer(disk.votes))));
    return node_->start(now());
  }
  const auto chosen = meeting_.choose_checkpoint();
  if (!chosen) {
    next_ = Next::end;
    reason_ = chosen.error().what;
    return;
  }
  if (!*chosen) return left_out(false);
  newest_ = **chosen;
  meeting_.open();
  cluster_.trace(rank_, "begins from checkpoint " + std::to_string(newest_) + ", life " +
                            std::to_string(meeting_.life()));
  node_ = std::make_unique<Node>(place_, std::make_unique<Rounds>(place_), nullptr, *this);
  for (auto& [peer, link] : links_) link.heard = now();
  if (newest_ == 0) return node_->start(now());
  Archive ar(cluster_.disks_[rank_].checkpoints.at(newest_).state);
  std::map<std::pair<std::uint32_t, TimerId>, Time> timers;
  std::set<Rank> silent;
  ar(timers, under_way_, seen_, silent);
  node_->state(ar);
  LH_CHECK(ar.finish());
  for (const Rank peer : silent) links_.at(peer).silent = true;
  for (const auto& [key, time] : timers) arm(key, now());
  for (auto& [peer, link] : links_) link.dropped = !node_->view().has(peer);
  for (const auto& [number, one] : under_way_) transmit(number);
}

void Session::deliver(Rank from, const Message& message) {
  if (!running() || finished_at_ || next_ != Next::nothing) return;
  const Round before = rounds();
  const Status good = node_->deliver(now(), from, message);
  EXPECT_TRUE(good) << good.error().what;
  if (rounds() > before && !asks_) cluster_.did_round(meeting_.life());
  save_if_due();
  for (auto& [peer, link] : links_)
    if (!node_->view().has(peer) && !meeting_.is_stranger(peer) && !link.dropped &&
        meeting_.is_member()) {
      if (link.peer) link.peer->lost(rank_), link.peer = nullptr;
      link.dropped = true;
    }
}

// The one before is on all disks.
void Session::save_if_due() {
  if (!running() || asks_ || rounds() / kEvery <= newest_) return;
  for (const Rank peer : node_->view().live)
    if (const auto& link = links_.find(peer);
        link != links_.end() && (!link->second.peer || link->second.peer->newest_ < newest_))
      return;
  save(newest_ + 1);
}

void Session::save(std::uint64_t number) {
  newest_ = number;
  if (node_->outside() || node_->at_end() || rounds() >= kRounds) return;
  Archive ar;
  std::map<std::pair<std::uint32_t, TimerId>, Time> timers;
  for (const auto& [key, due] : timers_) timers[key] = due.first;
  std::set<Rank> silent;
  for (const auto& [peer, link] : links_)
    if (link.silent) silent.insert(peer);
  ar(timers, under_way_, seen_, silent);
  node_->state(ar);
  auto& kept = cluster_.disks_[rank_].checkpoints;
  kept[number] = {ar.take(), node_->view()};
  while (kept.size() > 2) kept.erase(kept.begin());
}

void Session::send(Rank, Send send) {
  const Link& link = links_.at(send.to);
  if (link.dropped || (meeting_.is_stranger(send.to) && !Node::is_of_membership(send.message)))
    return;
  const std::uint64_t number = ++cluster_.connections_;
  under_way_[number] = {send.to, std::move(send.message)};
  transmit(number);
}

// When there is a connection to the process that it is for.
void Session::transmit(std::uint64_t number) {
  struct Attempt {
    Cluster& cluster;
    Rank from;
    std::uint64_t process, number;
    void operator()() const {
      Session* const sender = cluster.session_of(from, process);
      if (!sender || !sender->under_way_.contains(number)) return;
      const auto [to, message] = sender->under_way_.at(number);
      const Link& link = sender->links_.at(to);
      if (link.dropped) return void(sender->under_way_.erase(number));
      if (!link.peer || !link.peer->running())
        return cluster.at(cluster.now_ + kTick, Attempt(*this));
      Session& receiver = *link.peer;
      cluster.event();
      if (sender->newest_ > receiver.newest_) receiver.save(sender->newest_);
      if (receiver.seen_.insert(number).second) receiver.deliver(from, message);
      cluster.at(cluster.now_ + kDelay, [*this, checkpoint = receiver.newest_] {
        if (Session* const told = cluster.session_of(from, process))
          told->acknowledged(number, checkpoint);
      });
      cluster.settle();
    }
  };
  cluster_.at(now() + kDelay, Attempt{cluster_, rank_, process_, number});
}

// Nobody handles what was sent after a checkpoint before it has taken that, too (link.h).
void Session::acknowledged(std::uint64_t number, std::uint64_t their_checkpoint) {
  if (their_checkpoint > newest_) save(their_checkpoint);
  under_way_.erase(number);
}

void Session::arm(std::pair<std::uint32_t, TimerId> key, Time at) {
  const std::uint64_t number = ++cluster_.connections_;
  timers_[key] = {at, number};
  cluster_.at(at, [&cluster = cluster_, rank = rank_, process = process_, key, number] {
    Session* const session = cluster.session_of(rank, process);
    if (!session || !session->running()) return;
    const auto timer = session->timers_.find(key);
    if (timer == session->timers_.end() || timer->second.second != number) return;
    session->timers_.erase(timer);
    session->node_->timer(session->now(), Path::from_bits(key.first), key.second);
    cluster.settle();
  });
}

void Session::set_timer(Rank, const SetTimer& timer) {
  arm({timer.machine.bits(), timer.id}, timer.at);
}

void Session::cancel_timer(Rank, const CancelTimer& timer) {
  timers_.erase({timer.machine.bits(), timer.id});
}

void Session::fail(Rank, const Error& error) {
  if (node_->excluded()) return left_out(true);
  if (error.kind == Error::Kind::state_lost) {
    next_ = Next::arrive;
    for (auto& [peer, link] : links_)
      if (link.peer && link.peer->running() && !link.peer->finished_at_ &&
          link.peer->node_->view().epoch == node_->view().epoch)
        link.peer->next_ = Next::arrive;
    return;
  }
  next_ = Next::end;
  reason_ = error.what;
}

void Session::follow(Rank, const View& before, const View& view) {
  cluster_.trace(
      rank_, "view " + std::to_string(view.epoch) + ": " +
                 ::testing::PrintToString(std::vector<Rank>(view.live.begin(), view.live.end())));
  if (!view.has(rank_)) return;
  if (!meeting_.is_member()) meeting_.admit();
  for (const Rank rank : view.live)
    if (rank != rank_ && !before.has(rank) && !meeting_.forget_stranger(rank)) replace(rank);
}

void Session::keep(Rank, const Buffer& votes) {
  cluster_.disks_[rank_].life = meeting_.life();
  cluster_.disks_[rank_].votes = votes;
}

TEST(Meeting, AllBeginAndEnd) {
  Cluster cluster(3);
  EXPECT_TRUE(cluster.run({}, {})) << cluster.describe();
  EXPECT_EQ(cluster.turns_, 0u);
}

struct Tally {
  std::uint64_t runs = 0, resumed = 0, reasons = 0;
};

std::uint64_t stride(std::uint64_t least) {
  return std::getenv("LONGHAUL_ALL") != nullptr ? least : least * testing::kStride;
}

// Every subset, all of them too, before every event; some of them again while they come back.
Tally enumerate(std::uint32_t size, std::uint64_t least, std::vector<Rank> named = {}) {
  Cluster plain(size, named);
  EXPECT_TRUE(plain.run({}, {}));
  Tally tally;
  std::uint64_t number = 0;
  for (std::uint32_t bits = 1; bits < (1u << size); ++bits)
    for (std::uint64_t event = 1; event <= plain.events_; ++event)
      for (std::uint32_t again = 0; again < (1u << size); ++again)
        for (const bool reversed : {false, true}) {
          if (number++ % stride(least) != 0) continue;
          const char* const one = std::getenv("MEETING_NUMBER");
          if (one != nullptr && number != std::stoull(one)) continue;
          std::vector<Cluster::Kill> kills(2);
          for (Rank rank = 0; rank < size; ++rank) {
            if (bits >> rank & 1) kills[0].who.push_back(rank);
            if (again >> rank & 1) kills[1].who.push_back(rank);
          }
          if (reversed) std::ranges::reverse(kills[0].who);
          kills[0].event = event;
          kills[1].event = event + 1 + number % 61;
          std::vector<Time> back;
          for (Rank rank = 0; rank < size; ++rank)
            back.push_back((number % 3 == 0 ? 20ms : 1s) +
                           std::int64_t(rank) * (number % 2 == 0 ? 0ms : 1700ms));
          Cluster cluster(size, named);
          const bool ended = cluster.run(kills, back);
          ++tally.runs;
          tally.resumed += cluster.lives_.size() > 1;
          tally.reasons += std::ranges::any_of(cluster.reasons_,
                                               [](const auto& one) { return !one.second.empty(); });
          EXPECT_TRUE(ended) << cluster.describe();
          EXPECT_LT(cluster.turns_, 12u * size) << "processes turn in circles";
          EXPECT_LT(cluster.hellos_, 600u * size) << cluster.describe();
          if (::testing::Test::HasFailure()) {
            ADD_FAILURE() << "nodes " << size << ", killed " << bits << " before event " << event
                          << ", again " << again << " before " << kills[1].event << ", number "
                          << number << ", reversed " << reversed;
            for (const auto& [rank, reason] : cluster.reasons_)
              std::printf("%u: %s\n", rank, reason.c_str());
            return tally;
          }
        }
  std::printf("%u nodes: %lu runs, %lu resumed, %lu in which a process ended with a reason\n", size,
              tally.runs, tally.resumed, tally.reasons);
  return tally;
}

TEST(Meeting, AnyOfTwoAtAnyMoment) { EXPECT_GT(enumerate(2, 1).runs, 5u); }
TEST(Meeting, AnyOfThreeAtAnyMoment) { EXPECT_GT(enumerate(3, 7).runs, 10u); }
TEST(Meeting, AnyOfFourAtAnyMoment) { EXPECT_GT(enumerate(4, 37).runs, 10u); }
TEST(Meeting, AnyOfFiveAtAnyMoment) { EXPECT_GT(enumerate(5, 499).runs, 5u); }
TEST(Meeting, AnyOfThreeWithANamedSite) { EXPECT_GT(enumerate(3, 7, {1}).runs, 10u); }

}  // namespace
}  // namespace longhaul::net
