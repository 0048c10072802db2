#include "longhaul/run/replay.h"

#include <cstdio>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/run/job/dump.h"
#include "longhaul/run/job/parts.h"
#include "longhaul/run/met_facts.h"
#include "longhaul/run/metrics.h"
#include "longhaul/run/nodes.h"
#include "longhaul/run/recording.h"
#include "longhaul/run/run_folder.h"

namespace longhaul::run {
namespace {

class FileSource final : public record::Source {
 public:
  explicit FileSource(const std::string& path)
      : path_(path), file_(std::fopen(path.c_str(), "rb"), &std::fclose) {}
  bool is_open() const { return file_ != nullptr; }
  Result<std::size_t> read(std::span<std::byte> into) override {
    const std::size_t have = std::fread(into.data(), 1, into.size(), file_.get());
    if (std::ferror(file_.get()))
      return Error{Error::Kind::io, fmt::format("{}: reading it failed", path_)};
    return have;
  }

 private:
  const std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

Error in_file(const std::string& file, Error error) {
  if (!error.what.starts_with(file)) error.what = fmt::format("{}: {}", file, error.what);
  return error;
}

// The recording is of this node of this job.
Status check_header(const record::Header& header, const Job& job, const Member& member, Rank rank) {
  if (header.job_hash != job_hash(job)) {
    std::string what = "job.toml has changed";
    if (auto doc = parse_document(header.job, "the recorded job"))
      if (const auto recorded = resolve_job(*std::move(doc)))
        if (const auto changed = difference(*recorded, job)) what = *changed;
    return invalid(fmt::format(
        "recorded of another job: {}; undo that in the run's job.toml, or record again", what));
  }
  if (header.rank != rank || header.site != member.site ||
      header.rank_in_site != member.rank_in_site || header.nodes != job.members().size())
    return invalid(fmt::format("is of rank {} ({}/{}), not of rank {} ({}/{}); was it renamed?",
                               header.rank, header.site, header.rank_in_site, rank, member.site,
                               member.rank_in_site));
  if (header.learner != member.is(Role::worker))
    return malformed("says otherwise than the job whether the node learns");
  return Ok{};
}

class Player {
 public:
  Player(const Job& job, const ReplayOptions& options, Rank rank)
      : job_(job),
        options_(options),
        rank_(rank),
        members_(std::make_shared<const Members>(job.members())) {}

  Result<ReplayedSession> play(const std::string& file) {
    FileSource source(file);
    if (!source.is_open()) return unavailable(fmt::format("{}: cannot be opened", file));
    record::Replay replay(source);
    if (Status opened = replay.open(); !opened) return in_file(file, opened.error());
    const record::Header& header = replay.header();
    if (Status good = check_header(header, job_, (*members_)[rank_], rank_); !good)
      return in_file(file, good.error());
    ReplayedSession session{file, header, false, {}};
    session.recomputed =
        header.learner && (options_.recompute || header.mode == record::Mode::hashes);
    std::unique_ptr<Learner> learner;
    if (session.recomputed) {
      auto made = make_learner(header, file);
      if (!made) return in_file(file, made.error());
      learner = *std::move(made);
    }
    Members members = *members_;
    members[rank_].incarnation = header.incarnation;
    Place place = place_of(job_, rank_, std::make_shared<const Members>(std::move(members)),
                           header.layout, header.phantom);
    LH_LET(strategy, build_strategy(job_, place, header.training_samples));
    std::error_code code;
    const std::uint64_t all = std::filesystem::file_size(file, code);
    record::ReplayOptions options{.learner = learner.get(), .cpu = cpu_name(), .go_on = {}};
    if (options_.go_on)
      options.go_on = [&](const record::Outcome& outcome, std::uint64_t bytes) {
        return options_.go_on(file, outcome, bytes, all);
      };
    auto outcome = replay.run(std::move(place), std::move(strategy), options);
    if (!outcome) return in_file(file, outcome.error());
    session.outcome = *std::move(outcome);
    return session;
  }

