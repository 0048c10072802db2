#include "longhaul/secure/certificates.h"

#include <gmock/gmock.h>

#include "longhaul/secure/testing/keys.h"

namespace longhaul::secure {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Certificates, NameTheirSiteAndAuthority) {
  const KeyPair authority = test_authority();
  const auto facts = facts_of(test_keys(authority, "tokyo").certificate);
  ASSERT_TRUE(facts) << facts.error().what;
  EXPECT_THAT(facts->sites, ElementsAre("tokyo"));
  EXPECT_THAT(facts->issuer, HasSubstr("longhaul CA"));
  EXPECT_FALSE(facts->is_authority);
  EXPECT_EQ(facts->fingerprint.size(), 64u);
  EXPECT_GE(facts->serial.size(), 30u) << "unpredictable";
  const auto own = facts_of(authority.certificate);
  ASSERT_TRUE(own);
  EXPECT_TRUE(own->is_authority);
  EXPECT_EQ(own->issuer, facts->issuer);
  EXPECT_NE(facts_of(test_authority().certificate)->issuer, own->issuer);
}

TEST(Certificates, AreValidAsLongAsAskedFor) {
  const auto authority = make_authority({1000000000, 2000000000});
  ASSERT_TRUE(authority);
  const auto pair = issue(*authority, "a", {1000000000, 2000000000});
  ASSERT_TRUE(pair);
  const auto facts = facts_of(pair->certificate);
  EXPECT_EQ(facts->valid.from, 1000000000);
  EXPECT_EQ(facts->valid.until, 2000000000);
  EXPECT_EQ(time_text(1000000000), "2001-09-09 01:46 UTC");
}

// A comma or a slash would be a second name, or another folder.
TEST(Certificates, NoneOutlivesItsAuthority) {
  const KeyPair authority = test_authority();
  Validity longer = valid_today();
  EXPECT_TRUE(issue(authority, "tokyo", longer));
  longer.until += 86400;
  const auto made = issue(authority, "tokyo", longer);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().what, HasSubstr("outlive its authority"));
}

TEST(Certificates, OnlyNamesOfSitesAreIssued) {
  const KeyPair authority = test_authority();
  for (const std::string bad :
       {"", "a,DNS:b", "../a", "a b", "a.b", "*", "t\xc3\xb6kyo",
        "0123456789012345678901234567890123456789012345678901234567890123x"}) {
    const auto pair = issue(authority, bad, {0, 2000000000});
    ASSERT_FALSE(pair) << bad;
    EXPECT_THAT(pair.error().what, HasSubstr("no name of a site"));
  }
}

TEST(Certificates, KeysThatDoNotBelongTogetherAreNamed) {
  const KeyPair authority = test_authority(), other = test_authority();
  const KeyPair a = test_keys(authority, "a"), b = test_keys(authority, "b");
  EXPECT_TRUE(check_match(a, authority.certificate));
  const auto why = [](const KeyPair& pair, const std::string& by) {
    const Status status = check_match(pair, by);
    return status ? std::string() : status.error().what;
  };
  EXPECT_THAT(why({a.certificate, b.key}, authority.certificate), HasSubstr("does not belong"));
  EXPECT_THAT(why(a, other.certificate), HasSubstr("not of this authority"));
  EXPECT_THAT(why({"x", a.key}, authority.certificate), HasSubstr("no certificate"));
  EXPECT_THAT(why({a.certificate, "x"}, authority.certificate), HasSubstr("no private key"));
  EXPECT_THAT(why(a, "x"), HasSubstr("authority's file"));
  EXPECT_FALSE(issue({authority.certificate, other.key}, "a", {0, 2000000000}));
  EXPECT_FALSE(issue({"x", "y"}, "a", {0, 2000000000}));
}

}  // namespace
}  // namespace longhaul::secure
