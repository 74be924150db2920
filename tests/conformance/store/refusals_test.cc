// What is no file to be read or written, and what a descriptor gives no right to.
#include <sys/stat.h>

#include <array>

#include "tests/conformance/store/store_case.h"
#include "tests/support/catch.h"

namespace {

using namespace onecopy::testing;
using namespace onecopy;

struct Passed {
  std::string what;
  os::UniqueFd fd;
  FileUse use = FileUse::kRead;
  bool read_back = false;
  os::UniqueFd direct = {};
};

Status Try(StoreCase& stores, const Passed& passed) {
  OpenFileRequest request;
  request.fd = passed.fd.get();
  request.direct_fd = passed.direct.get();
  request.name = passed.what;
  request.use = passed.use;
  request.read_back = passed.read_back;
  return stores.Open(std::move(request)).status();
}

}  // namespace

TEST_CASE("what is no regular file is refused") {
  StoreCase stores;
  const Folder folder(FileSystems().front());
  WritePattern(folder / "a", 4096, 1);
  WritePattern(folder / "b", 4096, 1);
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const os::UniqueFd writer(ends[1]);
  const auto open = [](const std::string& path, int flags) {
    os::UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC));
    REQUIRE(fd);
    return fd;
  };
  std::vector<Passed> wrong;
  wrong.push_back({"a pipe", os::UniqueFd(ends[0])});
  wrong.push_back({"a directory", open(folder / ".", O_RDONLY)});
  wrong.push_back({"a device", open("/dev/zero", O_RDONLY)});
  wrong.push_back({"/proc", open("/proc/self/status", O_RDONLY)});
  wrong.push_back({"O_PATH", open(folder / "a", O_PATH)});
  wrong.push_back({"O_APPEND", open(folder / "a", O_WRONLY | O_APPEND), FileUse::kWrite});
  wrong.push_back({"two files", open(folder / "a", O_RDONLY), FileUse::kRead, false,
                   open(folder / "b", O_RDONLY)});
  for (const Passed& one : wrong) {
    INFO(one.what);
    const Status status = Try(stores, one);
    CHECK(status.code() == Code::kInvalidArgument);
    CHECK(status.reason() == "BAD_HANDLE");
    CHECK(status.message().find(one.direct ? "second descriptor" : one.what) != std::string::npos);
  }
}

TEST_CASE("open the file for that access, and pass the new descriptor") {
  StoreCase stores;
  const Folder folder(FileSystems().front());
  WritePattern(folder / "a", 4096, 1);
  const auto open = [&](int flags) {
    return os::UniqueFd(::open((folder / "a").c_str(), flags | O_CLOEXEC));
  };
  std::vector<Passed> wrong;
  wrong.push_back({"reads", open(O_WRONLY), FileUse::kRead});
  wrong.push_back({"writes", open(O_RDONLY), FileUse::kWrite});
  wrong.push_back({"reads back", open(O_WRONLY), FileUse::kWrite, true});
  for (const Passed& one : wrong) {
    INFO(one.what);
    CHECK(Try(stores, one).code() == Code::kPermissionDenied);
  }
  // Nor does one that was opened for the one do the other later.
  const RegionRef region = Pages(4096);
  auto reader = stores.Open(folder / "a", FileUse::kRead);
  REQUIRE_OK(reader);
  CHECK(Write(**reader, 0, {region, 0, 4096}).status.code() == Code::kPermissionDenied);
  auto writer = stores.Open(folder / "a", FileUse::kWrite);
  REQUIRE_OK(writer);
  CHECK(Read(**writer, 0, {region, 0, 4096}).status.code() == Code::kPermissionDenied);
  CHECK(IsPattern(folder / "a", 4096, 1));
}
