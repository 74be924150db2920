// A small authority of one's own.
#include "transport/tls/issue.h"

#include <sys/stat.h>

#include <fstream>
#include <map>
#include <utility>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/certificates.h"
#include "transport/tls/identity.h"

using namespace onecopy;
using namespace onecopy::tls;
using onecopy::testing::TempFolder;

namespace {

constexpr std::chrono::hours kYear{365 * 24};

Issued Make(Result<Issued> made) {
  REQUIRE_OK(made);
  return *std::move(made);
}

std::string Put(const TempFolder& folder, const std::string& name, const std::string& text) {
  const std::string path = folder / name;
  std::ofstream(path, std::ios::trunc) << text;
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  return path;
}

Certificate First(const std::string& pem) { return ParseCertificates(pem)->front(); }

}  // namespace

TEST_CASE("what the authority issues makes nodes that believe each other") {
  const TempFolder folder;
  const Issued authority = Make(MakeAuthority("a lab's authority", 10 * kYear));
  const Issued east = Make(IssueForNode(authority, "east", kYear));
  const Issued west = Make(IssueForNode(authority, "west", kYear));
  const Files files = {Put(folder, "ca.pem", authority.certificate),
                       Put(folder, "east.pem", east.certificate), Put(folder, "east.key", east.key),
                       ""};
  const auto identity = Identity::Load(files, "east");
  REQUIRE_OK(identity);
  const Chain presented = *ParseCertificates(west.certificate);
  for (const Side side : {Side::kClient, Side::kServer}) {
    REQUIRE_OK((*identity)->Verify(presented, "west", side));
    CHECK((*identity)->Verify(presented, "east", side).reason() == reasons::kCertRejected);
  }
  CHECK(First(west.certificate).Names() ==
        std::vector<std::string>{"DNS:west", "URI:onecopy://west"});
  CHECK(First(west.certificate).Issuer() == "CN=a lab's authority");
  CHECK_FALSE(First(west.certificate).IsAuthority());
  CHECK(First(authority.certificate).IsAuthority());
  CHECK(First(east.certificate).Serial() != First(west.certificate).Serial());
  CHECK(east.key != west.key);
  // openssl itself agrees.
  Put(folder, "west.pem", west.certificate);
  const std::string verify =
      "openssl verify -x509_strict -purpose sslserver -verify_hostname west -CAfile " + files.ca +
      " " + (folder / "west.pem") + " >/dev/null";
  CHECK(std::system(verify.c_str()) == 0);
}

TEST_CASE("a node's certificate can sign none, and ends with its authority") {
  const Issued authority = Make(MakeAuthority("short", std::chrono::hours(48)));
  const Issued east = Make(IssueForNode(authority, "east", kYear));
  CHECK(First(east.certificate).NotAfter() == First(authority.certificate).NotAfter());
  CHECK(First(east.certificate).NotBefore() < std::chrono::system_clock::now());
  const Status status = IssueForNode(east, "west", kYear).status();
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.message().find("not an authority") != std::string::npos);
  const Issued other = Make(MakeAuthority("other", kYear));
  CHECK(IssueForNode({authority.certificate, other.key}, "west", kYear).status().code() ==
        Code::kInvalidArgument);
  CHECK(IssueForNode({authority.certificate, "no key"}, "west", kYear).status().code() ==
        Code::kInvalidArgument);
}

TEST_CASE("a list of revoked certificates grows, and is believed") {
  const TempFolder folder;
  const Issued authority = Make(MakeAuthority("lab", kYear));
  const Issued own = Make(IssueForNode(authority, "west", kYear));
  const Issued east = Make(IssueForNode(authority, "east", kYear));
  const Issued north = Make(IssueForNode(authority, "north", kYear));
  const auto first = Revoke(authority, "", {First(east.certificate)}, kYear);
  REQUIRE_OK(first);
  const auto second = Revoke(authority, *first, {First(north.certificate)}, kYear);
  REQUIRE_OK(second);
  const auto believes = [&](const std::string& list, const Issued& whom, const std::string& node) {
    const Files files = {Put(folder, "ca.pem", authority.certificate),
                         Put(folder, "own.pem", own.certificate), Put(folder, "own.key", own.key),
                         Put(folder, "crl.pem", list)};
    const auto identity = Identity::Load(files, "west");
    REQUIRE_OK(identity);
    return (*identity)->Verify(*ParseCertificates(whom.certificate), node, Side::kClient).ok();
  };
  CHECK_FALSE(believes(*first, east, "east"));
  CHECK(believes(*first, north, "north"));
  CHECK_FALSE(believes(*second, east, "east"));
  CHECK_FALSE(believes(*second, north, "north"));
  const Issued other = Make(MakeAuthority("other", kYear));
  CHECK(Revoke(other, "", {First(east.certificate)}, kYear).status().code() ==
        Code::kInvalidArgument);
}

