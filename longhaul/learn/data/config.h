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

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    files(self, visit);
    meaning(self, visit);
    sequences(self, visit);
    synthetic(self, visit);
    division(self, visit);
  }

 private:
  template <class Self, class Visit>
  static void files(Self& self, Visit& visit) {
    LONGHAUL_FIELD(kind, .doc = "which data: see docs/data.md");
    LONGHAUL_FIELD(path,
                   .doc =
                       "folder of the files, or the file itself (csv, libsvm, tokens); mnist, "
                       "fashion_mnist, cifar10: by default where scripts/fetch-data puts them",
                   .local = true);
    LONGHAUL_FIELD(test_path,
                   .doc = "folder or file of the test set; default: `path`, or a share of it",
                   .local = true);
    LONGHAUL_FIELD(test_share,
                   .doc = "of the samples, held out as the test set where there is no other",
                   .min = 0, .max = 0.9, .positive = true);
    LONGHAUL_FIELD(data_seed,
                   .doc =
                       "draws synthetic data and the held-out share; apart from [job] seed, so "
                       "that runs with other seeds learn and score the same samples",
                   .max = 0x1p53);
  }

  template <class Self, class Visit>
  static void meaning(Self& self, Visit& visit) {
    LONGHAUL_FIELD(task, .doc = "tell classes apart, or fit numbers",
                   .choices = {"classification", "regression"});
    LONGHAUL_FIELD(
        target,
        .doc =
            "csv: the column to predict, by name or by number from 1; default: the last. A list: "
            "several, with task = \"regression\" or loss = \"bce\"",
        .lenient = true);
    LONGHAUL_FIELD(loss,
                   .doc =
                       "csv: bce: each target is a label, 0 or 1, and a sample may have several; "
                       "the loss is their binary cross entropy. Default: that of the task",
                   .choices = {"default", "bce"});
    LONGHAUL_FIELD(class_weights,
                   .doc =
                       "one number a class, in their order: how much its samples count in the loss "
                       "that is trained; scores count all alike",
                   .max = 1e6, .positive = true);
    LONGHAUL_FIELD(ignore, .doc = "csv: columns to leave out, by name or number");
    LONGHAUL_FIELD(header, .doc =
                               "csv: the first line names the columns; default: it does if it "
                               "holds no number, or a name above a number");
    LONGHAUL_FIELD(separator, .doc =
                                  "csv: one character between the cells, or \"tab\"; default: the "
                                  "first of , ; tab that the first line holds");
    LONGHAUL_FIELD(missing,
                   .doc =
                       "csv: an empty cell, or one that says NA, N/A, NaN, null, none or ?, is an "
                       "error, drops its sample, or becomes the mean of its column",
                   .choices = {"refuse", "drop", "mean"});
    LONGHAUL_FIELD(categorical,
                   .doc =
                       "csv: columns of names, each as many numbers of 0 and 1 as it has values: "
                       "\"colour\", or with its values \"colour = red | green\"");
    LONGHAUL_FIELD(standardise, .doc =
                                    "csv: each column minus its mean, divided by its standard "
                                    "deviation, both of the training samples");
    LONGHAUL_FIELD(labels,
                   .doc =
                       "csv, libsvm: the labels as the file writes them, in the order of the "
                       "classes; default: those of the training set, sorted");
    LONGHAUL_FIELD(classes,
                   .doc =
                       "number of classes; idx, csv, libsvm: labels are 0 .. classes-1; 0: those "
                       "found (synthetic: 10)",
                   .max = 65536);
    LONGHAUL_FIELD(
        features,
        .doc = "numbers in a sample; libsvm: 0 is the largest index found; synthetic: 0 is 32",
        .max = 1 << 24);
    LONGHAUL_FIELD(mean, .doc = "idx: one a channel, subtracted from pixels of 0 .. 1");
    LONGHAUL_FIELD(std, .doc = "idx: one a channel, divides what is left", .positive = true);
  }

  template <class Self, class Visit>
  static void sequences(Self& self, Visit& visit) {
    LONGHAUL_FIELD(
        context,
        .doc =
            "text, tokens: bytes or tokens that a sample holds, each predicted from those before",
        .min = 1, .max = 65536);
    LONGHAUL_FIELD(groups,
                   .doc =
                       "text: patterns of names, alternatives separated by |: what matches one is "
                       "one group, the label of partitions; default: a sub-folder is a group");
    LONGHAUL_FIELD(token_type, .doc = "tokens: numbers in the files, the lowest byte first",
                   .choices = {"uint16", "uint32"});
    LONGHAUL_FIELD(vocabulary, .doc = "tokens: how many there are; each is a number below it",
                   .max = 1 << 24);
  }

  template <class Self, class Visit>
  static void synthetic(Self& self, Visit& visit) {
    LONGHAUL_FIELD(sample, .doc = "synthetic: [channels, height, width], instead of `features`",
                   .min = 1, .max = 4096);
    LONGHAUL_FIELD(samples, .doc = "synthetic, ratings, clicks: of the training set", .min = 1,
                   .max = 1e8);
    LONGHAUL_FIELD(test_samples, .doc = "synthetic, ratings, clicks: of the test set", .min = 1,
                   .max = 1e8);
    LONGHAUL_FIELD(users, .doc = "ratings: how many rate", .min = 1, .max = 1 << 24);
    LONGHAUL_FIELD(items, .doc = "ratings: how many are rated", .min = 1, .max = 1 << 24);
    LONGHAUL_FIELD(click_fields, .doc = "clicks: categorical fields of a sample", .min = 2,
                   .max = 65536);
    LONGHAUL_FIELD(values, .doc = "clicks: values of a field", .min = 2, .max = 1 << 24);
    LONGHAUL_FIELD(noise,
                   .doc =
                       "synthetic, ratings: standard deviation around the mean of the class, or of "
                       "the number to fit",
                   .min = 0, .max = 1e6);
    LONGHAUL_FIELD(clusters,
                   .doc =
                       "synthetic classification: means of each class, whose samples are drawn "
                       "around them in turns",
                   .min = 1, .max = 65536);
    LONGHAUL_FIELD(scale, .doc = "synthetic classification: multiplies the samples", .max = 1e6,
                   .positive = true);
    LONGHAUL_FIELD(teacher, .doc =
                                "synthetic classification: a small random network labels the "
                                "samples; the noise is that of its outputs");
  }

  template <class Self, class Visit>
  static void division(Self& self, Visit& visit) {
    LONGHAUL_FIELD(partition, .doc = "which site holds which sample: see docs/data.md",
                   .choices = {"iid", "dirichlet", "shards", "by_label", "skewed", "skewed_80",
                               "sizes", "blocks", "local"});
    LONGHAUL_FIELD(degree,
                   .doc = "skewed: share of each label that is at one site; the rest is everywhere",
                   .min = 0, .max = 1);
    LONGHAUL_FIELD(alpha, .doc = "dirichlet: the smaller, the less alike the sites", .max = 1e6,
                   .positive = true);
    LONGHAUL_FIELD(shards, .doc = "shards: pieces of the samples sorted by label that a site gets",
                   .min = 1, .max = 1e6);
    LONGHAUL_FIELD(sizes,
                   .doc = "sizes: one number a site; site i holds size_i / sum of the samples",
                   .max = 1e12, .positive = true);
    LONGHAUL_FIELD(batch, .doc = "samples in a step", .min = 1, .max = 1e6);
  }
};

}  // namespace longhaul::learn
