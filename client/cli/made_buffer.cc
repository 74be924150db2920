#include "client/cli/made_buffer.h"

#include <sys/stat.h>

#include <cerrno>

#include "client/cli/output/escape.h"
#include "onecopy/reasons.h"
#include "transport/os/base/error.h"

namespace onecopy::cli {
namespace {

using Kind = ParsedEndpoint::Kind;

Result<uint64_t> WholeBytes(Client& client, const ParsedEndpoint& source) {
  if (source.kind == Kind::kBuffer) {
    ONECOPY_ASSIGN_OR_RETURN(const BufferInfo buffer, client.GetBuffer(source.node, source.name));
    return buffer.bytes;
  }
  struct stat file {};
  if (::stat(source.path.c_str(), &file) != 0) {
    return os::ErrnoStatus(errno, "looking at " + source.path);
  }
  if (S_ISREG(file.st_mode)) return static_cast<uint64_t>(file.st_size);
  return Status(Code::kInvalidArgument, reasons::kBadSize,
                Quote(source.typed) + " has no known length before it is read",
                "make the buffer first: onecopy buffer create NODE:NAME --size SIZE");
}

}  // namespace

Result<uint64_t> BytesOf(Client& client, const ParsedEndpoint& source) {
  if (source.kind == Kind::kStream) {
    return Status(Code::kInvalidArgument, reasons::kBadSize,
                  "standard input has no known length before it is read",
                  "make the buffer first: onecopy buffer create NODE:NAME --size SIZE");
  }
  if (source.kind == Kind::kRemoteFile) {
    if (source.bytes.value_or(0) > 0) return *source.bytes;
    return Status(Code::kInvalidArgument, reasons::kBadSize,
                  "cannot determine the size of " + Quote(source.typed),
                  "give the range:  " + Quote(source.typed + "@0+LENGTH"));
  }
  ONECOPY_ASSIGN_OR_RETURN(const uint64_t whole, WholeBytes(client, source));
  const uint64_t offset = source.offset_bytes.value_or(0);
  if (offset > whole || source.bytes.value_or(0) > whole - offset) {
    return Status(Code::kOutOfRange, reasons::kRangeOutOfBuffer,
                  Quote(source.typed) + " does not lie inside its source, which has  " +
                      std::to_string(whole) + " bytes");
  }
  const uint64_t bytes = source.bytes.value_or(whole - offset);
  if (bytes > 0) return bytes;
  return Status(Code::kInvalidArgument, reasons::kBadSize,
                Quote(source.typed) + " is empty, and a buffer needs at least one byte");
}

Result<BufferInfo> MakeBuffer(Client& client, const ParsedEndpoint& where, uint64_t bytes,
                              const std::string& memory) {
  if (where.kind != Kind::kBuffer || where.offset_bytes.has_value()) {
    return Status(
        Code::kInvalidArgument, reasons::kBadEndpoint,
        "--create makes a whole buffer, and " + Quote(where.typed) + " is not a whole buffer",
        "write NODE:NAME or NAME as DST");
  }
  CreateBufferRequest request;
  request.node = where.node;
  request.name = where.name;
  request.bytes = bytes;
  request.memory = memory;
  Result<BufferInfo> made = client.CreateBuffer(request);
  return made.ok() ? made : AdviseOnCreation(made.status());
}

Status AdviseOnCreation(const Status& failure) {
  if (failure.code() == Code::kDeadlineExceeded) {
    return {failure.code(), failure.reason(),
            failure.message() + "; the new buffer may be created nevertheless",
            "look for it with `onecopy buffer ls`, and remove it or copy into it without --create"};
  }
  if (failure.reason() != reasons::kNameTaken) return failure;
  return {failure.code(), failure.reason(), failure.message(),
          "leave out --create to copy into it, choose another name, or remove it first"};
}

Status Unmake(Client& client, const BufferInfo& made, const Status& why) {
  const Status removed = client.DeleteBuffer(made.id, true, made.node);
  if (removed.ok()) return why;
  return {why.code(), why.reason(),
          why.message() + "; and buffer " + made.node + ":" + made.name +
              ", which this copy created, could not be removed: " + removed.message(),
          why.remedy()};
}

}  // namespace onecopy::cli
