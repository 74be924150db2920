#include "client/lib/files/moved_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "client/lib/files/windows.h"
#include "onecopy/reasons.h"
#include "transport/core/base/glob.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::client {
namespace {

// To or from a buffer of this node.
constexpr std::array kPaths = {"storage-direct", "storage-direct+peer-direct", "storage-bounce"};
// The latter, and then one of these, to or from one of another.
constexpr std::array kLinkPaths = {"rdma-bounce", "rdma-staged", "tcp-bounce", "tcp-staged"};
// For less, the page cache is as good.
constexpr uint64_t kMinDirectBytes = uint64_t{1} << 20;

bool MayMeet(const Policy& policy, bool here) {
  if (here && !policy.link.empty()) return false;
  if (policy.path_glob.empty()) return true;
  if (here) {
    return std::any_of(kPaths.begin(), kPaths.end(),
                       [&](const char* path) { return MatchesGlob(policy.path_glob, path); });
  }
  return std::any_of(kLinkPaths.begin(), kLinkPaths.end(), [&](const char* link) {
    return MatchesGlob(policy.path_glob, std::string(kPaths.back()) + "+" + link);
  });
}

bool IsServable(const FilePart& file, const FileCopyOptions& options) {
  struct stat facts {};
  struct statfs system {};
  const int flags = ::fcntl(file.fd, F_GETFL);
  if (flags < 0 || (flags & (O_APPEND | O_DIRECT)) != 0) return false;
  if (file.writes && options.checksum && (flags & O_ACCMODE) != O_RDWR) return false;
  if (::fstat(file.fd, &facts) != 0) return false;
  if (S_ISBLK(facts.st_mode)) return true;
  return S_ISREG(facts.st_mode) && ::fstatfs(file.fd, &system) == 0 &&
         static_cast<unsigned long>(system.f_type) != FUSE_SUPER_MAGIC;
}

// An open file of its own, so that other users of the caller's do not find it changed. Empty where
// the file system has no such way.
os::UniqueFd DirectTwin(const FilePart& file) {
  if (file.bytes < kMinDirectBytes) return {};
  const int access = ::fcntl(file.fd, F_GETFL) & O_ACCMODE;
  const std::string link = "/proc/self/fd/" + std::to_string(file.fd);
  return os::UniqueFd(::open(link.c_str(), access | O_DIRECT | O_CLOEXEC));
}

Result<TransferRequest> RequestFor(Client& client, const FilePart& file, const RemoteRange& range,
                                   const FileCopyOptions& options) {
  const os::UniqueFd direct = DirectTwin(file);
  ONECOPY_ASSIGN_OR_RETURN(Endpoint end, client.PassFile(file.name, file.fd, direct.get()));
  end.offset_bytes = file.offset;
  end.bytes = file.bytes;
  end.is_new_file = file.is_new;
  const Endpoint buffer = range.Piece(0, options.ranges.empty() ? file.bytes : range.bytes);
  TransferRequest request;
  request.source = file.writes ? buffer : end;
  request.destination = file.writes ? end : buffer;
  request.ranges = options.ranges;
  request.policy = options.policy;
  request.pacing = options.pacing;
  request.trace = options.trace;
  request.checksum = options.checksum;
  return request;
}

}  // namespace

bool DaemonMoves(const Client& client, const FilePart& file, const RemoteRange& range,
                 const FileCopyOptions& options) {
  return client.moves_files() && MayMeet(options.policy, range.buffer.node == client.node()) &&
         IsServable(file, options);
}

bool MayGoByWindows(const Client& client, const RemoteRange& range, const Status& failure) {
  return range.buffer.node != client.node() && failure.code() == Code::kFailedPrecondition &&
         failure.reason() == reasons::kNotApplicable;
}

Status CheckRanges(const FileCopyOptions& options, const std::string& file) {
  if (options.ranges.empty()) return OkStatus();
  return {Code::kUnimplemented, reasons::kNotServed,
          "ranges of " + file +
              " can be moved only by the daemon, and the daemon cannot move this file",
          "name a regular file or block device and leave out --path and --link, or copy the whole "
          "file"};
}

uint64_t EndOf(const std::vector<RangePair>& ranges, StridedRange RangePair::*side) {
  uint64_t end = 0;
  for (const RangePair& pair : ranges) {
    const StridedRange& range = pair.*side;
    const uint64_t gaps = range.count > 1 ? (range.count - 1) * range.stride : 0;
    end = std::max(end, range.offset + gaps + range.bytes);
  }
  return end;
}

Result<FileCopy> MoveFile(Client& client, const FilePart& file, const RemoteRange& range,
                          const FileCopyOptions& options, const Waiter& waiter) {
  ONECOPY_RETURN_IF_ERROR(waiter.Check());
  ONECOPY_ASSIGN_OR_RETURN(TransferRequest request, RequestFor(client, file, range, options));
  request.deadline = waiter.Remaining();
  // Less than the daemon can be told: it has passed before anything can happen.
  if (request.deadline)
    request.deadline = std::max(*request.deadline, std::chrono::milliseconds(1));
  Client::OnUpdate on_update;
  if (options.on_progress) {
    on_update = [&options](const TransferInfo& transfer) {
      options.on_progress(transfer.bytes_done, transfer.bytes);
    };
  }
  ONECOPY_ASSIGN_OR_RETURN(TransferInfo transfer,
                           client.RunTransfer(request, on_update, waiter.stop()));
  if (const Status outcome = OutcomeOf(transfer); !outcome.ok()) {
    if (transfer.bytes_done == 0) return outcome;
    return outcome.WithContext("after " + std::to_string(transfer.bytes_done) +
                               " bytes had arrived");
  }
  FileCopy copy;
  copy.id = transfer.id;
  copy.bytes = transfer.bytes;
  copy.receipt = std::move(transfer.receipt);
  return copy;
}

Result<Plan> PlanFile(Client& client, const FilePart& file, const RemoteRange& range,
                      const FileCopyOptions& options) {
  ONECOPY_ASSIGN_OR_RETURN(const TransferRequest request, RequestFor(client, file, range, options));
  return client.PlanTransfer(request);
}

}  // namespace onecopy::client
