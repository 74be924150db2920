#include "transport/os/base/error.h"

#include <cerrno>
#include <cstring>

#include "onecopy/reasons.h"

namespace onecopy::os {
namespace {

struct Meaning {
  Code code;
  std::string_view reason;
};

Meaning MeaningOf(int error) {
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
      return {Code::kPermissionDenied, reasons::kAccessDenied};
    case ENOENT:
    case ENOTDIR:
      return {Code::kNotFound, reasons::kFileNotFound};
    case EEXIST:
      return {Code::kAlreadyExists, reasons::kNameTaken};
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return {Code::kResourceExhausted, reasons::kNoSpace};
    case ENOMEM:
      return {Code::kResourceExhausted, reasons::kNoMemory};
    case ENFILE:
    case EMFILE:
    case ETOOMANYREFS:  // that lie in sockets and were not taken yet
      return {Code::kResourceExhausted, reasons::kOpenFiles};
    case EINVAL:
    case EISDIR:
    case ENAMETOOLONG:
    case EBADF:
      return {Code::kInvalidArgument, reasons::kBadArgument};
    case EFAULT:
      return {Code::kAborted, reasons::kMemoryFault};
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
    case ETIMEDOUT:
      return {Code::kUnavailable, reasons::kLinkDown};
    case EADDRNOTAVAIL:
      return {Code::kUnavailable, reasons::kBadEndpoint};
    case EADDRINUSE:
      return {Code::kUnavailable, reasons::kNameTaken};
    default:
      return {Code::kInternal, reasons::kIo};
  }
}

}  // namespace

std::string ErrnoText(int error) {
  char buffer[128];
  std::string text = ::strerror_r(error, buffer, sizeof buffer);  // the GNU one: returns the text
  if (const char* name = ::strerrorname_np(error); name != nullptr) {
    text += std::string(" (") + name + ")";
  }
  return text;
}

Status ErrnoStatus(int error, const std::string& what, const std::string& remedy) {
  const Meaning meaning = MeaningOf(error);
  const bool open_files = meaning.reason == reasons::kOpenFiles && remedy.empty();
  return {meaning.code, meaning.reason, what + ": " + ErrnoText(error),
          open_files ? "close some files, or raise the limit on open ones (ulimit -n, LimitNOFILE=)"
                     : remedy};
}

}  // namespace onecopy::os
