#pragma once
// Files of tokens that another program made of texts: whole numbers of 2 or 4 bytes, the lowest
// byte first, nothing else in the file. Without files: load.h reads them.
//
// A file is a group. With a context of c, its sample k reads the tokens [k c, k c + c) and predicts
// the tokens [k c + 1, k c + c + 1). A rest at the end is left out. The last share of each file's
// samples is the test set. (As texts: corpus.h.)
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "longhaul/base/result.h"
#include "longhaul/learn/data/dataset.h"

namespace longhaul::learn {

struct TokenOptions {
  std::uint32_t context = 128;
  std::uint32_t bytes = 2;       // of a token: 2 or 4
  std::uint32_t vocabulary = 0;  // all tokens are below it
  double test_share = 0;         // how much of each file is held out, in whole samples
};

// Tokens keep the 2 or 4 bytes that they have in the files.
struct TokenSets {
  DataSet train, test;
};
TokenSets no_tokens(const TokenOptions&);

struct TokenFile {
  std::string path;   // for messages
  std::string group;  // the name of the group
};
// Adds the samples of one file to both. An Error names the file, and the first token that is not in
// the vocabulary by its number, from 0.
Status add_tokens(TokenSets&, std::span<const std::byte> content, const TokenFile&,
                  const TokenOptions&);

}  // namespace longhaul::learn
