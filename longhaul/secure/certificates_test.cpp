#include "longhaul/secure/certificates.h"

#include <gmock/gmock.h>

#include "longhaul/base/testing/result.h"
#include "longhaul/secure/testing/chains.h"

namespace longhaul::secure {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Certificates, NameTheirSiteAndAuthority) {
  const KeyPair authority = test_authority();
  const auto all = good(facts_of(test_keys(authority, "tokyo").certificate));
  ASSERT_EQ(all->size(), 1u);
  const CertificateFacts* const facts = &all->front();
  EXPECT_THAT(facts->sites, ElementsAre("tokyo"));
  EXPECT_THAT(facts->issuer, HasSubstr("longhaul CA"));
  EXPECT_FALSE(facts->is_authority);
  EXPECT_EQ(facts->fingerprint.size(), 64u);
  EXPECT_GE(facts->serial.size(), 30u) << "unpredictable";
  const auto bundle = good(facts_of(authority.certificate + test_authority().certificate));
  ASSERT_EQ(bundle->size(), 2u);
  EXPECT_TRUE(bundle->at(0).is_authority && bundle->at(1).is_authority);
  EXPECT_EQ(bundle->at(0).issuer, facts->issuer);
  EXPECT_NE(bundle->at(1).issuer, facts->issuer);
}

TEST(Certificates, AreValidAsLongAsAskedFor) {
  const auto authority = good(make_authority({1000000000, 2000000000}));
  const auto pair = good(issue(*authority, "a", {1000000000, 2000000000}));
  const auto facts = facts_of(pair->certificate);
  EXPECT_EQ(facts->front().valid.from, 1000000000);
  EXPECT_EQ(facts->front().valid.until, 2000000000);
  EXPECT_EQ(time_text(1000000000), "2001-09-09 01:46 UTC");
}

// A comma or a slash would be a second name, or another folder.
TEST(Certificates, NoneOutlivesItsAuthority) {
  const KeyPair authority = test_authority();
  Validity longer = valid_today();
  EXPECT_TRUE(issue(authority, "tokyo", longer));
  longer.until += 86400;
  EXPECT_THAT(failure(issue(authority, "tokyo", longer)).what, HasSubstr("outlive its authority"));
}

TEST(Certificates, OnlyNamesOfSitesAreIssued) {
  const KeyPair authority = test_authority();
  for (const std::string bad :
       {"", "a,DNS:b", "../a", "a b", "a.b", "*", "t\xc3\xb6kyo",
        "0123456789012345678901234567890123456789012345678901234567890123x"}) {
    EXPECT_THAT(failure(issue(authority, bad, {0, 2000000000})).what,
                HasSubstr("no name of a site"))
        << bad;
  }
}

TEST(Certificates, KeysThatDoNotBelongTogetherAreNamed) {
  const KeyPair authority = test_authority(), other = test_authority();
  const KeyPair a = test_keys(authority, "a"), b = test_keys(authority, "b");
  EXPECT_TRUE(check_match(a, authority.certificate));
  const auto why = [](const KeyPair& pair, const std::string& by) {
    const auto match = check_match(pair, by);
    return match ? std::string() : match.error().what;
  };
  EXPECT_THAT(why({a.certificate, b.key}, authority.certificate), HasSubstr("does not belong"));
  EXPECT_THAT(why(a, other.certificate), HasSubstr("of another authority"));
  EXPECT_THAT(why({"x", a.key}, authority.certificate), HasSubstr("no certificate"));
  EXPECT_THAT(why({a.certificate, "x"}, authority.certificate), HasSubstr("no private key"));
  EXPECT_THAT(why(a, "x"), HasSubstr("authority's file"));
  EXPECT_FALSE(issue({authority.certificate, other.key}, "a", {0, 2000000000}));
  EXPECT_FALSE(issue({"x", "y"}, "a", {0, 2000000000}));
}

std::string why_not(const KeyPair& pair, const std::string& authorities) {
  const auto match = check_match(pair, authorities);
  return match ? std::string() : match.error().what;
}

