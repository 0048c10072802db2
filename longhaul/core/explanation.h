#pragma once
// What a strategy would do in a job, for people: what it would send, to whom, and why. `longhaul
// explain JOB` prints it (Strategy::explain).
#include <string>
#include <vector>

namespace longhaul {

struct Explanation {
  struct Table {
    std::string title;
    std::vector<std::string> head;               // the first column to the left, others right
    std::vector<std::vector<std::string>> rows;  // each as long as `head`
  };
  std::vector<std::string> lines;  // sentences, before the tables
  std::vector<Table> tables = {};

  bool empty() const { return lines.empty() && tables.empty(); }
};

}  // namespace longhaul
