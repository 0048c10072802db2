#pragma once
// Keys of the datagrams beside one TLS connection, exported from it: a secret for each direction,
// for as long as that connection is the newest. A secret gives a key, and the secret that follows
// it (HKDF, RFC 5869): the sender goes on to the next one whenever it likes (update()), the
// receiver when the first datagram under it has proved to be authentic; those of the key before are
// opened until then but one. What was sent under a key that both have left cannot be read with
// later ones. ChaCha20-Poly1305 (RFC 8439), which unlike AES-GCM has no limit of datagrams for a
// key that a connection could reach (RFC 9001, 6.6), and takes the same time whatever the bytes are
// on machines without AES instructions.
//
// A sealed datagram: id of the key (4 bytes), number (8 bytes), both little-endian; ciphertext;
// tag (16 bytes). The nonce is the key's own, exclusive-or the number; id and number are
// authenticated. A number is taken once: kWindow numbers behind the highest are remembered, older
// ones are dropped.
// Memory: 2 KB. One thread at a time.
#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "longhaul/base/bytes.h"

namespace longhaul::secure {

class DatagramKeys {
 public:
  static constexpr std::string_view kLabel = "EXPORTER-longhaul-datagrams";
  static constexpr std::size_t kSecret = 2 * 32;
  static constexpr std::size_t kPrefix = 12, kTag = 16, kOverhead = kPrefix + kTag;
  static constexpr std::size_t kWindow = 4096;

  // `secret`: kSecret bytes, exported with kLabel; `has_dialled`: this end has dialled.
  DatagramKeys(std::span<const std::byte> secret, bool has_dialled);
  ~DatagramKeys();
  DatagramKeys(const DatagramKeys&) = delete;
  DatagramKeys& operator=(const DatagramKeys&) = delete;

  // Of the key that this end seals with.
  std::uint32_t id() const;
  // Whether this end may open what says to be sealed with that key.
  bool knows(std::uint32_t id) const;
  // Seals with the next key. Not before the peer has opened something of the last one: it knows one
  // key ahead.
  void update();
  // No number may be sealed twice. The result is valid until the next call.
  std::span<const std::byte> seal(std::uint64_t number,
                                  std::span<const std::span<const std::byte>> parts);

  struct Opened {
    std::uint64_t number = 0;
    std::span<const std::byte> bytes;  // valid until the next call
  };
  // Empty: too short, of other keys, changed, of this end itself, or not the first of its number.
  std::optional<Opened> open(std::span<const std::byte> datagram);

  struct Prefix {
    std::uint32_t id = 0;
    std::uint64_t number = 0;
  };
  // What a datagram says of itself; true only once it is opened.
  static std::optional<Prefix> prefix_of(std::span<const std::byte> datagram);

 private:
  struct Key;
  struct Chain;
  bool is_new(std::uint64_t number) const;
  void remember(std::uint64_t number);

  std::unique_ptr<Chain> send_, receive_;
  Buffer sealed_, opened_;
  std::uint64_t highest_ = 0;  // numbers count from 1
  std::bitset<kWindow> seen_;  // by number modulo kWindow
};

}  // namespace longhaul::secure
