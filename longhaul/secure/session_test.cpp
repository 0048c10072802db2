// Sessions joined by two buffers: who is refused, and what each end says of it.
#include "longhaul/secure/session.h"

#include <gmock/gmock.h>

#include "longhaul/secure/testing/chains.h"

namespace longhaul::secure {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Buffer to_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// One end, and what it said when it failed.
struct TlsEnd {
  explicit TlsEnd(std::unique_ptr<Session> s) : session(std::move(s)) {}
  std::unique_ptr<Session> session;
  std::string why;
  Buffer got, incoming;

  void fail(const Error& error) {
    if (why.empty()) why = error.what;
  }
  void take(Buffer bytes) {
    incoming = std::move(bytes);
    session->receive(incoming);
    work();
  }
  void work() {
    if (!why.empty()) return;
    if (!session->is_established()) {
      const auto done = session->handshake();
      if (!done) return fail(done.error());
      if (!*done) return;
    }
    Buffer into(1000);
    for (;;) {
      const auto count = session->read(into);
      if (!count) return fail(count.error());
      if (*count == 0) return;
      got.insert(got.end(), into.begin(), into.begin() + std::ptrdiff_t(*count));
    }
  }
};

struct TlsPair {
  TlsEnd dialler, acceptor;
  TlsPair(const Credentials& from, const Credentials& to, const std::string& site = "tokyo")
      : dialler(from.dial(site)), acceptor(to.accept()) {}

  // Until neither has anything to say, or both have failed.
  void run() {
    dialler.work();
    for (bool moved = true; moved;) {
      moved = false;
      for (auto [from, to] : {std::pair(&dialler, &acceptor), std::pair(&acceptor, &dialler)}) {
        Buffer bytes = std::exchange(from->session->outgoing(), {});
        if (bytes.empty() || !to->why.empty()) continue;
        moved = true;
        to->take(std::move(bytes));
      }
    }
  }
};

class Sessions : public testing::Test {
 protected:
  const KeyPair authority_ = test_authority();
  std::vector<std::string> sites_ = {"lima", "tokyo"};

