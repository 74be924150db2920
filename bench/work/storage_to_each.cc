// One file into four buffers, beside the same into one of them.
#include <algorithm>
#include <chrono>

#include "bench/daemons/daemon.h"
#include "bench/daemons/temp_folder.h"
#include "bench/work/file_mover.h"
#include "bench/work/gpus.h"
#include "bench/work/works.h"
#include "onecopy/file_copy.h"

namespace onecopy::bench {
namespace {

constexpr unsigned kBuffers = 4;
constexpr double kEachTarget = 1 / 1.2;  // 1.2 times as long

// By the client's clock: each destination has a receipt of its own.
class EachMover final : public Mover {
 public:
  static Result<std::unique_ptr<EachMover>> Create(const Node& node, const std::string& path,
                                                   bool cold,
                                                   const std::vector<std::string>& memories,
                                                   uint64_t bytes) {
    ONECOPY_ASSIGN_OR_RETURN(auto file, PayloadFile::Plan(path, bytes));
    std::vector<End> ends;
    for (const std::string& memory : memories) {
      ONECOPY_ASSIGN_OR_RETURN(End end, End::Create(node, memory, bytes));
      ends.push_back(std::move(end));
    }
    return std::unique_ptr<EachMover>(new EachMover(std::move(file), std::move(ends), cold));
  }

  Status Fill(uint64_t seed) override {
    ONECOPY_RETURN_IF_ERROR(file_->Put(seed));
    for (End& end : ends_) ONECOPY_RETURN_IF_ERROR(end.Put(seed + 1));  // nothing right is there
    return cold_ ? file_->Drop() : OkStatus();
  }

  Result<Moved> Move() override {
    using Clock = std::chrono::steady_clock;
    std::vector<Endpoint> destinations;
    for (End& end : ends_) destinations.push_back(end.endpoint());
    const Clock::time_point begin = Clock::now();
    ONECOPY_ASSIGN_OR_RETURN(
        const std::vector<FileCopy> copies,
        CopyFileToEach(ends_.front().client(), {.path = file_->path()}, destinations));
    Moved moved;
    moved.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    moved.details["buffers"] = static_cast<double>(copies.size());
    moved.details["first_receipt_seconds"] = copies.front().receipt.seconds;
    return moved;
  }

  Result<bool> Verify(uint64_t seed) override {
    for (End& end : ends_) {
      ONECOPY_ASSIGN_OR_RETURN(const bool right, end.Holds(seed));
      if (!right) return false;
    }
    return true;
  }

 private:
  EachMover(std::unique_ptr<PayloadFile> file, std::vector<End> ends, bool cold)
      : file_(std::move(file)), ends_(std::move(ends)), cold_(cold) {}

  std::unique_ptr<PayloadFile> file_;
  std::vector<End> ends_;
  const bool cold_;
};

struct EachWay {
  const char* name;
  bool cold;
  bool gpus;
};

Result<std::vector<std::string>> EachMemories(const EachWay& way, const Node& node) {
  if (!way.gpus) return std::vector<std::string>(kBuffers, "host");
  ONECOPY_ASSIGN_OR_RETURN(const std::vector<MemoryCapability> gpus, UsableGpus(node));
  std::vector<std::string> memories;
  for (unsigned i = 0; i < kBuffers; ++i) memories.push_back(gpus[i % gpus.size()].device);
  return memories;
}

Row MeasureEach(const EachWay& way, uint64_t bytes, const Settings& settings) {
  Row row = {.work = way.name,
             .path = "storage-bounce",
             .bytes = bytes,
             .ceiling = "into one buffer",
             .target = kEachTarget};
  // Buffers of ours and one, and both files.
  const Status room = CheckHostMemory(bytes, kBuffers + 3);
  if (!room.ok()) return NotSetUp(std::move(row), room);
  const auto folder = TempFolder::Create();
  if (!folder.ok()) return NotSetUp(std::move(row), folder.status());
  const auto daemon = Daemon::Start(settings.daemon, "east");
  if (!daemon.ok()) return NotSetUp(std::move(row), daemon.status());
  const Node node = (*daemon)->AsNode();
  const auto memories = EachMemories(way, node);
  if (!memories.ok()) return Waived(std::move(row), memories.status());
  const auto ours =
      EachMover::Create(node, (*folder)->path() + "/each", way.cold, *memories, bytes);
  if (!ours.ok()) return NotSetUp(std::move(row), ours.status());
  const MakeCeiling one = [&](const Moved&) -> Result<std::unique_ptr<Mover>> {
    ONECOPY_ASSIGN_OR_RETURN(
        std::unique_ptr<EachMover> mover,
        EachMover::Create(node, (*folder)->path() + "/one", way.cold, {memories->front()}, bytes));
    return std::unique_ptr<Mover>(std::move(mover));
  };
  const auto different = [&] {
    std::vector<std::string> sorted = *memories;
    std::sort(sorted.begin(), sorted.end());
    return std::unique(sorted.begin(), sorted.end()) - sorted.begin();
  };
  Row measured = Compare(std::move(row), **ours, one, settings.CompareAt(bytes));
  if (way.gpus) measured.details["gpus"] = static_cast<double>(different());
  return measured;
}

}  // namespace

std::vector<Work> StorageToEachWorks() {
  std::vector<Work> works;
  for (const EachWay& way : {EachWay{"storage read to four buffers, cold", true, false},
                             EachWay{"storage read to four buffers, warm", false, false},
                             EachWay{"storage read to four gpu buffers, cold", true, true},
                             EachWay{"storage read to four gpu buffers, warm", false, true}}) {
    works.push_back({way.name,
                     [way](const Settings& settings) {
                       return std::vector<Row>{MeasureEach(way, settings.bytes, settings)};
                     },
                     true});
  }
  return works;
}

}  // namespace onecopy::bench
