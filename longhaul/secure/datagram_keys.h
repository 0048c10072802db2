#pragma once
// Keys for the datagrams of one TLS connection, derived from it: one secret per direction, used
// while that connection is the newest. A secret yields a key and the next secret (HKDF, RFC 5869).
// The sender can change to the next key at any time (update()). The receiver changes when it has
// authenticated the first datagram under the next key. It still opens datagrams of one earlier key.
// A datagram cannot be read with later keys. The cipher is ChaCha20-Poly1305 (RFC 8439). Unlike
// AES-GCM it has no limit of datagrams per key that a connection could reach (RFC 9001, 6.6). It
// also takes constant time on processors without AES instructions.
//
// A sealed datagram: id of the key (4 bytes), number (8 bytes), both little-endian; ciphertext; tag
// (16 bytes). The nonce is the key's own nonce, exclusive-or the number. The tag authenticates id
// and number too. Each number is accepted once: the receiver remembers kWindow numbers behind the
// highest and drops older ones. Memory: 2 KB. One thread at a time.
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

  // `secret`: kSecret bytes, exported with kLabel; `has_dialled`: this end dialled.
  DatagramKeys(std::span<const std::byte> secret, bool has_dialled);
  ~DatagramKeys();
  DatagramKeys(const DatagramKeys&) = delete;
  DatagramKeys& operator=(const DatagramKeys&) = delete;

  // Returns the id of the key that this end seals with.
  std::uint32_t id() const;
  // Returns true if this end has the key with that id for opening.
  bool knows(std::uint32_t id) const;
  // Seals with the next key from now on. The peer must have opened a datagram of the current key:
  // it knows only one key ahead.
  void update();
  // Seals a datagram. Each number must be used once only. The result is valid until the next call.
  std::span<const std::byte> seal(std::uint64_t number,
                                  std::span<const std::span<const std::byte>> parts);

  struct Opened {
    std::uint64_t number = 0;
    std::span<const std::byte> bytes;  // valid until the next call
  };
  // Returns an empty optional if the datagram is too short, changed, or sealed with unknown keys or
  // by this end, or if its number was used before.
  std::optional<Opened> open(std::span<const std::byte> datagram);

  struct Prefix {
    std::uint32_t id = 0;
    std::uint64_t number = 0;
  };
  // Returns the unauthenticated id and number of a datagram.
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
