#include "longhaul/run/run_log.h"

#include <unistd.h>

#include <bit>
#include <boost/crc.hpp>
#include <filesystem>

#include "longhaul/core/stop_rule.h"
#include "longhaul/run/atomic_file.h"
#include "longhaul/run/job/json.h"
#include "longhaul/run/model_files.h"
#include "longhaul/run/status_file.h"
#include "longhaul/run/target_time.h"

namespace longhaul::run {
namespace {

// Wire types of protocol buffers. A key holds the field number and the wire type.
enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += char(value | 0x80);
  out += char(value);
}

template <class Number>
void put_fixed(std::string& out, Number value) {  // little-endian
  for (std::size_t i = 0; i < sizeof value; ++i) out += char(value >> (8 * i));
}

void put_key(std::string& out, std::uint32_t field, Wire wire) {
  put_varint(out, field << 3 | std::uint32_t(wire));
}

void put_double(std::string& out, std::uint32_t field, double value) {
  put_key(out, field, Wire::fixed64);
  put_fixed(out, std::bit_cast<std::uint64_t>(value));
}

void put_bytes(std::string& out, std::uint32_t field, std::string_view bytes) {
  put_key(out, field, Wire::bytes);
  put_varint(out, bytes.size());
  out += bytes;
}

// Event: 1 wall_time, 2 step, 3 file_version, 5 summary, 7 session_log. Summary: 1 value, repeated.
// Value: 1 tag, 2 simple_value. SessionLog: 1 status, where 1 means START: TensorBoard drops the
// events of the folder's older files from its step on.
constexpr std::uint32_t kWallTime = 1, kStep = 2, kVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr std::uint32_t kValue = 1, kValueTag = 1, kSimpleValue = 2;
constexpr std::string_view kSessionStart = "\x08\x01";

std::string value_of(std::string_view tag, double value) {
  std::string out;
  put_bytes(out, kValueTag, tag);
  put_key(out, kSimpleValue, Wire::fixed32);
  put_fixed(out, std::bit_cast<std::uint32_t>(float(value)));
  return out;
}

std::uint32_t masked_crc(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  const std::uint32_t sum = crc.checksum();
  return (sum >> 15 | sum << 17) + 0xa282ead8U;
}

std::string record_of(std::string_view event) {
  std::string record;
  put_fixed(record, std::uint64_t(event.size()));
  put_fixed(record, masked_crc(record));
  record += event;
  put_fixed(record, masked_crc(event));
  return record;
}

}  // namespace

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

// Marks the events of the older files as void from some round on, if the run is resumed. Writes
// again those that metrics.jsonl keeps.
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

// Flushes TensorBoard's events after the metrics, so that metrics.jsonl holds all of them.
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
    note(written.error().what + "; the run continues, and tries again: make room");
  if (written && failing_.erase(file) > 0) note(file + " is written again");
}

// Flushes once a second. A live view, and the files of a killed process, are thus at most a second
// old.
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
  std::vector<std::pair<std::string_view, double>> values = {{"loss", evaluation.loss}};
  if (evaluation.accuracy) values.emplace_back("accuracy", *evaluation.accuracy);
  values.emplace_back("samples", double(evaluation.samples));
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
  if (!scores_ || evaluation.samples == 0) return;
  write_score(at, rank, round, "score", evaluation, wan_bytes);
  if (is_better(job_, evaluation, totals_.best))
    totals_.best = BestScore{round, evaluation.loss, evaluation.accuracy};
  if (!totals_.time_to_target_s && reaches(evaluation)) note_target(exact_seconds(at), evaluation);
  totals_.loss = evaluation.loss;
  totals_.accuracy = evaluation.accuracy;
  totals_.scored_s = exact_seconds(at);
  fresh_score_ = true;
}

