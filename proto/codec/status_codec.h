// Errors on the wire: a google.rpc.Status whose details are a google.rpc.ErrorInfo (domain
// "onecopy", the reason, the remedy in its metadata) and, where there are any, a RefusalList. Free
// of gRPC: what reads trailing metadata brings the bytes.
#pragma once

#include <cstddef>
#include <string>

#include "google/rpc/status.pb.h"
#include "onecopy/status.h"

namespace onecopy {

// How long an error's message may be on the wire, in bytes; the rest of a longer one is left out.
inline constexpr size_t kMaxMessageBytes = 1024;

// OK becomes the message's default.
google::rpc::Status ToProto(const Status& status);

// Details of another domain, or that cannot be read, are passed over. A number that is not a code
// becomes kUnknown.
Status FromProto(const google::rpc::Status& proto);

// For gRPC's trailing metadata: ToProto's bytes, kept so short that all trailers fit in the 8 KiB
// that gRPC takes by default. To that end the texts of the refusals are shortened, all to one
// length; refusals themselves are left out only where even their names do not fit (about a hundred
// do).
std::string EncodeStatusDetails(const Status& status);

// An error as gRPC reports it. `details` may be empty, foreign or nonsense: then there is no
// reason. kOk gives success, whatever the details say. A connection that went under the call is
// kUnavailable, for which gRPC has other codes, too ("Stream removed").
Status DecodeStatus(int code, const std::string& message, const std::string& details);

}  // namespace onecopy
