#include "client/cli/doctor_report.h"

#include <algorithm>

#include "client/cli/output/escape.h"

namespace onecopy::cli {
namespace {

using doctor::Severity;

// 0 where it is not known.
Json Known(uint64_t number) { return number == 0 ? Json(nullptr) : Json(number); }
Json Known(const std::optional<bool>& flag) { return flag ? Json(*flag) : Json(nullptr); }

Json PartToJson(const doctor::Part& part) {
  return {{"found", part.found},
          {"version", part.version},
          {"reason", part.reason},
          {"detail", part.detail}};
}

Json PortToJson(const doctor::Port& port) {
  Json gids = Json::array();
  for (const doctor::Gid& gid : port.gids) {
    gids.push_back({{"address", gid.address}, {"type", gid.type}, {"netdev", gid.netdev}});
  }
  return {{"number", port.number},
          {"state", port.state},
          {"link_layer", port.link_layer},
          {"bytes_per_second", Known(port.bytes_per_second)},
          {"gids", std::move(gids)},
          {"netdev", port.netdev},
          {"netdev_mtu", Known(port.netdev_mtu)},
          {"active_mtu", Known(port.active_mtu)},
          {"max_mtu", Known(port.max_mtu)}};
}

Json NicsToJson(const doctor::Facts& facts) {
  Json list = Json::array();
  for (const doctor::Nic& nic : facts.nics) {
    Json ports = Json::array();
    for (const doctor::Port& port : nic.ports) ports.push_back(PortToJson(port));
    list.push_back({{"name", nic.name},
                    {"address", nic.address},
                    {"emulated", nic.emulated},
                    {"ports", std::move(ports)}});
  }
  return list;
}

Json GpusToJson(const doctor::Facts& facts) {
  Json list = Json::array();
  for (const doctor::Gpu& gpu : facts.gpus) {
    list.push_back({{"name", gpu.name},
                    {"uuid", gpu.uuid},
                    {"address", gpu.address},
                    {"total_bytes", Known(gpu.total_bytes)},
                    {"bar1_bytes", Known(gpu.bar1_bytes)},
                    {"dma_buf", Known(gpu.dma_buf)},
                    {"gpu_direct_rdma", Known(gpu.gpu_direct_rdma)},
                    {"persistence", Known(gpu.persistence)},
                    {"direct_peers", gpu.direct_peers}});
  }
  return list;
}

Json MachineToJson(const doctor::Facts& facts) {
  Json files = Json::array();
  for (const doctor::DeviceFile& file : facts.device_files) {
    files.push_back({{"path", file.path}, {"error", file.error}});
  }
  Json iommu = Json::array();
  for (const doctor::Iommu& device : facts.iommu) {
    iommu.push_back({{"address", device.address}, {"type", device.type}});
  }
  const doctor::Kernel& kernel = facts.kernel;
  Json memlock = nullptr;
  if (facts.memlock.known) {
    memlock = facts.memlock.unlimited ? Json("unlimited") : Json(facts.memlock.bytes);
  }
  const Json huge_pages = facts.huge_pages.empty() ? Json(nullptr) : Json(facts.huge_pages);
  return {{"virtual_machine", facts.virtual_machine},
          {"kernel", kernel.release},
          {"kernel_command_line", kernel.command_line},
          {"kernel_options_off", kernel.options_off},
          {"nvidia_peermem", Known(kernel.peermem)},
          {"memlock_bytes", std::move(memlock)},
          {"transparent_huge_pages", huge_pages},
          {"device_files", std::move(files)},
          {"iommu", std::move(iommu)},
          {"acs_redirecting", facts.acs.redirecting},
          {"acs_unreadable", facts.acs.unreadable}};
}

Json DaemonToJson(const doctor::Daemon& daemon) {
  Json peers = Json::array();
  for (const doctor::Peer& peer : daemon.peers) {
    peers.push_back({{"name", peer.name}, {"connected", peer.connected}});
  }
  return {{"answered", daemon.answered},
          {"why_not", daemon.why_not},
          {"run_dir", daemon.run_dir},
          {"node", daemon.capabilities.node},
          {"peers", std::move(peers)}};
}

Json ProbesToJson(const doctor::Facts& facts) {
  Json list = Json::array();
  for (const doctor::Probe& probe : facts.probes) {
    list.push_back({{"link", probe.link},
                    {"nic", probe.nic},
                    {"memory", probe.memory},
                    {"peer", probe.peer},
                    {"peer_nic", probe.peer_nic},
                    {"peer_memory", probe.peer_memory},
                    {"emulated", probe.emulated},
                    {"viable", probe.viable},
                    {"reason", probe.reason},
                    {"detail", probe.detail},
                    {"bytes_per_second", Known(probe.bytes_per_second)},
                    {"expected_bytes_per_second", Known(probe.expected_bytes_per_second)}});
  }
  return list;
}

std::string Verdict(const doctor::Diagnosis& diagnosis) {
  if (diagnosis.works) return "the one-copy path works: " + diagnosis.proof;
  const auto blocking =
      std::count_if(diagnosis.findings.begin(), diagnosis.findings.end(),
                    [](const auto& finding) { return finding.severity == Severity::kBlocks; });
  return "the one-copy path does not work here, or is not proven: " + std::to_string(blocking) +
         (blocking == 1 ? " finding blocks it" : " findings block it");
}

}  // namespace

void PrintDiagnosis(std::ostream& out, const doctor::Diagnosis& diagnosis) {
  for (const doctor::Finding& finding : diagnosis.findings) {
    out << finding.code << "  " << SeverityName(finding.severity) << '\n'
        << "  seen  " << Printable(finding.evidence) << '\n'
        << "  try   " << Printable(finding.remedy) << "\n\n";
  }
  out << Printable(Verdict(diagnosis)) << '\n';
}

Json DiagnosisToJson(const doctor::Diagnosis& diagnosis, const doctor::Facts& facts) {
  Json findings = Json::array();
  for (const doctor::Finding& finding : diagnosis.findings) {
    findings.push_back({{"code", finding.code},
                        {"severity", SeverityName(finding.severity)},
                        {"evidence", finding.evidence},
                        {"remedy", finding.remedy}});
  }
  Json ucx = PartToJson(facts.ucx);
  ucx["modules_folder"] = facts.ucx.modules_folder;
  ucx["modules"] = facts.ucx.modules;
  return {{"works", diagnosis.works},
          {"proof", diagnosis.proof},
          {"findings", std::move(findings)},
          {"facts",
           {{"machine", MachineToJson(facts)},
            {"gpus", GpusToJson(facts)},
            {"nics", NicsToJson(facts)},
            {"topology", ToJson(facts.topology)},
            {"cuda", PartToJson(facts.driver)},
            {"nvml", PartToJson(facts.nvml)},
            {"ibverbs", PartToJson(facts.verbs)},
            {"ucx", std::move(ucx)},
            {"daemon", DaemonToJson(facts.daemon)},
            {"probes", ProbesToJson(facts)}}}};
}

}  // namespace onecopy::cli