// Sets the time to the target, interpolated between the previous score and this one.
void RunLog::note_target(double at_s, const Evaluation& evaluation) {
  const auto loss = job_.stop.target_loss();
  const auto value = [&](double of_loss, const std::optional<double>& accuracy) {
    return loss ? -of_loss : accuracy.value_or(0);
  };
  std::optional<Scored> before;
  if (totals_.scored_s) before = {*totals_.scored_s, value(*totals_.loss, totals_.accuracy)};
  const TargetTime time =
      target_time(before ? &*before : nullptr, {at_s, value(evaluation.loss, evaluation.accuracy)},
                  loss ? -*loss : *job_.stop.target_accuracy);
  totals_.time_to_target_s = time.at;
  totals_.target_after_s = time.after;
}

void RunLog::concluded(Time at, Rank rank, Round rounds, const Evaluation& evaluation) {
  if (!scores_ || evaluation.samples == 0) return;
  const Round last = rounds > 0 ? rounds - 1 : 0;
  if (!totals_.time_to_target_s && reaches(evaluation)) return scored(at, rank, last, evaluation);
  if (is_better(job_, evaluation, totals_.best))
    totals_.best = BestScore{last, evaluation.loss, evaluation.accuracy};
}

void RunLog::conclude(Time at, Rank rank, const Evaluation& evaluation, Summary& summary) {
  concluded(at, rank, summary.rounds, evaluation);
  fill(summary);
  summary.set_score(evaluation);
  if (reached_target() && summary.stop_reason != StopReason::diverged)
    summary.stop_reason = StopReason::target;
  note_divergence(evaluation, summary);
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
  if (!before) return note(before.error().what + "; earlier samples are not counted");
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
  // All remaining workers record the same value for a round; the first record counts.
  if (record.name != "left_out" || record.round < next_left_out_) return;
  next_left_out_ = record.round + 1;
  totals_.participation.leave_out(record.value);
  left_out(record.round, record.value);
}

void RunLog::contributed(Rank rank, Round round, double norm) {
  if (const auto told = norms_.take(rank, round, norm)) warn(*told);
}

void RunLog::warn(const std::string& text) {
  if (totals_.warnings.size() >= kMostWarnings) return;  // other sites can send any number
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
  summary.target_after_s = totals_.target_after_s;
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

Result<TensorBoardFile> TensorBoardFile::open(const std::string& folder, double began_s,
                                              std::optional<Round> void_from) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::string version;
  put_double(version, kWallTime, began_s);
  put_bytes(version, kVersion, "brain.Event:2");
  std::string head = record_of(version);
  if (void_from) {
    std::string start;
    put_double(start, kWallTime, began_s);
    put_key(start, kStep, Wire::varint);
    put_varint(start, *void_from);
    put_bytes(start, kSessionLog, kSessionStart);
    head += record_of(start);
  }
  const std::string known = host_name(), host = known.empty() ? "host" : known;
  // The name holds the time, host and process, and a number that makes it unique.
  for (std::uint32_t session = 0;; ++session) {
    const std::string path = fmt::format("{}/events.out.tfevents.{:010d}.{}.{}.{}", folder,
                                         std::int64_t(began_s), host, getpid(), session);
    if (std::filesystem::exists(path, error)) continue;
    LH_LET(file, AppendedFile::open(path, 0, std::move(head)));
    return TensorBoardFile(std::move(file), began_s);
  }
}

void TensorBoardFile::write(const MetricsEvent& event, bool site_has_several,
                            std::uint32_t rank_in_site) {
  std::string summary;
  for (const auto& [name, value] : event.values) {
    std::string tag(event.kind);
    if (name != "value")
      tag += "/" + std::string(name);
    else if (site_has_several)
      tag += fmt::format("/{}.{}", event.site, rank_in_site);
    else
      tag += "/" + std::string(event.site);
    put_bytes(summary, kValue, value_of(tag, value));
  }
  std::string out;
  put_double(out, kWallTime, began_s_ + exact_seconds(event.time));
  put_key(out, kStep, Wire::varint);
  put_varint(out, event.round);
  put_bytes(out, kSummary, summary);
  file_.append(record_of(out));
}

}  // namespace longhaul::run
