#include "daemon/engine/registry/exports.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "daemon/engine/base/names.h"
#include "daemon/engine/base/paging.h"
#include "daemon/log/audit.h"
#include "onecopy/reasons.h"
#include "transport/core/base/file_path.h"
#include "transport/core/base/glob.h"
#include "transport/core/contracts/store.h"
#include "transport/core/toolkit/file_copier.h"
#include "transport/os/files/beneath.h"
#include "transport/os/files/output_beneath.h"

namespace onecopy::engine {
namespace {

constexpr std::chrono::seconds kSweep{1};
// Between the answer to a reservation that is only planned, and the plan.
constexpr std::chrono::seconds kGrace{10};

Status CheckPath(const std::string& path) {
  if (IsShortestPath(path)) return OkStatus();
  return {Code::kInvalidArgument, reasons::kBadEndpoint,
          "\"" + Printable(path) + "\" does not name a file on a node",
          "write an absolute path without . or .. and with single slashes: NODE:/data/model.bin"};
}

bool Covers(const std::string& root, const std::string& path) {
  if (root == "/") return path != root;
  return path.size() > root.size() && path.starts_with(root) && path[root.size()] == '/';
}

bool IsPattern(const std::string& node) { return node.find_first_of("*?") != std::string::npos; }

bool Allows(const UserPattern& user, const Principal& who, const Owners& owners) {
  if (!IsPattern(user.node)) {
    if (!user.uid) return user.node == who.node;
    return owners.Same({Uid(*user.uid), user.node}, OwnerOf(who));
  }
  return MatchesGlob(user.node, who.node) && (!user.uid || who.uid == Uid(*user.uid));
}

// Each waits for the file system.

Status OpenFile(const std::string& root, const std::string& path, os::Links links,
                OpenFileRequest* request) {
  ONECOPY_ASSIGN_OR_RETURN(os::FileBeneath opened,
                           os::OpenBeneath(root, path, request->name, true, links));
  auto kept = std::make_shared<os::FileBeneath>(std::move(opened));
  request->fd = kept->plain.get();
  request->direct_fd = kept->direct ? kept->direct.get() : -1;
  request->keeps = std::move(kept);
  return OkStatus();
}

Status OpenOutput(const std::string& root, const std::string& path, bool sync,
                  const os::OutputBeneath::Ask& ask, OpenFileRequest* request) {
  ONECOPY_ASSIGN_OR_RETURN(std::shared_ptr<os::OutputBeneath> output,
                           os::OutputBeneath::Open(root, path, request->name, ask));
  request->fd = output->fd();
  request->direct_fd = output->direct_fd();
  request->is_new = output->is_new();
  request->commit = [output, sync](const std::atomic<bool>& stop) {
    return output->Commit(sync, stop);
  };
  request->keeps = std::move(output);
  return OkStatus();
}

// What of the file the request writes.
os::OutputBeneath::Ask OutputOf(const StartRequest& request) {
  const Endpoint& to = request.asked.destination;
  os::OutputBeneath::Ask ask;
  ask.in_place = to.offset_bytes || to.bytes || request.ranges != nullptr;
  ask.read_back = request.asked.checksum;
  ask.only_look = request.asked.validate_only;
  ask.offset_bytes = to.offset_bytes.value_or(0);
  ask.bytes = to.bytes.value_or(request.reservation.source.bytes.value_or(0));
  if (request.ranges != nullptr) {
    const ByteRange& extent = request.ranges->destination.extent();
    // Where the sum is too large, so is what it is a part of.
    ask.offset_bytes += std::min(extent.offset, UINT64_MAX - ask.offset_bytes);
    ask.bytes = extent.bytes;
  }
  return ask;
}

}  // namespace

struct Exports::Asked {
  TransferId transfer;
  std::string path;
  OpenFileRequest file;
  os::OutputBeneath::Ask output = {};  // where it is written
  bool sync = false;
  bool plan_only = false;  // where it is read: it has no ticket
  Charges charges = {};
};

bool Exports::May(const Principal& who, const ExportOptions& one, FileUse use) const {
  const std::vector<UserPattern>& users = use == FileUse::kRead ? one.read : one.write;
  return who.administrator || std::any_of(users.begin(), users.end(), [&](const UserPattern& user) {
           return Allows(user, who, needs_.owners);
         });
}

Result<Page<ExportInfo>> Exports::SeenBy(const Principal& who, const PageRequest& page) const {
  std::map<std::string, ExportInfo> seen;
  for (const ExportOptions& one : exports_) {
    const bool read = May(who, one, FileUse::kRead);
    const bool write = May(who, one, FileUse::kWrite);
    if (!read && !write) continue;
    seen[one.name] = {needs_.context.node(), one.name, one.path, read, write};
  }
  return TakePage<ExportInfo>(
      page, seen, [](const auto& entry) { return entry.first; }, [](const auto&) { return true; },
      [](const auto& entry) { return entry.second; });
}

const ExportOptions* Exports::Find(const Principal& who, const std::string& path,
                                   FileUse use) const {
  const ExportOptions* longest = nullptr;
  for (const ExportOptions& one : exports_) {
    if (!Covers(one.path, path) || !May(who, one, use)) continue;
    if (longest == nullptr || one.path.size() > longest->path.size()) longest = &one;
  }
  return longest;
}

Result<Exports::Charges> Exports::TakeRoom(const Principal& who) const {
  const Ledger& ledger = needs_.context.ledger;
  const Owner owner = OwnerOf(who);
  Charges charges;
  ONECOPY_ASSIGN_OR_RETURN(charges.users,
                           ledger.Take(Charged::kFilesOfOne, owner, who.administrator));
  ONECOPY_ASSIGN_OR_RETURN(
      charges.payers, ledger.Take(Charged::kFiles, PayerAt(needs_.context.node(), who.node, owner),
                                  who.administrator));
  return charges;
}

void Exports::Open(const Principal& who, const ReserveRequest& request, Reply<BufferId> reply) {
  Asked asked;
  asked.transfer = request.id;
  asked.path = request.source.file;
  asked.file.offset_bytes = request.source.offset_bytes.value_or(0);
  asked.file.bytes = request.source.bytes;
  asked.plan_only = request.validate_only;
  Open(who, std::move(asked), std::move(reply));
}

void Exports::OpenToWrite(const Principal& who, const StartRequest& request,
                          Reply<BufferId> reply) {
  Asked asked;
  asked.transfer = request.id;
  asked.path = request.asked.destination.file;
  asked.output = OutputOf(request);
  asked.sync = request.asked.sync;
  asked.file.use = FileUse::kWrite;
  asked.file.read_back = asked.output.read_back;
  asked.file.offset_bytes = asked.output.offset_bytes;
  asked.file.bytes = asked.output.bytes;
  asked.file.fewest_copies = request.asked.policy.at_most_copies.has_value();
  Open(who, std::move(asked), std::move(reply));
}

void Exports::Open(const Principal& who, Asked asked, Reply<BufferId> reply) {
  const bool reads = asked.file.use == FileUse::kRead;
  const std::string doing = reads ? "read" : "write";
  auto answer = [this, who, doing, path = asked.path,
                 reply = std::move(reply)](Result<BufferId> id) mutable {
    const std::string asking = who.ToString();
    const std::string from = needs_.context.IsSelf(who.node) ? "here" : "node " + who.node;
    audit::Write({.who = asking,
                  .from = from,
                  .what = doing + " a file",
                  .on = path,
                  .why = id.status(),
                  .rights = true});
    reply(std::move(id));
  };
  Context& context = needs_.context;
  if (Status wrong = CheckPath(asked.path); !wrong.ok()) return answer(wrong);
  const ExportOptions* const found = Find(who, asked.path, asked.file.use);
  if (found == nullptr) {
    return answer(Status(
        Code::kPermissionDenied, reasons::kAccessDenied,
        OwnerOf(who).ToString() + " may not " + doing + " " + Printable(asked.path) + " of node " +
            context.node() + ": no folder above it is exported to that user" +
            (reads ? "" : " for writing"),
        "export its folder there, by [exports.NAME] in the configuration of onecopyd, or copy it " +
            std::string(reads ? "into" : "from") + " a buffer"));
  }
  if (context.FindStore(false) == nullptr) {
    return answer(Status(Code::kFailedPrecondition, reasons::kNotServed,
                         "the onecopyd of node " + context.node() + " does not move files"));
  }
  Result<Charges> charges = TakeRoom(who);
  if (!charges.ok()) return answer(charges.status());
  asked.charges = std::move(*charges);
  OpenFileRequest opening = asked.file;
  opening.name = Printable(asked.path);
  opening.owner = Uid(context.options.daemon_uid);
  opening.lane = "for " + PayerAt(context.node(), who.node, OwnerOf(who)).ToString();
  asked.output.mode = found->mode;
  asked.output.links = found->follow_beneath ? os::Links::kBeneath : os::Links::kNone;
  auto keeps = std::make_shared<Asked>(std::move(asked));
  opening.open = [root = found->path, keeps](OpenFileRequest* opened) {
    const std::string relative = keeps->path.substr(root == "/" ? 1 : root.size() + 1);
    if (keeps->file.use == FileUse::kRead) {
      return OpenFile(root, relative, keeps->output.links, opened);
    }
    return OpenOutput(root, relative, keeps->sync, keeps->output, opened);
  };
  auto shared = std::make_shared<decltype(answer)>(std::move(answer));
  context.FindStore(false)->Open(
      std::move(opening), [this, who, keeps, shared](Result<std::shared_ptr<StoreFile>> opened) {
        needs_.context.loop.Post([this, who, keeps, shared, opened = std::move(opened)]() mutable {
          (*shared)(Keep(who, *keeps, std::move(opened)));
        });
      });
}

Result<BufferId> Exports::Keep(const Principal& who, Asked& asked,
                               Result<std::shared_ptr<StoreFile>> opened) {
  if (!opened.ok()) return opened.status();
  ONECOPY_ASSIGN_OR_RETURN(
      const BufferId id, needs_.buffers.AddExported(OwnerOf(who), asked.path,
                                                    RegionOf(std::move(*opened)), asked.file.use));
  Held& held = held_[id];
  held = {who.node, asked.transfer, asked.file.use, std::move(asked.charges)};
  if (asked.plan_only) {
    held.planned_until = os::Clock::now() + kGrace;
  } else {
    by_transfer_.emplace(asked.transfer, id);
  }
  if (!std::exchange(sweeping_, true)) {
    needs_.context.loop.RunAfter(kSweep, [this] { Sweep(); });
  }
  return id;
}

void Exports::Drop(BufferId id) {
  const auto node = held_.extract(id);
  if (node.empty()) return;
  const auto [first, last] = by_transfer_.equal_range(node.mapped().transfer);
  for (auto at = first; at != last; ++at) {
    if (at->second != id) continue;
    by_transfer_.erase(at);
    break;
  }
  needs_.buffers.DropUnused(id);
}

void Exports::DropPlanned(BufferId id) {
  const auto found = held_.find(id);
  if (found != held_.end() && found->second.planned_until != os::Clock::time_point()) Drop(id);
}

// What is written goes with its transfer as it is; what is read stays open until its last reader
// has released it.
void Exports::EndTransfer(const TransferId& transfer) {
  for (auto found = by_transfer_.find(transfer); found != by_transfer_.end();
       found = by_transfer_.find(transfer)) {
    Drop(BufferId(found->second));
  }
}

void Exports::Sweep() {
  sweeping_ = false;
  const os::Clock::time_point now = os::Clock::now();
  std::vector<BufferId> over;
  for (const auto& [id, held] : held_) {
    const Buffer* const buffer = needs_.buffers.FindById(id);
    // What is written goes with its transfer, or is dropped where that does not begin.
    const bool wanted =
        buffer != nullptr &&
        (held.use == FileUse::kWrite || !buffer->users.empty() || now < held.planned_until ||
         needs_.tickets.Any(held.initiator, held.transfer) || needs_.under_way(held.transfer));
    if (!wanted) over.push_back(id);
  }
  for (const BufferId id : over) Drop(id);
  if (held_.empty() || std::exchange(sweeping_, true)) return;
  needs_.context.loop.RunAfter(kSweep, [this] { Sweep(); });
}

}  // namespace onecopy::engine
