#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "longhaul/base/fields.h"

namespace longhaul::learn {

// The [data] table. Which keys a kind reads stands in its line of the registry (registry.h); those
// of the partition hold for every kind.
struct DataConfig {
  std::string kind = "none";
  std::string path, test_path;
  double test_share = 0.2;
  std::string task = "classification";
  std::vector<std::string> target;
  std::string loss = "default";
  std::vector<double> class_weights;
  std::vector<std::string> ignore;
  std::optional<bool> header;
  std::string separator;
  std::string missing = "refuse";
  std::vector<std::string> categorical;
  bool standardise = false;
  std::vector<std::string> labels;
  std::uint32_t classes = 0;
  std::uint32_t features = 0;
  std::vector<double> mean, std;
  std::vector<double> sample;
  std::uint32_t samples = 2000, test_samples = 500;
  double noise = 1.0;
  std::uint32_t clusters = 1;
  double scale = 1.0;
  bool teacher = false;
  std::uint32_t users = 943, items = 1682;
  std::uint32_t click_fields = 26, values = 1000;
  std::uint64_t data_seed = 1;

  std::string partition = "iid";
  double alpha = 0.5;
  double degree = 1;
  std::uint32_t shards = 2;
  std::vector<double> sizes;
  std::uint32_t batch = 32;

  std::uint32_t context = 128;
  std::vector<std::string> groups;
  std::string token_type = "uint16";
  std::uint32_t vocabulary = 0;

  static void fields(auto& self, auto&& visit) {
    files(self, visit);
    meaning(self, visit);
    sequences(self, visit);
    synthetic(self, visit);
    division(self, visit);
  }

 private:
  static void files(auto& self, auto& visit) {
    LONGHAUL_KEY(kind, "which data: see docs/data.md");
    LONGHAUL_KEY(path,
                 "folder of the files, or the file itself (csv, libsvm, tokens); mnist, "
                 "fashion_mnist, cifar10: by default where scripts/fetch-data puts them",
                 .local = true);
    LONGHAUL_KEY(test_path, "folder or file of the test set; default: `path`, or a share of it",
                 .local = true);
    LONGHAUL_KEY(test_share, "of the samples, held out as the test set where there is no other",
                 .min = 0, .max = 0.9, .positive = true);
    LONGHAUL_KEY(data_seed,
                 "draws synthetic data and the held-out share, independent of [job] seed",
                 .max = 0x1p53);
  }

  static void meaning(auto& self, auto& visit) {
    LONGHAUL_KEY(task, "tell classes apart, or fit numbers",
                 .choices = {"classification", "regression"});
    LONGHAUL_KEY(target,
                 "csv: the column to predict, by name or by number from 1; default: the last. A "
                 "list: several, with task = \"regression\" or loss = \"bce\"",
                 .lenient = true);
    LONGHAUL_KEY(loss,
                 "csv: bce: each target is a label, 0 or 1, and a sample may have several; the "
                 "loss is their binary cross entropy. Default: that of the task",
                 .choices = {"default", "bce"});
    LONGHAUL_KEY(
        class_weights,
        "one weight per class, in their order, of its samples in the training loss; scores "
        "use no weights",
        .max = 1e6, .positive = true);
    LONGHAUL_KEY(ignore, "csv: columns to leave out, by name or number");
    LONGHAUL_KEY(header,
                 "csv: the first line names the columns; default: it does if it holds no number, "
                 "or a name above a number");
    LONGHAUL_KEY(separator,
                 "csv: one character between the cells, or \"tab\"; default: the first of , ; tab "
                 "that the first line holds");
    LONGHAUL_KEY(missing,
                 "csv: an empty cell is an error, drops its sample, or becomes the mean of its "
                 "column; so do NA, N/A, NaN, null, none and ?",
                 .choices = {"refuse", "drop", "mean"});
    LONGHAUL_KEY(categorical,
                 "csv: columns of names, each as many numbers of 0 and 1 as it has values: "
                 "\"colour\", or with its values \"colour = red | green\"");
    LONGHAUL_KEY(standardise,
                 "csv: each column minus its mean, divided by its standard deviation, both of the "
                 "training samples");
    LONGHAUL_KEY(labels,
                 "csv, libsvm: the labels as the file writes them, in the order of the classes; "
                 "default: those of the training set, sorted");
    LONGHAUL_KEY(classes,
                 "number of classes; idx, csv, libsvm: labels are 0 .. classes-1; 0: those found "
                 "(synthetic: 10)",
                 .max = 65536);
    LONGHAUL_KEY(features,
                 "numbers in a sample; libsvm: 0 is the largest index found; synthetic: 0 is 32",
                 .max = 1 << 24);
    LONGHAUL_KEY(mean, "idx: one a channel, subtracted from pixels of 0 .. 1");
    LONGHAUL_KEY(std, "idx: one a channel, divides what is left", .positive = true);
  }

