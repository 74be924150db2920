// The store, with a library that has no drive, on a machine that is planted in files: what it says
// of why nothing goes directly, as refusals then tell it.
#include "transport/store/cufile/cufile_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstdlib>
#include <filesystem>
#include <future>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/fake_cufile.h"
#include "tests/support/process.h"
#include "tests/support/sysfs_tree.h"
#include "tests/support/temp_folder.h"
#include "transport/os/base/unique_fd.h"

using namespace onecopy;
using namespace onecopy::cufile;
using namespace onecopy::testing;

namespace {

struct Planted {
  TempFolder folder;
  TempFolder files;
  SysfsTree tree{folder.path().string(), 1, 1};

  CufileStore::Options Options(const std::string& is) const {
    ::setenv("FAKE_CUFILE", is.c_str(), 1);
    CufileStore::Options options;
    options.probe.program = {ProgramFolder() / "onecopyd", "backend-probe", "cufile"};
    options.probe.library = FakeCufilePath();
    options.probe.cuda_library = FakeCudaPath();
    options.probe.folder = files.path();
    options.probe.root = tree.root();
    return options;
  }
};

}  // namespace

TEST_CASE("a file that the library does not take says what lies below it") {
  Planted machine;
  const std::string path = machine.files / "f";
  WriteFile(path, std::string(size_t{1} << 20, 'f'));
  os::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  if (!fd) ONECOPY_SKIP("the file system of temporary files has no O_DIRECT");
  struct stat facts {};
  REQUIRE(::fstat(fd.get(), &facts) == 0);
  const std::string number =
      std::to_string(major(facts.st_dev)) + ":" + std::to_string(minor(facts.st_dev));
  machine.tree.Write("sys/devices/nvme0n1/size", "1\n");
  machine.tree.Write("sys/devices/virtual/dm-0/dm/uuid", "CRYPT-LUKS2-1\n");
  machine.tree.Link("sys/devices/virtual/dm-0/slaves/nvme0n1", "sys/devices/nvme0n1");
  machine.tree.Link("sys/dev/block/" + number, "sys/devices/virtual/dm-0");
  CufileStore store(machine.Options("no-files"));
  const Viability works = store.AwaitProbe();
  INFO(works.detail);
  REQUIRE(works.viable);
  OpenFileRequest request;
  request.direct_fd = fd.get();
  request.name = path;
  request.owner = ::geteuid();
  std::promise<Status> said;
  store.OpenDirect(request, [&said](Result<std::shared_ptr<DirectFile>> opened) {
    said.set_value(opened.ok() ? OkStatus() : opened.status());
  });
  const Status why = said.get_future().get();
  INFO(why.ToString());
  CHECK(why.reason() == reasons::kFileSystem);
  CHECK(why.message().find("CU_FILE_IO_NOT_SUPPORTED") != std::string::npos);
  // Of a file system that is none of drives that is told first.
  const bool named = why.message().find("lies crypt") != std::string::npos ||
                     why.message().find("its file system is ") != std::string::npos;
  CHECK(named);
}

TEST_CASE("why a machine has nothing but compatibility mode is told, of its modules and kernel") {
  Planted machine;
  const bool module = GENERATE(false, true);
  const bool p2pdma = GENERATE(false, true);
  if (module) machine.tree.Write("proc/driver/nvidia-fs/version", "2.17\n");
  machine.tree.Write("proc/kallsyms", p2pdma ? "0 d p2pdma_pgmap_ops\n" : "0 d others\n");
  const CufileStore store(machine.Options("compat"));
  const Viability why = store.AwaitProbe();
  CHECK(why.reason == reasons::kCompatibilityMode);
  CHECK((why.detail.find("nvidia-fs is not loaded") == std::string::npos) == module);
  CHECK((why.detail.find("CONFIG_PCI_P2PDMA") == std::string::npos) == p2pdma);
  CHECK_FALSE(why.remedy.empty());
}

TEST_CASE("what was found out before anybody listened is told to who comes then") {
  const Planted machine;
  CufileStore::Options options = machine.Options("");
  options.probe.library = "/nonexistent/libcufile.so";
  CufileStore store(options);
  REQUIRE(store.AwaitProbe().reason == reasons::kNoCuFile);
  unsigned told = 0;
  store.OnChange([&told] { ++told; });
  CHECK(told == 1);
}

TEST_CASE("without a driver, or without the library, that is what is told") {
  Planted machine;
  CufileStore::Options options = machine.Options("");
  options.probe.library.clear();
  CHECK(CufileStore(options).AwaitProbe().reason == reasons::kNoDriver);
  options.probe.library = "/nonexistent/libcufile.so";
  CHECK(CufileStore(options).AwaitProbe().reason == reasons::kNoCuFile);
}
