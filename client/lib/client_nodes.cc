#include <utility>

#include "client/lib/calls/wire.h"
#include "client/lib/session/connection.h"
#include "onecopy/client.h"

namespace onecopy {

using client::CheckText;
using client::Patience;
using NodeStub = v1::NodeService::Stub;

Status Client::Ping() {
  using Response = grpc::health::v1::HealthCheckResponse;
  const auto answer = connection_->Ask(&grpc::health::v1::Health::Stub::Check,
                                       grpc::health::v1::HealthCheckRequest(), Patience::kQuick);
  if (!answer.ok()) return answer.status();
  if (answer->status() == Response::SERVING) return OkStatus();
  return {Code::kUnavailable, reasons::kDraining,
          "the onecopyd in " + run_dir() + " is shutting down"};
}

Result<NodeInfo> Client::GetNode(const std::string& name) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the node's name", name));
  v1::GetNodeRequest request;
  request.set_name(name);
  ONECOPY_ASSIGN_OR_RETURN(const v1::Node node,
                           connection_->Ask(&NodeStub::GetNode, request, Patience::kQuick));
  return client::Read(node);
}

Result<std::vector<ProbeInfo>> Client::ProbeNode(const std::string& name) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the node's name", name));
  v1::ProbeNodeRequest request;
  request.set_name(name);
  ONECOPY_ASSIGN_OR_RETURN(const v1::ProbeNodeResponse response,
                           connection_->Ask(&NodeStub::ProbeNode, request, Patience::kWorking));
  std::vector<ProbeInfo> probes;
  for (const v1::Probe& probe : response.probes()) {
    ONECOPY_ASSIGN_OR_RETURN(ProbeInfo value, client::Read(probe));
    probes.push_back(std::move(value));
  }
  return probes;
}

Result<std::vector<NodeInfo>> Client::ListNodes() {
  return connection_->AskAllPages<NodeInfo>(
      &NodeStub::ListNodes, v1::ListNodesRequest(),
      [](const v1::ListNodesResponse& page) { return page.nodes(); },
      [](const v1::Node& node) { return client::Read(node); });
}

Result<std::vector<ExportInfo>> Client::ListExports(const std::string& node) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the node's name", node));
  v1::ListExportsRequest request;
  request.set_node(node);
  return connection_->AskAllPages<ExportInfo>(
      &NodeStub::ListExports, std::move(request),
      [](const v1::ListExportsResponse& page) { return page.exports(); },
      [](const v1::Export& one) { return client::Read(one); });
}

Status Client::ReleaseDevice(const std::string& device) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the device", device));
  v1::ReleaseDeviceRequest request;
  request.set_device(device);
  return connection_->Call(&NodeStub::ReleaseDevice, request, Patience::kQuick).status();
}

Result<std::string> Client::SetLogLevel(const std::string& level) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the level", level));
  v1::SetLogLevelRequest request;
  request.set_level(level);
  ONECOPY_ASSIGN_OR_RETURN(const v1::SetLogLevelResponse response,
                           connection_->Call(&NodeStub::SetLogLevel, request, Patience::kQuick));
  return response.previous_level();
}

Result<uint64_t> Client::SetDraining(bool draining, bool wait) {
  v1::SetDrainingRequest request;
  request.set_draining(draining);
  request.set_wait(wait);
  ONECOPY_ASSIGN_OR_RETURN(const v1::SetDrainingResponse response,
                           connection_->Call(&NodeStub::SetDraining, request,
                                             wait ? Patience::kWorking : Patience::kQuick));
  return response.running();
}

}  // namespace onecopy
