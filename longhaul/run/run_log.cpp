#include "longhaul/run/run_log.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "longhaul/core/stop_rule.h"
#include "longhaul/run/atomic_file.h"
#include "longhaul/run/job/json.h"
#include "longhaul/run/model_files.h"
#include "longhaul/run/nodes.h"
#include "longhaul/run/status_file.h"

namespace longhaul::run {

RunLog::RunLog(const Job& job, const Members& members, const RunFolder* folder,
               Progress::Style style, bool scores, bool is_virtual)
    : job_(job),
      members_(members),
      folder_(folder),
      scores_(scores),
      predicts_bytes_(job.kind("data") == "text"),
      is_virtual_(is_virtual),
      progress_(style, job.job.name),
      norms_(members) {
  for (const Member& member : members) totals_.participation.members += member.is(Role::worker);
  totals_.participation.live = totals_.participation.members;
}

Status RunLog::open(std::uint64_t keep) {
  if (!folder_) return Ok{};
  const std::string file = folder_->file("metrics.jsonl");
  std::error_code code;
  if (const auto size = std::filesystem::file_size(file, code); keep > 0 && (code || size < keep)) {
    keep = code ? 0 : whole_lines(file);
    note(file + ": shorter than the checkpoint says; these lines are lost");
  }
  if (job_.report.tensorboard) LH_TRY(open_tensorboard(file, keep));
  LH_LET(metrics, AppendedFile::open(file, keep));
  metrics_.emplace(std::move(metrics));
  *written_ = metrics_->written();
  if (!is_virtual_) samples_.emplace(folder_->file("samples.bin"), totals_.samples);
  if (samples_) wrote("samples.bin", samples_->flush());
  return Ok{};
}

// A resumed run makes events from some round on void in the older files. It writes those that
// metrics.jsonl keeps once more.
Status RunLog::open_tensorboard(const std::string& metrics, std::uint64_t keep) {
  const std::string folder = folder_->file("tensorboard");
  std::error_code none;
  const bool goes_on = std::filesystem::exists(folder, none);
  const ResumedMetrics resumed = goes_on ? resumed_metrics(metrics, keep) : ResumedMetrics{};
  LH_LET(file, TensorBoardFile::open(folder, unix_time(),
                                     goes_on ? std::optional(resumed.void_from) : std::nullopt));
  tensorboard_.emplace(std::move(file));
  for (const nlohmann::json& line : resumed.kept_on) {
    std::vector<std::pair<std::string_view, double>> values;
    for (const auto& [name, value] : line["values"].items())
      if (value.is_number()) values.emplace_back(name, value);
    draw({from_seconds(line["time_s"]), line["site"].get_ref<const std::string&>(), line["rank"],
          line["round"], line["kind"].get_ref<const std::string&>(), values});
  }
  return Ok{};
}

void RunLog::draw(const MetricsEvent& event) {
  const Member& member = members_[event.rank];
  const bool has_next =
      event.rank + 1 < members_.size() && members_[event.rank + 1].site == member.site;
  tensorboard_->write(event, member.rank_in_site > 0 || has_next, member.rank_in_site);
}

void RunLog::write(Time at, Rank rank, Round round, std::string_view kind,
                   std::span<const std::pair<std::string_view, double>> values) {
  const std::uint64_t stands_for = thinning_.next(rank, kind);
  if (stands_for == 0) return flush_when_due();
  const MetricsEvent event{at, members_[rank].site, rank, round, kind, values, stands_for};
  if (metrics_) metrics_->append(to_json_line(event));
  if (tensorboard_) draw(event);
  flush_when_due();
}

void RunLog::restore_folder() {
  if (!folder_) return;
  const auto made = folder_->restore();
  wrote(folder_->path(), made ? Status(Ok{}) : made.error());
  if (!made || !*made) return;
  restored_ = true;
  note(folder_->path() + ": the run's folder was removed, and is made again, empty");
}

// TensorBoard's events after the metrics: then metrics.jsonl has them all.
Status RunLog::flush() {
  restore_folder();
  if (samples_) wrote("samples.bin", samples_->flush());
  if (!metrics_) return Ok{};
  const Status flushed = metrics_->flush();
  *written_ = metrics_->written();
  wrote("metrics.jsonl", flushed);
  if (const std::uint64_t all = metrics_->dropped(); flushed && all > dropped_)
    note(fmt::format("metrics.jsonl lacks {} events: too many waited to be written",
                     all - std::exchange(dropped_, all)));
  if (tensorboard_ && flushed) wrote("tensorboard", tensorboard_->flush());
  return flushed;
}

void RunLog::wrote(const std::string& file, const Status& written) {
  if (!written && failing_.insert(file).second)
    note(written.error().what + "; the run goes on, and tries again: make room");
  if (written && failing_.erase(file) > 0) note(file + " is written again");
}

// A live view, and what a killed process leaves, is at most a second old.
void RunLog::flush_when_due() {
  const auto now = Clock::now();
  if (!metrics_ || now - flushed_ < std::chrono::seconds(1)) return;
  flushed_ = now;
  (void)flush();
}

bool RunLog::reaches(const Evaluation& evaluation) const {
  return StopConfig{.target_accuracy = job_.stop.target_accuracy,
                    .target_loss = job_.stop.target_loss()}
      .reached(evaluation);
}

void RunLog::write_score(Time at, Rank rank, Round round, std::string_view kind,
                         const Evaluation& evaluation, std::optional<std::uint64_t> wan_bytes) {
  std::vector<std::pair<std::string_view, double>> values = {
      {"loss", evaluation.loss},
      {"accuracy", evaluation.accuracy},
      {"samples", double(evaluation.samples)}};
  if (predicts_bytes_) values.emplace_back("bits_per_byte", to_bits(evaluation.loss));
  if (wan_bytes) values.emplace_back("wan_bytes", double(*wan_bytes));
  write(at, rank, round, kind, values);
  (void)flush();
}

void RunLog::scored_part(Time at, Rank rank, Round round, const Evaluation& evaluation) {
  if (scores_ && evaluation.samples > 0)
    write_score(at, rank, round, "site_score", evaluation, std::nullopt);
}

void RunLog::scored(Time at, Rank rank, Round round, const Evaluation& evaluation,
                    std::optional<std::uint64_t> wan_bytes) {
  if (!scores_) return;
  write_score(at, rank, round, "score", evaluation, wan_bytes);
  if (is_better(job_, evaluation, totals_.best))
    totals_.best = BestScore{round, evaluation.loss, evaluation.accuracy};
  totals_.loss = evaluation.loss;
  totals_.accuracy = evaluation.accuracy;
  fresh_score_ = true;
  if (!totals_.time_to_target_s && reaches(evaluation))
    totals_.time_to_target_s = exact_seconds(at);
}

void RunLog::concluded(Time at, Rank rank, Round rounds, const Evaluation& evaluation) {
  if (!scores_) return;
  const Round last = rounds > 0 ? rounds - 1 : 0;
  if (!totals_.time_to_target_s && reaches(evaluation)) return scored(at, rank, last, evaluation);
  if (is_better(job_, evaluation, totals_.best))
    totals_.best = BestScore{last, evaluation.loss, evaluation.accuracy};
}

void RunLog::view(Time at, Rank rank, Round rounds, std::uint64_t live) {
  Participation& participation = totals_.participation;
  participation.change(rounds, live);
  const std::pair<std::string_view, double> values[] = {{"members", double(participation.members)},
                                                        {"live", double(live)}};
  write(at, rank, 0, "view", values);
  (void)flush();
}

void RunLog::node_lost(Rank rank) {
  totals_.samples.node_lost(rank);
  if (samples_) samples_->node_lost(rank);
}

void RunLog::node_returned(Rank rank) {
  totals_.samples.node_returned(rank);
  if (samples_) samples_->node_returned(rank);
}

void RunLog::take_up_samples(Rank self) {
  if (!folder_) return;
  auto before = read_samples(folder_->file("samples.bin"));
  if (!before) return note(before.error().what + "; the samples of before are not counted");
  if (!*before) return;
  totals_.samples = **std::move(before);
  totals_.samples.node_lost(self);
}

void RunLog::recorded(Time at, Rank rank, const Record& record) {
  if (totals_.samples.take(at, rank, record)) {
    if (samples_) samples_->append(at, rank, record);
    return;
  }
  const std::pair<std::string_view, double> values[] = {{"value", record.value}};
  write(at, rank, record.round, record.name, values);
  totals_.statistics.add(members_[rank], record);
  if (record.name == "update_norm") contributed(rank, record.round, record.value);
  // All workers that are left record it of a round, alike: whoever is first counts.
  if (record.name != "left_out" || record.round < next_left_out_) return;
  next_left_out_ = record.round + 1;
  totals_.participation.leave_out(record.value);
  left_out(record.round, record.value);
}

void RunLog::contributed(Rank rank, Round round, double norm) {
  if (const auto told = norms_.take(rank, round, norm)) warn(*told);
}

void RunLog::warn(const std::string& text) {
  if (totals_.warnings.size() >= kMostWarnings) return;  // others may tell any number
  note("WARNING: " + text);
  totals_.warnings.push_back(text);
}

void RunLog::left_out(Round round, double share) {
  left_out_[round] = share;
  const Round rounds = job_.run.participation_rounds;
  while (left_out_.begin()->first + rounds <= round) left_out_.erase(left_out_.begin());
  if (round + 1 < rounds) return;  // too early to judge
  double sum = 0;
  for (const auto& [each, one] : left_out_) sum += one;
  const double participation = 1 - sum / double(rounds);
  if (participation >= job_.run.min_participation || round < warned_) return;
  warned_ = round + rounds;
  const std::string text = fmt::format(
      "participation is {:.1f} % over the last {} rounds, below [run] min_participation = {:g}",
      100 * participation, rounds, job_.run.min_participation);
  if (job_.run.on_low_participation == "end") low_participation_ = text;
  note(text + (low_participation_.empty() ? "" : ": the run ends"));
}

void RunLog::progress(Round rounds, Time now, std::uint64_t wan_bytes, const std::string& waits_for,
                      double waited_s) {
  ProgressState state = {rounds,    job_.stop.max_rounds, now,
                         wan_bytes, totals_.loss,         totals_.accuracy};
  if (predicts_bytes_ && totals_.loss) state.bits_per_byte = to_bits(*totals_.loss);
  state.members = totals_.participation.members;
  state.live = totals_.participation.live;
  state.is_virtual = is_virtual_;
  state.waits_for = waits_for;
  state.waited_s = waited_s;
  flush_when_due();
  progress_.update(state, std::exchange(fresh_score_, false));
}

Result<std::uint64_t> RunLog::sync() {
  if (!metrics_) return std::uint64_t{0};
  LH_TRY(flush());
  LH_TRY(metrics_->sync());
  if (tensorboard_) wrote("tensorboard", tensorboard_->sync());
  return metrics_->bytes();
}

std::pair<std::uint64_t, std::function<Status()>> RunLog::sync_later() {
  if (!metrics_) return {0, [] { return Status(Ok{}); }};
  (void)flush();
  const std::uint64_t bytes = metrics_->bytes();
  return {bytes, [bytes, path = metrics_->path(), written = written_]() -> Status {
            if (*written < bytes)
              return Error{Error::Kind::io, path + ": a part of it waits to be written"};
            return force_to_disk(path);
          }};
}

double RunLog::real_s() const {
  return real_before_ + std::chrono::duration<double>(Clock::now() - begin_).count();
}

void RunLog::fill(Summary& summary) const {
  summary.final_loss = totals_.loss;
  summary.final_accuracy = totals_.accuracy;
  summary.time_to_target_s = totals_.time_to_target_s;
  summary.real_s = real_s();
  summary.statistics = totals_.statistics;
  summary.best = totals_.best;
  summary.participation = totals_.participation;
  summary.samples = totals_.samples.counts();
  summary.warnings = totals_.warnings;
}

void RunLog::state(Archive& ar) {
  if (!ar.loading()) totals_.real_s = real_s();
  const std::uint64_t members = totals_.participation.members;
  ar(totals_, thinning_);
  if (!ar.loading()) return;
  real_before_ = totals_.real_s;
  totals_.participation.members = members;  // the job may have got sites since
}

}  // namespace longhaul::run
