#pragma once
// The doctor's report: measurements, findings and remedies. Plain values and pure functions.
#include <optional>
#include <string>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/doctor/messages.h"

namespace longhaul::doctor {

struct SiteReport {
  std::string name = {}, address = {};
  bool present = false;      // whether the site's doctor connected
  std::string failure = {};  // why it did not
  std::string release = {};
  MachineFacts facts = {};
};

struct Report {
  std::string job = {}, job_hash = {};
  std::vector<SiteReport> sites = {};  // the first one writes the report
  std::vector<PairResult> pairs = {};  // tried pairs
  MeasurementPlan plan = {};
  bool dscp = true;          // [net] dscp
  double silence_s = 10;     // [net] silence_s
  double expected_loss = 0;  // largest loss in the job's [wan]
  bool interrupted = false;

  const PairResult* pair(std::uint32_t a, std::uint32_t b) const;  // in either order; null: none
  // A measured direction.
  struct Direction {
    const PairResult& pair;
    const DirectionResult& way;
    double offset_s;  // clock of `to` minus clock of `from`
  };
  std::optional<Direction> direction(std::uint32_t from, std::uint32_t to) const;
};

enum class Grade { good, note, bad };

struct Finding {
  Grade grade = Grade::note;
  std::string where, what, remedy;
};
// Returns the findings, worst first.
std::vector<Finding> findings(const Report&);
Grade worst(const std::vector<Finding>&);

struct Table {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;  // a bad cell ends with " !", a note with " ?"
};
Table site_table(const Report&);
Table pair_table(const Report&);  // one row per ordered pair

std::string to_json(const Report&);  // indented

// Returns TOML: [wan] with model = "fair", the most common kind of queue, and a [[wan.link]] for
// every measured direction. Rates count IP bytes. Delays are half of the smallest round trip. A
// comment lists the pairs without a measurement; these get the smallest rate and the longest delay
// of the others. Error: no pair was measured.
Result<std::string> wan_toml(const Report&);

}  // namespace longhaul::doctor
