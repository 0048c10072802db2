#pragma once
// Models brings a specialised cheap model from the site that was given it to all others. Sites say
// which one is their newest when they start, when a site comes back, and when they have taken one;
// who has an older one fetches the newer one, piece by piece. A model is checked by the node's
// learner before it is kept, and a site says that it has it once its log holds it.
//
// A site fetches one model at a time, from one site, and keeps at most kMostFile bytes of it.
#include <optional>
#include <set>

#include "longhaul/core/machine.h"
#include "longhaul/focus/given_model.h"
#include "longhaul/focus/messages.h"

namespace longhaul::focus {

class Models {
 public:
  static constexpr std::size_t kPart = 256 * 1024;  // bytes of one piece
  static constexpr TimerId kTimer{4};
  // `node`: whose part it is. `patience`: a site that says nothing of a user's model for so long is
  // missing.
  Models(const Machine& node, Time patience) : node_(node), patience_(patience) {}

  // From the log, before the start.
  void restore(std::shared_ptr<const GivenModel> model) {
    if (!newest_ || newest_->version < model->version) newest_ = std::move(model);
  }
  void on_start(Turn&);
  // A user gives one; its version is decided when it is taken.
  void on_requested(std::uint64_t client, GivenModel, Turn&);
  void cancel(std::uint64_t client) {
    if (giving_ && giving_->client == client) giving_->gone = true;
  }
  Status take(Rank from, const NewestModel&, Turn&);
  Status take(Rank from, const FetchModel&);
  Status take(Rank from, const ModelPart&, const Payload& body, Turn&);
  Status take(Rank from, const ModelTaken&, Turn&);
  void on_view(Turn&);
  void on_timer(Turn&);
  void advance(Turn&);

  // The model that waits for a check; nullptr: none does.
  std::shared_ptr<const GivenModel> candidate() const { return announced_ ? candidate_ : nullptr; }
  // A candidate of another site that a newer model has overtaken need not be checked.
  void drop_stale();
  // It was checked: taken as `version()` where `refused` is empty. Returns it then.
  std::shared_ptr<const GivenModel> checked(const std::string& refused, Turn&);
  // The log holds what was taken last.
  void stored(Turn&);
  const std::shared_ptr<const GivenModel>& newest() const { return newest_; }
  // Why the last one was not taken, of a peer's or a user's; "": it was.
  const std::string& refused() const { return refused_why_; }
  std::string waiting_for() const;
  void state(Archive&);

 private:
  struct Fetching {
    ModelVersion version;
    Rank source = 0;
    Buffer bytes = {};
    void state(auto& ar) { ar(version, source, bytes); }
  };
  struct Giving {  // of the user who waits
    std::uint64_t client = 0;
    ModelVersion version = {};
    std::set<Rank> waits_for = {};
    std::vector<Rank> missing = {};
    std::string refused = {};  // why, of one of the sites
    Time until{0};             // 0: it is checked or stored here
    bool gone = false;         // the user
    void state(auto& ar) { ar(client, version, waits_for, missing, refused, until, gone); }
  };

  ModelVersion version() const { return newest_ ? newest_->version : ModelVersion{}; }
  bool knows(const ModelVersion&) const;
  void send_to_others(Turn&);
  void taken_by(Rank, const std::string& why, Turn&);
  void end_if_all(Turn&);

  const Machine& node_;
  Time patience_;
  std::shared_ptr<const GivenModel> newest_, candidate_;
  Bytes encoded_;  // newest_, for those who fetch it; made when one does
  bool from_user_ = false, announced_ = true;
  ModelVersion refused_;
  std::string refused_why_;
  std::optional<Fetching> fetching_;
  std::map<Rank, FetchModel> wanted_;  // by peers
  std::optional<Giving> giving_;
};

}  // namespace longhaul::focus
