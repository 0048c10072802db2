#pragma once
// Models distributes a specialised cheap model from the site that received it to all other sites.
// Sites announce their newest version at the start, when a site returns, and after taking a model.
// A site with an older model fetches the newer one, piece by piece. The node's learner checks a
// model before it is kept. A site reports that it has a model once its log holds it.
//
// A site fetches one model at a time, from one site, and keeps at most kMostFile bytes of it.
#include <algorithm>
#include <optional>
#include <set>

#include "longhaul/base/archive.h"
#include "longhaul/core/machine.h"
#include "longhaul/focus/messages.h"

namespace longhaul::focus {

class Models {
  static void archive_model(Archive& ar, std::shared_ptr<const GivenModel>& model) {
    bool full = model != nullptr;
    ar(full);
    if (!full) return model.reset();
    GivenModel value;
    if (!ar.loading()) value = *model;
    ar(value);
    if (ar.loading()) model = std::make_shared<const GivenModel>(std::move(value));
  }

  static void answer_user(std::uint64_t client, const Answer& answer, bool last, Turn& turn) {
    turn.reply(client, to_wire(answer), last);
  }

 public:
  static constexpr std::size_t kPart = 256 * 1024;  // bytes of one piece
  static constexpr TimerId kTimer{4};
  // `node`: the machine that owns this part. `patience`: a site that is silent about a user's model
  // for this time is missing.
  Models(const Machine& node, Time patience) : node_(node), patience_(patience) {}

  // Restores a model from the log; called before the start.
  void restore(std::shared_ptr<const GivenModel> model) {
    if (!newest_ || newest_->version < model->version) newest_ = std::move(model);
  }
  // Announces this site's version. A site with a newer model announces its own, and a site with an
  // older one fetches this one.
  void on_start(Turn& turn) { send_to_others(turn); }

  // Takes a model from a user. Its version is set in checked().
  void on_requested(std::uint64_t client, GivenModel model, Turn& turn) {
    if (giving_ || candidate_ || !announced_)
      return refuse(client, "another model is on its way to the sites: give this one after it",
                    turn);
    model.version = {};
    candidate_ = std::make_shared<const GivenModel>(std::move(model));
    from_user_ = true;
    giving_ = Giving{.client = client};
  }

  void cancel(std::uint64_t client) {
    if (giving_ && giving_->client == client) giving_->gone = true;
  }
  Status take(Rank from, const NewestModel& message, Turn& turn) {
    if (message.version < version()) {
      turn.send(from, NewestModel{version()}, {}, kModel);
      return Ok{};
    }
    if (knows(message.version) || (fetching_ && message.version <= fetching_->version)) return Ok{};
    fetching_ = Fetching{message.version, from};
    turn.send(from, FetchModel{message.version, 0}, {}, kModel);
    return Ok{};
  }

  Status take(Rank from, const FetchModel& message) {
    if (message.version > version()) return malformed("a request for a model that was not given");
    wanted_[from] = message;
    return Ok{};
  }

  Status take(Rank from, const ModelPart& part, const Payload& body, Turn& turn) {
    if (!fetching_ || fetching_->source != from || fetching_->version != part.version) return Ok{};
    if (part.version <= version()) {  // a newer one came first
      fetching_.reset();
      return Ok{};
    }
    Buffer& bytes = fetching_->bytes;
    if (part.offset != bytes.size()) return Ok{};  // from a restarted fetch
    const std::size_t most = GivenModel::kMostFile + 64 * 1024;
    if (body.is_phantom() || body.size() == 0 || body.size() > kPart || part.size > most ||
        body.size() > part.size - std::min<std::uint64_t>(part.size, bytes.size())) {
      fetching_.reset();
      return malformed("a piece of a model that does not fit its size");
    }
    const auto view = body.view();
    bytes.insert(bytes.end(), view.begin(), view.end());
    if (bytes.size() < part.size) {
      turn.send(from, FetchModel{part.version, bytes.size()}, {}, kModel);
      return Ok{};
    }
    auto model = from_wire<GivenModel>(bytes);
    const bool is_it = model && model->version == part.version;
    const Error error = model ? malformed("a model of another version") : model.error();
    fetching_.reset();
    if (!is_it) {
      refused_ = part.version;
      return error;
    }
    if (candidate_ && from_user_)
      return Ok{};  // the user's is checked first, this one fetched again
    candidate_ = std::make_shared<const GivenModel>(*std::move(model));
    from_user_ = false;
    return Ok{};
  }

