#include "daemon/engine/registry/exports.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "daemon/engine/base/names.h"
#include "daemon/log/audit.h"
#include "onecopy/reasons.h"
#include "transport/core/file_copier.h"
#include "transport/core/file_path.h"
#include "transport/core/glob.h"
#include "transport/core/store.h"
#include "transport/os/beneath.h"

namespace onecopy::engine {
namespace {

constexpr std::chrono::seconds kSweep{1};
// Between the answer to a reservation and whatever is asked next: a plan alone has no ticket.
constexpr std::chrono::seconds kGrace{10};
// Each has two descriptors.
constexpr std::ptrdiff_t kMostOfOneNode = 512;

Status CheckPath(const std::string& path) {
  if (IsShortestPath(path)) return OkStatus();
  return {Code::kInvalidArgument, reasons::kBadEndpoint,
          "\"" + Printable(path) + "\" is no way to name a file of a node",
          "write an absolute path without . or .. and with single slashes: NODE:/data/model.bin"};
}

bool Covers(const std::string& root, const std::string& path) {
  if (root == "/") return path != root;
  return path.size() > root.size() && path.starts_with(root) && path[root.size()] == '/';
}

bool IsPattern(const std::string& node) { return node.find_first_of("*?") != std::string::npos; }

bool Allows(const ExportUser& user, const Principal& who, const Owners& owners) {
  if (!IsPattern(user.node)) {
    if (!user.uid) return user.node == who.node;
    return owners.Same({Uid(*user.uid), user.node}, OwnerOf(who));
  }
  return MatchesGlob(user.node, who.node) && (!user.uid || who.uid == Uid(*user.uid));
}

// Waits for the file system.
Status OpenFile(const std::string& root, const std::string& path, OpenFileRequest* request) {
  const std::string relative = path.substr(root == "/" ? 1 : root.size() + 1);
  ONECOPY_ASSIGN_OR_RETURN(os::FileBeneath opened,
                           os::OpenBeneath(root, relative, request->name, true));
  auto kept = std::make_shared<os::FileBeneath>(std::move(opened));
  request->fd = kept->plain.get();
  request->direct_fd = kept->direct ? kept->direct.get() : -1;
  request->keeps = std::move(kept);
  return OkStatus();
}

}  // namespace

const ExportOptions* Exports::Find(const Principal& who, const std::string& path) const {
  const ExportOptions* longest = nullptr;
  for (const ExportOptions& one : needs_.context.options.exports) {
    const bool may = who.administrator ||
                     std::any_of(one.read.begin(), one.read.end(), [&](const ExportUser& user) {
                       return Allows(user, who, needs_.owners);
                     });
    if (!may || !Covers(one.path, path)) continue;
    if (longest == nullptr || one.path.size() > longest->path.size()) longest = &one;
  }
  return longest;
}

Status Exports::CheckRoom(const Principal& who) const {
  const auto of_node = std::count_if(held_.begin(), held_.end(), [&](const auto& entry) {
    return entry.second.initiator == who.node;
  });
  if (of_node < kMostOfOneNode) return OkStatus();
  return {Code::kResourceExhausted, reasons::kQuota,
          "node " + needs_.context.node() + " has " + std::to_string(of_node) +
              " files open for node " + who.node + ", and opens no more",
          "try again when some of these transfers have ended"};
}

void Exports::Open(const Principal& who, const ReserveRequest& request, Reply<BufferId> reply) {
  const std::string path = request.source.file;
  auto answer = [this, who, path, reply = std::move(reply)](Result<BufferId> id) mutable {
    const std::string asking = who.ToString();
    const std::string from = needs_.context.IsSelf(who.node) ? "here" : "node " + who.node;
    audit::Write({.who = asking,
                  .from = from,
                  .what = "read a file",
                  .on = path,
                  .why = id.status(),
                  .rights = true});
    reply(std::move(id));
  };
  Context& context = needs_.context;
  if (Status wrong = CheckPath(path); !wrong.ok()) return answer(wrong);
  const ExportOptions* const found = Find(who, path);
  if (found == nullptr) {
    return answer(Status(Code::kPermissionDenied, reasons::kAccessDenied,
                         OwnerOf(who).ToString() + " may not read " + Printable(path) +
                             " of node " + context.node() +
                             ": it is below no folder that is exported to that user",
                         "have it exported there, by [exports.NAME] in the configuration of "
                         "onecopyd, or copied into a buffer"));
  }
  if (context.FindStore(false) == nullptr) {
    return answer(Status(Code::kFailedPrecondition, reasons::kNotServed,
                         "the onecopyd of node " + context.node() + " moves no files"));
  }
  if (Status full = CheckRoom(who); !full.ok()) return answer(full);
  OpenFileRequest asked;
  asked.name = Printable(path);
  asked.offset_bytes = request.source.offset_bytes.value_or(0);
  asked.bytes = request.source.bytes;
  asked.owner = Uid(context.options.daemon_uid);
  asked.lane = "for " + PayerOf(OwnerOf(who)).ToString();
  asked.open = [root = found->path, path](OpenFileRequest* opened) {
    return OpenFile(root, path, opened);
  };
  auto shared = std::make_shared<decltype(answer)>(std::move(answer));
  context.FindStore(false)->Open(std::move(asked), [this, who, request, shared](
                                                       Result<std::shared_ptr<StoreFile>> opened) {
    needs_.context.loop.Post([this, who, request, shared, opened = std::move(opened)]() mutable {
      (*shared)(Keep(who, request, std::move(opened)));
    });
  });
}

Result<BufferId> Exports::Keep(const Principal& who, const ReserveRequest& request,
                               Result<std::shared_ptr<StoreFile>> opened) {
  if (!opened.ok()) return opened.status();
  ONECOPY_ASSIGN_OR_RETURN(
      const BufferId id,
      needs_.buffers.AddExported(OwnerOf(who), request.source.file, RegionOf(std::move(*opened))));
  held_[id] = {who.node, request.id, os::Clock::now()};
  if (!std::exchange(sweeping_, true)) {
    needs_.context.loop.RunAfter(kSweep, [this] { Sweep(); });
  }
  return id;
}

void Exports::Drop(BufferId id) {
  if (held_.erase(id) > 0) needs_.buffers.DropUnused(id);
}

void Exports::Sweep() {
  sweeping_ = false;
  const os::Clock::time_point now = os::Clock::now();
  std::vector<BufferId> over;
  for (const auto& [id, held] : held_) {
    const Buffer* const buffer = needs_.buffers.FindById(id);
    const bool wanted =
        buffer != nullptr &&
        (!buffer->users.empty() || now - held.opened < kGrace ||
         needs_.tickets.Any(held.initiator, held.transfer) || needs_.under_way(held.transfer));
    if (!wanted) over.push_back(id);
  }
  for (const BufferId id : over) Drop(id);
  if (held_.empty() || std::exchange(sweeping_, true)) return;
  needs_.context.loop.RunAfter(kSweep, [this] { Sweep(); });
}

}  // namespace onecopy::engine
