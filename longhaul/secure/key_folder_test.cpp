#include "longhaul/secure/key_folder.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "longhaul/base/testing/result.h"
#include "longhaul/secure/testing/chains.h"

namespace longhaul::secure {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class KeyFolders : public testing::Test {
 protected:
  KeyFolders() {
    std::string name = testing::TempDir() + "keys-XXXXXX";
    LH_CHECK(mkdtemp(name.data()) != nullptr);
    root_ = name;
  }
  ~KeyFolders() override { std::filesystem::remove_all(root_); }

  KeyFolder folder(const std::string& name = "keys") const { return KeyFolder(root_ + "/" + name); }
  KeyFolder made(const std::string& name = "keys") const {
    KeyFolder keys = folder(name);
    LH_CHECK(keys.make_authority(valid_today()) && keys.issue("tokyo", valid_today()));
    return keys;
  }
  static unsigned mode(const std::string& file) {
    struct stat at {};
    return stat(file.c_str(), &at) == 0 ? unsigned(at.st_mode) & 0777u : 0;
  }
  static void put(const std::string& file, const std::string& text) { std::ofstream(file) << text; }
  static std::string why(const KeyFolder& keys, const std::string& site = "tokyo") {
    const auto read = keys.read_site(site);
    return read ? std::string() : read.error().what;
  }
  std::string root_;
};

TEST_F(KeyFolders, PrivateKeysAreTheirOwnersAlone) {
  const KeyFolder keys = made();
  EXPECT_EQ(mode(keys.path()), 0700u);
  EXPECT_EQ(mode(keys.authority_key_file()), 0600u);
  EXPECT_EQ(mode(keys.site_file("tokyo")), 0600u);
  EXPECT_EQ(mode(keys.authority_file()), 0644u);
  EXPECT_EQ(why(keys), "");
  for (const mode_t bad : {0640u, 0604u, 0660u, 0601u}) {
    ASSERT_EQ(chmod(keys.site_file("tokyo").c_str(), bad), 0);
    EXPECT_THAT(why(keys), AllOf(HasSubstr("tokyo.pem"), HasSubstr("chmod 600"))) << bad;
  }
  ASSERT_EQ(chmod(keys.authority_key_file().c_str(), 0644), 0);
  const Status issued = keys.issue("lima", valid_today());
  ASSERT_FALSE(issued);
  EXPECT_THAT(issued.error().what, AllOf(HasSubstr("ca.key"), HasSubstr("chmod 600")));
}

// Whom a site trusts is not for everybody on its machine to say.
TEST_F(KeyFolders, WhatEverybodyMayWriteIsNotTrusted) {
  const KeyFolder keys = made();
  for (const std::string& file : {keys.path(), keys.authority_file()}) {
    const mode_t before = mode(file);
    ASSERT_EQ(chmod(file.c_str(), before | 0002), 0);
    EXPECT_THAT(why(keys), AllOf(HasSubstr(file + ": everybody"), HasSubstr("chmod o-w")));
    EXPECT_FALSE(keys.issue("lima", valid_today()));
    EXPECT_FALSE(keys.list());
    ASSERT_EQ(chmod(file.c_str(), before), 0);
    EXPECT_EQ(why(keys), "");
  }
  ASSERT_EQ(mkdir((root_ + "/open").c_str(), 0700), 0);
  ASSERT_EQ(chmod((root_ + "/open").c_str(), 0777), 0);
  EXPECT_FALSE(KeyFolder(root_ + "/open").make_authority(valid_today()));
  ASSERT_EQ(chmod((root_ + "/open").c_str(), 01777), 0);
  EXPECT_TRUE(KeyFolder(root_ + "/open").make_authority(valid_today())) << "as /tmp is";
}

TEST_F(KeyFolders, AnAuthorityIsNotReplaced) {
  const KeyFolder keys = made();
  const Status again = keys.make_authority(valid_today());
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().what, AllOf(HasSubstr("ca.crt"), HasSubstr("already")));
  EXPECT_EQ(why(keys), "");
}