  std::unique_ptr<Credentials> with(const KeyPair& keys, const std::string& site) const {
    auto made = Credentials::make(keys, authority_.certificate, site, sites_);
    LH_CHECK(made);
    return *std::move(made);
  }
  std::unique_ptr<Credentials> good(const std::string& site) const {
    return with(test_keys(authority_, site), site);
  }
  // What each end says where a dialler with these keys calls tokyo.
  std::pair<std::string, std::string> refused(const KeyPair& keys, bool dials = true) const {
    const auto bad = with(keys, dials ? "lima" : "tokyo");
    const auto other = good(dials ? "tokyo" : "lima");
    TlsPair pair(dials ? *bad : *other, dials ? *other : *bad);
    pair.run();
    EXPECT_FALSE(pair.dialler.why.empty());
    EXPECT_FALSE(pair.acceptor.why.empty());
    return {pair.dialler.why, pair.acceptor.why};
  }
};

TEST_F(Sessions, BothEndsProveTheirSitesAndExchangeBytes) {
  TlsPair pair(*good("lima"), *good("tokyo"));
  pair.run();
  ASSERT_EQ(pair.dialler.why + pair.acceptor.why, "");
  EXPECT_THAT(pair.dialler.session->peer_sites(), ElementsAre("tokyo"));
  EXPECT_TRUE(pair.acceptor.session->peer_is("lima"));
  EXPECT_FALSE(pair.acceptor.session->peer_is("lim"));
  const Buffer large(100000, std::byte{7});
  ASSERT_TRUE(pair.dialler.session->write(large));
  ASSERT_TRUE(pair.acceptor.session->write(to_bytes("answer")));
  EXPECT_GT(pair.dialler.session->outgoing().size(), large.size());
  pair.run();
  EXPECT_EQ(pair.acceptor.got, large);
  EXPECT_EQ(pair.dialler.got, to_bytes("answer"));
}

TEST_F(Sessions, ExportedSecretsAreEqualAtBothEndsAndNewForEachConnection) {
  const auto lima = good("lima"), tokyo = good("tokyo");
  TlsPair first(*lima, *tokyo), second(*lima, *tokyo);
  first.run();
  second.run();
  const Buffer one = first.dialler.session->export_secret("EXPORTER-test", 40);
  EXPECT_EQ(one, first.acceptor.session->export_secret("EXPORTER-test", 40));
  EXPECT_NE(one, first.dialler.session->export_secret("EXPORTER-other", 40));
  EXPECT_NE(one, second.dialler.session->export_secret("EXPORTER-test", 40));
}

TEST_F(Sessions, AnotherAuthorityIsRefused) {
  const KeyPair other = test_authority();
  const auto [dialler, acceptor] = refused(test_keys(other, "lima"));
  EXPECT_THAT(acceptor, AllOf(HasSubstr("certificate of lima"), HasSubstr("another authority"),
                              HasSubstr("longhaul CA")));
  EXPECT_THAT(dialler, AllOf(HasSubstr("refuses the certificate of this site (lima)"),
                             HasSubstr("another authority")));
  EXPECT_THAT(refused(test_keys(other, "tokyo"), false).first, HasSubstr("another authority"));
}

// A site with all files of another authority: each end refuses the other, whoever is first.
TEST_F(Sessions, ASiteOfAnotherAuthorityRefusesAndIsRefused) {
  const auto other = test_credentials(test_authority(), "lima", sites_);
  TlsPair dials(*other, *good("tokyo"));
  dials.run();
  EXPECT_THAT(dials.dialler.why,
              AllOf(HasSubstr("certificate of tokyo"), HasSubstr("another authority")));
  EXPECT_THAT(dials.acceptor.why, HasSubstr("refuses the certificate of this site (tokyo)"));
}

TEST_F(Sessions, AChainIsSentAndChecked) {
  const KeyPair root = test_root("root"), between = test_between(root);
  const auto made = [&](const std::string& site, const std::string& authorities) {
    auto credentials =
        Credentials::make(behind(test_keys(between, site), between), authorities, site, sites_);
    LH_CHECK(credentials);
    return *std::move(credentials);
  };
  TlsPair pair(*made("lima", root.certificate), *made("tokyo", root.certificate));
  pair.run();
  ASSERT_EQ(pair.dialler.why + pair.acceptor.why, "");
  EXPECT_THAT(pair.dialler.session->peer_sites(), ElementsAre("tokyo"));
  // While sites go from one authority to another, ca.crt holds both.
  const std::string both = authority_.certificate + root.certificate;
  auto before = Credentials::make(test_keys(authority_, "tokyo"), both, "tokyo", sites_);
  ASSERT_TRUE(before);
  TlsPair mixed(*made("lima", both), **before);
  mixed.run();
  EXPECT_EQ(mixed.dialler.why + mixed.acceptor.why, "");
  // The one between is trusted for what it signs alone, and no site's certificate signs.
  const auto stranger = made("lima", root.certificate);
  TlsPair refused(*stranger, *good("tokyo"));
  refused.run();
  EXPECT_THAT(refused.dialler.why, HasSubstr("another authority"));
}

TEST_F(Sessions, ACertificateForOneEndAloneIsRefusedByName) {
  const auto [dialler, acceptor] = refused(test_keys_for(authority_, "lima", "serverAuth"));
  EXPECT_THAT(acceptor, AllOf(HasSubstr("certificate of lima"), HasSubstr("lacks clientAuth")));
  EXPECT_THAT(dialler, HasSubstr("extended key usage"));
  EXPECT_THAT(refused(test_keys_for(authority_, "tokyo", "clientAuth"), false).first,
              HasSubstr("lacks serverAuth"));
}

TEST_F(Sessions, ACertificateOutOfItsTimeIsRefusedWithTheClock) {
  const std::int64_t now = std::time(nullptr);
  const auto expired = refused(test_keys(authority_, "lima", {now - 1000, now - 100}));
  EXPECT_THAT(expired.second, AllOf(HasSubstr("has expired on"), HasSubstr("clock")));
  EXPECT_THAT(expired.first, HasSubstr("has expired by the peer's clock"));
  const auto early = refused(test_keys(authority_, "lima", {now + 1000, now + 2000}));
  EXPECT_THAT(early.second, AllOf(HasSubstr("not valid before"), HasSubstr("set the clock")));
  EXPECT_THAT(early.first, HasSubstr("not valid yet"));
}

TEST_F(Sessions, ASelfSignedCertificateIsRefused) {
  const auto [dialler, acceptor] = refused(test_authority());
  EXPECT_THAT(acceptor, HasSubstr("self-signed"));
  EXPECT_THAT(dialler, HasSubstr("refuses the certificate"));
}

TEST_F(Sessions, OnlySitesOfTheJobAreTaken) {
  const auto [dialler, acceptor] = refused(test_keys(authority_, "quito"));
  EXPECT_THAT(acceptor, AllOf(HasSubstr("quito"), HasSubstr("no site of this job")));
  EXPECT_THAT(dialler, HasSubstr("not of a site of the peer's job"));
}

TEST_F(Sessions, AnotherSiteAtTheDialledAddressIsRefused) {
  sites_.push_back("quito");
  const auto [dialler, acceptor] = refused(test_keys(authority_, "quito"), false);
  EXPECT_THAT(dialler, AllOf(HasSubstr("certificate of quito"), HasSubstr("expected tokyo")));
  EXPECT_THAT(acceptor, HasSubstr("refuses the certificate"));
}

TEST_F(Sessions, BytesThatAreNoTlsAreNamed) {
  for (const std::string_view text : {"GET / HTTP/1.1\r\n\r\n", "LHUL", "\x15\x03\x03"}) {
    TlsEnd end(good("tokyo")->accept());
    end.take(to_bytes(text));
    EXPECT_THAT(end.why, HasSubstr("does not speak TLS")) << text;
  }
  TlsEnd end(good("lima")->dial("tokyo"));
  end.work();
  end.take(to_bytes("SSH-2.0-OpenSSH_9.2\r\n"));
  EXPECT_THAT(end.why, HasSubstr("does not speak TLS"));
}

// Of a client hello, of every record after it, and of what is exchanged. Some bytes mean nothing
// (the version in the first record, RFC 8446, 5.1); the others end the connection, or make it wait.
TEST_F(Sessions, NothingIsDeliveredOfChangedBytes) {
  const auto lima = good("lima"), tokyo = good("tokyo");
  for (std::size_t at = 0; at < 3000; at = at + 1 + at / 3) {
    TlsPair pair(*lima, *tokyo);
    std::size_t passed = 0;
    bool is_changed = false;
    pair.dialler.work();
    ASSERT_TRUE(pair.dialler.why.empty());
    for (int turn = 0; turn < 6; ++turn) {
      if (turn == 4) (void)pair.dialler.session->write(Buffer(500, std::byte{1}));
      TlsEnd& from = turn % 2 == 0 ? pair.dialler : pair.acceptor;
      TlsEnd& to = turn % 2 == 0 ? pair.acceptor : pair.dialler;
      Buffer bytes = std::exchange(from.session->outgoing(), {});
      if (at >= passed && at < passed + bytes.size()) {
        bytes[at - passed] ^= std::byte{0x40};
        is_changed = true;
      }
      passed += bytes.size();
      if (to.why.empty()) to.take(std::move(bytes));
    }
    if (!is_changed) break;
    const bool has_no_meaning = at == 2;
    EXPECT_EQ(pair.acceptor.got.size(), has_no_meaning ? 500u : 0u) << at;
  }
}

TEST_F(Sessions, ARecordLongerThanTlsAllowsIsRefusedAtOnce) {
  TlsEnd end(good("tokyo")->accept());
  end.take(to_bytes(std::string_view("\x16\x03\x01\xff\xff\x01", 6)));
  EXPECT_FALSE(end.why.empty());
  EXPECT_THAT(end.why, HasSubstr("TLS handshake failed"));
  TlsEnd long_message(good("tokyo")->accept());  // 16 MB of a client hello are announced
  long_message.take(to_bytes(std::string_view("\x16\x03\x01\x00\x06\x01\xff\xff\xff\x03\x03", 11)));
  EXPECT_THAT(long_message.why, HasSubstr("TLS handshake failed"));
}

TEST_F(Sessions, OlderVersionsAreRefused) {
  // A client hello of TLS 1.2, cut to what is read first.
  TlsEnd end(good("tokyo")->accept());
  std::string hello("\x16\x03\x01\x00\x2f\x01\x00\x00\x2b\x03\x03", 11);
  hello += std::string(32, 'r') + std::string("\x00\x00\x02\xc0\x2b\x01\x00\x00\x00", 9);
  end.take(to_bytes(hello));
  EXPECT_THAT(end.why, HasSubstr("TLS handshake failed"));
}

}  // namespace
}  // namespace longhaul::secure
