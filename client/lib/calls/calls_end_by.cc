#include "onecopy/calls_end_by.h"

#include "client/lib/calls/call_limit.h"

namespace onecopy {

CallsEndBy::CallsEndBy(std::optional<Clock::time_point> until)
    : limit_(std::make_unique<client::CallLimit>(until)) {}

CallsEndBy::~CallsEndBy() = default;

}  // namespace onecopy
