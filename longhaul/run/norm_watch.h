#pragma once
// Finds a site whose contributions are far larger than the others', as of a column in other units.
#include <map>
#include <optional>
#include <string>

#include "longhaul/core/shared_members.h"
#include "longhaul/core/types.h"

namespace longhaul::run {

class NormWatch {
 public:
  static constexpr double kFar = 100;  // times the median of the others' newest

  explicit NormWatch(const Members& members) : members_(members) {}
  // The norm of what a node contributes in its round. What to tell the user, who hears of a node
  // again when it has become ten times as far.
  std::optional<std::string> take(Rank, Round, double norm);

 private:
  const Members& members_;  // outlive this
  std::map<Rank, double> newest_;
  std::map<Rank, double> told_;  // how far a node was
};

}  // namespace longhaul::run
