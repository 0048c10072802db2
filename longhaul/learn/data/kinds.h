#pragma once
// Internal to load.cpp: the functions behind the kinds of [data].
#include <string>
#include <vector>

#include "longhaul/learn/data/load.h"

namespace longhaul::learn {

// `path`: folder of the training files or the file; `test_path`: that of the test files; "": the
// same folder (a share of the samples where it holds none and the kind allows it).
Result<Split> load_mnist(const DataConfig&, const std::string& path, const std::string& test_path);
Result<Split> load_fashion_mnist(const DataConfig&, const std::string& path,
                                 const std::string& test_path);
Result<Split> load_cifar10(const DataConfig&, const std::string& path,
                           const std::string& test_path);
Result<Split> load_idx(const DataConfig&, const std::string& path, const std::string& test_path);
Result<Split> load_csv(const DataConfig&, const std::string& path, const std::string& test_path);
Result<Split> load_libsvm(const DataConfig&, const std::string& path, const std::string& test_path);
Result<Split> load_text(const DataConfig&, const std::string& path, const std::string& test_path);
Result<Split> load_tokens(const DataConfig&, const std::string& path, const std::string& test_path);
Result<Split> load_synthetic(const DataConfig&, const std::string& path,
                             const std::string& test_path);

Result<Split> load_ratings(const DataConfig&, const std::string& path,
                           const std::string& test_path);
Result<Split> load_clicks(const DataConfig&, const std::string& path, const std::string& test_path);

// Two of them are the same label ("1" and "1.0").
bool has_duplicates(const std::vector<std::string>& labels);

}  // namespace longhaul::learn
