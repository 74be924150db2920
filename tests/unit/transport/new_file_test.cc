// What a file that replaces another takes over, and what is left where none is committed.
#include "transport/os/files/new_file.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/in_child.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"

namespace onecopy::os {
namespace {

namespace fs = std::filesystem;
using testing::ReadFile;
using testing::TempFolder;
using testing::WriteFile;

UniqueFd FolderOf(const TempFolder& folder) {
  return UniqueFd(::open(folder.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

Result<NewFile> Make(const TempFolder& folder, bool named = false) {
  return NewFile::Make(FolderOf(folder), "file", "the file", {.mode = 0640, .named = named});
}

// Puts "new" in the place of "file", which is there.
Status Replace(const TempFolder& folder) {
  ONECOPY_ASSIGN_OR_RETURN(NewFile file, Make(folder));
  UniqueFd old(::openat(FolderOf(folder).get(), "file", O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat facts {};
  CHECK(::fstat(old.get(), &facts) == 0);
  file.TakeAfter({std::move(old), facts.st_mode & 07777, facts.st_uid, facts.st_gid});
  ONECOPY_RETURN_IF_ERROR(file.Reserve(3));
  CHECK(::pwrite(file.fd(), "new", 3, 0) == 3);
  ONECOPY_RETURN_IF_ERROR(file.Settle(false));
  return file.Name(false);
}

std::string AttributeOf(const std::string& path, const char* name) {
  std::array<char, 256> value{};
  const ssize_t bytes = ::getxattr(path.c_str(), name, value.data(), value.size());
  return bytes < 0 ? "none" : std::string(value.data(), static_cast<size_t>(bytes));
}

constexpr char kAccess[] = "system.posix_acl_access";

// The list "user::rw-, user:4711:rw-, group::---, mask::rw-, other::---" as the kernel takes it:
// the mode says 0660 then, though the group has no right.
std::string AccessList() {
  struct Entry {
    uint16_t tag;
    uint16_t rights;
    uint32_t id;
  };
  constexpr uint32_t kNobody = ~uint32_t{0};
  const std::array<Entry, 5> entries = {{{0x01, 6, kNobody},
                                         {0x02, 6, 4711},
                                         {0x04, 0, kNobody},
                                         {0x10, 6, kNobody},
                                         {0x20, 0, kNobody}}};
  const uint32_t version = 2;
  std::string list(sizeof version + sizeof entries, '\0');
  std::memcpy(list.data(), &version, sizeof version);
  std::memcpy(list.data() + sizeof version, entries.data(), sizeof entries);
  return list;
}

bool Takes(const std::string& path, const char* name, const std::string& value) {
  return ::setxattr(path.c_str(), name, value.data(), value.size(), 0) == 0;
}

TEST_CASE("a file that replaces another keeps its attributes and its access list") {
  const TempFolder folder;
  const std::string path = folder / "file";
  WriteFile(path, "old");
  if (!Takes(path, "user.origin", "here") || !Takes(path, kAccess, AccessList())) {
    WARN("SKIP: this file system has no attributes");
    return;
  }
  REQUIRE_OK(Replace(folder));
  CHECK(ReadFile(path) == "new");
  CHECK(AttributeOf(path, "user.origin") == "here");
  CHECK(AttributeOf(path, kAccess) == AccessList());
  struct stat facts {};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  CHECK((facts.st_mode & 07777) == 0660);
}

TEST_CASE("a file that replaces one without an access list has none of its folder's either") {
  const TempFolder folder;
  const std::string path = folder / "file";
  WriteFile(path, "old");
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  if (!Takes(folder.path(), "system.posix_acl_default", AccessList())) {
    WARN("SKIP: this file system has no attributes");
    return;
  }
  REQUIRE_OK(Replace(folder));
  CHECK(AttributeOf(path, kAccess) == "none");
  struct stat facts {};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  CHECK((facts.st_mode & 07777) == 0600);
}

TEST_CASE("a file that replaces another has its group, whatever its folder gives new files") {
  if (::geteuid() != 0) ONECOPY_SKIP("only root can give files to others");
  constexpr uid_t kAlice = 4711;
  constexpr gid_t kTeam = 4712;
  constexpr uid_t kBob = 4713;
  const TempFolder folder;
  const std::string path = folder / "file";
  struct stat facts {};
  const auto begin = [&](uid_t owner, gid_t group) {
    WriteFile(path, "old");
    REQUIRE(::chown(path.c_str(), owner, group) == 0);
    REQUIRE(::chmod(path.c_str(), 0660) == 0);
  };
  const auto replace_as = [&](uid_t user, std::vector<gid_t> groups) {
    const int outcome = testing::InChild([&] {
      if (::setgroups(groups.size(), groups.data()) != 0 || ::setgid(user) != 0 ||
          ::setuid(user) != 0) {
        return 2;
      }
      return Replace(folder).ok() ? 0 : 1;
    });
    REQUIRE(outcome == 0);
    REQUIRE(::stat(path.c_str(), &facts) == 0);
    REQUIRE(ReadFile(path) == "new");
  };
  REQUIRE(::chown(folder.path().c_str(), 0, kTeam) == 0);
  REQUIRE(::chmod(folder.path().c_str(), 02777) == 0);
  // Its owner's alone, in a folder of a team.
  begin(kAlice, kAlice);
  replace_as(kAlice, {kTeam});
  CHECK(facts.st_gid == kAlice);
  CHECK((facts.st_mode & 0777) == 0660);
  // The team's, by one of the team who cannot give it to its owner.
  REQUIRE(::chmod(folder.path().c_str(), 0777) == 0);
  begin(kAlice, kTeam);
  replace_as(kBob, {kTeam});
  CHECK(facts.st_uid == kBob);
  CHECK(facts.st_gid == kTeam);
  CHECK((facts.st_mode & 0777) == 0660);
  // By one who is not: his own group has not become the team.
  begin(kAlice, kTeam);
  REQUIRE(::chmod(path.c_str(), 0666 & ~02) == 0);
  replace_as(kBob, {});
  CHECK(facts.st_gid == kBob);
  CHECK((facts.st_mode & 0777) == 0644);
}

TEST_CASE("what is not given its name leaves nothing, and takes its space with it") {
  const TempFolder folder;
  const bool named = GENERATE(false, true);
  {
    auto file = Make(folder, named);
    REQUIRE_OK(file);
    REQUIRE_OK(file->Reserve(1 << 20));
    struct stat facts {};
    REQUIRE(::fstat(file->fd(), &facts) == 0);
    CHECK(facts.st_size == 1 << 20);
    CHECK(facts.st_blocks * 512 >= 1 << 20);
    PunchHole(file->fd(), 4096, (1 << 20) - 4096);
    REQUIRE(::fstat(file->fd(), &facts) == 0);
    CHECK(facts.st_blocks * 512 < 1 << 16);
    CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == (named ? 1 : 0));
  }
  CHECK(fs::is_empty(folder.path()));
  CHECK(Make(folder)->Reserve(uint64_t{1} << 60).reason() == reasons::kNoSpace);
}

// A file that is kept under "part", with "mine" in it.
Result<NewFile> Kept(const TempFolder& folder) {
  WriteFile(folder / "part", "mine");
  UniqueFd file(::open((folder / "part").c_str(), O_RDWR | O_CLOEXEC));
  return NewFile::Continue(FolderOf(folder), "file", "the file", std::move(file), "part");
}

TEST_CASE("a kept file whose name another one has got takes no place, and removes nothing") {
  const TempFolder folder;
  WriteFile(folder / "file", "old");
  Result<NewFile> kept = Kept(folder);
  REQUIRE(kept.ok());
  CHECK(kept->HasTemporary());
  fs::remove(folder / "part");
  CHECK_FALSE(kept->HasTemporary());
  CHECK(kept->Name(false).code() == Code::kNotFound);
  WriteFile(folder / "part", "of another");
  CHECK_FALSE(kept->HasTemporary());
  const Status status = kept->Name(false);
  CHECK(status.reason() == reasons::kFileInUse);
  CHECK(status.message().find("part") != std::string::npos);
  kept->Discard();
  CHECK(ReadFile(folder / "part") == "of another");
  CHECK(ReadFile(folder / "file") == "old");
}

TEST_CASE("a kept file has its temporary name until it has its own, or is discarded") {
  const TempFolder folder;
  Result<NewFile> kept = Kept(folder);
  REQUIRE(kept.ok());
  REQUIRE(kept->Name(true).ok());
  CHECK_FALSE(kept->HasTemporary());
  CHECK(ReadFile(folder / "file") == "mine");
  Result<NewFile> other = Kept(folder);
  REQUIRE(other.ok());
  other->Discard();
  CHECK_FALSE(other->HasTemporary());
  CHECK_FALSE(fs::exists(folder / "part"));
}

}  // namespace
}  // namespace onecopy::os
