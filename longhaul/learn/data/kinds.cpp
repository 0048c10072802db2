// The kinds of [data]: how each is read, and the table of them.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <numeric>

#include <fmt/format.h>

#include "longhaul/base/decimal.h"
#include "longhaul/base/rng.h"
#include "longhaul/learn/data/csv.h"
#include "longhaul/learn/data/errors.h"
#include "longhaul/learn/data/images.h"
#include "longhaul/learn/data/libsvm.h"
#include "longhaul/learn/data/load.h"
#include "longhaul/learn/data/sequences.h"

namespace longhaul::learn {

// synthetic.cpp
Result<Split> load_synthetic(const DataConfig&, const std::string&, const std::string&);
Result<Split> load_ratings(const DataConfig&, const std::string&, const std::string&);
Result<Split> load_clicks(const DataConfig&, const std::string&, const std::string&);

namespace {

namespace fs = std::filesystem;

// An Error where there is no such file, it is a directory, or it cannot be read; `remedy` ends it.
Result<std::vector<std::byte>> read_file(const std::string& path, std::string_view remedy) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return unavailable("{}: no such file: {}", path, remedy);
  if (fs::is_directory(status))
    return unavailable("{}: is a directory, expected a file: {}", path, remedy);
  if (!fs::is_regular_file(status))
    return unavailable("{}: expected a regular file: {}", path, remedy);
  const auto size = fs::file_size(path, error);
  std::ifstream in(path, std::ios::binary);
  if (error || !in) return unavailable("{}: cannot be opened for reading", path);
  std::vector<std::byte> bytes(size);
  in.read(reinterpret_cast<char*>(bytes.data()), std::streamsize(bytes.size()));
  if (std::size_t(in.gcount()) != bytes.size())
    return unavailable("{}: expected {} bytes, could read {}", path, bytes.size(), in.gcount());
  return bytes;
}

// The regular files under `folder`, in all of its sub-folders, as paths in it ("a/b.txt"), in the
// order of their bytes; not what begins with a '.'. An Error where there is no such folder, or none
// in it; `remedy` ends it.
Result<std::vector<std::string>> files_in(const std::string& folder, std::string_view remedy) {
  std::error_code error;
  std::vector<std::string> names;
  fs::recursive_directory_iterator it(folder, error), end;
  if (error) return unavailable("{}: {}: {}", folder, error.message(), remedy);
  while (it != end) {
    const bool hidden = it->path().filename().string().starts_with('.');
    if (hidden) it.disable_recursion_pending();
    if (!hidden && it->is_regular_file(error))
      names.push_back(it->path().lexically_relative(folder).generic_string());
    it.increment(error);
    if (error) return unavailable("{}: {}", folder, error.message());
  }
  if (names.empty()) return unavailable("{}: holds no file: {}", folder, remedy);
  std::ranges::sort(names);
  return names;
}

bool file_exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// "data/mnist/" and "x" as "data/mnist/x".
std::string join_path(const std::string& folder, std::string_view name) {
  return (fs::path(folder) / name).string();
}

struct Sets {
  DataSet train, test;
};

Result<Split> split_of(Result<Sets> sets) {
  if (!sets) return sets.error();
  return split_of(std::move(sets->train), std::move(sets->test));
}

Error none_left(const std::string& name, const std::string& samples, bool for_test, double share) {
  return invalid(
      "{}: {} leave none for the {} set with [data] test_share = {}: set test_path or another "
      "share",
      name, samples, for_test ? "test" : "training", share);
}

// A share of the samples as the test set, the rest for training, both in their old order. Which
// ones depends on seed and count alone. An Error if one of the two would be empty; `name` is the
// file's.
Result<Sets> hold_out(const DataSet& all, double share, std::uint64_t seed,
                      const std::string& name) {
  const auto count = std::size_t(whole_nearest(share * double(all.size())));
  if (count == 0 || count >= all.size())
    return none_left(name, fmt::format("{} samples", all.size()), count == 0, share);
  std::vector<std::uint32_t> rows(all.size());
  std::iota(rows.begin(), rows.end(), 0u);
  Random random(seed, {.purpose = Purpose::data, .origin = 1});
  random.shuffle(std::span(rows));
  std::sort(rows.begin(), rows.begin() + std::ptrdiff_t(count));
  std::sort(rows.begin() + std::ptrdiff_t(count), rows.end());
  const std::span held = std::span(rows).first(count), rest = std::span(rows).subspan(count);
  return Sets{take_rows(all, rest), take_rows(all, held)};
}

Error unlike(const std::string& test_name, const DataSet& train, const DataSet& test) {
  return malformed(
      "{}: expected samples of {} numbers and {} outputs as in the training set, found {} and {}",
      test_name, train.shape.width(), train.shape.outputs, test.shape.width(), test.shape.outputs);
}

// "train-images-idx3-ubyte" in the folder, or as others spell it, "train-images.idx3-ubyte".
std::string idx_path(const std::string& folder, const std::string& part, int dimensions) {
  const std::string dotted = join_path(folder, fmt::format("{}.idx{}-ubyte", part, dimensions));
  if (file_exists(dotted)) return dotted;
  return join_path(folder, fmt::format("{}-idx{}-ubyte", part, dimensions));
}

struct Folder {
  std::string path;
  PixelOptions pixels;
  std::string remedy;
};

// The images and labels called `set` ("train", "t10k").
Result<DataSet> read_idx_folder(const Folder& folder, const std::string& set) {
  std::string images_path = idx_path(folder.path, set + "-images", 3);
  if (!file_exists(images_path) && file_exists(idx_path(folder.path, set + "-images", 4)))
    images_path = idx_path(folder.path, set + "-images", 4);
  const std::string labels_path = idx_path(folder.path, set + "-labels", 1);
  LH_LET(images, read_file(images_path, folder.remedy));
  LH_LET(labels, read_file(labels_path, folder.remedy));
  return read_idx_images({images_path, images}, {labels_path, labels}, folder.pixels);
}

Result<Split> read_idx_pair(Folder folder, const std::string& test_path) {
  LH_LET(train, read_idx_folder(folder, "train"));
  folder.pixels.classes = std::uint32_t(train.shape.outputs);
  if (!test_path.empty()) folder.path = test_path;
  LH_LET(test, read_idx_folder(folder, "t10k"));
  if (test.shape != train.shape) return unlike(folder.path, train, test);
  return split_of(std::move(train), std::move(test));
}

TargetOptions target_options(const DataConfig& config) {
  TargetOptions options;
  options.task = config.task == "regression" ? Task::regression
                 : config.loss == "bce"      ? Task::multilabel
                                             : Task::classification;
  options.labels = config.labels;
  for (std::uint32_t i = 0; config.labels.empty() && i < config.classes; ++i)
    options.labels.push_back(std::to_string(i));
  return options;
}

CsvOptions csv_options(const DataConfig& config) {
  CsvOptions options{.target = target_options(config),
                     .columns = config.target,
                     .ignore = config.ignore,
                     .header = config.header,
                     .categorical = config.categorical};
  if (!config.separator.empty())
    options.separator = config.separator == "tab" ? '\t' : config.separator.front();
  if (config.missing != "refuse")
    options.missing = config.missing == "drop" ? Missing::drop : Missing::mean;
  return options;
}

// A file of text as the training set, and either another as the test set or a share of it. `read`
// is given the text, its name and, for the test set, the training set it has to be like.
template <class Read>
Result<Sets> read_tables(const DataConfig& config, const std::string& path,
                         const std::string& test_path, Read&& read) {
  auto parse = [&](const std::string& name, const char* key,
                   const DataSet* like) -> Result<DataSet> {
    LH_LET(bytes, read_file(name, fmt::format("set [data] {} to a {} file", key, config.kind)));
    return read({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, name, like);
  };
  LH_LET(train, parse(path, "path", nullptr));
  if (test_path.empty()) return hold_out(train, config.test_share, config.data_seed, path);
  LH_LET(test, parse(test_path, "test_path", &train));
  if (test.shape != train.shape) return unlike(test_path, train, test);
  return Sets{std::move(train), std::move(test)};
}

Result<Corpus> read_texts(const DataConfig& config, const std::string& folder) {
  LH_LET(names, files_in(folder, "set [data] path to a folder of texts (scripts/fetch-data sotu)"));
  std::vector<NamedText> texts;
  for (const std::string& name : names) {
    LH_LET(bytes, read_file(join_path(folder, name), "a file of [data] path"));
    texts.push_back({name, std::move(bytes)});
  }
  return read_corpus(texts, folder, {config.context, config.groups});
}

// One file, or all files of a folder whose names end in .bin: each is a group.
Result<TokenSets> read_token_files(const DataConfig& config, const std::string& path,
                                   const char* key, double test_share) {
  const std::string remedy =
      fmt::format("set [data] {} to a file of tokens, or a folder of them", key);
  std::vector<std::string> names = {""};
  std::error_code code;
  if (fs::is_directory(path, code)) {
    LH_LET(found, files_in(path, remedy));
    names = std::move(found);
    std::erase_if(names, [](const std::string& name) { return !name.ends_with(".bin"); });
    if (names.empty()) return unavailable("{}: holds no file NAME.bin: {}", path, remedy);
  }
  const TokenOptions options{config.context, config.token_type == "uint32" ? 4u : 2u,
                             config.vocabulary, test_share};
  TokenSets sets = no_tokens(options);
  for (const std::string& name : names) {
    const std::string file = name.empty() ? path : join_path(path, name);
    LH_LET(bytes, read_file(file, remedy));
    const std::string group = fs::path(file).filename().string();
    LH_TRY(add_tokens(sets, bytes, {file, name.empty() ? group : name}, options));
  }
  return sets;
}

// These rows as the test set, the others for training.
Split split_off(const DataSet& all, std::span<const std::uint32_t> held) {
  std::vector<std::uint32_t> rest;
  for (std::uint32_t i = 0; i < all.size(); ++i)
    if (!std::ranges::binary_search(held, i)) rest.push_back(i);
  return split_of(take_rows(all, rest), take_rows(all, held));
}

Result<Split> load_mnist(const DataConfig&, const std::string& path, const std::string& test_path) {
  return read_idx_pair({path, {10, {0.1307}, {0.3081}}, "run scripts/fetch-data mnist"}, test_path);
}

Result<Split> load_fashion_mnist(const DataConfig&, const std::string& path,
                                 const std::string& test_path) {
  return read_idx_pair({path, {10, {0.2860}, {0.3530}}, "run scripts/fetch-data fashion-mnist"},
                       test_path);
}

Result<Split> load_cifar10(const DataConfig&, const std::string& path,
                           const std::string& test_path) {
  constexpr const char* remedy =
      "run scripts/fetch-data cifar10, or put the binary version there (data_batch_1.bin ... "
      "test_batch.bin; docs/data.md)";
  auto read = [&](const std::string& folder, const std::string& name) -> Result<DataSet> {
    const std::string file = join_path(folder, name);
    LH_LET(bytes, read_file(file, remedy));
    return read_cifar10(bytes, file);
  };
  auto train = read(path, "data_batch_1.bin");
  for (int i = 2; train && i <= 5; ++i) {
    LH_LET(more, read(path, fmt::format("data_batch_{}.bin", i)));
    append(*train, more);
  }
  if (!train) return train.error();
  LH_LET(test, read(test_path.empty() ? path : test_path, "test_batch.bin"));
  return split_of(*std::move(train), std::move(test));
}

Result<Split> load_idx(const DataConfig& config, const std::string& path,
                       const std::string& test_path) {
  Folder folder{path,
                {config.classes, config.mean, config.std},
                "expected train-images-idx3-ubyte and train-labels-idx1-ubyte in [data] path, "
                "t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte in test_path"};
  const bool has_test = !test_path.empty() || file_exists(idx_path(path, "t10k-labels", 1));
  if (has_test) return read_idx_pair(std::move(folder), test_path);
  LH_LET(train, read_idx_folder(folder, "train"));
  return split_of(hold_out(train, config.test_share, config.data_seed, path));
}

Result<Split> load_csv(const DataConfig& config, const std::string& path,
                       const std::string& test_path) {
  auto sets = read_tables(config, path, test_path,
                          [&](std::string_view text, const std::string& name, const DataSet* like) {
                            CsvOptions options = csv_options(config);
                            if (like) options.target.labels = like->names;
                            options.like = like;
                            options.like_name = path;
                            return read_csv(text, name, options);
                          });
  if (!sets) return sets.error();
  std::vector<double> fills;
  const bool own = config.partition == "local";  // then by what all sites have: facts.h
  if (config.missing == "mean" && !own) {
    LH_LET(means, column_means(sets->train, path));
    fill_missing(sets->train, means);
    fill_missing(sets->test, means);
    fills = means;
  }
  std::vector<ColumnScale> scales;
  if (config.standardise && !own) {
    scales = column_scales(sets->train);
    standardise(sets->train, scales);
    standardise(sets->test, scales);
  }
  auto split = split_of(std::move(sets->train), std::move(sets->test));
  split.scales = std::move(scales);
  split.fills = std::move(fills);
  return split;
}

Result<Split> load_libsvm(const DataConfig& config, const std::string& path,
                          const std::string& test_path) {
  return split_of(
      read_tables(config, path, test_path,
                  [&](std::string_view text, const std::string& name, const DataSet* like) {
                    LibsvmOptions options{target_options(config), config.features};
                    if (like) options.target.labels = like->names;
                    if (like) options.features = std::uint32_t(like->shape.width());
                    return read_libsvm(text, name, options);
                  }));
}

Result<Split> load_text(const DataConfig& config, const std::string& path,
                        const std::string& test_path) {
  LH_LET(corpus, read_texts(config, path));
  if (!test_path.empty()) {
    LH_LET(test, read_texts(config, test_path));
    return split_of(std::move(corpus.samples), std::move(test.samples));
  }
  const auto held = corpus_tails(corpus, config.test_share);
  if (held.empty() || held.size() == corpus.samples.size())
    return none_left(path,
                     fmt::format("{} samples of {} bytes", corpus.samples.size(), config.context),
                     held.empty(), config.test_share);
  return split_off(corpus.samples, held);
}

Result<Split> load_tokens(const DataConfig& config, const std::string& path,
                          const std::string& test_path) {
  const double share = test_path.empty() ? config.test_share : 0;
  LH_LET(sets, read_token_files(config, path, "path", share));
  if (!test_path.empty()) {
    LH_LET(test, read_token_files(config, test_path, "test_path", 0));
    sets.test = std::move(test.train);
  }
  if (sets.train.size() == 0 || sets.test.size() == 0)
    return none_left(path,
                     fmt::format("{} samples of {} tokens", sets.train.size() + sets.test.size(),
                                 config.context),
                     sets.train.size() > 0, config.test_share);
  return split_of(std::move(sets.train), std::move(sets.test));
}

const std::array kKinds = {
    DataEntry{"none", "no data: phantom models", {}},
    DataEntry{"own", "read by the program that brings [model] kind = \"own\", at each site", {}},
    DataEntry{"mnist",
              "60,000 digits of 28x28",
              {"path", "test_path"},
              load_mnist,
              DataEntry::Place::folder,
              "data/mnist"},
    DataEntry{"fashion_mnist",
              "60,000 pictures of clothes, 28x28",
              {"path", "test_path"},
              load_fashion_mnist,
              DataEntry::Place::folder,
              "data/fashion-mnist"},
    DataEntry{"cifar10",
              "50,000 photographs of 3x32x32",
              {"path", "test_path"},
              load_cifar10,
              DataEntry::Place::folder,
              "data/cifar10"},
    DataEntry{"idx",
              "your own images as IDX files",
              {"path", "test_path", "test_share", "data_seed", "classes", "mean", "std"},
              load_idx,
              DataEntry::Place::folder},
    DataEntry{"csv",
              "a table of numbers",
              {"path", "test_path", "test_share", "data_seed", "task", "target", "ignore", "header",
               "separator", "missing", "categorical", "standardise", "labels", "classes", "loss"},
              load_csv,
              DataEntry::Place::file},
    DataEntry{
        "libsvm",
        "sparse samples as index:value",
        {"path", "test_path", "test_share", "data_seed", "task", "labels", "classes", "features"},
        load_libsvm,
        DataEntry::Place::file},
    DataEntry{"text",
              "a folder of texts; predicts the next byte",
              {"path", "test_path", "test_share", "context", "groups"},
              load_text,
              DataEntry::Place::folder},
    DataEntry{"tokens",
              "files of tokens; predicts the next one",
              {"path", "test_path", "test_share", "context", "token_type", "vocabulary"},
              load_tokens,
              DataEntry::Place::file},
    DataEntry{"synthetic",
              "Gaussian classes, a teacher's, or a linear function, made from a seed",
              {"data_seed", "task", "classes", "features", "sample", "samples", "test_samples",
               "noise", "clusters", "scale", "teacher"},
              load_synthetic},
    DataEntry{"ratings",
              "ratings of items by users, shaped as MovieLens', made from a seed",
              {"data_seed", "users", "items", "samples", "test_samples", "noise"},
              load_ratings},
    DataEntry{"clicks",
              "clicks on what has some categorical fields, made from a seed",
              {"data_seed", "click_fields", "values", "samples", "test_samples"},
              load_clicks},
};

}  // namespace

std::span<const DataEntry> data_registry() { return kKinds; }

Result<DataSet> load_to_predict(const DataConfig& config, const std::string& path,
                                const DataSet& like, std::span<const ColumnScale> scales,
                                std::span<const double> fills) {
  LH_LET(bytes, read_file(path, "give a csv file of samples"));
  CsvOptions options = csv_options(config);
  options.like = &like;
  options.like_name = "the training set";
  options.to_predict = true;
  options.missing = fills.empty() ? Missing::refuse : Missing::mean;
  LH_LET(data,
         read_csv({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path, options));
  if (!fills.empty()) fill_missing(data, fills);
  if (!scales.empty()) standardise(data, scales);
  return data;
}

}  // namespace longhaul::learn
