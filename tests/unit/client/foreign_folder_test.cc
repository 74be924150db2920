// Files that root writes into folders of other users, who change them meanwhile.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "client/lib/files/output_file.h"
#include "onecopy/reasons.h"
#include "tests/unit/client/file_copy_fixture.h"
#include "tests/unit/client/streams.h"

namespace foreign_folder_test {
using onecopy::Code;
using onecopy::LocalFile;
using onecopy::Status;
using onecopy::client::OutputFile;
using onecopy::client::Waiter;
using onecopy::testing::ContentOf;
using onecopy::testing::TempFolder;

namespace fs = std::filesystem;
namespace reasons = onecopy::reasons;

namespace {

constexpr uid_t kUser = 12'345;
constexpr uid_t kOther = 23'456;
constexpr std::string_view kNew = "new bytes";

struct Folders {
  TempFolder dir;
  std::string users = dir / "users";
  std::string roots = dir / "roots";

  Folders() {
    fs::create_directory(users);
    fs::create_directory(roots);
    Write(roots + "/victim", "precious", 0);
    Give(users, kUser);
    REQUIRE(::chmod(dir.path().c_str(), 0755) == 0);
  }

  static void Give(const std::string& path, uid_t uid) {
    REQUIRE(::lchown(path.c_str(), uid, uid) == 0);
  }
  static void Write(const std::string& path, const std::string& content, uid_t uid) {
    std::ofstream(path, std::ios::binary) << content;
    Give(path, uid);
  }
  static void Link(const std::string& to, const std::string& path, uid_t uid) {
    fs::create_symlink(to, path);
    Give(path, uid);
  }
  static size_t Files(const std::string& folder) {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
  }

  // The whole of root's folder is as it was.
  bool Unharmed() const {
    struct stat facts {};
    return ::stat((roots + "/victim").c_str(), &facts) == 0 && facts.st_uid == 0 &&
           ContentOf(roots + "/victim") == "precious" && Files(roots) == 1;
  }
};

Status Put(const std::string& path) { return onecopy::testing::WriteAsCopy({path}, kNew); }

uid_t OwnerOf(const std::string& path) {
  struct stat facts {};
  REQUIRE(::lstat(path.c_str(), &facts) == 0);
  return facts.st_uid;
}

// Exchanges two names without a pause, as their owner may.
class Flipper {
 public:
  Flipper(const std::string& one, const std::string& other)
      : thread_([this, one, other] {
          while (!stop_) {
            ::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE);
            ++flips_;
          }
        }) {}
  ~Flipper() { stop_ = true; }

  unsigned flips() const { return flips_; }

 private:
  std::atomic<bool> stop_ = false;
  std::atomic<unsigned> flips_ = 0;
  std::jthread thread_;
};

struct Tried {
  int written = 0;
  int refused = 0;
};

// Tries often enough to meet every gap between two looks, and ends once harm is done.
template <typename Try>
Tried TryOften(const Folders& folders, Try&& once) {
  constexpr int kTries = 3000;
  Tried tried;
  for (int i = 0; i < kTries && folders.Unharmed(); ++i) {
    ++(once().ok() ? tried.written : tried.refused);
  }
  return tried;
}

// Has `round` try in folders of its own, and in others until both outcomes were seen: a copy whose
// last step meets the link puts its file there, and no link is left to be refused.
template <typename Round>
void CheckStaysInside(Round&& round) {
  constexpr int kMaxRounds = 100;
  Tried all;
  for (int i = 0; i < kMaxRounds && (all.written == 0 || all.refused == 0); ++i) {
    Folders folders;
    const Tried tried = round(folders);
    all.written += tried.written;
    all.refused += tried.refused;
    REQUIRE(folders.Unharmed());
  }
  CHECK(all.written > 0);
  CHECK(all.refused > 0);
}

// Likewise, while a file of the user's becomes a link to root's and back; `put` writes to its path.
template <typename PutAt>
void CheckFileStaysInside(PutAt&& put) {
  CheckStaysInside([&](const Folders& f) {
    const std::string out = f.users + "/out";
    Folders::Write(out, "old", kUser);
    Folders::Link(f.roots + "/victim", f.users + "/link", kUser);
    const Flipper flipper(out, f.users + "/link");
    return TryOften(f, [&] { return put(out); });
  });
}

}  // namespace

