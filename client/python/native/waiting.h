// Blocking calls of the client library, made so that Python goes on meanwhile.
#pragma once

#include <chrono>
#include <functional>
#include <stop_token>

#include "onecopy/client.h"

namespace onecopy::python {

// How often a call that waits looks for signals: a signal's handler in C only notes the signal.
inline constexpr std::chrono::milliseconds kSignalsEvery{20};

// Whether this is the thread on which Python runs signal handlers. Needs the GIL.
bool IsMainThread();

using OnUpdate = std::function<void(const TransferInfo&)>;  // needs the GIL; may throw
using Blocking =
    std::function<Result<TransferInfo>(const Client::OnUpdate& on_update, std::stop_token stop)>;

// Runs `call` without the GIL, which the caller holds, and returns what it returns. On the main
// thread, and where there is an `on_update`, the call runs on a thread of its own while this one
// handles signals and calls on_update with the newest state; what a signal's handler or on_update
// throws requests a stop, waits for the call's end, and goes on to the caller. `stop` requests one,
// too.
Result<TransferInfo> Wait(const Blocking& call, const OnUpdate& on_update,
                          const std::stop_source& stop);

// The same of one that is under way, whose thread is the library's.
Result<TransferInfo> Wait(const TransferFuture& future, const std::stop_token& stop);

// The same of one that `begin` begins, without the GIL, too. If the end comes before it is time to
// look for signals, the GIL was given up only once, and nobody asked which thread this is.
using Begin = std::function<Result<TransferFuture>()>;
Result<TransferInfo> Wait(const Begin& begin, const std::stop_token& stop);

}  // namespace onecopy::python
