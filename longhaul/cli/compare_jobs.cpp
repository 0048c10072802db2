#include "longhaul/cli/compare_jobs.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>
#include <set>

#include "longhaul/run/job/reference.h"

namespace longhaul::cli {
namespace {

using Parts = std::vector<run::PartInfo>;
constexpr std::uint64_t kNoMaxRounds = std::uint64_t{1} << 53;

// A varied key, with its values in the requested order.
struct Axis {
  std::string key;                  // "sync.kind", "sync.steps"
  std::vector<std::string> values;  // {""}: as in the job file
  bool all = false;                 // every kind of the table
  bool named = false;               // the label contains the values
  std::string table() const { return key.substr(0, key.find('.')); }
  bool kinds() const { return key.ends_with(".kind"); }
};

std::vector<std::string_view> kinds_of(const Parts& parts, std::string_view table) {
  std::vector<std::string_view> names;
  for (const run::PartInfo& part : parts)
    if (part.table == table) names.push_back(part.name);
  return names;
}

Result<Axis> kind_axis(const Parts& parts, const std::string& table,
                       const std::vector<std::string>& asked) {
  const std::vector<std::string_view> known = kinds_of(parts, table);
  Axis axis{table + ".kind", asked, asked == std::vector<std::string>{"all"}, !asked.empty()};
  if (axis.all) axis.values.assign(known.begin(), known.end());
  if (axis.values.empty()) axis.values = {""};
  std::set<std::string_view> seen;
  for (const std::string& kind : axis.values) {
    const bool as_the_job = kind.empty() && asked.empty();
    if (!as_the_job && std::find(known.begin(), known.end(), kind) == known.end())
      return invalid(
          fmt::format("--{0} {1}: no such [{0}] kind{2}", table, kind, suggestion(kind, known)));
    if (!seen.insert(kind).second)
      return invalid(fmt::format("--{} {}: named twice; name each kind once", table, kind));
  }
  return axis;
}

Result<Axis> sweep_axis(const std::string& sweep) {
  const std::size_t equals = sweep.find('=');
  const std::string key = sweep.substr(0, equals);
  if (equals == std::string::npos || key.find('.') == std::string::npos ||
      equals + 1 == sweep.size())
    return invalid(fmt::format(
        "--sweep {}: expected TABLE.KEY=VALUE,VALUE, for example sync.steps=5,10,20", sweep));
  Axis axis{key, {}, false, true};
  for (std::size_t at = equals + 1; at <= sweep.size();) {
    const std::size_t comma = std::min(sweep.find(',', at), sweep.size());
    axis.values.push_back(sweep.substr(at, comma - at));
    if (axis.values.back().empty())
      return invalid(fmt::format("--sweep {}: a value is missing beside a comma", sweep));
    at = comma + 1;
  }
  return axis;
}

bool has_key(const Parts& parts, std::string_view table, std::string_view kind,
             std::string_view key) {
  for (const run::PartInfo& part : parts)
    if (part.table == table && part.name == kind)
      for (const FieldDoc& doc : part.keys)
        if (doc.field.name == key) return true;
  return false;
}

// Returns an Error if a key of [sync] exists for only some of the named kinds.
Status check_sync_keys(const Parts& parts, const Settings& table,
                       const std::vector<std::string>& syncs) {
  for (const Setting& entry : table.entries) {
    if (entry.key == "kind") continue;
    std::string without, with;
    for (const std::string& sync : syncs) {
      const bool has = has_key(parts, "sync", sync, entry.key);
      if (has) with += fmt::format("{}[for.{}.sync]", with.empty() ? "" : " and ", sync);
      if (!has) without += (without.empty() ? "" : ", ") + sync;
    }
    if (without.empty() || with.empty()) continue;  // the reader reports unknown keys
    return invalid(
        fmt::format("{}: [sync] {}: no such key with kind = \"{}\"; write it in the job file "
                    "under {}: [for.KIND.sync] holds settings for one strategy",
                    source_of(entry), entry.key, without, with));
  }
  return Ok{};
}

Result<std::vector<Axis>> axes_of(const Parts& parts, const CompareAxes& asked) {
  std::vector<Axis> axes;
  for (auto [table, kinds] :
       {std::pair{"sync", &asked.syncs}, std::pair{"overlay", &asked.overlays},
        std::pair{"transfer", &asked.transfers}, std::pair{"codec", &asked.codecs}}) {
    LH_LET(axis, kind_axis(parts, table, *kinds));
    axes.push_back(std::move(axis));
  }
  for (const std::string& sweep : asked.sweeps) {
    LH_LET(axis, sweep_axis(sweep));
    axes.push_back(std::move(axis));
  }
  std::size_t count = asked.seeds;
  for (const Axis& axis : axes) {
    count *= axis.values.size();
    if (count > kMaxComparedJobs)
      return invalid(fmt::format("compare: more than {} runs; name fewer kinds, values or seeds",
                                 kMaxComparedJobs));
  }
  return axes;
}

class Builder {
 public:
  Builder(const RunOptions& options, const CompareAxes& asked, Parts parts, std::vector<Axis> axes)
      : options_(options), asked_(asked), parts_(std::move(parts)), axes_(std::move(axes)) {}

  Result<Comparison> build() {
    std::vector<std::size_t> at(axes_.size(), 0);
    for (;;) {
      LH_TRY(add(at));
      std::size_t i = axes_.size();  // the last axis changes first
      while (i > 0 && ++at[i - 1] == axes_[i - 1].values.size()) at[--i] = 0;
      if (i == 0) break;
    }
    if (made_.jobs.empty()) return invalid(first_refusal_);
    for (const auto& [key, kinds] : dropped_)
      made_.dropped.push_back(fmt::format("{}: not for {}", key, kinds));
    return std::move(made_);
  }