 private:
  // The data are read once, and only if a learner is needed.
  Result<std::unique_ptr<Learner>> make_learner(const record::Header& header,
                                                const std::string& file) {
    if (!workload_) {
      const auto folder = std::filesystem::path(file).parent_path().parent_path();
      LH_LET(loaded, workload_of_run(job_, folder.string(), !header.phantom, options_.learners));
      workload_ = std::move(loaded);
    }
    if (!record::same_layout(*workload_->layout(), *header.layout) ||
        workload_->training_samples() != header.training_samples)
      return invalid(
          "recorded with other data: the model or the number of samples is not the same here");
    return workload_->make_learner(rank_);
  }

  const Job& job_;
  const ReplayOptions& options_;
  const Rank rank_;
  std::shared_ptr<const Members> members_;
  std::optional<Workload> workload_;
};

bool is_same(const record::Outcome& outcome) {
  return !outcome.difference && !outcome.refused && !outcome.stopped &&
         !(outcome.ending && outcome.ending->kind == record::StreamEnd::Kind::damaged);
}

nlohmann::ordered_json to_json(const ReplayedSession& session) {
  const record::Outcome& o = session.outcome;
  nlohmann::ordered_json json = {
      {"file", session.file},
      {"mode", session.header.mode == record::Mode::full ? "full" : "hashes"},
      {"recomputed", session.recomputed},
      {"cpu", session.header.cpu},
      {"inputs", o.inputs},
      {"actions", o.actions},
      {"same", is_same(o)},
      {"complete", !o.ending && !o.difference && !o.refused && !o.stopped},
      {"unanswered", o.unanswered},
      {"difference", nullptr},
      {"ending", nullptr},
      {"refused", nullptr}};
  if (const auto& d = o.difference)
    json["difference"] = {{"input", d->input},       {"time_s", exact_seconds(d->time)},
                          {"what", d->what},         {"action", d->action},
                          {"recorded", d->recorded}, {"replayed", d->replayed}};
  if (const auto& e = o.ending) {
    constexpr const char* kinds[] = {"between", "torn", "damaged"};
    json["ending"] = {{"kind", kinds[std::size_t(e->kind)]},
                      {"entry", e->number},
                      {"offset", e->offset},
                      {"size", e->size}};
  }
  if (o.refused) json["refused"] = o.refused->what;
  return json;
}

}  // namespace

Result<ReplayResult> replay(const ReplayOptions& options) {
  LH_LET(job, job_of_run(options.folder));
  LH_LET(rank, find_node(job, options.site));
  const Member member = job.members().at(rank);
  std::vector<std::string> files = recordings_of(options.folder, member);
  if (files.empty()) files = recordings_of(node_folder(options.folder, member), member);
  if (files.empty())
    return unavailable(
        fmt::format("{}/recordings/{}-{}-1.rec: no such recording; run the job with --record",
                    options.folder, member.site, member.rank_in_site));
  ReplayResult replayed{rank, member.site, member.rank_in_site, {}};
  Player player(job, options, rank);
  for (const std::string& file : files) {
    LH_LET(session, player.play(file));
    replayed.sessions.push_back(std::move(session));
    if (!is_same(replayed.sessions.back().outcome)) break;
  }
  return replayed;
}

int exit_code(const ReplayResult& replayed) {
  const record::Outcome& last = replayed.sessions.back().outcome;
  if (last.stopped) return 130;
  if (last.difference) return 1;
  return is_same(last) ? 0 : 2;
}

nlohmann::ordered_json to_json(const ReplayResult& replayed) {
  nlohmann::ordered_json json = {{"site", replayed.site},
                                 {"node", replayed.rank_in_site},
                                 {"rank", replayed.rank},
                                 {"same", exit_code(replayed) == 0},
                                 {"sessions", nlohmann::ordered_json::array()}};
  for (const ReplayedSession& session : replayed.sessions)
    json["sessions"].push_back(to_json(session));
  return json;
}

}  // namespace longhaul::run