  Status take(Rank from, const ModelTaken& message, Turn& turn) {
    if (message.version.origin != turn.self())
      return malformed("an answer to another site's model");
    if (!giving_ || giving_->version != message.version || giving_->waits_for.erase(from) == 0)
      return Ok{};
    taken_by(from, message.why, turn);
    return Ok{};
  }

  void on_view(Turn& turn) {
    std::erase_if(wanted_, [&](const auto& one) { return !turn.view().has(one.first); });
    if (fetching_ && !turn.view().has(fetching_->source)) fetching_.reset();
    if (giving_) {
      std::erase_if(giving_->waits_for, [&](Rank rank) {
        if (turn.view().has(rank)) return false;
        giving_->missing.push_back(rank);
        return true;
      });
      end_if_all(turn);
    }
    send_to_others(turn);  // a site has returned, or another has the lost site's model
  }

  void on_timer(Turn& turn) {
    if (!giving_ || giving_->until == Time{0} || turn.now() < giving_->until) return;
    giving_->missing.insert(giving_->missing.end(), giving_->waits_for.begin(),
                            giving_->waits_for.end());
    giving_->waits_for.clear();
    end_if_all(turn);
  }

  void advance(Turn& turn) {
    for (auto it = wanted_.begin(); it != wanted_.end();) {
      const auto& [rank, fetch] = *it;
      if (fetch.version != version()) {
        turn.send(rank, NewestModel{version()}, {}, kModel);
        it = wanted_.erase(it);
        continue;
      }
      if (turn.room(rank, kModel) == 0) {
        ++it;
        continue;
      }
      if (!encoded_) encoded_ = share(to_wire(*newest_));
      if (fetch.offset < encoded_->size()) {
        const std::size_t size = std::min<std::size_t>(kPart, encoded_->size() - fetch.offset);
        turn.send(rank, ModelPart{fetch.version, fetch.offset, encoded_->size()},
                  Payload(encoded_, fetch.offset, size), kModel);
      }
      it = wanted_.erase(it);
    }
  }

  // Returns the model that waits for a check; null if none does.
  std::shared_ptr<const GivenModel> candidate() const { return announced_ ? candidate_ : nullptr; }
  // Drops the candidate of another site if a newer model has replaced it.
  void drop_stale() {
    if (candidate_ && !from_user_ && candidate_->version <= version()) candidate_.reset();
  }

  // Ends the check. Takes the candidate as `version()` and returns it if `refused` is empty.
  // Returns null if it was refused or a newer model was taken first.
  std::shared_ptr<const GivenModel> checked(const std::string& refused, Turn& turn) {
    const auto candidate = std::exchange(candidate_, nullptr);
    LH_CHECK(candidate);
    refused_why_ = refused;
    if (!refused.empty()) {
      if (from_user_) {
        const Giving user = *std::exchange(giving_, std::nullopt);
        if (!user.gone) refuse(user.client, refused, turn);
      } else {
        refused_ = candidate->version;
        if (turn.view().has(refused_.origin))
          turn.send(refused_.origin, ModelTaken{refused_, refused.substr(0, 1000)}, {}, kModel);
      }
      send_to_others(turn);  // sites with newer models announce them again
      return nullptr;
    }
    GivenModel model = *candidate;
    if (from_user_)
      giving_->version = model.version = {std::max(version(), refused_).number + 1, turn.self()};
    if (model.version <= version()) return nullptr;  // a newer one came first
    newest_ = std::make_shared<const GivenModel>(std::move(model));
    encoded_.reset();
    announced_ = false;
    return newest_;
  }

