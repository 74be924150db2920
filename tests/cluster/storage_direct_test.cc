// Files that a drive moves to and from a GPU's memory itself: with a library that has no drive and
// a driver that has no GPU, as daemons see both, and what is told where they are not what they say.
#include "tests/cluster/with_drive.h"

namespace {

using namespace onecopy::testing;

constexpr uint64_t kBytes = kDriveBytes;

// The payload arrived in the end, by a slot, and the reason why not directly is this.
void CheckBounced(WithDrive& with, const std::string& reason, const std::string& words = {}) {
  const Json in = with.CopyIn();
  INFO(in.dump(2));
  CHECK(in.at("path") == "storage-bounce");
  CHECK(in.at("copies").get<size_t>() >= 2);
  const Json refusal = RefusalOfDirect(in);
  REQUIRE(refusal.is_object());
  CHECK(refusal.at("reason") == reason);
  CHECK(refusal.at("detail").get<std::string>().find(words) != std::string::npos);
  CHECK(Contents(with.node, "g") == with.payload);
  const Json out = with.node.Do({"cp", "g", with.folder / "out"});
  CHECK(out.at("path") == "storage-bounce");
  CHECK(ReadFile(with.folder / "out") == with.payload);
  CheckRefused(with.node.Run({"cp", with.folder / "in", "g", "--path", "storage-direct"}), 7,
               "FAILED_PRECONDITION", "POLICY_UNMET");
}

}  // namespace

TEST_CASE("a file and a GPU's memory are one copy apart where the drive does it, both ways") {
  WithDrive with;
  const Json store = with.Store();
  INFO(store.dump(2));
  CHECK(store.at("viability").at("viable") == true);
  CHECK(store.at("attributes").at("nvidia_fs") == "2.17");
  CHECK(store.at("attributes").at("went") == "directly");
  CheckOneCopy(with.CopyIn({"--checksum"}), "from");
  CHECK(Contents(with.node, "g") == with.payload);
  CheckOneCopy(with.CopyIn({"--at-most", "1"}), "from");
  CheckOneCopy(with.node.Do({"cp", "g", with.folder / "out"}), "to");
  CHECK(ReadFile(with.folder / "out") == with.payload);
  CHECK(with.CopyIn({"--path", "storage-bounce"}).at("path") == "storage-bounce");
}

TEST_CASE("what is no whole block goes by the page cache, and is counted") {
  WithDrive with;
  constexpr uint64_t kPart = 20 * kMiB + 77;
  const std::string part = "+" + std::to_string(kPart);
  // File and memory begin alike within a block.
  const Json in = with.node.Do(
      {"cp", with.folder / "in@1001" + part, "g@" + std::to_string(1001 + 4096) + part});
  INFO(in.dump(2));
  CHECK(in.at("path") == "storage-direct");
  CHECK(in.at("copies") == 3);
  CHECK(in.at("steps").front().at("to") == "page-cache");
  CHECK(in.at("steps").front().at("bytes").get<uint64_t>() < 2 * 4096);
  CHECK(in.at("steps").back().at("bytes") == kPart);
  CHECK(Contents(with.node, "g@" + std::to_string(1001 + 4096) + part) ==
        with.payload.substr(1001, kPart));
  const Json out = with.node.Do(
      {"cp", "g@" + std::to_string(1001 + 4096) + part, with.folder / "in@1001" + part});
  CHECK(out.at("path") == "storage-direct");
  CHECK(ReadFile(with.folder / "in") == with.payload);
  CheckRefused(
      with.node.Run({"cp", with.folder / "in@1001" + part, "g@5097" + part, "--at-most", "1"}), 7,
      "FAILED_PRECONDITION", "POLICY_UNMET");
  // Unlike: nothing of it could go directly.
  const Json unlike = with.node.Do({"cp", with.folder / "in@1001" + part, "g@77" + part});
  CHECK(unlike.at("path") == "storage-bounce");
  CHECK(RefusalOfDirect(unlike).at("reason") == "NOT_APPLICABLE");
  CHECK(Contents(with.node, "g@77" + part) == with.payload.substr(1001, kPart));
}

