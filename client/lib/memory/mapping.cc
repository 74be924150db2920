#include "client/lib/memory/mapping.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>

#include "client/lib/calls/wire.h"
#include "client/lib/memory/map_cuda.h"
#include "google/rpc/status.pb.h"
#include "onecopy/reasons.h"
#include "onecopy/v1/attach.pb.h"
#include "proto/codec/protocol.h"
#include "proto/codec/status_codec.h"
#include "transport/os/base/error.h"
#include "transport/os/memory/fault_guard.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::client {
namespace {

// Its owner may cut the file short, and must not end this process by that.
class MappedHost final : public MappedMemory {
 public:
  MappedHost(os::Mapping mapping, uint64_t lead)
      : MappedMemory(mapping.data() + lead, {}),
        mapping_(std::move(mapping)),
        guard_(mapping_.data(), mapping_.bytes(), faulted_) {}

  Status CheckIntact() const override {
    if (!*faulted_) return OkStatus();
    return {Code::kAborted, reasons::kMemoryFault,
            "a page of the mapped memory is missing (SIGBUS): its owner truncated the file; the "
            "whole mapping now reads as zeros",
            "close the mapping, and map the buffer again after its owner has registered it again"};
  }

  Status Unmap() override {
    guard_ = os::FaultGuard();
    mapping_ = os::Mapping();
    return OkStatus();
  }

 private:
  const os::FaultFlag faulted_ = std::make_shared<std::atomic<bool>>(false);
  os::Mapping mapping_;
  os::FaultGuard guard_;
};

Result<std::unique_ptr<MappedMemory>> Map(GivenMemory& given, Connection& connection,
                                          const MapOptions& options) {
  if (given.form == "memfd") {
    if (!options.cuda_device) return MapHost(given);
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  "buffer \"" + given.buffer.name + "\" is host memory and belongs to no GPU",
                  "leave out the device; use cudaHostRegister to let kernels use the mapping");
  }
  ONECOPY_ASSIGN_OR_RETURN(const std::shared_ptr<const shim::CudaApi> api, connection.Cuda());
  return MapCuda(api, given, options.cuda_device);
}

}  // namespace

Result<std::unique_ptr<MappedMemory>> MapHost(GivenMemory& given) {
  const int fd = given.allocations.front().fd.get();
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return os::ErrnoStatus(errno, "looking at a buffer's memory");
  // What mappings of it are measured in; more than a page for huge ones.
  const auto page = static_cast<uint64_t>(facts.st_blksize);
  const uint64_t lead = given.offset % page;
  const uint64_t pages = (lead + given.bytes + page - 1) / page;
  ONECOPY_ASSIGN_OR_RETURN(os::Mapping mapping,
                           os::MapShared(fd, pages * page, given.offset - lead));
  return std::unique_ptr<MappedMemory>(std::make_unique<MappedHost>(std::move(mapping), lead));
}

Result<std::unique_ptr<Mapping>> Mapping::Make(std::shared_ptr<Connection> connection,
                                               const std::string& node, const std::string& buffer,
                                               const MapOptions& options) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the node's name", node));
  ONECOPY_RETURN_IF_ERROR(CheckText("the buffer's name", buffer));
  ONECOPY_ASSIGN_OR_RETURN(const SessionRef session, connection->Current());
  if (!session->attach().maps()) {
    return Status(Code::kFailedPrecondition, reasons::kNotServed,
                  session->Peer() + " does not support mapped buffers",
                  "install the same version of onecopyd and of its clients");
  }
  v1::AttachRequest request;
  request.mutable_map_buffer()->set_node(node);
  request.mutable_map_buffer()->set_buffer(buffer);
  std::vector<os::UniqueFd> fds;
  const Result<v1::AttachReply> reply = session->attach().Ask(request, &fds);
  if (!reply.ok()) {
    return connection->ExplainNames(connection->Explain(*session, reply.status()), node, {buffer});
  }
  ONECOPY_ASSIGN_OR_RETURN(GivenMemory given, ReadGiven(*reply, std::move(fds)));
  ONECOPY_ASSIGN_OR_RETURN(std::unique_ptr<MappedMemory> memory, Map(given, *connection, options));
  return std::unique_ptr<Mapping>(new Mapping(std::move(connection), std::move(given.buffer),
                                              std::move(given.lease), std::move(memory)));
}

// Looks and takes nothing, so that polling and asking show the same.
Status Mapping::CheckValid() const {
  if (memory_ != nullptr) ONECOPY_RETURN_IF_ERROR(memory_->CheckIntact());
  std::array<char, kMaxAttachBytes> packet;
  ssize_t got = 0;
  do {
    got = ::recv(lease_.get(), packet.data(), packet.size(), MSG_PEEK | MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return OkStatus();
  google::rpc::Status told;
  if (got > 0 && told.ParseFromArray(packet.data(), static_cast<int>(got))) {
    if (Status why = FromProto(told); !why.ok()) return why;
  }
  return {Code::kUnavailable, reasons::kDaemonUnreachable,
          "the onecopyd in " + connection_->run_dir() + " that has lent the memory of buffer \"" +
              info_.name + "\" has ended",
          "close the mapping, and map the buffer again once onecopyd has it again"};
}

Status Mapping::Unmap() {
  if (memory_ == nullptr) return OkStatus();
  const Status done = memory_->Unmap();
  memory_.reset();
  lease_.Reset();
  return done;
}

}  // namespace onecopy::client
