// Standard error, to which other code in this process and other processes also write.
#pragma once

#include <memory>

namespace spdlog::sinks {
class sink;
}

namespace onecopy::log {

// Makes descriptor 2 refuse what its reader has no room for, instead of waiting for it: libraries
// write there from threads that serve. Only for pipes and terminals, by opening them again, so that
// other programs that share them do not notice; files do not wait, and what cannot be opened again
// (a socket, another user's pipe) stays as it is. The sink below goes on to wait. Once, before
// there are other threads.
void KeepStandardErrorFromBlocking();

// Whole lines on standard error, each by one call of the kernel, in colours where that is a
// terminal. Waits for room. Not by way of <cstdio>, whose lock the end of the process would then
// wait for.
std::shared_ptr<spdlog::sinks::sink> MakeStandardErrorSink();

}  // namespace onecopy::log
