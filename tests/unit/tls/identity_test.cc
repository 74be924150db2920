// The files of [tls], and whom they make a node believe.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/certificates.h"
#include "transport/tls/identity.h"

using namespace onecopy;
using namespace onecopy::tls;
using onecopy::testing::Authority;
using onecopy::testing::ReadFile;
using onecopy::testing::TempFolder;

namespace {

Files With(const Authority& authority, const Authority::Files& files) {
  return {authority.ca(), files.certificate, files.key, ""};
}

Chain Presented(const std::string& certificate_file) {
  auto chain = ParseCertificates(ReadFile(certificate_file));
  REQUIRE_OK(chain);
  return *chain;
}

std::shared_ptr<const Identity> Load(const Files& files, const std::string& node) {
  auto identity = Identity::Load(files, node);
  REQUIRE_OK(identity);
  return *identity;
}

void CheckRefused(const Files& files, const std::string& node, const std::string& file,
                  const std::string& why) {
  const Status status = Identity::Load(files, node).status();
  INFO(status.ToString());
  CHECK_FALSE(status.ok());
  CHECK(status.message().find(file) != std::string::npos);
  CHECK(status.message().find(why) != std::string::npos);
}

}  // namespace

TEST_CASE("bad files are refused, and the error names the file") {
  Authority authority;
  Authority other;
  const TempFolder folder;
  const auto east = authority.Issue("east", "DNS:east");
  const Files good = With(authority, east);
  Load(good, "east");
  { const std::ofstream empty(folder / "empty"); }
  std::ofstream(folder / "garbage")
      << "-----BEGIN CERTIFICATE-----\nZm9v\n-----END CERTIFICATE-----\n";
  for (const char* name : {"empty", "garbage"}) {
    REQUIRE(::chmod((folder / name).c_str(), 0600) == 0);
    const std::string bad = folder / name;
    CheckRefused({bad, good.certificate, good.key, ""}, "east", bad, "certificate");
    CheckRefused({good.ca, bad, good.key, ""}, "east", bad, "certificate");
    CheckRefused({good.ca, good.certificate, bad, ""}, "east", bad, "private key");
    CheckRefused({good.ca, good.certificate, good.key, bad}, "east", bad, "revoked");
  }
  const std::string missing = folder / "missing";
  CheckRefused({missing, good.certificate, good.key, ""}, "east", missing, "No such file");
  CheckRefused({good.ca, missing, good.key, ""}, "east", missing, "No such file");
  CheckRefused({good.ca, good.certificate, missing, ""}, "east", missing, "No such file");
  CheckRefused({good.ca, good.certificate, good.key, missing}, "east", missing, "No such file");
  const std::string directory = folder.path().string();
  CheckRefused({directory, good.certificate, good.key, ""}, "east", directory, "directory");
  const auto another = other.Issue("another", "DNS:east");
  CheckRefused({good.ca, good.certificate, another.key, ""}, "east", another.key, "not the key");
  const auto expired = authority.Issue("expired", "DNS:east", true);
  CheckRefused(With(authority, expired), "east", expired.certificate, "expired, at 2020-02-01");
  CheckRefused(good, "west", good.certificate, "DNS:west");
  const auto common = authority.Issue("common", "");
  CheckRefused(With(authority, common), "common", common.certificate, "DNS:common");
  const auto half = authority.Issue("half", "DNS:east", false, "extendedKeyUsage=serverAuth");
  CheckRefused(With(authority, half), "east", half.certificate, "clientAuth");
  // A certificate that its own authority did not sign would be refused by every peer.
  CheckRefused(With(authority, another), "east", another.certificate, "issuer certificate");
}

TEST_CASE("a key with a password is refused rather than asked for") {
  Authority authority;
  const TempFolder folder;
  const auto east = authority.Issue("east", "DNS:east");
  const std::string locked = folder / "locked.key";
  REQUIRE(std::system(("openssl ec -aes128 -passout pass:secret -in " + east.key + " -out " +
                       locked + " 2>/dev/null")
                          .c_str()) == 0);
  CheckRefused({authority.ca(), east.certificate, locked, ""}, "east", locked, "password");
}

TEST_CASE("a key that others may use is refused, with its mode") {
  Authority authority;
  const auto east = authority.Issue("east", "DNS:east");
  const Files files = With(authority, east);
  struct stat key {};
  REQUIRE(::stat(east.key.c_str(), &key) == 0);
  for (const mode_t mode : {0644U, 0604U, 0660U, 0602U, 0610U}) {
    REQUIRE(::chmod(east.key.c_str(), mode) == 0);
    const Status status = Identity::Load(files, "east").status();
    INFO(status.ToString());
    CHECK(status.code() == Code::kPermissionDenied);
    CHECK(status.message().find(east.key) != std::string::npos);
    CHECK(status.remedy().find("chmod") != std::string::npos);
  }
  for (const mode_t mode : {0600U, 0400U}) {
    REQUIRE(::chmod(east.key.c_str(), mode) == 0);
    Load(files, "east");
  }
  // A group may read what root keeps for a service, and nobody else's.
  REQUIRE(::chmod(east.key.c_str(), 0640) == 0);
  CHECK(Identity::Load(files, "east").ok() == (key.st_uid == 0));
}

