#include "longhaul/run/data_file.h"

#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "longhaul/run/atomic_file.h"

namespace longhaul::run {
namespace {

using nlohmann::ordered_json;

const std::map<learn::Task, std::string> kTasks = {{learn::Task::classification, "classification"},
                                                   {learn::Task::regression, "regression"},
                                                   {learn::Task::multilabel, "labels"}};

ordered_json column_json(const learn::Split& data, std::size_t i) {
  ordered_json column = {{"name", data.train->columns[i]}};
  if (!data.scales.empty()) {
    column["mean"] = data.scales[i].mean;
    column["std"] = data.scales[i].std;
  }
  if (!data.fills.empty()) column["fill"] = data.fills[i];
  if (data.statistics.empty()) return column;
  const learn::ColumnFacts& facts = data.statistics[i];
  column["count"] = facts.count;
  column["missing"] = facts.missing;
  column["sum"] = facts.sum.value();
  column["sum_of_squares"] = facts.squares.value();
  column["min"] = facts.least;
  column["max"] = facts.most;
  return column;
}

}  // namespace

std::string data_json(const learn::Split& data) {
  if (!data.train || data.train->columns.empty()) return "";
  const learn::DataSet& train = *data.train;
  ordered_json columns = nlohmann::json::array(), categories = nlohmann::json::array();
  for (std::size_t i = 0; i < train.columns.size(); ++i) columns.push_back(column_json(data, i));
  for (const learn::Categories& one : train.categories)
    categories.push_back({{"column", one.column}, {"values", one.values}, {"first", one.first}});
  ordered_json json = {{"task", kTasks.at(train.shape.task)},
                       {"targets", train.target_columns},
                       {"outputs", train.shape.outputs},
                       {"classes", train.names},
                       {"columns", columns}};
  if (!train.categories.empty()) json["categories"] = categories;
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Result<DataMeaning> read_data_file(const std::string& folder) {
  const std::string path = folder + "/data.json";
  const auto bytes = read_file(path);
  if (!bytes)
    return unavailable(path +
                       ": no such file; is this the folder of a run of csv data that has ended?");
  try {
    const auto json =
        nlohmann::json::parse(reinterpret_cast<const char*>(bytes->data()),
                              reinterpret_cast<const char*>(bytes->data()) + bytes->size());
    DataMeaning meaning;
    learn::DataSet& like = meaning.like;
    const std::string said = json.at("task").get<std::string>();
    const auto task = std::ranges::find(kTasks, said, [](const auto& one) { return one.second; });
    if (task == kTasks.end()) return malformed(path + ": \"task\" says " + said);
    like.shape.task = task->first;
    like.shape.outputs = json.at("outputs").get<std::int64_t>();
    like.names = json.at("classes").get<std::vector<std::string>>();
    like.target_columns = json.at("targets").get<std::vector<std::string>>();
    for (const auto& column : json.at("columns")) {
      like.columns.push_back(column.at("name").get<std::string>());
      if (column.contains("std"))
        meaning.scales.push_back({column.at("mean").get<double>(), column.at("std").get<double>()});
      if (column.contains("fill")) meaning.fills.push_back(column.at("fill").get<double>());
    }
    for (const auto& one : json.value("categories", nlohmann::json::array()))
      like.categories.push_back({one.at("column").get<std::string>(),
                                 one.at("values").get<std::vector<std::string>>(),
                                 one.at("first").get<std::size_t>()});
    like.shape.sample = {std::int64_t(like.columns.size())};
    const bool whole = (meaning.scales.empty() || meaning.scales.size() == like.columns.size()) &&
                       (meaning.fills.empty() || meaning.fills.size() == like.columns.size());
    if (!whole || like.columns.empty()) return malformed(path + ": is damaged");
    return meaning;
  } catch (const nlohmann::json::exception&) {
    return malformed(path + ": is damaged, or of an earlier release");
  }
}

}  // namespace longhaul::run
