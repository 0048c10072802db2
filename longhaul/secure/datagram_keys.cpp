#include "longhaul/secure/datagram_keys.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include "longhaul/secure/openssl.h"

namespace longhaul::secure {
namespace {

constexpr std::size_t kSecretBytes = 32, kId = 4, kKey = 32, kNonce = 12;
using Secret = std::array<std::byte, kSecretBytes>;

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

// HKDF-Expand of RFC 5869 with SHA-256: the secret is uniformly random already.
void expand(const Secret& secret, std::string_view label, std::span<std::byte> into) {
  static EVP_KDF* const algorithm = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
  const openssl::Derivation context(EVP_KDF_CTX_new(algorithm));
  int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, const_cast<std::byte*>(secret.data()),
                                        secret.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, const_cast<char*>(label.data()),
                                        label.size()),
      OSSL_PARAM_construct_end()};
  LH_CHECK(context &&
           EVP_KDF_derive(context.get(), raw(into.data()), into.size(), parameters) == 1);
}

}  // namespace

struct DatagramKeys::Key {
  Key(const Secret& secret, bool seals) : context(EVP_CIPHER_CTX_new()) {
    std::array<std::byte, kId + kKey + kNonce> bytes{};
    expand(secret, "longhaul key", bytes);
    id = get<std::uint32_t>(bytes);
    LH_CHECK(context && EVP_CipherInit_ex(context.get(), EVP_chacha20_poly1305(), nullptr,
                                          raw(bytes.data() + kId), nullptr, seals ? 1 : 0) == 1);
    std::copy_n(bytes.begin() + kId + kKey, kNonce, nonce.begin());
    OPENSSL_cleanse(bytes.data(), bytes.size());
  }
  ~Key() { OPENSSL_cleanse(nonce.data(), nonce.size()); }

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

  std::uint32_t id = 0;
  openssl::CipherContext context;
  std::array<std::byte, kNonce> nonce{};
};

// The keys of one direction. The end that opens also has the one before and the next.
struct DatagramKeys::Chain {
  Chain(std::span<const std::byte> first, bool seals_) : seals(seals_) {
    std::copy_n(first.begin(), kSecretBytes, secret.begin());
    now = take();
    if (!seals) next = take();
  }
  ~Chain() { OPENSSL_cleanse(secret.data(), secret.size()); }

  void advance() {
    before = seals ? nullptr : std::move(now);
    now = seals ? nullptr : std::move(next);
    (seals ? now : next) = take();
  }
  Key* find(std::uint32_t id) const {
    for (const auto* key : {&now, &before, &next})
      if (*key && (*key)->id == id) return key->get();
    return nullptr;
  }
  // The key of the secret, which is replaced by the one that follows.
  std::unique_ptr<Key> take() {
    auto key = std::make_unique<Key>(secret, seals);
    Secret following{};
    expand(secret, "longhaul next", following);
    secret = following;
    OPENSSL_cleanse(following.data(), following.size());
    return key;
  }

  const bool seals;
  Secret secret{};
  std::unique_ptr<Key> before, now, next;
};

DatagramKeys::DatagramKeys(std::span<const std::byte> secret, bool has_dialled) {
  LH_CHECK(secret.size() == kSecret);
  const auto of_dialler = secret.first(kSecretBytes), of_acceptor = secret.last(kSecretBytes);
  send_ = std::make_unique<Chain>(has_dialled ? of_dialler : of_acceptor, true);
  receive_ = std::make_unique<Chain>(has_dialled ? of_acceptor : of_dialler, false);
  seen_[0] = true;  // no sender uses it
}

std::uint32_t DatagramKeys::id() const { return send_->now->id; }
bool DatagramKeys::knows(std::uint32_t id) const { return receive_->find(id) != nullptr; }
void DatagramKeys::update() { send_->advance(); }

DatagramKeys::~DatagramKeys() = default;

std::span<const std::byte> DatagramKeys::seal(std::uint64_t number,
                                              std::span<const std::span<const std::byte>> parts) {
  std::size_t size = kOverhead;
  for (const auto part : parts) size += part.size();
  sealed_.resize(size);
  Key& key = *send_->now;
  const auto prefix = std::span(sealed_).first(kPrefix);
  put(prefix.first(kId), key.id);
  put(prefix.subspan(kId), number);
  bool good = key.begin(number, prefix);
  std::size_t at = kPrefix;
  for (const auto part : parts) {
    good = good && key.update(&sealed_[at], part);
    at += part.size();
  }
  good =
      good && key.end() &&
      EVP_CIPHER_CTX_ctrl(key.context.get(), EVP_CTRL_AEAD_GET_TAG, int(kTag), &sealed_[at]) == 1;
  LH_CHECK(good);
  return sealed_;
}

std::optional<DatagramKeys::Prefix> DatagramKeys::prefix_of(std::span<const std::byte> datagram) {
  if (datagram.size() < kOverhead) return std::nullopt;
  return Prefix{get<std::uint32_t>(datagram), get<std::uint64_t>(datagram.subspan(4))};
}

std::optional<DatagramKeys::Opened> DatagramKeys::open(std::span<const std::byte> datagram) {
  const auto prefix = prefix_of(datagram);
  Key* const key = prefix ? receive_->find(prefix->id) : nullptr;
  if (key == nullptr || !is_new(prefix->number)) return std::nullopt;
  const auto body = datagram.subspan(kPrefix, datagram.size() - kOverhead);
  std::array<std::byte, kTag> tag{};
  std::copy_n(datagram.end() - std::ptrdiff_t(kTag), kTag, tag.begin());
  opened_.resize(body.size());
  const bool good =
      key->begin(prefix->number, datagram.first(kPrefix)) && key->update(opened_.data(), body) &&
      EVP_CIPHER_CTX_ctrl(key->context.get(), EVP_CTRL_AEAD_SET_TAG, int(kTag), tag.data()) == 1 &&
      key->end();
  if (!good) {
    ERR_clear_error();
    return std::nullopt;
  }
  remember(prefix->number);
  if (key == receive_->next.get()) receive_->advance();
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
