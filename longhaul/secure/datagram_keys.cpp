#include "longhaul/secure/datagram_keys.h"

#include <algorithm>
#include <cstring>

#include <openssl/crypto.h>

#include "longhaul/secure/openssl.h"

namespace longhaul::secure {
namespace {

constexpr std::size_t kKey = 32, kNonce = 12;

// Little-endian, as all numbers on the wire.
template <class T>
void put(std::span<std::byte> at, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i) at[i] = std::byte(value >> (8 * i) & 0xff);
}
template <class T>
T get(std::span<const std::byte> at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) value |= T(at[i]) << (8 * i);
  return value;
}

const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

}  // namespace

struct DatagramKeys::Direction {
  Direction(std::span<const std::byte> secret, bool seals) : context(EVP_CIPHER_CTX_new()) {
    LH_CHECK(secret.size() == kKey + kNonce && context);
    LH_CHECK(EVP_CipherInit_ex(context.get(), EVP_chacha20_poly1305(), nullptr, raw(secret.data()),
                               nullptr, seals ? 1 : 0) == 1);
    std::copy_n(secret.begin() + kKey, kNonce, nonce.begin());
  }
  ~Direction() { OPENSSL_cleanse(nonce.data(), nonce.size()); }

  bool begin(std::uint64_t number, std::span<const std::byte> prefix) {
    std::array<std::byte, kNonce> mixed = nonce;
    std::array<std::byte, sizeof number> bytes{};
    put(std::span(bytes), number);
    for (std::size_t i = 0; i < bytes.size(); ++i) mixed[kNonce - bytes.size() + i] ^= bytes[i];
    int count = 0;
    return EVP_CipherInit_ex(context.get(), nullptr, nullptr, nullptr, raw(mixed.data()), -1) ==
               1 &&
           EVP_CipherUpdate(context.get(), nullptr, &count, raw(prefix.data()),
                            int(prefix.size())) == 1;
  }
  bool update(std::byte* into, std::span<const std::byte> bytes) {
    int count = 0;
    return bytes.empty() || (EVP_CipherUpdate(context.get(), raw(into), &count, raw(bytes.data()),
                                              int(bytes.size())) == 1 &&
                             std::size_t(count) == bytes.size());
  }
  bool end() {
    std::array<unsigned char, 16> none{};
    int count = 0;
    return EVP_CipherFinal_ex(context.get(), none.data(), &count) == 1;
  }

  openssl::CipherContext context;
  std::array<std::byte, kNonce> nonce{};
};

DatagramKeys::DatagramKeys(std::span<const std::byte> secret, bool has_dialled) {
  LH_CHECK(secret.size() == kSecret);
  id_ = get<std::uint32_t>(secret);
  const auto of_dialler = secret.subspan(sizeof id_, kKey + kNonce);
  const auto of_acceptor = secret.subspan(sizeof id_ + kKey + kNonce);
  send_ = std::make_unique<Direction>(has_dialled ? of_dialler : of_acceptor, true);
  receive_ = std::make_unique<Direction>(has_dialled ? of_acceptor : of_dialler, false);
  seen_[0] = true;  // no sender uses it
}

DatagramKeys::~DatagramKeys() = default;

std::span<const std::byte> DatagramKeys::seal(std::uint64_t number,
                                              std::span<const std::span<const std::byte>> parts) {
  std::size_t size = kOverhead;
  for (const auto part : parts) size += part.size();
  sealed_.resize(size);
  const auto prefix = std::span(sealed_).first(kPrefix);
  put(prefix.first(sizeof id_), id_);
  put(prefix.subspan(sizeof id_), number);
  bool good = send_->begin(number, prefix);
  std::size_t at = kPrefix;
  for (const auto part : parts) {
    good = good && send_->update(&sealed_[at], part);
    at += part.size();
  }
  good = good && send_->end() &&
         EVP_CIPHER_CTX_ctrl(send_->context.get(), EVP_CTRL_AEAD_GET_TAG, int(kTag),
                             &sealed_[at]) == 1;
  LH_CHECK(good);
  return sealed_;
}

std::optional<DatagramKeys::Prefix> DatagramKeys::prefix_of(std::span<const std::byte> datagram) {
  if (datagram.size() < kOverhead) return std::nullopt;
  return Prefix{get<std::uint32_t>(datagram), get<std::uint64_t>(datagram.subspan(4))};
}

std::optional<DatagramKeys::Opened> DatagramKeys::open(std::span<const std::byte> datagram) {
  const auto prefix = prefix_of(datagram);
  if (!prefix || prefix->id != id_ || !is_new(prefix->number)) return std::nullopt;
  const auto body = datagram.subspan(kPrefix, datagram.size() - kOverhead);
  std::array<std::byte, kTag> tag{};
  std::copy_n(datagram.end() - std::ptrdiff_t(kTag), kTag, tag.begin());
  opened_.resize(body.size());
  const bool good = receive_->begin(prefix->number, datagram.first(kPrefix)) &&
                    receive_->update(opened_.data(), body) &&
                    EVP_CIPHER_CTX_ctrl(receive_->context.get(), EVP_CTRL_AEAD_SET_TAG, int(kTag),
                                        tag.data()) == 1 &&
                    receive_->end();
  if (!good) {
    ERR_clear_error();
    return std::nullopt;
  }
  remember(prefix->number);
  return Opened{prefix->number, opened_};
}

bool DatagramKeys::is_new(std::uint64_t number) const {
  if (number > highest_) return true;
  return highest_ - number < kWindow && !seen_[number % kWindow];
}

// Only of authentic datagrams: a forged number must not move the window.
void DatagramKeys::remember(std::uint64_t number) {
  if (number > highest_) {
    const std::uint64_t step = number - highest_;
    if (step >= kWindow) {
      seen_.reset();
    } else {
      for (std::uint64_t one = highest_ + 1; one < number; ++one) seen_[one % kWindow] = false;
    }
    highest_ = number;
  }
  seen_[number % kWindow] = true;
}

}  // namespace longhaul::secure