TEST_F(KeyFolders, WhatIsMissingOrWrongIsNamedWithTheRemedy) {
  EXPECT_THAT(folder().read_authority().error().what,
              AllOf(HasSubstr("/keys/ca.crt"), HasSubstr("longhaul keys init")));
  const KeyFolder keys = made(), other = made("other");
  EXPECT_THAT(why(keys, "lima"), AllOf(HasSubstr("lima.pem"), HasSubstr("keys issue lima")));
  std::filesystem::copy(keys.site_file("tokyo"), keys.site_file("lima"));
  EXPECT_THAT(why(keys, "lima"), HasSubstr("does not name lima"));
  std::filesystem::copy(other.site_file("tokyo"), keys.site_file("tokyo"),
                        std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(why(keys), HasSubstr("of another authority"));
  put(keys.site_file("tokyo"), "no PEM");
  EXPECT_THAT(why(keys), HasSubstr("no certificate"));
  std::filesystem::remove(keys.authority_key_file());
  const Status issued = keys.issue("tokyo", valid_today());
  ASSERT_FALSE(issued);
  EXPECT_THAT(issued.error().what, AllOf(HasSubstr("ca.key"), HasSubstr("keys init")));
}

TEST_F(KeyFolders, AListHasAllFilesAndTheirProblems) {
  const KeyFolder keys = made();
  put(keys.site_file("lima"), "no PEM");
  ASSERT_EQ(chmod(keys.site_file("lima").c_str(), 0600), 0);
  const auto list = good(keys.list());
  ASSERT_EQ(list->size(), 3u);
  EXPECT_EQ((*list)[0].file, "ca.crt");
  EXPECT_EQ((*list)[1].file, "lima.pem");
  EXPECT_THAT((*list)[1].problem, HasSubstr("no certificate"));
  EXPECT_EQ((*list)[2].facts.sites, std::vector<std::string>{"tokyo"});
  EXPECT_FALSE(folder("none").list());
}

// As a company's own authority makes them.
TEST_F(KeyFolders, KeysOfOtherToolsAreUsedOrNamed) {
  const KeyPair root = test_root("root"), other = test_root("other"), between = test_between(root);
  const KeyFolder keys = made();
  ASSERT_TRUE(keys.write_authority(other.certificate + root.certificate));
  ASSERT_TRUE(keys.write_site("tokyo", behind(test_keys(between, "tokyo"), between)));
  EXPECT_EQ(why(keys), "");
  const auto opened = Credentials::open(keys, "tokyo", {"tokyo"});
  EXPECT_TRUE(opened) << opened.error().what;
  ASSERT_TRUE(keys.write_site("lima", test_keys_for(root, "lima", "serverAuth")));
  EXPECT_THAT(why(keys, "lima"), AllOf(HasSubstr("lima.pem"), HasSubstr("lacks clientAuth"),
                                       HasSubstr("issue it with")));
  const auto list = good(keys.list());
  ASSERT_EQ(list->size(), 4u);
  EXPECT_EQ((*list)[1].file, "ca.crt");
  EXPECT_THAT((*list)[1].facts.issuer, HasSubstr("root"));
  EXPECT_THAT((*list)[2].problem, HasSubstr("lacks clientAuth"));
  EXPECT_EQ((*list)[3].problem, "");
  // `keys issue` signs with the authority that ca.key belongs to.
  put(keys.authority_key_file(), root.key);
  ASSERT_TRUE(keys.issue("lima", valid_today()));
  EXPECT_EQ(why(keys, "lima"), "");
  // A site's certificate is no authority, also as the second in ca.crt.
  ASSERT_TRUE(keys.write_authority(root.certificate + test_keys(root, "lima").certificate));
  EXPECT_THAT(why(keys), AllOf(HasSubstr("ca.crt"), HasSubstr("certificate 2")));
}

TEST_F(KeyFolders, CertificatesThatPeersDoNotTakeAreNamedAtTheStart) {
  const KeyPair root = test_root("root");
  const KeyFolder keys = made();
  ASSERT_TRUE(keys.write_authority(root.certificate));
  KeyPair longer = test_keys(root, "tokyo");
  for (int i = 0; i < 60; ++i) longer = behind(longer, root);
  ASSERT_TRUE(keys.write_site("tokyo", longer));
  EXPECT_THAT(failure(Credentials::open(keys, "tokyo", {"tokyo"})).what,
              AllOf(HasSubstr("tokyo.pem"), HasSubstr("peers take 16384")));
}

TEST_F(KeyFolders, CredentialsAreReadAgainOnceTheirFilesHaveChanged) {
  const KeyFolder keys = made();
  auto opened = good(Credentials::open(keys, "tokyo", {"tokyo", "lima"}));
  Credentials& credentials = **opened;
  const auto refresh = [&] {
    const auto done = credentials.refresh();
    return done ? std::string(*done ? "new" : "same") : done.error().what;
  };
  EXPECT_EQ(refresh(), "same");
  Validity later = valid_today();
  later.until -= 1000;
  ASSERT_TRUE(keys.issue("tokyo", later));
  EXPECT_EQ(refresh(), "new");
  EXPECT_EQ(credentials.valid_until(), later.until);
  EXPECT_EQ(refresh(), "same");
  // Unusable files leave the ones before, and are read again.
  put(keys.site_file("tokyo"), "no PEM");
  EXPECT_THAT(refresh(), HasSubstr("no certificate"));
  EXPECT_THAT(refresh(), HasSubstr("no certificate"));
  EXPECT_NE(credentials.accept(), nullptr);
  ASSERT_TRUE(keys.issue("tokyo", valid_today()));
  EXPECT_EQ(refresh(), "new");
}

TEST_F(KeyFolders, CredentialsOutOfTheirTimeAreNotOpened) {
  const KeyFolder keys = made();
  const std::int64_t now = std::time(nullptr);
  const auto open = [&](Validity valid) {
    LH_CHECK(keys.issue("tokyo", valid));
    const auto opened = Credentials::open(keys, "tokyo", {"tokyo"});
    return opened ? std::string() : opened.error().what;
  };
  EXPECT_EQ(open(valid_today()), "");
  EXPECT_THAT(open({now - 1000, now - 10}),
              AllOf(HasSubstr("tokyo.pem"), HasSubstr("expired"), HasSubstr("keys issue")));
  EXPECT_THAT(open({now + 1000, now + 2000}),
              AllOf(HasSubstr("not valid before"), HasSubstr("set the clock")));
}

}  // namespace
}  // namespace longhaul::secure
