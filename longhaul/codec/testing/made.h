#pragma once
// Codecs for tests, made from the registry by name.
#include <memory>
#include <string>
#include <vector>

#include "longhaul/codec/entry.h"
#include "longhaul/codec/registry.h"

namespace longhaul::codec::made {

Settings table_of(std::string_view kind, std::vector<Setting> keys = {});
// Of the job's seed; CHECKs that the settings are good.
std::unique_ptr<Codec> plain(std::string_view kind, std::vector<Setting> keys = {},
                             std::uint64_t seed = 1, CodecUse use = CodecUse::contribution);
std::unique_ptr<Codec> plain(std::string_view kind, std::vector<Setting> keys, const Place&,
                             CodecUse use = CodecUse::contribution);
// As contributions are written: in error feedback if the settings say so, or leave the default.
std::unique_ptr<Codec> contributing(std::string_view kind, std::vector<Setting> keys = {});
// The error of settings that are refused; "" if they are not.
std::string refusal(std::string_view kind, std::vector<Setting> keys);

const CodecEntry& entry_named(std::string_view kind);
// As it is without error feedback.
std::vector<Setting> without_feedback(std::vector<Setting> keys = {});
// What a receiver reads.
std::vector<float> sent(Codec&, const std::vector<float>& values, const CodecKey& key = {},
                        std::uint64_t offset = 0);
std::vector<float> normal_values(std::size_t count, std::uint64_t seed, double size = 1);
double squared(std::span<const float>);
double squared_distance(std::span<const float>, std::span<const float>);

}  // namespace longhaul::codec::made
