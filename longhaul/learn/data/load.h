#pragma once
// The way from the [data] table to data in memory.
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
  std::shared_ptr<const DataSet> train, test;  // equal shapes
  // With standardise = true, for each column: the subtracted mean and the divisor.
  std::vector<ColumnScale> scales = {};
  std::vector<double> fills = {};  // with missing = "mean", for each column
  std::vector<ColumnFacts> statistics =
      {};  // for each column over all sites, if sites hold the data
};

inline Split split_of(DataSet train, DataSet test) {
  return {std::make_shared<const DataSet>(std::move(train)),
          std::make_shared<const DataSet>(std::move(test))};
}

// A kind of data. A new kind is a function and a line in the table of kinds.cpp.
struct DataEntry {
  std::string_view name, summary;
  std::vector<std::string_view> keys;  // keys of [data] except kind, partition with its keys, batch
  // Loads the samples at `path` and the test set at `test_path` ("": the kind's own). Null: no
  // data.
  Result<Split> (*load)(const DataConfig&, const std::string& path,
                        const std::string& test_path) = nullptr;
  enum class Place { none, file, folder } place = Place::none;  // type of `path`
  std::string_view default_path = {};
};

std::span<const DataEntry> data_registry();
Result<const DataEntry*> find_data(const std::string& kind);

// Returns the keys of [data] that every kind has.
std::span<const std::string_view> common_data_keys();

// Reads the [data] table. Errors name file, line and key: unknown kind, a key that this kind does
// not read, or an impossible value.
Result<DataConfig> read_data(const Settings&);

// Loads the data of all sites together. An Error names the file and its fault, or how to get the
// file (scripts/fetch-data).
Result<Split> load_data(const DataConfig&);

// The samples of one site with partition = "local", unchanged from its file: bring_in_line() fills
// and scales them later (facts.h). The table must hold everything that a site alone cannot know
// (labels or classes; features of libsvm).
struct SiteData {
  DataSet train, test;
  bool own_test = false;  // `test` is a share of this site's samples, not a set of all sites
};
Result<SiteData> load_site(const DataConfig&, const std::string& path);

// The data of all sites with partition = "local", in one process. paths[i] are the samples of site
// i, names[i] its name for messages. The training set holds all samples in this order, and
// shards[i] those of site i. The test set is that of `test_path`. Without it the test set is that
// of `path` for kinds that are folders. For other kinds it is the shares that the sites hold out:
// tests[i] for site i.
struct LocalData {
  Split split;
  Shards shards, tests;
  std::vector<std::string> warnings;  // those of TableAgreement
};
// Loads samples of a csv file to predict. Columns, categories and scales are those of `like`,
// `scales` and `fills` (Split). A missing cell is an Error unless there are fills.
Result<DataSet> load_to_predict(const DataConfig&, const std::string& path, const DataSet& like,
                                std::span<const ColumnScale> scales, std::span<const double> fills);
// Returns true if each site holds out its own test samples, with partition = "local".
bool tests_at_sites(const DataConfig&);
Result<LocalData> load_local(const DataConfig&, std::span<const std::string> names,
                             std::span<const std::string> paths);

}  // namespace longhaul::learn