// As while an authority is replaced by another, which people name alike.
TEST_CASE("lists of two authorities of one name are each believed of its own certificates") {
  const TempFolder folder;
  const Issued old_one = Make(MakeAuthority("lab", kYear));
  const Issued new_one = Make(MakeAuthority("lab", kYear));
  const Issued own = Make(IssueForNode(old_one, "west", kYear));
  std::map<std::string, std::string> lists;
  std::map<std::string, Issued> nodes;
  for (const auto& [by, authority] : {std::pair{"old", &old_one}, std::pair{"new", &new_one}}) {
    const Issued gone = Make(IssueForNode(*authority, "gone", kYear));
    const auto list = Revoke(*authority, "", {First(gone.certificate)}, kYear);
    REQUIRE_OK(list);
    lists[by] = *list;
    nodes[std::string(by) + " gone"] = gone;
    nodes[std::string(by) + " good"] = Make(IssueForNode(*authority, "good", kYear));
  }
  for (const bool old_first : {true, false}) {
    const Files files = {
        Put(folder, "ca.pem",
            old_first ? old_one.certificate + new_one.certificate
                      : new_one.certificate + old_one.certificate),
        Put(folder, "own.pem", own.certificate), Put(folder, "own.key", own.key),
        Put(folder, "crl.pem",
            old_first ? lists["old"] + lists["new"] : lists["new"] + lists["old"])};
    const auto identity = Identity::Load(files, "west");
    REQUIRE_OK(identity);
    for (const auto& [what, node] : nodes) {
      CAPTURE(what, old_first);
      const bool good = what.ends_with("good");
      const Status believed = (*identity)->Verify(*ParseCertificates(node.certificate),
                                                  good ? "good" : "gone", Side::kClient);
      INFO(believed.ToString());
      CHECK(believed.ok() == good);
      if (!good) CHECK(believed.message().find("revoked") != std::string::npos);
    }
  }
  const Status foreign =
      Revoke(new_one, "", {First(nodes["old good"].certificate)}, kYear).status();
  CHECK(foreign.code() == Code::kInvalidArgument);
  CHECK(foreign.message().find("not by this authority") != std::string::npos);
}

TEST_CASE("a user's certificate is for a client, at the nodes that it names, and for no node") {
  const TempFolder folder;
  const Issued authority = Make(MakeAuthority("a lab's authority", 10 * kYear));
  const Issued west = Make(IssueForNode(authority, "west", kYear));
  const Issued user = Make(IssueForUser(authority, 1000, {"west", "east"}, kYear));
  const Files files = {Put(folder, "ca.pem", authority.certificate),
                       Put(folder, "west.pem", west.certificate), Put(folder, "west.key", west.key),
                       ""};
  const auto identity = Identity::Load(files, "west");
  REQUIRE_OK(identity);
  const Chain presented = *ParseCertificates(user.certificate);
  for (const char* node : {"west", "east"}) {
    const auto uid = (*identity)->VerifyUser(presented, node);
    REQUIRE_OK(uid);
    CHECK(*uid == 1000);
    CHECK((*identity)->Verify(presented, node, Side::kClient).reason() == reasons::kCertRejected);
  }
  CHECK((*identity)->VerifyUser(presented, "north").status().reason() == reasons::kCertRejected);
  CHECK((*identity)->VerifyUser({}, "west").status().reason() == reasons::kCertRejected);
  CHECK((*identity)->VerifyUser(*ParseCertificates(west.certificate), "west").status().reason() ==
        reasons::kCertRejected);
  // As a node's own it is refused at the start, too.
  const Files wrong = {files.ca, Put(folder, "user.pem", user.certificate),
                       Put(folder, "user.key", user.key), ""};
  CHECK_FALSE(Identity::Load(wrong, "user/1000@west").ok());
  CHECK(First(user.certificate).Names() ==
        std::vector<std::string>{"URI:onecopy://user/1000@west", "URI:onecopy://user/1000@east"});
  CHECK_FALSE(IssueForUser(authority, 1000, {}, kYear).ok());
}

TEST_CASE("a certificate for a user and a node is for neither") {
  testing::Authority authority;
  const auto both = authority.Issue("both", "DNS:west,URI:onecopy://user/1000@west");
  const Certificate certificate = First(testing::ReadFile(both.certificate));
  CHECK_FALSE(certificate.IsFor("west"));
  CHECK_FALSE(certificate.UserAt("west").fault.empty());
}