  static void sequences(auto& self, auto& visit) {
    LONGHAUL_KEY(
        context,
        "text, tokens: bytes or tokens that a sample holds, each predicted from those before",
        .min = 1, .max = 65536);
    LONGHAUL_KEY(groups,
                 "text: patterns of names, alternatives separated by |: what matches one is one "
                 "group, the label of partitions; default: a sub-folder is a group");
    LONGHAUL_KEY(token_type, "tokens: numbers in the files, the lowest byte first",
                 .choices = {"uint16", "uint32"});
    LONGHAUL_KEY(vocabulary, "tokens: how many there are; each is a number below it",
                 .max = 1 << 24);
  }

  static void synthetic(auto& self, auto& visit) {
    LONGHAUL_KEY(sample, "synthetic: [channels, height, width], instead of `features`", .min = 1,
                 .max = 4096);
    LONGHAUL_KEY(samples, "synthetic, ratings, clicks: of the training set", .min = 1, .max = 1e8);
    LONGHAUL_KEY(test_samples, "synthetic, ratings, clicks: of the test set", .min = 1, .max = 1e8);
    LONGHAUL_KEY(users, "ratings: how many rate", .min = 1, .max = 1 << 24);
    LONGHAUL_KEY(items, "ratings: how many are rated", .min = 1, .max = 1 << 24);
    LONGHAUL_KEY(click_fields, "clicks: categorical fields of a sample", .min = 2, .max = 65536);
    LONGHAUL_KEY(values, "clicks: values of a field", .min = 2, .max = 1 << 24);
    LONGHAUL_KEY(noise,
                 "synthetic, ratings: standard deviation around the mean of the class, or of the "
                 "number to fit",
                 .min = 0, .max = 1e6);
    LONGHAUL_KEY(clusters,
                 "synthetic classification: means of each class, whose samples are drawn around "
                 "them in turns",
                 .min = 1, .max = 65536);
    LONGHAUL_KEY(scale, "synthetic classification: multiplies the samples", .max = 1e6,
                 .positive = true);
    LONGHAUL_KEY(teacher,
                 "synthetic classification: a small random network labels the samples; the noise "
                 "is that of its outputs");
  }

  static void division(auto& self, auto& visit) {
    LONGHAUL_KEY(partition, "which site holds which sample: see docs/data.md",
                 .choices = {"iid", "dirichlet", "shards", "by_label", "skewed", "skewed_80",
                             "sizes", "blocks", "local"});
    LONGHAUL_KEY(degree, "skewed: share of each label that is at one site; the rest is everywhere",
                 .min = 0, .max = 1);
    LONGHAUL_KEY(alpha, "dirichlet: the smaller, the less alike the sites", .max = 1e6,
                 .positive = true);
    LONGHAUL_KEY(shards, "shards: pieces of the samples sorted by label that a site gets", .min = 1,
                 .max = 1e6);
    LONGHAUL_KEY(sizes, "sizes: one number a site; site i holds size_i / sum of the samples",
                 .max = 1e12, .positive = true);
    LONGHAUL_KEY(batch, "samples in a step", .min = 1, .max = 1e6);
  }
};

}  // namespace longhaul::learn