  // Called when the log holds the model taken last.
  void stored(Turn& turn) {
    if (std::exchange(announced_, true)) return;
    if (giving_ && giving_->version == version()) {
      giving_->until = turn.now() + patience_;
      turn.set_timer(node_, kTimer, giving_->until);
      for (Rank rank = 0; rank < turn.place().size(); ++rank) {
        if (rank == turn.self() || !turn.place().member(rank).is(Role::worker)) continue;
        if (turn.view().has(rank))
          giving_->waits_for.insert(rank);
        else
          giving_->missing.push_back(rank);
      }
      taken_by(turn.self(), "", turn);
    } else {
      if (giving_ && giving_->until != Time{0}) {  // no site answers for the replaced model
        giving_->refused = "a newer model was given at another site meanwhile";
        giving_->waits_for.clear();
        end_if_all(turn);
      }
      if (turn.view().has(version().origin))
        turn.send(version().origin, ModelTaken{version(), ""}, {}, kModel);
    }
    send_to_others(turn);
  }

  const std::shared_ptr<const GivenModel>& newest() const { return newest_; }
  // Returns why the last model of a peer or user was refused; "" if it was taken.
  const std::string& refused() const { return refused_why_; }
  std::string waiting_for() const {
    if (fetching_) return "a model from rank " + std::to_string(fetching_->source);
    if (!giving_) return "";
    std::string text = "a model to be taken by ranks";
    for (const Rank rank : giving_->waits_for) text += " " + std::to_string(rank);
    return text;
  }

  void state(Archive& ar) {
    archive_model(ar, newest_);
    archive_model(ar, candidate_);
    ar(from_user_, announced_, refused_, refused_why_, fetching_, wanted_, giving_);
    if (ar.loading()) encoded_.reset();
  }

 private:
  struct Fetching {
    ModelVersion version;
    Rank source = 0;
    Buffer bytes = {};
    void state(auto& ar) { ar(version, source, bytes); }
  };
  struct Giving {  // the waiting user's request
    std::uint64_t client = 0;
    ModelVersion version = {};
    std::set<Rank> waits_for = {};
    std::vector<Rank> missing = {};
    std::string refused = {};  // reason of one of the sites
    Time until{0};             // 0: not checked and stored here yet
    bool gone = false;         // the user has cancelled
    void state(auto& ar) { ar(client, version, waits_for, missing, refused, until, gone); }
  };

  ModelVersion version() const { return newest_ ? newest_->version : ModelVersion{}; }
  bool knows(const ModelVersion& other) const {
    return other <= version() || other <= refused_ ||
           (candidate_ && !from_user_ && other <= candidate_->version);
  }

  void send_to_others(Turn& turn) {
    // Before the first model only a returned node has a question.
    if (version().number == 0 && turn.place().member(turn.self()).incarnation == 0) return;
    for (const Rank rank : turn.view().live)
      if (rank != turn.self()) turn.send(rank, NewestModel{version()}, {}, kModel);
  }

  void taken_by(Rank rank, const std::string& why, Turn& turn) {
    if (!why.empty()) giving_->refused = why;
    if (!giving_->gone)
      answer_user(
          giving_->client,
          {.kind = Answer::Kind::taken, .site = rank, .why = why, .model = giving_->version.number},
          false, turn);
    end_if_all(turn);
  }

  void end_if_all(Turn& turn) {
    if (!giving_ || giving_->until == Time{0} || !giving_->waits_for.empty()) return;
    Answer last{
        .kind = Answer::Kind::given, .why = giving_->refused, .model = giving_->version.number};
    for (const Rank rank : giving_->missing) last.missing.push_back({.site = rank});
    if (!giving_->gone) answer_user(giving_->client, last, true, turn);
    giving_.reset();
    turn.cancel_timer(node_, kTimer);
  }

  const Machine& node_;
  Time patience_;
  std::shared_ptr<const GivenModel> newest_, candidate_;
  Bytes encoded_;  // newest_ for fetching sites; null until one fetches
  bool from_user_ = false, announced_ = true;
  ModelVersion refused_;
  std::string refused_why_;
  std::optional<Fetching> fetching_;
  std::map<Rank, FetchModel> wanted_;  // by peer
  std::optional<Giving> giving_;
};

}  // namespace longhaul::focus
