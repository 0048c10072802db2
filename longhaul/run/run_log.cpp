#include "longhaul/run/run_log.h"

#include "longhaul/core/stop_rule.h"
#include "longhaul/run/nodes.h"

namespace longhaul::run {

RunLog::RunLog(const Job& job, const Members& members, const RunFolder* folder,
               Progress::Style style, bool scores)
    : job_(job),
      members_(members),
      folder_(folder),
      scores_(scores),
      predicts_bytes_(job.kind("data") == "text"),
      progress_(style, job.job.name) {}

Status RunLog::open(std::uint64_t keep) {
  if (!folder_) return Ok{};
  auto metrics = MetricsFile::open(folder_->file("metrics.jsonl"), keep);
  if (!metrics) return metrics.error();
  metrics_ = std::move(*metrics);
  return Ok{};
}

void RunLog::write(Time at, Rank rank, Round round, std::string_view kind,
                   std::span<const std::pair<std::string_view, double>> values) {
  if (metrics_) metrics_->write({at, members_[rank].site, rank, round, kind, values});
}

void RunLog::scored(Time at, Rank rank, Round round, const Evaluation& evaluation,
                    std::optional<std::uint64_t> wan_bytes) {
  if (!scores_) return;
  std::vector<std::pair<std::string_view, double>> values = {
      {"loss", evaluation.loss},
      {"accuracy", evaluation.accuracy},
      {"samples", double(evaluation.samples)}};
  if (predicts_bytes_) values.emplace_back("bits_per_byte", to_bits(evaluation.loss));
  if (wan_bytes) values.emplace_back("wan_bytes", double(*wan_bytes));
  write(at, rank, round, "score", values);
  if (metrics_) metrics_->flush();
  totals_.loss = evaluation.loss;
  totals_.accuracy = evaluation.accuracy;
  fresh_score_ = true;
  const StopConfig target = {.target_accuracy = job_.stop.target_accuracy,
                             .target_loss = job_.stop.target_loss()};
  if (!totals_.time_to_target_s && target.reached(evaluation))
    totals_.time_to_target_s = exact_seconds(at);
}

void RunLog::recorded(Time at, Rank rank, const Record& record) {
  const std::pair<std::string_view, double> values[] = {{"value", record.value}};
  write(at, rank, record.round, record.name, values);
  totals_.statistics.add(members_[rank], record);
}

void RunLog::progress(Round rounds, Time now, std::uint64_t wan_bytes) {
  ProgressState state = {rounds,    job_.stop.max_rounds, now,
                         wan_bytes, totals_.loss,         totals_.accuracy};
  if (predicts_bytes_ && totals_.loss) state.bits_per_byte = to_bits(*totals_.loss);
  progress_.update(state, std::exchange(fresh_score_, false));
}

Result<std::uint64_t> RunLog::sync() {
  if (!metrics_) return std::uint64_t{0};
  LH_TRY(metrics_->sync());
  return metrics_->bytes();
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
}

void RunLog::state(Archive& ar) {
  if (!ar.loading()) totals_.real_s = real_s();
  ar(totals_);
  if (ar.loading()) real_before_ = totals_.real_s;
}

}  // namespace longhaul::run
