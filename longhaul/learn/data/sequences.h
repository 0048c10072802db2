#pragma once
// Texts as samples of bytes, for models that predict the next one. Without files: load.h reads
// them.
//
// Texts are assigned to groups. The texts of a group are joined in the order of their names, with a
// byte 0 before each. With context c, sample k of the group reads the bytes [k c, k c + c) and
// predicts the bytes [k c + 1, k c + c + 1). Every byte is predicted once, except fewer than c
// bytes at the end, which are left out. The last `test_share` of each group's samples are the test
// set. (Our own rules.)
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/learn/data/dataset.h"

namespace longhaul::learn {

struct NamedText {
  std::string name;  // path in the folder, "a/b.txt"
  std::vector<std::byte> bytes;
};

struct CorpusOptions {
  std::uint32_t context = 128;
  // Patterns of names, alternatives separated by '|', as the shell reads them but that `*` also
  // stands for '/': a text belongs to the first that matches it. None: a text belongs to the
  // sub-folder that it stands in; in no sub-folder, each is a group.
  std::vector<std::string> groups = {};
};

struct Corpus {
  DataSet samples;                 // labels: the groups, in the order of options.groups or of names
  std::vector<std::size_t> sizes;  // samples of each group; they stand behind each other
};

// `texts` in the order of their names. An Error names `folder` and the text that no pattern
// matches, or says that there are too few bytes for one sample.
Result<Corpus> read_corpus(std::span<const NamedText> texts, const std::string& folder,
                           const CorpusOptions&);

// The last share of each group's samples, rounded to whole samples, ascending.
std::vector<std::uint32_t> corpus_tails(const Corpus&, double share);

// Files of tokens that another program made of texts: whole numbers of 2 or 4 bytes, the lowest
// byte first, nothing else in the file. Without files: load.h reads them.
//
// A file is a group. With a context of c, its sample k reads the tokens [k c, k c + c) and predicts
// the tokens [k c + 1, k c + c + 1). A rest at the end is left out. The last share of each file's
// samples is the test set.
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
