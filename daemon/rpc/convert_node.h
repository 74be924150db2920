// Nodes and what they can do; see convert_common.h.
#pragma once

#include "daemon/rpc/convert_common.h"
#include "onecopy/v1/node.pb.h"

namespace onecopy::rpc {

// The name of the node is not in the message.
Result<NodeCapability> Parse(const v1::Capabilities& in, const std::string& node, const Field& at);
void Print(const NodeCapability& value, v1::Capabilities* out);

// A node whose capabilities are not known (they have no name of a node) is printed without them.
void Print(const engine::NodeInfo& value, v1::Node* out);
void Print(const engine::Page<engine::NodeInfo>& value, v1::ListNodesResponse* out);
void Print(const std::vector<engine::ProbeInfo>& value, v1::ProbeNodeResponse* out);
void Print(const std::string& previous_level, v1::SetLogLevelResponse* out);

// Requests of NodeService, as the arguments of ClientApi's methods.
Result<std::string> Parse(const v1::GetNodeRequest& in);
Result<engine::PageRequest> Parse(const v1::ListNodesRequest& in);
Result<std::string> Parse(const v1::ProbeNodeRequest& in);
Result<std::string> Parse(const v1::ReleaseDeviceRequest& in);
Result<std::string> Parse(const v1::SetLogLevelRequest& in);

}  // namespace onecopy::rpc