TEST(Certificates, AChainLeadsToAnyOfTheAuthorities) {
  const KeyPair root = test_root("one"), other = test_root("two"), between = test_between(root);
  const KeyPair leaf = test_keys(between, "tokyo");
  EXPECT_THAT(why_not(leaf, root.certificate), HasSubstr("those between"));
  EXPECT_EQ(why_not(behind(leaf, between), root.certificate), "");
  EXPECT_EQ(why_not(behind(leaf, between), other.certificate + root.certificate), "");
  EXPECT_EQ(why_not(behind(behind(leaf, between), root), root.certificate), "") << "the root, too";
  EXPECT_EQ(why_not(leaf, between.certificate), "") << "trusted by itself";
  EXPECT_EQ(why_not(leaf, root.certificate + between.certificate), "");
  EXPECT_THAT(why_not(behind(leaf, between), other.certificate), HasSubstr("another authority"));
  // The other way round the key is not of the first.
  EXPECT_THAT(why_not({between.certificate + leaf.certificate, leaf.key}, root.certificate),
              HasSubstr("first certificate"));
  // A site's certificate cannot issue others.
  EXPECT_NE(why_not(behind(test_keys(leaf, "lima"), behind(leaf, between)), root.certificate), "");
}

TEST(Certificates, AChainIsValidWhileAllOfItIs) {
  const std::int64_t now = std::time(nullptr);
  const KeyPair root = test_root("root");
  const KeyPair soon = test_between(root, {now - 10, now + 1000});
  const KeyPair leaf = test_certificate({.name = "tokyo",
                                         .valid = {now - 100, now + 900},
                                         .purposes = "serverAuth,clientAuth",
                                         .site = "tokyo"},
                                        &soon);
  const auto match = good(check_match(behind(leaf, soon), root.certificate));
  EXPECT_EQ(match->from, now - 10);
  EXPECT_EQ(match->until, now + 900);
  // Out of its time it matches all the same: the time is for others to judge.
  const KeyPair past = test_between(root, {now - 1000, now - 100});
  const KeyPair old = test_certificate({.name = "tokyo",
                                        .valid = {now - 1000, now - 200},
                                        .purposes = "serverAuth,clientAuth",
                                        .site = "tokyo"},
                                       &past);
  EXPECT_EQ(good(check_match(behind(old, past), root.certificate))->until, now - 200);
}

TEST(Certificates, APurposeThatIsMissingIsNamed) {
  const KeyPair root = test_root("root");
  const auto why = [&](const std::string& purposes, const std::string& usage) {
    return why_not(test_keys_for(root, "tokyo", purposes, usage), root.certificate);
  };
  EXPECT_EQ(why("serverAuth,clientAuth", "digitalSignature"), "");
  EXPECT_EQ(why("", ""), "") << "for any purpose";
  EXPECT_THAT(why("serverAuth", ""), HasSubstr("it lacks clientAuth"));
  EXPECT_THAT(why("clientAuth", ""), HasSubstr("it lacks serverAuth"));
  EXPECT_THAT(why("emailProtection", ""), HasSubstr("serverAuth and clientAuth"));
  EXPECT_THAT(why("serverAuth,clientAuth", "keyCertSign"), HasSubstr("key usage"));
  // The purposes of a certificate between count, too.
  const KeyPair between = test_certificate({.name = "between",
                                            .valid = valid_today(),
                                            .constraints = "critical,CA:TRUE",
                                            .key_usage = "keyCertSign",
                                            .purposes = "serverAuth"},
                                           &root);
  EXPECT_THAT(why_not(behind(test_keys(between, "tokyo"), between), root.certificate),
              HasSubstr("it lacks clientAuth"));
}

TEST(Certificates, ATextThatIsDamagedBehindTheFirstIsNotTakenForShorter) {
  const KeyPair one = test_authority(), two = test_authority();
  std::string cut = one.certificate + two.certificate;
  cut.resize(cut.size() - 40);
  EXPECT_THAT(failure(facts_of(cut)).what, HasSubstr("certificate 2 in it is damaged"));
}

}  // namespace
}  // namespace longhaul::secure
