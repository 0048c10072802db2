#include "longhaul/learn/data/kinds.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include <fmt/format.h>

#include "longhaul/base/decimal.h"
#include "longhaul/base/rng.h"
#include "longhaul/learn/data/cifar.h"
#include "longhaul/learn/data/clicks.h"
#include "longhaul/learn/data/corpus.h"
#include "longhaul/learn/data/csv.h"
#include "longhaul/learn/data/file.h"
#include "longhaul/learn/data/idx.h"
#include "longhaul/learn/data/libsvm.h"
#include "longhaul/learn/data/ratings.h"
#include "longhaul/learn/data/synthetic.h"
#include "longhaul/learn/data/tokens.h"

namespace longhaul::learn {
namespace {

struct Sets {
  DataSet train, test;
};

Split split_of(DataSet train, DataSet test) {
  return {std::make_shared<const DataSet>(std::move(train)),
          std::make_shared<const DataSet>(std::move(test))};
}

Result<Split> split_of(Result<Sets> sets) {
  if (!sets) return sets.error();
  return split_of(std::move(sets->train), std::move(sets->test));
}

// A share of the samples as the test set, the rest for training, both in their old order. Which
// ones depends on seed and count alone. An Error if one of the two would be empty; `name` is the
// file's.
Result<Sets> hold_out(const DataSet& all, double share, std::uint64_t seed,
                      const std::string& name) {
  const auto count = std::size_t(whole_nearest(share * double(all.size())));
  if (count == 0 || count >= all.size())
    return invalid(
        fmt::format("{}: {} samples leave none for the {} set with [data] test_share = "
                    "{}: set test_path or another share",
                    name, all.size(), count == 0 ? "test" : "training", share));
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
  return malformed(fmt::format(
      "{}: expected samples of {} numbers and {} outputs as in the training "
      "set, found {} and {}",
      test_name, train.shape.width(), train.shape.outputs, test.shape.width(), test.shape.outputs));
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
  auto train = read_idx_folder(folder, "train");
  if (!train) return train.error();
  folder.pixels.classes = std::uint32_t(train->shape.outputs);
  if (!test_path.empty()) folder.path = test_path;
  auto test = read_idx_folder(folder, "t10k");
  if (!test) return test.error();
  if (test->shape != train->shape) return unlike(folder.path, *train, *test);
  return split_of(*std::move(train), *std::move(test));
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
  auto train = parse(path, "path", nullptr);
  if (!train) return train.error();
  if (test_path.empty()) return hold_out(*train, config.test_share, config.data_seed, path);
  auto test = parse(test_path, "test_path", &*train);
  if (!test) return test.error();
  if (test->shape != train->shape) return unlike(test_path, *train, *test);
  return Sets{*std::move(train), *std::move(test)};
}

Result<Corpus> read_texts(const DataConfig& config, const std::string& folder) {
  LH_LET(names, files_in(folder, "set [data] path to a folder of texts (scripts/fetch-data sotu)"));
  std::vector<NamedText> texts;
  for (const std::string& name : names) {
    auto bytes = read_file(join_path(folder, name), "a file of [data] path");
    if (!bytes) return bytes.error();
    texts.push_back({name, *std::move(bytes)});
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
  if (std::filesystem::is_directory(path, code)) {
    auto found = files_in(path, remedy);
    if (!found) return found.error();
    names = *std::move(found);
    std::erase_if(names, [](const std::string& name) { return !name.ends_with(".bin"); });
    if (names.empty())
      return unavailable(fmt::format("{}: holds no file NAME.bin: {}", path, remedy));
  }
  const TokenOptions options{config.context, config.token_type == "uint32" ? 4u : 2u,
                             config.vocabulary, test_share};
  TokenSets sets = no_tokens(options);
  for (const std::string& name : names) {
    const std::string file = name.empty() ? path : join_path(path, name);
    LH_LET(bytes, read_file(file, remedy));
    const std::string group = std::filesystem::path(file).filename().string();
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

}  // namespace

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
  auto test = read(test_path.empty() ? path : test_path, "test_batch.bin");
  if (!test) return test.error();
  return split_of(*std::move(train), *std::move(test));
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
    return invalid(
        fmt::format("{}: {} samples of {} bytes leave none for the {} set with [data] test_share = "
                    "{}: set test_path or another share",
                    path, corpus.samples.size(), config.context, held.empty() ? "test" : "training",
                    config.test_share));
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
    return invalid(fmt::format(
        "{}: {} samples of {} tokens leave none for the {} set with [data] test_share = "
        "{}: set test_path, another share, or a lower context",
        path, sets.train.size() + sets.test.size(), config.context,
        sets.train.size() == 0 ? "training" : "test", config.test_share));
  return split_of(std::move(sets.train), std::move(sets.test));
}

Result<Split> load_synthetic(const DataConfig& config, const std::string&, const std::string&) {
  SyntheticOptions options;
  for (const double extent : config.sample) options.shape.sample.push_back(std::int64_t(extent));
  if (config.sample.empty())
    options.shape.sample = {config.features ? std::int64_t{config.features} : 32};
  if (config.task == "regression")
    options.shape.task = Task::regression;
  else
    options.shape.outputs = config.classes ? std::int64_t{config.classes} : 10;
  if (config.teacher && config.task == "regression")
    return invalid(
        "[data] teacher = true tells classes apart, but task = \"regression\": leave it out");
  if ((config.teacher || config.task == "regression") &&
      (config.clusters != 1 || config.scale != 1))
    return invalid(
        "[data] clusters and scale are of samples around means of classes: leave them out with "
        "teacher = true and with task = \"regression\"");
  constexpr double most = 1 << 28;  // numbers: a GiB
  const auto width = double(options.shape.width());
  if (width * (double(config.samples) + double(config.test_samples)) > most ||
      width * double(options.shape.outputs) * double(config.clusters) > most)
    return invalid(
        fmt::format("[data] kind = \"synthetic\": {} + {} samples of {} numbers and {} "
                    "outputs are more than a GiB; expected fewer samples or features",
                    config.samples, config.test_samples, width, options.shape.outputs));
  options.noise = config.noise;
  options.clusters = config.clusters;
  options.scale = config.scale;
  options.teacher = config.teacher;
  options.seed = config.data_seed;
  options.samples = config.samples;
  DataSet train = make_synthetic(options);
  options.samples = config.test_samples;
  options.test = true;
  return split_of(std::move(train), make_synthetic(options));
}

Result<Split> load_ratings(const DataConfig& config, const std::string&, const std::string&) {
  const std::uint64_t wanted = std::uint64_t{config.samples} + config.test_samples;
  const std::uint64_t pairs = std::uint64_t{config.users} * config.items;
  if (2 * wanted > pairs)
    return invalid(
        fmt::format("[data] kind = \"ratings\": {} + {} samples are more than half of the {} pairs "
                    "of {} users and {} items; expected fewer samples, or more users or items",
                    config.samples, config.test_samples, pairs, config.users, config.items));
  Ratings made = make_ratings({.users = config.users,
                               .items = config.items,
                               .samples = config.samples,
                               .test_samples = config.test_samples,
                               .noise = config.noise,
                               .seed = config.data_seed});
  return split_of(std::move(made.train), std::move(made.test));
}

Result<Split> load_clicks(const DataConfig& config, const std::string&, const std::string&) {
  if (std::uint64_t{config.click_fields} * config.values > kMostClickRows)
    return invalid(
        fmt::format("[data] kind = \"clicks\": {} fields of {} values are {} rows; expected at "
                    "most {}",
                    config.click_fields, config.values,
                    std::uint64_t{config.click_fields} * config.values, kMostClickRows));
  ClicksOptions options{.fields = config.click_fields,
                        .values = config.values,
                        .samples = config.samples,
                        .seed = config.data_seed};
  DataSet train = make_clicks(options);
  options.samples = config.test_samples;
  options.test = true;
  return split_of(std::move(train), make_clicks(options));
}

bool has_duplicates(const std::vector<std::string>& labels) {
  std::vector<std::string> names;
  for (const std::string& label : labels) names.push_back(canonical_label(label));
  std::ranges::sort(names);
  return std::ranges::adjacent_find(names) != names.end();
}

}  // namespace longhaul::learn