TEST_CASE("root's copy stays in another user's folder while a file there becomes a link and back") {
  if (::geteuid() != 0) ONECOPY_SKIP("only root writes into folders of others");
  CheckFileStaysInside(Put);
}

TEST_CASE("root's copy stays in another user's folder while a folder on its way becomes a link") {
  if (::geteuid() != 0) ONECOPY_SKIP("only root writes into folders of others");
  CheckStaysInside([](const Folders& f) {
    fs::create_directory(f.users + "/sub");
    Folders::Give(f.users + "/sub", kUser);
    Folders::Link("../roots", f.users + "/link", kUser);
    const Flipper flipper(f.users + "/sub", f.users + "/link");
    return TryOften(f, [&] { return Put(f.users + "/sub/victim"); });
  });
}

TEST_CASE("a range that root writes in place stays in another user's folder, too") {
  if (::geteuid() != 0) ONECOPY_SKIP("only root writes into folders of others");
  const auto waiter = Waiter::Make({}, {});
  REQUIRE_OK(waiter);
  CheckFileStaysInside([&](const std::string& path) -> Status {
    ONECOPY_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Open({path, -1, 0, {}}, kNew.size(), {}));
    return file.Write(reinterpret_cast<const std::byte*>(kNew.data()), kNew.size(), **waiter);
  });
}

TEST_CASE("root follows a link of another user only to what belongs to that user") {
  if (::geteuid() != 0) ONECOPY_SKIP("only root writes into folders of others");
  Folders f;
  Folders::Link(f.roots + "/victim", f.users + "/link", kUser);
  Folders::Link(f.roots, f.users + "/folder", kUser);
  for (const std::string name : {"/link", "/folder/victim", "/folder/new"}) {
    INFO(name);
    const Status status = Put(f.users + name);
    CHECK(status.code() == Code::kPermissionDenied);
    CHECK(status.reason() == reasons::kAccessDenied);
    CHECK(status.message().find(std::to_string(kUser)) != std::string::npos);
    CHECK_FALSE(status.remedy().empty());
  }
  CHECK(f.Unharmed());
  // Their own file behind their own link, and root's link to anywhere.
  Folders::Write(f.users + "/own", "old", kUser);
  Folders::Link("own", f.users + "/to-own", kUser);
  REQUIRE_OK(Put(f.users + "/to-own"));
  CHECK(ContentOf(f.users + "/own") == kNew);
  CHECK(OwnerOf(f.users + "/own") == kUser);
  CHECK(fs::is_symlink(f.users + "/to-own"));
  Folders::Link(f.users + "/own", f.dir / "roots-link", 0);
  REQUIRE_OK(Put(f.dir / "roots-link"));
  CHECK(OwnerOf(f.users + "/own") == kUser);
}

TEST_CASE("nobody follows a link that somebody else has put into a folder for all") {
  if (::geteuid() != 0) ONECOPY_SKIP("only root makes files of two users");
  Folders f;
  const std::string shared = f.dir / "shared";
  fs::create_directory(shared);
  REQUIRE(::chmod(shared.c_str(), 01777) == 0);
  Folders::Write(f.users + "/mine", "old", kUser);
  Folders::Link(f.users + "/mine", shared + "/trap", kOther);
  Folders::Link(f.users + "/mine", shared + "/own", kUser);
  REQUIRE(::seteuid(kUser) == 0);
  const Status trapped = Put(shared + "/trap");
  const Status own = Put(shared + "/own");
  REQUIRE(::seteuid(0) == 0);
  CHECK(trapped.code() == Code::kPermissionDenied);
  REQUIRE_OK(own);
}

TEST_CASE("a file is written by the name that the kernel gives its descriptor") {
  TempFolder dir;
  const std::string path = dir / "file";
  const onecopy::os::UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  REQUIRE(fd);
  REQUIRE_OK(Put("/proc/self/fd/" + std::to_string(fd.get())));
  CHECK(ContentOf(path) == kNew);
  const auto [from, to] = onecopy::testing::MakePipe();
  REQUIRE_OK(Put("/dev/fd/" + std::to_string(to.get())));
  char got[32] = {};
  CHECK(::read(from.get(), got, sizeof got) == static_cast<ssize_t>(kNew.size()));
  CHECK(std::string_view(got) == kNew);
}
}  // namespace foreign_folder_test
