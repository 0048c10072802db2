#include "longhaul/learn/data/sequences.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "longhaul/base/check.h"
#include "longhaul/base/decimal.h"
#include "longhaul/learn/data/errors.h"

namespace longhaul::learn {

namespace {

bool matches(const std::string& alternatives, const std::string& name) {
  for (std::size_t at = 0; at <= alternatives.size();) {
    const std::size_t end = std::min(alternatives.find('|', at), alternatives.size());
    if (fnmatch(alternatives.substr(at, end - at).c_str(), name.c_str(), 0) == 0) return true;
    at = end + 1;
  }
  return false;
}

struct Group {
  std::string name;
  std::vector<std::uint8_t> bytes = {};
};

void add_text(Group& group, const NamedText& text) {
  group.bytes.push_back(0);
  for (const std::byte byte : text.bytes)
    group.bytes.push_back(std::to_integer<std::uint8_t>(byte));
}

Result<std::vector<Group>> by_patterns(std::span<const NamedText> texts, const std::string& folder,
                                       const std::vector<std::string>& patterns) {
  std::vector<Group> groups;
  for (const std::string& pattern : patterns) groups.push_back({pattern});
  for (const NamedText& text : texts) {
    const auto found = std::ranges::find_if(
        groups, [&](const Group& group) { return matches(group.name, text.name); });
    if (found == groups.end())
      return invalid("{}/{}: matches no pattern of [data] groups", folder, text.name);
    add_text(*found, text);
  }
  return groups;
}

std::vector<Group> by_folders(std::span<const NamedText> texts) {
  std::vector<Group> groups;
  for (const NamedText& text : texts) {
    const std::size_t slash = text.name.rfind('/');
    const std::string name = slash == std::string::npos ? text.name : text.name.substr(0, slash);
    // Names are in order, but a folder's texts need not stand together: "a/b", "a/b/c", "a/d".
    auto found = std::ranges::find(groups, name, &Group::name);
    if (found == groups.end()) found = groups.insert(found, {name});
    add_text(*found, text);
  }
  return groups;
}

}  // namespace

Result<Corpus> read_corpus(std::span<const NamedText> texts, const std::string& folder,
                           const CorpusOptions& options) {
  LH_CHECK(options.context > 0);
  const std::size_t context = options.context;
  std::vector<Group> groups;
  if (options.groups.empty()) {
    groups = by_folders(texts);
  } else {
    LH_LET(found, by_patterns(texts, folder, options.groups));
    groups = std::move(found);
  }
  Corpus corpus;
  DataSet& data = corpus.samples;
  data.shape = {{std::int64_t{options.context}}, 256, Task::text};
  for (const Group& group : groups) {
    const std::size_t samples = group.bytes.empty() ? 0 : (group.bytes.size() - 1) / context;
    for (std::size_t k = 0; k < samples; ++k) {
      const auto from = group.bytes.begin() + std::ptrdiff_t(k * context);
      data.text.insert(data.text.end(), from, from + std::ptrdiff_t(context + 1));
    }
    data.labels.insert(data.labels.end(), samples, std::int64_t(data.names.size()));
    data.names.push_back(group.name);
    corpus.sizes.push_back(samples);
  }
  if (data.labels.empty())
    return invalid(
        "{}: {} texts, and no group of them has the {} bytes of a sample: lower [data] context, or "
        "put more texts into one sub-folder",
        folder, texts.size(), context);
  return corpus;
}

std::vector<std::uint32_t> corpus_tails(const Corpus& corpus, double share) {
  std::vector<std::uint32_t> tails;
  std::size_t end = 0;
  for (const std::size_t size : corpus.sizes) {
    end += size;
    const auto count = std::min(size, std::size_t(whole_nearest(share * double(size))));
    for (std::size_t i = end - count; i < end; ++i) tails.push_back(std::uint32_t(i));
  }
  return tails;
}

namespace {

Status check_tokens(std::span<const std::byte> content, const TokenFile& file,
                    const TokenOptions& options) {
  for (std::size_t at = 0; at < content.size(); at += options.bytes) {
    std::uint64_t token = 0;
    for (std::size_t i = 0; i < options.bytes; ++i)
      token |= std::to_integer<std::uint64_t>(content[at + i]) << (8 * i);
    if (token >= options.vocabulary)
      return malformed(
          "{}: token {} (at byte {}) is {}, expected a number below [data] vocabulary = {}; are "
          "they of [data] token_type = \"uint{}\"?",
          file.path, at / options.bytes, at, token, options.vocabulary, 8 * options.bytes);
  }
  return Ok{};
}

void add_samples(DataSet& set, std::span<const std::byte> content, std::size_t first,
                 std::size_t end, const TokenOptions& options) {
  const std::size_t length = std::size_t{options.context + 1} * options.bytes;
  std::size_t to = set.text.size();
  set.text.resize(to + (end - first) * length);
  for (std::size_t k = first; k < end; ++k, to += length)
    std::memcpy(set.text.data() + to, content.data() + k * options.context * options.bytes, length);
  set.labels.insert(set.labels.end(), end - first, std::int64_t(set.names.size()) - 1);
}

}  // namespace

TokenSets no_tokens(const TokenOptions& options) {
  LH_CHECK(options.context > 0 && (options.bytes == 2 || options.bytes == 4));
  DataSet none;
  none.shape = {{std::int64_t{options.context}}, std::int64_t{options.vocabulary}, Task::text};
  none.token_bytes = options.bytes;
  return {none, none};
}

Status add_tokens(TokenSets& sets, std::span<const std::byte> content, const TokenFile& file,
                  const TokenOptions& options) {
  if (content.size() % options.bytes != 0)
    return malformed("{}: {} bytes are no whole number of tokens of {} bytes ([data] token_type)",
                     file.path, content.size(), options.bytes);
  LH_TRY(check_tokens(content, file, options));
  const std::size_t tokens = content.size() / options.bytes;
  const std::size_t samples = tokens == 0 ? 0 : (tokens - 1) / options.context;
  const auto held = std::size_t(std::llround(options.test_share * double(samples)));
  for (DataSet* set : {&sets.train, &sets.test}) set->names.push_back(file.group);
  add_samples(sets.train, content, 0, samples - held, options);
  add_samples(sets.test, content, samples - held, samples, options);
  return Ok{};
}

}  // namespace longhaul::learn
