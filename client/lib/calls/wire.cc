#include "client/lib/calls/wire.h"

#include <algorithm>

#include "onecopy/reasons.h"
#include "onecopy/utf8.h"
#include "proto/codec/utf8.h"
#include "transport/os/machine/machine.h"

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

Status CheckEnd(std::string_view what, const Endpoint& end) {
  ONECOPY_RETURN_IF_ERROR(CheckText(std::string(what) + "'s node", end.node));
  ONECOPY_RETURN_IF_ERROR(CheckText(std::string(what) + "'s buffer", end.buffer));
  if (end.fd_handle != 0 || end.file.empty()) return OkStatus();
  if (end.file.size() > codec::kMaxText) {
    return {Code::kInvalidArgument, reasons::kBadName,
            "the path of " + std::string(what) + "'s file has " + std::to_string(end.file.size()) +
                " bytes, more than " + std::to_string(codec::kMaxText)};
  }
  if (IsUtf8(end.file)) return OkStatus();
  return {Code::kInvalidArgument, reasons::kBadName,
          "the path of " + std::string(what) + "'s file is not UTF-8: " + ToUtf8(end.file),
          "rename the file on its node"};
}

Status CheckTexts(const TransferRequest& request) {
  ONECOPY_RETURN_IF_ERROR(CheckEnd("the source", request.source));
  ONECOPY_RETURN_IF_ERROR(CheckEnd("the destination", request.destination));
  for (const auto* more : {&request.more_sources, &request.more_destinations}) {
    for (const Endpoint& one : *more) ONECOPY_RETURN_IF_ERROR(CheckEnd("another destination", one));
  }
  ONECOPY_RETURN_IF_ERROR(CheckText("the path", request.policy.path_glob));
  ONECOPY_RETURN_IF_ERROR(CheckText("the link", request.policy.link));
  return CheckText("the request id", request.request_id);
}

Status CheckTexts(const SeriesRequest& request) {
  ONECOPY_RETURN_IF_ERROR(CheckEnd("the source", request.source));
  ONECOPY_RETURN_IF_ERROR(CheckEnd("the destination", request.destination));
  ONECOPY_RETURN_IF_ERROR(CheckText("the path", request.policy.path_glob));
  return CheckText("the link", request.policy.link);
}

std::string ShownText(std::string_view text) { return CutUtf8(ToUtf8(text), codec::kMaxText); }

std::string ChosenOr(const std::string& request_id) {
  return request_id.empty() ? os::RandomHex(16) : request_id;
}

}  // namespace onecopy::client
