// What gRPC and protobuf have to say about their own work.
#pragma once

#include <functional>
#include <string>

namespace onecopy::rpc {

// Sends gRPC's log, errors alone and none of handshakes, to `log` instead of to standard error, and
// protobuf's nowhere; for the whole process, once, before the first server or dialer. `log` is
// called on any thread, and never gone again.
void RedirectGrpcLog(std::function<void(const std::string& message)> log);

}  // namespace onecopy::rpc
