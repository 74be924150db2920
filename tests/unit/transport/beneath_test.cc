// Files below a folder, read and written, and what is not below it.
#include "transport/os/files/beneath.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <set>
#include <thread>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/failing_calls.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"
#include "transport/os/files/output_beneath.h"

namespace onecopy::os {
namespace {

namespace fs = std::filesystem;
using testing::ReadFile;
using testing::TempFolder;
using testing::WriteFile;

// As this process may call openat2, and as one may not that a service manager or a container holds
// back from it. Nothing else runs meanwhile.
void WithOpenat2(bool allowed, const std::function<void()>& check) {
  bool ready = true;
  std::thread([&] {
    if (!allowed) ready = testing::FailCalls(SYS_openat2, ENOSYS);
    if (ready) check();
  }).join();
  CHECK(ready);
}

struct Folders {
  TempFolder root;
  TempFolder outside;
  std::string top = root.path().string();

  Folders() {
    fs::create_directories(root / "a/b");
    WriteFile(root / "a/b/file", "inside");
    WriteFile(outside / "secret", "secret");
    fs::create_symlink(outside / "secret", root / "link");
    fs::create_symlink("a/b/file", root / "inner");
    fs::create_directory_symlink(outside.path(), root / "out");
    fs::create_directory_symlink("a", root / "alias");
    fs::create_symlink("/proc/self/root", root / "magic");
    CHECK(::mkfifo((root / "fifo").c_str(), 0600) == 0);
  }
  std::set<std::string> Names(const std::string& below = {}) const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(top + "/" + below)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }
};

Result<std::shared_ptr<OutputBeneath>> Open(const Folders& with, const std::string& path,
                                            OutputBeneath::Ask ask = {}) {
  return OutputBeneath::Open(with.top, path, "the file " + path, ask);
}

Status Write(OutputBeneath& output, const std::string& text) {
  CHECK(::pwrite(output.fd(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  return output.Commit(true, std::atomic<bool>(false));
}

TEST_CASE("what a path leads to outside of the folder is neither read nor written") {
  const Folders with;
  const bool allowed = GENERATE(true, false);
  CAPTURE(allowed);
  WithOpenat2(allowed, [&] {
    for (const char* path : {"link", "inner", "out/secret", "alias/b/file", "magic/etc/passwd",
                             "../x", "a/../../x", "/etc/passwd"}) {
      CAPTURE(path);
      const auto read = OpenBeneath(with.top, path, "it", false);
      CHECK(read.status().code() == Code::kPermissionDenied);
      CHECK(Open(with, path).status().code() == Code::kPermissionDenied);
      CHECK(Open(with, path, {.in_place = true}).status().code() == Code::kPermissionDenied);
    }
    for (const char* path : {"none", "none/file", "a/b/file/more", "fifo/more"}) {
      CAPTURE(path);
      CHECK(OpenBeneath(with.top, path, "it", false).status().reason() == reasons::kFileNotFound);
      CHECK(Open(with, path, {.in_place = true}).status().reason() == reasons::kFileNotFound);
    }
    for (const char* path : {"fifo", "a", "a/b"}) {
      CAPTURE(path);
      CHECK(OpenBeneath(with.top, path, "it", false).status().reason() == reasons::kBadHandle);
      CHECK(Open(with, path).status().reason() == reasons::kBadHandle);
    }
    const auto read = OpenBeneath(with.top, "a/b/file", "it", true);
    CHECK(read.ok());
    if (read.ok()) {
      char text[8] = {};
      CHECK(::read(read->plain.get(), text, sizeof text) == 6);
      CHECK(std::string(text) == "inside");
    }
    const auto written = Open(with, "a/b/new", {.bytes = 3});
    CHECK(written.ok());
    if (written.ok()) CHECK(Write(**written, "new").ok());
  });
  CHECK(ReadFile(with.root / "a/b/new") == "new");
  CHECK(with.Names("a/b") == std::set<std::string>{"file", "new"});
  CHECK(ReadFile(with.outside / "secret") == "secret");
}

// A tree in which links lead down, up, through each other, in circles and out.
struct LinkedFolders : Folders {
  LinkedFolders() {
    fs::create_directories(root / "blobs/deep");
    fs::create_directories(root / "snapshots/one/sub");
    WriteFile(root / "blobs/4711", "blob");
    const auto link = [this](const char* text, const char* at) {
      fs::create_symlink(text, root / at);
    };
    link("../../blobs/4711", "snapshots/one/model");
    link("../../../blobs/4711", "snapshots/one/sub/model");
    link("one", "snapshots/main");
    link("main/model", "snapshots/latest");
    link("..", "blobs/deep/up");
    link("./.././blobs//4711", "snapshots/dots");
    link("../blobs/4711/", "snapshots/slash");
    link("../blobs/deep/../4711", "snapshots/back");
    link("round", "snapshots/round");
    link("../none", "snapshots/dangling");
    link("../..", "snapshots/above");
    link("../../x", "snapshots/beyond");
    link("../blobs/../../x", "snapshots/later");
    link("../blobs", "snapshots/blobs");
    link(".", "snapshots/here");
  }
};

TEST_CASE("links that stay below the folder lead on where they may, and no others") {
  const LinkedFolders with;
  const bool allowed = GENERATE(true, false);
  CAPTURE(allowed);
  WithOpenat2(allowed, [&] {
    const auto read = [&](const std::string& path) {
      return OpenBeneath(with.top, path, "it", false, Links::kBeneath);
    };
    for (const char* path :
         {"snapshots/one/model", "snapshots/one/sub/model", "snapshots/main/model",
          "snapshots/latest", "blobs/deep/up/4711", "blobs/deep/up/deep/up/4711", "snapshots/dots",
          "snapshots/back", "snapshots/here/here/latest", "snapshots/blobs/4711"}) {
      CAPTURE(path);
      const auto opened = read(path);
      CHECK(opened.ok());
      char text[8] = {};
      if (opened.ok()) CHECK(::read(opened->plain.get(), text, sizeof text) == 4);
      CHECK(std::string(text) == "blob");
      CHECK(OpenBeneath(with.top, path, "it", false).status().code() == Code::kPermissionDenied);
    }
    for (const char* path :
         {"link", "out/secret", "magic/etc/passwd", "../x", "a/../../x", "/etc/passwd",
          "snapshots/../blobs/4711", "snapshots/./latest", "snapshots/above/x", "snapshots/beyond",
          "snapshots/later", "snapshots/round"}) {
      CAPTURE(path);
      CHECK(read(path).status().code() == Code::kPermissionDenied);
      CHECK(Open(with, std::string(path) + "/new", {.links = Links::kBeneath}).status().code() ==
            Code::kPermissionDenied);
    }
    for (const char* path : {"snapshots/dangling", "snapshots/latest/more", "snapshots/slash"}) {
      CAPTURE(path);
      CHECK(read(path).status().reason() == reasons::kFileNotFound);
    }
    CHECK(read("snapshots/main").status().reason() == reasons::kBadHandle);
    CHECK(read("snapshots/here").status().reason() == reasons::kBadHandle);
    // What is written goes through links to its folder, and never through one of its own name.
    const auto written = Open(with, "snapshots/blobs/new", {.bytes = 3, .links = Links::kBeneath});
    CHECK(written.ok());
    if (written.ok()) CHECK(Write(**written, "new").ok());
    CHECK(Open(with, "snapshots/one/model", {.links = Links::kBeneath}).status().code() ==
          Code::kPermissionDenied);
  });
  CHECK(ReadFile(with.root / "blobs/new") == "new");
  CHECK(ReadFile(with.root / "blobs/4711") == "blob");
}

TEST_CASE("a link that is exchanged while it is followed never leads out") {
  const LinkedFolders with;
  const bool allowed = GENERATE(true, false);
  CAPTURE(allowed);
  WriteFile(with.outside / "4711", "secret");
  const std::string out = "../../" + with.outside.path().filename().string();
  // The link's own text, a folder on its way, and the link's folder change all the time.
  std::atomic<bool> over = false;
  std::thread exchanger([&] {
    for (int i = 0; !over; ++i) {
      const auto put = [&](const std::string& text, const std::string& at) {
        fs::remove(with.root / "next");
        fs::create_symlink(text, with.root / "next");
        fs::rename(with.root / "next", with.root / at);
      };
      put(i % 2 == 0 ? out + "/4711" : "../blobs/4711", "snapshots/model");
      put(i % 2 == 0 ? "../" + with.outside.path().filename().string() : "blobs", "way");
      fs::rename(with.root / "blobs/deep", with.outside / "deep");
      fs::rename(with.outside / "deep", with.root / "blobs/deep");
    }
  });
  int read = 0;
  WithOpenat2(allowed, [&] {
    for (int i = 0; i < 4000; ++i) {
      for (const char* path : {"snapshots/model", "way/4711", "blobs/deep/up/4711"}) {
        const auto opened = OpenBeneath(with.top, path, "it", false, Links::kBeneath);
        if (!opened.ok()) {
          CHECK((opened.status().code() == Code::kPermissionDenied ||
                 opened.status().reason() == reasons::kFileNotFound));
          continue;
        }
        char text[8] = {};
        CHECK(::read(opened->plain.get(), text, sizeof text) == 4);
        CHECK(std::string(text) == "blob");
        ++read;
      }
    }
  });
  over = true;
  exchanger.join();
  CHECK(read > 0);
}

TEST_CASE("a file has its name once it is committed, and nothing else is seen of it after") {
  const Folders with;
  const bool named = GENERATE(false, true);
  CAPTURE(named);
  const OutputBeneath::Ask ask{.named = named, .bytes = 5, .mode = 0604};
  const auto others = with.Names("a/b");
  {
    const auto dropped = Open(with, "a/b/new", ask);
    REQUIRE_OK(dropped);
    CHECK(with.Names("a/b").size() == others.size() + (named ? 1 : 0));
  }
  CHECK(with.Names("a/b") == others);
  {
    const auto output = Open(with, "a/b/new", ask);
    REQUIRE_OK(output);
    REQUIRE_OK(Write(**output, "first"));
  }
  CHECK(ReadFile(with.root / "a/b/new") == "first");
  struct stat facts {};
  REQUIRE(::stat((with.root / "a/b/new").c_str(), &facts) == 0);
  CHECK((facts.st_mode & 07777) == 0604);
  {
    const auto output = Open(with, "a/b/new", ask);
    REQUIRE_OK(output);
    CHECK(ReadFile(with.root / "a/b/new") == "first");
    CHECK(::pwrite((*output)->fd(), "third", 5, 0) == 5);
    CHECK((*output)->Commit(false, std::atomic<bool>(true)).code() == Code::kCancelled);
  }
  CHECK(ReadFile(with.root / "a/b/new") == "first");
  CHECK(with.Names("a/b") == std::set<std::string>{"file", "new"});
}

TEST_CASE("what takes a name meanwhile is replaced where it is a file, and kept where it is none") {
  const Folders with;
  const bool named = GENERATE(false, true);
  CAPTURE(named);
  {
    const auto output = Open(with, "a/b/new", {.named = named});
    REQUIRE_OK(output);
    fs::create_directory(with.root / "a/b/new");
    CHECK_FALSE(Write(**output, "text").ok());
  }
  CHECK(fs::is_directory(with.root / "a/b/new"));
  {
    const auto output = Open(with, "a/b/other", {.named = named});
    REQUIRE_OK(output);
    fs::create_symlink(with.outside / "secret", with.root / "a/b/other");
    REQUIRE_OK(Write(**output, "text"));
  }
  CHECK(fs::is_regular_file(fs::symlink_status(with.root / "a/b/other")));
  CHECK(ReadFile(with.root / "a/b/other") == "text");
  CHECK(ReadFile(with.outside / "secret") == "secret");
  CHECK(with.Names("a/b") == std::set<std::string>{"file", "new", "other"});
}

TEST_CASE("a look at where a file would be written takes no space and changes nothing") {
  const Folders with;
  constexpr uint64_t kTooMuch = uint64_t{1} << 60;
  REQUIRE_OK(Open(with, "a/b/new", {.only_look = true, .bytes = kTooMuch}));
  const auto refused = Open(with, "a/b/new", {.bytes = kTooMuch});
  CHECK(refused.status().reason() == reasons::kNoSpace);
  CHECK(Open(with, "a/b/new", {.offset_bytes = ~uint64_t{0}, .bytes = 2}).status().code() ==
        Code::kOutOfRange);
  CHECK(with.Names("a/b") == std::set<std::string>{"file"});
}

}  // namespace
}  // namespace onecopy::os
