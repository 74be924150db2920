// A node whose drive moves files to and from a GPU's memory itself: with a library that has no
// drive and a driver that has no GPU.
#pragma once

#include <fcntl.h>

#include <string>
#include <vector>

#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/fake_cufile.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::testing {

inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kDriveBytes = 40 * kMiB;

inline std::string DriveConfig(const std::string& section = {},
                               const std::string& library = FakeCufilePath()) {
  return "[libraries]\ncuda = \"" + FakeCudaPath() + "\"\ncufile = \"" + library +
         "\"\n[cufile]\n" + section;
}

// A node whose library is what these words say.
struct WithDrive {
  explicit WithDrive(const std::string& is = {}, const std::string& section = {},
                     const std::string& library = FakeCufilePath())
      : node("east", {.config = DriveConfig(section, library), .environment = Environment(is)}) {
    node.Do({"buffer", "create", "g", "--size", std::to_string(kDriveBytes), "--memory", "cuda:0"});
    WriteFile(folder / "in", payload);
    const os::UniqueFd direct(::open((folder / "in").c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
    if (!direct) ONECOPY_SKIP("the file system of temporary files has no O_DIRECT");
  }

  Json CopyIn(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"cp", folder / "in", "g"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return node.Do(arguments);
  }
  // Of the store, once it is known what it is.
  Json Store() const {
    Json found;
    WaitUntil("the library to have been tried", [&] {
      const Json shown = node.Do({"node", "show"});
      for (const Json& store : shown.at("stores")) {
        if (store.at("name") == "cufile") found = store;
      }
      return found.at("viability").value("reason", "") != "NOT_YET_KNOWN";
    });
    return found;
  }

  // What the library is, and where its gate is; that of the whole node.
  std::vector<std::string> Environment(const std::string& is) const {
    return {"FAKE_CUFILE=" + is, "FAKE_CUFILE_GATE=" + gate.path().string()};
  }
  // Whatever is behind the file's eighth MiB waits from now on.
  void Close() const { WriteFile(gate / "closed", ""); }
  void Open() const { std::filesystem::remove(gate / "closed"); }
  // Until something does.
  void AwaitHeld() const {
    WaitUntil("something to wait at the gate",
              [&] { return std::filesystem::exists(gate / "waits"); });
  }

  TempFolder gate;  // before the node, which is told of it
  Node node;
  TempFolder folder;
  std::string payload = Payload(kDriveBytes, 3);
};

inline Json RefusalOfDirect(const Json& receipt) {
  for (const Json& refusal : receipt.at("refused")) {
    if (refusal.at("path") == "storage-direct") return refusal;
  }
  return {};
}

inline void CheckOneCopy(const Json& receipt, const std::string& end,
                         uint64_t bytes = kDriveBytes) {
  INFO(receipt.dump(2));
  CHECK(receipt.at("path") == "storage-direct");
  CHECK(receipt.at("copies") == 1);
  REQUIRE(receipt.at("steps").size() == 1);
  CHECK(receipt.at("steps").front().at(end) == "file");
  CHECK(receipt.at("steps").front().at("by") == "storage");
  CHECK(receipt.at("steps").front().at("bytes") == bytes);
  CHECK(receipt.at("evidence").at("one_pass").get<std::string>().find("direct operations") !=
        std::string::npos);
  CHECK(receipt.at("evidence").at("storage").get<std::string>().starts_with("libcufile 1.15"));
}

}  // namespace onecopy::testing
