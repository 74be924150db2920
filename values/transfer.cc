#include <ostream>

#include "onecopy/node.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "onecopy/transfer.h"

namespace onecopy {

std::string Endpoint::ToString() const {
  const std::string& name = file.empty() ? buffer : file;
  std::string text = node.empty() ? name : node + ":" + name;
  if (offset_bytes.has_value() || bytes.has_value()) {
    text += "@" + std::to_string(offset_bytes.value_or(0));
  }
  if (bytes.has_value()) text += "+" + std::to_string(*bytes);
  return text;
}

std::string Receipt::ToString() const {
  std::string text = (path.empty() ? "no path" : path) + ", " + std::to_string(copies()) +
                     (copies() == 1 ? " copy" : " copies");
  if (!link.empty()) text += ", link " + link;
  if (emulated) text += ", emulated";
  if (bytes_per_second > 0) text += ", " + FormatRate(bytes_per_second);
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i].step;
    text += "\n  " + std::to_string(i + 1) + "  " + step.from + " -> " + step.to + "  " + step.by +
            (step.node.empty() ? "" : " on " + step.node) + ", " + FormatBytes(steps[i].bytes);
  }
  if (checksum.has_value()) {
    text += "\n  " + checksum->algorithm + " " + checksum->value +
            (checksum->verified ? ", equal at both ends" : ", not verified");
  }
  return text;
}

std::ostream& operator<<(std::ostream& out, const Receipt& receipt) {
  return out << receipt.ToString();
}

std::string_view StateName(TransferState state) {
  switch (state) {
    case TransferState::kUnknown:
      return "UNKNOWN";
    case TransferState::kPending:
      return "PENDING";
    case TransferState::kRunning:
      return "RUNNING";
    case TransferState::kSucceeded:
      return "SUCCEEDED";
    case TransferState::kFailed:
      return "FAILED";
    case TransferState::kCancelled:
      return "CANCELLED";
    case TransferState::kUnconfirmed:
      return "UNCONFIRMED";
  }
  return "UNKNOWN";
}

bool IsFinal(TransferState state) {
  return state == TransferState::kSucceeded || state == TransferState::kFailed ||
         state == TransferState::kCancelled;
}

std::string_view RoleName(TransferRole role) {
  switch (role) {
    case TransferRole::kUnknown:
      return "unknown";
    case TransferRole::kDestination:
      return "destination";
    case TransferRole::kSource:
      return "source";
    case TransferRole::kInitiator:
      return "initiator";
  }
  return "unknown";
}

std::string_view NodeStateName(NodeState state) {
  switch (state) {
    case NodeState::kUnknown:
      return "UNKNOWN";
    case NodeState::kConnected:
      return "CONNECTED";
    case NodeState::kDisconnected:
      return "DISCONNECTED";
    case NodeState::kIncompatible:
      return "INCOMPATIBLE";
    case NodeState::kDraining:
      return "DRAINING";
  }
  return "UNKNOWN";
}

Status OutcomeOf(const TransferInfo& transfer) {
  if (transfer.state == TransferState::kSucceeded) return OkStatus();
  const std::string what = "transfer " + transfer.id.str();
  if (!transfer.error.ok()) return transfer.error.WithContext(what);
  switch (transfer.state) {
    case TransferState::kCancelled:
      return {Code::kCancelled, reasons::kCancelled, what + " was cancelled"};
    case TransferState::kUnconfirmed:
      return {Code::kDeadlineExceeded, reasons::kUnconfirmed,
              what + " may have arrived: the destination did not report in time",
              "check it with `onecopy transfer show " + transfer.id.str() + "`"};
    case TransferState::kFailed:
      return {Code::kUnknown, reasons::kInternal, what + " failed, and the daemon gave no reason"};
    default:
      return {Code::kInternal, reasons::kInternal,
              what + " has not ended: it is " + std::string(StateName(transfer.state))};
  }
}

}  // namespace onecopy
