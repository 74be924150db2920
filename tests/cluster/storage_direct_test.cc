// Files that a drive moves to and from a GPU's memory itself: with a library that has no drive and
// a driver that has no GPU, as daemons see both, and what is told where they are not what they say.
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <thread>
#include <vector>

#include "onecopy/file_copy.h"
#include "tests/cluster/with_drive.h"

namespace storage_direct_test {
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
  CheckBounced(with, "COMPATIBILITY_MODE", "only in compatibility mode");
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

namespace {

// The file's drive and cuda:1 on one socket, cuda:0 on the other, as a topology file has it; NVLink
// between the GPUs where `nvlink`.
struct TwoSockets {
  explicit TwoSockets(bool nvlink = true, const std::string& is = {})
      : node("east", {.config = "topology = \"" + Topology() + "\"\n" + DriveConfig(),
                      .environment = {"FAKE_CUFILE=" + is,
                                      std::string("FAKE_CUDA_NVLINK=") + (nvlink ? "1" : "0")}}) {
    WriteFile(folder / "in", payload);
    const onecopy::os::UniqueFd direct(
        ::open((folder / "in").c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
    if (!direct) ONECOPY_SKIP("the file system of temporary files has no O_DIRECT");
    for (const char* gpu : {"0", "1"}) {
      node.Do({"buffer", "create", std::string("g") + gpu, "--size", std::to_string(kLong),
               "--memory", std::string("cuda:") + gpu});
    }
    WaitUntil("the library to have been tried", [&] {
      const Json shown = node.Do({"node", "show"});
      for (const Json& store : shown.at("stores")) {
        if (store.at("name") == "cufile") {
          return store.at("viability").value("reason", "") != "NOT_YET_KNOWN";
        }
      }
      return false;
    });
  }

  std::string Topology() const {
    struct stat status {};
    REQUIRE(::stat(folder.path().c_str(), &status) == 0);
    const std::string drive =
        std::to_string(major(status.st_dev)) + ":" + std::to_string(minor(status.st_dev));
    WriteFile(folder / "topology.toml",
              "version = 1\ndefault_distance = \"SYS\"\n"
              "[[device]]\nkind = \"gpu\"\naddress = \"0000:b1:00.0\"\nnuma_node = 0\n"
              "[[device]]\nkind = \"gpu\"\naddress = \"0000:c1:00.0\"\nnuma_node = 1\n"
              "[[device]]\nkind = \"nvme\"\nname = \"" +
                  drive +
                  "\"\nnuma_node = 1\n"
                  "[[distance]]\nbetween = [\"" +
                  drive + "\", \"0000:c1:00.0\"]\nis = \"PXB\"\n");
    return folder / "topology.toml";
  }
  Json In(const std::string& buffer, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"cp", folder / "in", buffer, "--checksum"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return node.Do(arguments);
  }
  std::string Gpu(int ordinal) const {
    const Json shown = node.Do({"node", "show"});
    for (const Json& memory : shown.at("memories")) {
      if (memory.at("kind") == "cuda" && memory.at("ordinal") == ordinal) {
        return memory.at("device");
      }
    }
    return {};
  }

  // Far more than there are slots in the GPU on the way, and no whole number of anything.
  static constexpr uint64_t kLong = 150 * kMiB + 8192 + 77;
  TempFolder folder;
  std::string payload = Payload(kLong, 9);
  Node node;
};

constexpr const char* kThrough = "storage-direct+peer-direct";

}  // namespace

TEST_CASE("a GPU far from the drive gets its file through the near one, byte for byte") {
  const TwoSockets with;
  const std::string whole = std::to_string(150 * kMiB);
  const Json plan = with.node.Do({"explain", with.folder / "in@0+" + whole, "g0@0+" + whole});
  INFO(plan.dump(2));
  CHECK(plan.at("path") == kThrough);
  CHECK(plan.at("copies") == 2);
  const Json in =
      with.node.Do({"cp", with.folder / "in@0+" + whole, "g0@0+" + whole, "--checksum"});
  INFO(in.dump(2));
  CHECK(in.at("path") == kThrough);
  CHECK(in.at("copies") == 2);
  REQUIRE(in.at("steps").size() == 2);
  const Json& first = in.at("steps")[0];
  const Json& second = in.at("steps")[1];
  CHECK(first.at("from") == "file");
  CHECK(first.at("to") == with.Gpu(1));
  CHECK(first.at("by") == "storage");
  CHECK(first.at("bytes") == 150 * kMiB);
  CHECK(second.at("from") == with.Gpu(1));
  CHECK(second.at("to") == with.Gpu(0));
  CHECK(second.at("by") == "copy-engine");
  CHECK(second.at("bytes") == 150 * kMiB);
  // Of each step what was seen.
  const std::string seen = in.at("evidence").at("one_pass");
  CHECK(seen.find("direct operations") != std::string::npos);
  CHECK(seen.find("; ") != std::string::npos);
  CHECK(in.at("evidence").at("storage").get<std::string>().starts_with("libcufile 1.15"));
  CHECK(in.at("evidence")
            .at("placement")
            .get<std::string>()
            .starts_with("through " + with.Gpu(1) +
                         ", PXB from the drive and joined by NVLink to " + with.Gpu(0)));
  CHECK(RefusalOfDirect(in).at("reason") == "SLOWER_ESTIMATED");
  CHECK(Contents(with.node, "g0@0+" + whole) == with.payload.substr(0, 150 * kMiB));
}

TEST_CASE("through the near GPU, what is no whole block is counted as the steps that it takes") {
  const TwoSockets with;
  const Json in = with.In("g0");
  INFO(in.dump(2));
  CHECK(in.at("path") == kThrough);
  CHECK(in.at("copies") == 4);
  REQUIRE(in.at("steps").size() == 4);
  CHECK(in.at("steps")[0].at("to") == "page-cache");
  CHECK(in.at("steps")[0].at("bytes") == 77);
  CHECK(in.at("steps")[3].at("from") == with.Gpu(1));
  CHECK(in.at("steps")[3].at("bytes") == TwoSockets::kLong);
  CHECK(Contents(with.node, "g0") == with.payload);
  // One that begins inside a block, in file and memory alike.
  const std::string part = "+" + std::to_string(120 * kMiB + 5);
  const Json inside =
      with.node.Do({"cp", with.folder / "in@1001" + part, "g0@5097" + part, "--checksum"});
  CHECK(inside.at("path") == kThrough);
  CHECK(inside.at("checksum").at("verified") == true);
  CHECK(Contents(with.node, "g0@5097" + part) == with.payload.substr(1001, 120 * kMiB + 5));
}

TEST_CASE("several files go through the near GPU at a time, for several requests of one user") {
  const TwoSockets with;
  with.node.Do({"buffer", "create", "again", "--size", std::to_string(TwoSockets::kLong),
                "--memory", "cuda:0"});
  std::vector<std::thread> copying;
  std::vector<std::string> paths(2);
  for (size_t i = 0; i < paths.size(); ++i) {
    copying.emplace_back([&, i] {
      onecopy::Client client = with.node.Connect();
      const auto copied = onecopy::CopyFileToBuffer(
          client, {with.folder / "in"}, {.node = {}, .buffer = i == 0 ? "g0" : "again"});
      paths[i] = copied.ok() ? copied->receipt.path : copied.status().ToString();
    });
  }
  for (std::thread& one : copying) one.join();
  CHECK(paths == std::vector<std::string>{kThrough, kThrough});
  CHECK(Contents(with.node, "g0") == with.payload);
  CHECK(Contents(with.node, "again") == with.payload);
}

TEST_CASE(
    "the way through the near GPU is not for who counts copies, for a near GPU, or what is out") {
  const TwoSockets with;
  const std::string whole = std::to_string(150 * kMiB);
  const auto copy = [&](const std::string& buffer, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"cp", with.folder / "in@0+" + whole, buffer + "@0+" + whole};
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = with.node.Run(words);
    UNSCOPED_INFO(result.out);
    return result;
  };
  CHECK(copy("g0", {"--at-most", "1"}).json.at("path") == "storage-direct");
  CHECK(copy("g1", {}).json.at("path") == "storage-direct");
  CHECK(copy("g0", {"--path", kThrough}).json.at("path") == kThrough);
  CheckRefused(copy("g0", {"--path", kThrough, "--at-most", "1"}), 7, "FAILED_PRECONDITION",
               "POLICY_UNMET");
  const Json out = with.node.Do({"cp", "g0@0+" + whole, with.folder / "out"});
  CHECK(out.at("path") == "storage-direct");
  CHECK(ReadFile(with.folder / "out") == with.payload.substr(0, 150 * kMiB));
}

TEST_CASE("without NVLink nothing goes through another GPU, and nothing is said of it") {
  const TwoSockets with(false);
  const Json in = with.In("g0");
  INFO(in.dump(2));
  CHECK(in.at("path") == "storage-direct");
  CHECK(in.at("evidence").count("placement") == 0);
  for (const Json& refusal : in.at("refused")) CHECK(refusal.at("path") != kThrough);
}

TEST_CASE("a library that does not go directly is found out on the way through the near GPU") {
  const TwoSockets with(true, "lies");
  const Json in = with.In("g0");
  INFO(in.dump(2));
  CHECK(in.at("path") == "storage-bounce");
  CHECK(Contents(with.node, "g0") == with.payload);
}
}  // namespace storage_direct_test
