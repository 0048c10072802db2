#pragma once
// From the [data] table to data in memory.
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longhaul/base/settings.h"
#include "longhaul/learn/data/config.h"
#include "longhaul/learn/data/dataset.h"
#include "longhaul/learn/data/facts.h"
#include "longhaul/learn/data/partition.h"

namespace longhaul::learn {

struct Split {
  std::shared_ptr<const DataSet> train, test;  // of one shape
  // With standardise = true, for each column: what was subtracted and what it was divided by.
  std::vector<ColumnScale> scales = {};
  std::vector<double> fills = {};  // with missing = "mean", for each column
  std::vector<ColumnFacts> statistics =
      {};  // of data that sites hold: of each column, of all sites
};

inline Split split_of(DataSet train, DataSet test) {
  return {std::make_shared<const DataSet>(std::move(train)),
          std::make_shared<const DataSet>(std::move(test))};
}

// One line a kind. A new one is a function and a line in the table of kinds.cpp.
struct DataEntry {
  std::string_view name, summary;
  std::vector<std::string_view> keys;  // of [data], besides kind, partition and its keys, and batch
  // The samples at `path` and the test set at `test_path` ("": as the kind says). nullptr: no data.
  Result<Split> (*load)(const DataConfig&, const std::string& path,
                        const std::string& test_path) = nullptr;
  enum class Place { none, file, folder } place = Place::none;  // what `path` is
  std::string_view default_path = {};
};

std::span<const DataEntry> data_registry();
Result<const DataEntry*> find_data(const std::string& kind);

// The keys of [data] that hold for every kind.
std::span<const std::string_view> common_data_keys();

// The [data] table. Errors name file, line and key: unknown kind, a key that this kind does not
// read, a value that cannot be.
Result<DataConfig> read_data(const Settings&);

// The data of all sites together. An Error names the file and what is wrong with it, or how to get
// it (scripts/fetch-data).
Result<Split> load_data(const DataConfig&);

// partition = "local": the own samples of one site, as its file has them: nothing is filled or
// scaled before bring_in_line() (facts.h). What a site alone could not know (labels or classes;
// features of libsvm) has to be in the table.
struct SiteData {
  DataSet train, test;
  bool own_test = false;  // `test` is a share of this site's samples, not a set that all have
};
Result<SiteData> load_site(const DataConfig&, const std::string& path);

// The same of all sites, in one process: paths[i] are the samples of site i, names[i] its name for
// messages. The training set holds them all in this order, and shards[i] those of site i. The test
// set is that of `test_path`; without it, of `path` for kinds that are folders, and otherwise the
// shares that the sites hold out: tests[i] are those of site i.
struct LocalData {
  Split split;
  Shards shards, tests;
  std::vector<std::string> warnings;  // as TableAgreement's
};
// Samples of a csv file to predict: columns, categories and scales are those of `like`, `scales`
// and `fills` (Split). A missing cell is an Error unless there are fills.
Result<DataSet> load_to_predict(const DataConfig&, const std::string& path, const DataSet& like,
                                std::span<const ColumnScale> scales, std::span<const double> fills);
// partition = "local", and each site holds out test samples of its own.
bool tests_at_sites(const DataConfig&);
Result<LocalData> load_local(const DataConfig&, std::span<const std::string> names,
                             std::span<const std::string> paths);

}  // namespace longhaul::learn
