#include "longhaul/learn/data/tokens.h"

#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "longhaul/base/check.h"

namespace longhaul::learn {
namespace {

Status check_tokens(std::span<const std::byte> content, const TokenFile& file,
                    const TokenOptions& options) {
  for (std::size_t at = 0; at < content.size(); at += options.bytes) {
    std::uint64_t token = 0;
    for (std::size_t i = 0; i < options.bytes; ++i)
      token |= std::to_integer<std::uint64_t>(content[at + i]) << (8 * i);
    if (token >= options.vocabulary)
      return malformed(fmt::format(
          "{}: token {} (at byte {}) is {}, expected a number below [data] vocabulary = {}; are "
          "they of [data] token_type = \"uint{}\"?",
          file.path, at / options.bytes, at, token, options.vocabulary, 8 * options.bytes));
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
    return malformed(
        fmt::format("{}: {} bytes are no whole number of tokens of {} bytes ([data] "
                    "token_type)",
                    file.path, content.size(), options.bytes));
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
