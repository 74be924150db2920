#include "daemon/engine/api/types.h"

namespace onecopy::engine {

std::string Endpoint::ToString() const {
  const std::string& name = file.empty() ? buffer : file;
  std::string text = node.empty() ? name : node + ":" + name;
  if (offset || bytes) text += "@" + std::to_string(offset.value_or(0));
  if (bytes) text += "+" + std::to_string(*bytes);
  return text;
}

std::string_view StateName(TransferState state) {
  switch (state) {
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

std::string_view NodeStateName(NodeState state) {
  switch (state) {
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

}  // namespace onecopy::engine
