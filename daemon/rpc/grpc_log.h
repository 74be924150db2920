// What gRPC has to say about its own work.
#pragma once

#include <functional>
#include <string>

namespace onecopy::rpc {

// Sends gRPC's log, errors alone, to `log` instead of to standard error; for the whole process,
// once, before the first server or dialer. `log` is called on any thread, and never gone again.
void RedirectGrpcLog(std::function<void(const std::string& message)> log);

}  // namespace onecopy::rpc
