#include "daemon/engine/registry/files.h"

#include <memory>
#include <utility>

#include "daemon/engine/base/names.h"
#include "onecopy/reasons.h"
#include "transport/core/contracts/store.h"
#include "transport/core/toolkit/file_copier.h"

namespace onecopy::engine {
namespace {

// Both descriptors of one file.
struct Passed {
  os::PassedFd plain;
  os::PassedFd direct;
};

}  // namespace

Status Files::Check(const TransferRequest& request) const {
  if (request.source.fd_handle != 0 && request.destination.fd_handle != 0) {
    return {Code::kInvalidArgument, reasons::kBadEndpoint, "both ends are files",
            "copy between a file and a buffer"};
  }
  const Endpoint& end = request.source.fd_handle != 0 ? request.source : request.destination;
  if (!end.buffer.empty()) {
    return {Code::kInvalidArgument, reasons::kBadEndpoint,
            "an end names a buffer, " + Printable(end.buffer) + ", and a descriptor"};
  }
  if (!request.more_sources.empty() || !request.more_destinations.empty() ||
      !request.part_of.empty()) {
    return {Code::kInvalidArgument, reasons::kBadEndpoint,
            "a file can be copied only from or to one buffer, not as part of a larger transfer"};
  }
  if (!context_.IsSelf(end.node)) {
    return {Code::kInvalidArgument, reasons::kBadEndpoint,
            "a descriptor of node " + context_.node() + " is not a file of node " + end.node,
            "leave out the node at the end that is a file"};
  }
  if (context_.FindStore(false) != nullptr) return OkStatus();
  return {Code::kFailedPrecondition, reasons::kNotServed, "this onecopyd does not move files"};
}

void Files::Open(const Principal& who, TransferRequest request, Reply<TransferRequest> reply) {
  const bool reads = request.source.fd_handle != 0;
  Endpoint& end = reads ? request.source : request.destination;
  auto passed = std::make_shared<Passed>();
  Status wrong = Check(request);
  for (Endpoint* one : {&request.source, &request.destination}) {
    const uint64_t plain = std::exchange(one->fd_handle, 0);
    const uint64_t direct = std::exchange(one->direct_fd_handle, 0);
    const auto take = [&](uint64_t fd_handle, os::PassedFd& to) {
      if (fd_handle == 0) return;
      Result<os::PassedFd> fd = sessions_.Take(who.session, fd_handle, true);
      if (fd.ok()) to = std::move(*fd);
      if (!fd.ok() && wrong.ok()) wrong = fd.status();
    };
    take(plain, passed->plain);
    take(direct, passed->direct);
  }
  const ClientIdentity* const client = sessions_.Identity(who.session);
  if (!wrong.ok()) return reply(wrong);
  if (client == nullptr) {
    return reply(Status(Code::kUnauthenticated, reasons::kNoSession, "the session has ended"));
  }
  if (end.file.empty()) end.file = "-";
  OpenFileRequest asked;
  asked.fd = passed->plain.get();
  asked.direct_fd = passed->direct.get();
  asked.keeps = passed;
  asked.name = end.file;
  asked.use = reads ? FileUse::kRead : FileUse::kWrite;
  asked.read_back = request.checksum;
  asked.is_new = !reads && end.is_new_file;
  asked.fewest_copies = request.policy.at_most_copies.has_value();
  asked.offset_bytes = end.offset_bytes.value_or(0);
  asked.bytes = end.bytes;
  if (asked.use == FileUse::kWrite && !asked.bytes) asked.bytes = request.source.bytes;
  asked.owner = client->uid.payer();
  asked.gid = client->gid;
  const Endpoint& memory = reads ? request.destination : request.source;
  const bool here = context_.IsSelf(memory.node);
  const Result<Buffer*> other = buffers_.Find(memory.buffer);
  Store* const direct = here && other.ok() && !(*other)->region->place().device.empty()
                            ? context_.FindStore(true)
                            : nullptr;
  auto opening = std::make_shared<Opening>();
  opening->who = who;
  opening->reads = reads;
  opening->kept = reads && !here;
  opening->request = std::move(request);
  opening->reply = std::move(reply);
  opening->asked = asked;
  context_.FindStore(false)->Open(
      std::move(asked), [this, opening, direct](Result<std::shared_ptr<StoreFile>> opened) {
        context_.loop.Post([this, opening, direct, opened = std::move(opened)]() mutable {
          if (!opened.ok()) return opening->reply(opened.status());
          opening->file = std::move(*opened);
          if (direct == nullptr) return Take(*opening, nullptr);
          OpenDirect(opening, *direct);
        });
      });
}

void Files::OpenDirect(const std::shared_ptr<Opening>& opening, Store& direct) {
  direct.OpenDirect(
      std::move(opening->asked), [this, opening](Result<std::shared_ptr<DirectFile>> opened) {
        auto way = std::make_shared<DirectWay>();
        if (opened.ok()) {
          way->file = std::move(*opened);
        } else {
          way->why_not = opened.status();
        }
        context_.loop.Post(
            [this, opening, way = std::move(way)]() mutable { Take(*opening, std::move(way)); });
      });
}

void Files::Take(Opening& opening, std::shared_ptr<const DirectWay> way) {
  TransferRequest& request = opening.request;
  Endpoint& end = opening.reads ? request.source : request.destination;
  Result<BufferId> id = buffers_.AddFile(
      opening.who, end.file, RegionOf(std::move(opening.file), std::move(way)), opening.kept);
  if (!id.ok()) return opening.reply(id.status());
  end.buffer = id->ToString();
  opening.reply(std::move(request));
}

void Files::Settle(const TransferRequest& opened) {
  for (const Endpoint* end : {&opened.source, &opened.destination}) {
    if (!end->file.empty()) buffers_.DropUnused(BufferId::Parse(end->buffer));
  }
}

}  // namespace onecopy::engine
