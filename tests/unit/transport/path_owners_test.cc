// Folders of other users on a path.
#include "transport/os/files/path_owners.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/catch.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"

namespace onecopy::os {
namespace {

namespace fs = std::filesystem;
using testing::TempFolder;
using testing::WriteFile;

constexpr uid_t kOther = 4711;

bool Trusts(const std::string& path, PathTrust trust) {
  const Status status = CheckPathOwners(path, trust);
  INFO(status.ToString());
  CHECK((status.ok() || status.code() == Code::kPermissionDenied));
  return status.ok();
}

// Both kinds of trust at once: "" none, "s" kWhereShared alone, "sa" both.
std::string Trust(const std::string& path) {
  return std::string(Trusts(path, PathTrust::kWhereShared) ? "s" : "") +
         (Trusts(path, PathTrust::kOwnersAlone) ? "a" : "");
}

// A folder "in" of this test's, and "in/x", which may be given away.
struct Path {
  Path() {
    fs::create_directories(at);
    WriteFile(at + "/file", "");
  }
  void Allow(mode_t mode) const { REQUIRE(::chmod((folder / "in").c_str(), mode) == 0); }
  static void Give(const std::string& path) {
    REQUIRE(::lchown(path.c_str(), kOther, kOther) == 0);
  }

  TempFolder folder;
  const std::string at = folder / "in/x";
};

TEST_CASE("a folder of one's own is nobody else's to exchange, nor is what is not there yet") {
  const Path path;
  CHECK(Trust(path.at) == "sa");
  CHECK(Trust(path.at + "/file") == "sa");
  CHECK(Trust(path.at + "/none/below") == "sa");
  CHECK(Trust(path.at + "/../x/./file") == "sa");
  CHECK(Trust("/") == "sa");
}

TEST_CASE("what others may rename, or write to, is not trusted") {
  const Path path;
  path.Allow(0777);
  CHECK(Trust(path.at).empty());
  CHECK(Trust(path.at + "/file").empty());
  path.Allow(01777);
  CHECK(Trust(path.at) == "sa");
  CHECK(Trust(path.folder / "in") == "s");  // anybody puts files there
  CHECK(Trust(path.folder / "in/none") == "sa");
  if (::geteuid() != 0) ONECOPY_SKIP("only root can give a folder away");
  Path::Give(path.at);
  CHECK(Trust(path.at).empty());
  CHECK(Trust(path.at + "/none").empty());
  path.Allow(0755);
  CHECK(Trust(path.at) == "s");  // where only this user makes names
  REQUIRE(::chown((path.folder / "in").c_str(), 0, kOther) == 0);
  path.Allow(0775);
  CHECK(Trust(path.at).empty());
  REQUIRE(::chown(path.at.c_str(), 0, 0) == 0);
  CHECK(Trust(path.at).empty());
  path.Allow(0755);
  CHECK(Trust(path.at) == "sa");
}

TEST_CASE("links count as who made them, and what they lead to") {
  const Path path;
  fs::create_directories(path.folder / "shared");
  REQUIRE(::chmod((path.folder / "shared").c_str(), 01777) == 0);
  const std::string link = path.folder / "shared/link";
  fs::create_symlink("../in/x", link);
  CHECK(Trust(link + "/file") == "sa");
  path.Allow(0777);
  CHECK(Trust(link + "/file").empty());
  path.Allow(0755);
  fs::create_symlink("round", path.folder / "round");
  CHECK_FALSE(CheckPathOwners(path.folder / "round", PathTrust::kOwnersAlone).ok());
  if (::geteuid() != 0) ONECOPY_SKIP("only root can give a link away");
  Path::Give(link);
  CHECK(Trust(link + "/file").empty());
}

}  // namespace
}  // namespace onecopy::os
