#include "client/lib/wire.h"

#include <algorithm>

#include "onecopy/reasons.h"
#include "transport/os/machine.h"

namespace onecopy::client {
namespace {

constexpr size_t kMaxTextBytes = 256;

}  // namespace

Status CheckText(std::string_view what, const std::string& text) {
  if (text.size() > kMaxTextBytes) {
    return {Code::kInvalidArgument, reasons::kBadName,
            std::string(what) + " has " + std::to_string(text.size()) + " bytes, more than " +
                std::to_string(kMaxTextBytes)};
  }
  const auto unprintable = [](char c) { return c < 0x20 || c > 0x7e; };
  if (std::any_of(text.begin(), text.end(), unprintable)) {
    return {Code::kInvalidArgument, reasons::kBadName,
            std::string(what) + " has characters other than printable ASCII"};
  }
  return OkStatus();
}

Status CheckTexts(const TransferRequest& request) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the source's node", request.source.node));
  ONECOPY_RETURN_IF_ERROR(CheckText("the source's buffer", request.source.buffer));
  ONECOPY_RETURN_IF_ERROR(CheckText("the destination's node", request.destination.node));
  ONECOPY_RETURN_IF_ERROR(CheckText("the destination's buffer", request.destination.buffer));
  for (const auto* more : {&request.more_sources, &request.more_destinations}) {
    for (const Endpoint& one : *more) {
      ONECOPY_RETURN_IF_ERROR(CheckText("a buffer's node", one.node));
      ONECOPY_RETURN_IF_ERROR(CheckText("a buffer", one.buffer));
    }
  }
  ONECOPY_RETURN_IF_ERROR(CheckText("the path", request.policy.path_glob));
  ONECOPY_RETURN_IF_ERROR(CheckText("the link", request.policy.link));
  return CheckText("the request id", request.request_id);
}

Status CheckTexts(const SeriesRequest& request) {
  for (const Endpoint* end : {&request.source, &request.destination}) {
    ONECOPY_RETURN_IF_ERROR(CheckText("the end's node", end->node));
    ONECOPY_RETURN_IF_ERROR(CheckText("the end's buffer", end->buffer));
  }
  ONECOPY_RETURN_IF_ERROR(CheckText("the path", request.policy.path_glob));
  return CheckText("the link", request.policy.link);
}

std::string ChosenOr(const std::string& request_id) {
  return request_id.empty() ? os::RandomHex(16) : request_id;
}

}  // namespace onecopy::client