TEST_CASE("a name is compared letter for letter, and only alternative names are names") {
  Authority authority;
  const auto is_for = [&](const std::string& names, const std::string& node) {
    const auto files = authority.Issue("subject", names);
    return Presented(files.certificate).front().IsFor(node);
  };
  CHECK(is_for("DNS:east", "east"));
  CHECK(is_for("DNS:other,DNS:east", "east"));
  CHECK(is_for("URI:onecopy://east", "east"));
  CHECK_FALSE(is_for("DNS:East", "east"));
  CHECK_FALSE(is_for("DNS:east", "East"));
  CHECK_FALSE(is_for("URI:onecopy://East", "east"));
  CHECK_FALSE(is_for("URI:https://east", "east"));
  CHECK_FALSE(is_for("URI:onecopy://east/x", "east"));
  CHECK_FALSE(is_for("DNS:*,DNS:*.east", "east"));
  CHECK_FALSE(is_for("DNS:*.example", "east.example"));
  CHECK_FALSE(is_for("DNS:east.", "east"));
  CHECK_FALSE(is_for("email:east", "east"));
  CHECK_FALSE(is_for("IP:127.0.0.1", "127.0.0.1"));
  CHECK_FALSE(is_for("", "subject"));  // the common name
  CHECK_FALSE(is_for("DNS:east", ""));
}

TEST_CASE("whom a node believes: its authority's, valid, for that name and that side") {
  Authority authority;
  Authority other;
  const auto identity = Load(With(authority, authority.Issue("west", "DNS:west")), "west");
  const auto judge = [&](const Authority::Files& files, Side side) {
    return identity->Verify(Presented(files.certificate), "east", side);
  };
  const auto check_refused = [&](const Authority::Files& files, const std::string& why) {
    for (const Side side : {Side::kClient, Side::kServer}) {
      const Status status = judge(files, side);
      INFO(status.ToString());
      CHECK(status.code() == Code::kUnauthenticated);
      CHECK(status.reason() == reasons::kCertRejected);
      CHECK(status.message().find(why) != std::string::npos);
    }
  };
  const auto east = authority.Issue("east", "DNS:east");
  REQUIRE_OK(judge(east, Side::kClient));
  REQUIRE_OK(judge(east, Side::kServer));
  check_refused(other.Issue("east", "DNS:east"), "issuer certificate");
  check_refused(authority.Issue("old", "DNS:east", true), "expired");
  check_refused(authority.Issue("north", "DNS:north"), "DNS:north");
  check_refused(authority.Issue("east2", ""), "not for node east");
  const auto server = authority.Issue("server", "DNS:east", false, "extendedKeyUsage=serverAuth");
  REQUIRE_OK(judge(server, Side::kServer));
  CHECK(judge(server, Side::kClient).reason() == reasons::kCertRejected);
  CHECK(identity->Verify({}, "east", Side::kClient).reason() == reasons::kCertRejected);
}

TEST_CASE("a revoked certificate counts no more, nor does a list that is out of date") {
  Authority authority;
  const auto east = authority.Issue("east", "DNS:east");
  const auto north = authority.Issue("north", "DNS:north");
  Files files = With(authority, authority.Issue("west", "DNS:west"));
  files.crl = authority.Revoke({east});
  const auto identity = Load(files, "west");
  const Status status = identity->Verify(Presented(east.certificate), "east", Side::kClient);
  CHECK(status.reason() == reasons::kCertRejected);
  CHECK(status.message().find("revoked") != std::string::npos);
  REQUIRE_OK(identity->Verify(Presented(north.certificate), "north", Side::kClient));

  // One's own, and a list that ended: found out at the start.
  files.crl = authority.Revoke({{files.certificate, files.key}});
  CheckRefused(files, "west", files.certificate, "revoked");
  files.crl = authority.Revoke({}, -1);
  CheckRefused(files, "west", files.crl, "CRL has expired");
  // Another authority's list says nothing of this one's certificates.
  Authority other;
  files.crl = other.Revoke({});
  CheckRefused(files, "west", files.crl, "CRL");
}

TEST_CASE("what ends is known, the soonest first") {
  Authority authority;
  Files files = With(authority, authority.Issue("west", "DNS:west"));
  files.crl = authority.Revoke({}, 1);
  const auto identity = Load(files, "west");
  const auto& expiries = identity->expiries();
  REQUIRE(expiries.size() == 3);
  CHECK(expiries[0].file == files.crl);
  CHECK(expiries[0].when < expiries[1].when);
  const WallTime now = std::chrono::system_clock::now();
  CHECK(expiries[0].when > now + std::chrono::hours(23));
  CHECK(expiries[2].when < now + std::chrono::hours(49));
  CHECK_FALSE(EndsSoon(expiries[2], now));
  CHECK_FALSE(EndsSoon(expiries[2], now + std::chrono::hours(37)));
  CHECK(EndsSoon(expiries[2], now + std::chrono::hours(40)));
  CHECK(EndsSoon(expiries[2], now + std::chrono::hours(100)));
  const WallTime later = now + std::chrono::hours(10 * 365 * 24);
  CHECK_FALSE(EndsSoon({"", "", now, later}, later - std::chrono::hours(31 * 24)));
  CHECK(EndsSoon({"", "", now, later}, later - std::chrono::hours(29 * 24)));
}