TEST_CASE("a library that only works in compatibility mode is found out before a byte moves") {
  WithDrive with("compat");
  const Json store = with.Store();
  CHECK(store.at("viability").at("reason") == "COMPATIBILITY_MODE");
  CheckBounced(with, "COMPATIBILITY_MODE", "compatibility mode alone");
}

TEST_CASE("a library that says it goes directly, and does not, is found out by its counters") {
  WithDrive with("lies");
  CheckBounced(with, "COMPATIBILITY_MODE");
}

TEST_CASE("a library that crashes or hangs leaves the daemon as it is, which says why") {
  const std::string what = GENERATE(as<std::string>(), "crash", "hang");
  INFO(what);
  WithDrive with(what, "probe_limit = \"1s\"\n");
  CheckBounced(with, "DRIVER_FAILED", "while opening its driver");
  CHECK(with.node.Stop() == 0);
}

TEST_CASE("a file or memory that the library does not take goes by slots") {
  SECTION("a file") {
    WithDrive with("no-files");
    CHECK(with.Store().at("viability").at("viable") == true);
    CheckBounced(with, "FILE_SYSTEM", "CU_FILE_IO_NOT_SUPPORTED");
  }
  SECTION("memory") {
    WithDrive with("no-pin");
    CheckBounced(with, "GPU_NOT_PINNABLE", "CU_FILE_GPU_MEMORY_PINNING_FAILED");
  }
}

TEST_CASE("memory larger than the GPU's BAR1 goes directly a piece at a time") {
  WithDrive with("small-bar");
  CheckOneCopy(with.CopyIn(), "from");
  CHECK(Contents(with.node, "g") == with.payload);
}

TEST_CASE("short reads go on where they ended, and what fails says what it was") {
  SECTION("short") {
    WithDrive with("short");
    CheckOneCopy(with.CopyIn({"--checksum"}), "from");
    CheckOneCopy(with.node.Do({"cp", "g", with.folder / "out"}), "to");
    CHECK(ReadFile(with.folder / "out") == with.payload);
  }
  SECTION("EIO, behind what was looked at first") {
    WithDrive with("eio", "slice = \"512KiB\"\n");
    const CommandResult failed = with.node.Run({"cp", with.folder / "in", "g"});
    CHECK(failed.exit_status != 0);
    CHECK(failed.message().find("reading") != std::string::npos);
    CHECK(with.CopyIn({"--path", "storage-bounce"}).at("path") == "storage-bounce");
  }
}

TEST_CASE("a library that does not count proves nothing") {
  WithDrive with("", "", OldFakeCufilePath());
  const Json in = with.CopyIn();
  CHECK(in.at("path") == "storage-bounce");
  CHECK(Contents(with.node, "g") == with.payload);
}

TEST_CASE("GPUDirect Storage is switched off, or demanded") {
  SECTION("off") {
    WithDrive with("", "use = \"off\"\n");
    CheckBounced(with, "SWITCHED_OFF");
  }
  SECTION("on, and it works") {
    WithDrive with("", "use = \"on\"\n");
    CheckOneCopy(with.CopyIn(), "from");
  }
  SECTION("on, and it does not") {
    TempFolder folder;
    WriteFile(folder / "config", "version = 1\n" + DriveConfig("use = \"on\"\n"));
    Process daemon({.program = "onecopyd",
                    .arguments = {"--config", folder / "config", "--run-dir", folder / "run"},
                    .error_file = folder / "errors",
                    .environment = {"FAKE_CUFILE=compat"}});
    CHECK(daemon.Wait() == 7);
    CHECK(ReadFile(folder / "errors").find("compatibility mode") != std::string::npos);
  }
  SECTION("without a library") {
    WithDrive with("", "", "/nonexistent/libcufile.so");
    CheckBounced(with, "NO_CUFILE", "/nonexistent/libcufile.so");
  }
}
