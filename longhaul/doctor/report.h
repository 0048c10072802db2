#pragma once
// The doctor's report: measurements, findings and remedies. Plain values; the functions are pure.
#include <optional>
#include <string>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/doctor/messages.h"

namespace longhaul::doctor {

struct SiteReport {
  std::string name = {}, address = {};
  bool present = false;      // its doctor connected
  std::string failure = {};  // why not
  std::string release = {};
  MachineFacts facts = {};
};

struct Report {
  std::string job = {}, job_hash = {};
  std::vector<SiteReport> sites = {};  // the first one writes the report
  std::vector<PairResult> pairs = {};  // those that were tried
  MeasurementPlan plan = {};
  bool dscp = true;          // [net] dscp
  double silence_s = 10;     // [net] silence_s
  double expected_loss = 0;  // the largest that the job's [wan] expects
  bool interrupted = false;

  const PairResult* pair(std::uint32_t a, std::uint32_t b) const;  // whichever dialled; null: none
  // Of a direction that was measured.
  struct Direction {
    const PairResult& pair;
    const DirectionResult& way;
    double offset_s;  // the clock of `to` minus that of `from`
  };
  std::optional<Direction> direction(std::uint32_t from, std::uint32_t to) const;
};

enum class Grade { good, note, bad };

struct Finding {
  Grade grade = Grade::note;
  std::string where, what, remedy;
};
// Worst first.
std::vector<Finding> findings(const Report&);
Grade worst(const std::vector<Finding>&);

struct Table {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>>
      rows;  // a cell that is bad ends with " !", a note with " ?"
};
Table site_table(const Report&);
Table pair_table(const Report&);  // a row for each ordered pair

std::string to_json(const Report&);  // indented

// TOML: [wan] with model = "fair", and a [[wan.link]] for every direction that was measured. Rates
// are of IP bytes, delays half of the smallest round trip. Pairs without a measurement are named in
// a comment and get the smallest rate and the longest delay of the others. Error: nothing was
// measured.
Result<std::string> wan_toml(const Report&);

}  // namespace longhaul::doctor
