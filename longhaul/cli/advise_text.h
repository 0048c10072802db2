#pragma once
// What `longhaul plan` found, in words and as JSON.
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "longhaul/cli/advise_search.h"

namespace longhaul::cli {

struct Advice {
  std::string name, folder;  // of the job; of the trials
  SearchResult search;
  std::vector<double> times;  // to the target, of the best one: a seed each
  std::size_t predicted = 0, not_predicted = 0, illegal = 0, runs = 0;
  std::vector<Candidate> fastest;  // as predicted: the most samples a second first
  bool interrupted = false;        // by Ctrl-C
  // [stop] max_rounds of the job, where the runs of the best one needed more; of the job written.
  std::optional<std::uint64_t> rounds_before, rounds_written;
  std::string not_written;         // the file of --write, which has no job; "": none was asked for
  std::set<std::string> left_out;  // strategies that are not recommended by their kind
  double spent_s = 0, epochs = 0;  // real time; samples of all trials, in training sets

  bool found() const {
    return !search.ranking.empty() && search.ranking.front().to_target.has_value();
  }
};

// `written`: the file of --write; "": none.
std::string advice_text(const Advice&, const std::string& written);
nlohmann::ordered_json to_json(const Advice&);

}  // namespace longhaul::cli
