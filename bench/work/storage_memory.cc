// What a daemon has in memory while it reads a file far larger than all of it.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "bench/daemons/temp_folder.h"
#include "bench/work/peak_memory.h"
#include "bench/work/works.h"
#include "onecopy/file_copy.h"
#include "onecopy/reasons.h"
#include "transport/os/base/error.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::bench {
namespace {

constexpr uint64_t kSparseBytes = uint64_t{100} << 30;
constexpr uint64_t kPieces = 100;
constexpr uint64_t kMarkEvery = uint64_t{64} << 20;
constexpr uint64_t kMostWindow = uint64_t{1} << 30;

// Eight bytes at each mark; all else is a hole.
Status MakeSparse(const std::string& path, uint64_t bytes) {
  const os::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return os::ErrnoStatus(errno, "making " + path);
  }
  for (uint64_t at = 0; at < bytes; at += kMarkEvery) {
    const uint64_t mark = ~at;
    if (::pwrite(fd.get(), &mark, sizeof mark, static_cast<off_t>(at)) != sizeof mark) {
      return os::ErrnoStatus(errno, "writing " + path);
    }
  }
  return ::fdatasync(fd.get()) == 0 ? OkStatus() : os::ErrnoStatus(errno, "writing " + path);
}

bool HoldsMarks(const std::byte* data, uint64_t bytes, uint64_t first) {
  for (uint64_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, data + at, sizeof word);
    if (word != ((first + at) % kMarkEvery == 0 ? ~(first + at) : 0)) return false;
  }
  return true;
}

// One copy after the other of the whole file, in pieces as large as the buffer.
Status WatchSparse(Row& row, uint64_t window, const DaemonOptions& options,
                   const Settings& settings) {
  ONECOPY_ASSIGN_OR_RETURN(const auto folder, TempFolder::Create());
  const std::string path = folder->path() + "/sparse";
  ONECOPY_RETURN_IF_ERROR(MakeSparse(path, row.bytes));
  ONECOPY_ASSIGN_OR_RETURN(const auto daemon, Daemon::Start(options, "east"));
  ONECOPY_ASSIGN_OR_RETURN(Client client, daemon->Connect());
  ONECOPY_ASSIGN_OR_RETURN(const HostBuffer buffer, client.CreateHostBuffer({}, window));
  PeakMemory peak(daemon->pid(), window);
  bool right = true;
  for (uint64_t at = 0; at < row.bytes; at += window) {
    if (settings.stopped && settings.stopped()) {
      return {Code::kCancelled, reasons::kCancelled, "the run was stopped"};
    }
    FileCopyOptions copy;
    copy.policy.path_glob = row.path;
    const LocalFile piece{.path = path, .offset_bytes = at, .bytes = window};
    ONECOPY_RETURN_IF_ERROR(CopyFileToBuffer(client, piece, buffer.endpoint(), copy).status());
    right = right && HoldsMarks(buffer.data(), window, at);
  }
  row.values = {peak.Stop()};
  row.verified = right;
  return OkStatus();
}

}  // namespace

std::vector<Row> SparseMemory(const Settings& settings) {
  const DaemonOptions daemon = WithKnownSlots(settings.daemon);
  // Both are multiples of the marks' distance, so that pieces end alike.
  const uint64_t window =
      std::clamp(settings.bytes / kMarkEvery * kMarkEvery, kMarkEvery, kMostWindow);
  Row row = {.work = "storage daemon memory",
             .path = "storage-bounce",
             .bytes = std::min(kSparseBytes, window * kPieces),
             .unit = Unit::kBytes,
             .limit = static_cast<double>(MemoryLimit(daemon))};
  Status status = CheckHostMemory(window, 2);
  if (status.ok()) status = WatchSparse(row, window, daemon, settings);
  return {status.ok() ? Evaluated(std::move(row)) : NotSetUp(std::move(row), status)};
}

}  // namespace onecopy::bench