 private:
  // Adds one combination with all its seeds. Error: the file cannot be read, or has [focus].
  Status add(const std::vector<std::size_t>& at) {
    const std::string label = label_of(at);
    std::optional<std::uint64_t> first;
    for (std::uint64_t i = 0; i < asked_.seeds; ++i) {
      LH_LET(doc, document(at, first ? std::optional(*first + i) : std::nullopt));
      auto job = run::resolve_job(std::move(doc));
      if (!job) {
        const std::string& sync = axes_[0].values[at[0]];
        if (first_refusal_.empty())
          first_refusal_ = sync.empty() ? job.error().what
                                        : fmt::format("with --sync {}: {}", sync, job.error().what);
        made_.skipped.push_back({label, job.error().what});
        return Ok{};
      }
      if (job->focus)
        return invalid(options_.job + ": has [focus], which trains nothing; see longhaul simulate");
      if (!first) first = job->job.seed;
      if (made_.name.empty()) made_.name = job->job.name;
      made_.equal_budget |= job->stop.max_rounds == kNoMaxRounds;
      std::string path = run_path(label);
      if (asked_.seeds > 1) path += fmt::format("/seed-{}", job->job.seed);
      if (!paths_.insert(path).second) path += fmt::format("~{}", made_.jobs.size());
      made_.jobs.push_back({label, path, *std::move(job)});
    }
    return Ok{};
  }

  std::string label_of(const std::vector<std::size_t>& at) const {
    std::string label;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const Axis& axis = axes_[i];
      if (!axis.named) continue;
      const std::string& value = axis.values[at[i]];
      if (!label.empty()) label += "-";
      label += axis.kinds() ? value : axis.key.substr(axis.key.rfind('.') + 1) + "=" + value;
    }
    return label.empty() ? "job" : label;
  }

  Result<run::Document> document(const std::vector<std::size_t>& at,
                                 std::optional<std::uint64_t> seed) {
    run::Overrides overrides = options_.overrides();
    for (std::size_t i = 0; i < axes_.size(); ++i)
      if (const std::string& value = axes_[i].values[at[i]]; !value.empty())
        overrides.sets.push_back(axes_[i].key + "=" + value);
    if (seed) overrides.sets.push_back(fmt::format("job.seed={}", *seed));
    if (asked_.hours) overrides.sets.push_back(fmt::format("stop.max_hours={}", *asked_.hours));
    if (asked_.epochs) overrides.sets.push_back(fmt::format("stop.max_epochs={}", *asked_.epochs));
    if (asked_.hours || asked_.epochs)
      overrides.sets.push_back(fmt::format("stop.max_rounds={}", kNoMaxRounds));
    auto doc = run::load_document(options_.job, overrides);
    if (!doc) return doc;
    for (std::size_t i = 0; i < axes_.size(); ++i)
      if (axes_[i].kinds() && (axes_[i].all || (asked_.lenient && axes_[i].named)))
        drop_keys(*doc, axes_[i], axes_[i].values[at[i]]);
    Settings& stop = doc->table("stop");
    if ((stop.find("max_hours") || stop.find("max_epochs")) && !stop.find("max_rounds"))
      stop.set({"max_rounds", {std::int64_t(kNoMaxRounds)}, "compare", 0});
    return doc;
  }

  // Drops the keys that another kind of the table has but this kind lacks.
  void drop_keys(run::Document& doc, const Axis& axis, const std::string& kind) {
    const std::string table = axis.table();
    std::erase_if(doc.table(table).entries, [&](const Setting& entry) {
      if (entry.key == "kind" || has_key(parts_, table, kind, entry.key)) return false;
      const std::vector<std::string_view> kinds = kinds_of(parts_, table);
      const bool of_another = std::any_of(kinds.begin(), kinds.end(), [&](std::string_view one) {
        return has_key(parts_, table, one, entry.key);
      });
      if (of_another) note_dropped(fmt::format("[{}] {}", table, entry.key), kind);
      return of_another;
    });
  }

  void note_dropped(const std::string& key, const std::string& kind) {
    if (!noted_.insert(key + " " + kind).second) return;
    std::string& kinds = dropped_[key];
    kinds += (kinds.empty() ? "" : ", ") + kind;
  }

  const RunOptions& options_;
  const CompareAxes& asked_;
  const Parts parts_;
  const std::vector<Axis> axes_;
  Comparison made_;
  std::string first_refusal_;
  std::set<std::string> paths_, noted_;
  std::map<std::string, std::string> dropped_;  // "[sync] steps" -> "bsp, asp"
};

}  // namespace

std::string run_path(std::string text) {
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c)) && !std::strchr("-_.=+", c)) c = '_';
  return text;
}

Result<Comparison> compared_jobs(const RunOptions& options, const CompareAxes& asked) {
  Parts parts = run::all_parts();
  LH_LET(axes, axes_of(parts, asked));
  if (!axes[0].all && !asked.syncs.empty() && !asked.lenient) {
    LH_LET(doc, run::load_document(options.job, options.overrides()));
    LH_TRY(check_sync_keys(parts, doc.table("sync"), asked.syncs));
  }
  return Builder(options, asked, std::move(parts), std::move(axes)).build();
}

}  // namespace longhaul::cli
