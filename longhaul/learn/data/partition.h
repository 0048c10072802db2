#pragma once
// Which site holds which sample. A pure function of (data, sites, settings, seed); every sample is
// held exactly once, every site holds at least one.
//
//   iid        all samples shuffled and dealt in equal parts (sizes differ by at most one)
//   dirichlet  for each label, shares of the sites ~ Dirichlet(alpha) (Hsu et al., "Measuring the
//              effects of non-identical data distribution", 2019). A site left with nothing is
//              given one sample by the site that then holds most, lowest rank first
//   shards     samples sorted by label and cut into shards x sites pieces of equal size; each site
//              is dealt `shards` of them (McMahan et al., "Communication-efficient learning of deep
//              networks from decentralized data", 2017, section 3)
//   by_label   label l is held by site l mod sites
//   skewed     a share `degree` of the samples of label l is held by site l mod sites, the others
//              are dealt to all in turn, in the order of the file: sample number r of its label
//              goes to its home if r mod 100 < 100 degree, else to site r mod sites
//   skewed_80  item i of the file: to site l mod sites if i mod 10 < 8, else to that one's partner,
//              of whose number the lowest bit is another; an even number of sites (rule of the code
//              of Hsieh et al., "The non-IID data quagmire of decentralized machine learning", ICML
//              2020)
//   sizes      shuffled and dealt in proportion to `sizes`, which may be shares or counts; rounded
//              by largest remainder
//   blocks     not shuffled: cut in the order of the file in equal parts (sizes differ by at most
//              one)
//   local      each site has files of its own: load_local() of load.h
#include <cstdint>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/learn/data/config.h"
#include "longhaul/learn/data/dataset.h"

namespace longhaul::learn {

// Samples of each site, ascending.
using Shards = std::vector<std::vector<std::uint32_t>>;

// An Error names [data] partition and why the data cannot be divided that way.
Result<Shards> partition(const DataSet&, std::size_t sites, const DataConfig&, std::uint64_t seed);

// How many samples of each label every site holds: [site][label]; regression: one column.
std::vector<std::vector<std::uint64_t>> label_counts(const DataSet&, const Shards&);

}  // namespace longhaul::learn
