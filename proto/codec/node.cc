#include <array>
#include <string>
#include <utility>

#include "proto/codec/codec.h"
#include "proto/codec/utf8.h"

namespace onecopy::codec {
namespace {

// Both ways by one table.
constexpr std::array<std::pair<NodeState, v1::NodeState>, 4> kNodeStates = {{
    {NodeState::kConnected, v1::CONNECTED},
    {NodeState::kDisconnected, v1::DISCONNECTED},
    {NodeState::kIncompatible, v1::INCOMPATIBLE},
    {NodeState::kDraining, v1::DRAINING},
}};

Result<NodeState> ParseNodeState(v1::NodeState in, const Field& at) {
  for (const auto& [value, message] : kNodeStates) {
    if (message == in) return value;
  }
  if (at.strict()) return BadField(at, "is not a state of a node: " + std::to_string(in));
  return NodeState::kUnknown;
}

v1::NodeState PrintNodeState(NodeState state) {
  for (const auto& [value, message] : kNodeStates) {
    if (value == state) return message;
  }
  return v1::NODE_STATE_UNSPECIFIED;
}

}  // namespace

Result<ProbeInfo> Parse(const v1::Probe& in, const Field& at) {
  for (const auto& [text, name] : {std::pair(&in.node(), "node"), std::pair(&in.link(), "link"),
                                   std::pair(&in.source_memory(), "source_memory"),
                                   std::pair(&in.source_device(), "source_device"),
                                   std::pair(&in.destination_memory(), "destination_memory"),
                                   std::pair(&in.destination_device(), "destination_device"),
                                   std::pair(&in.source_nic(), "source_nic"),
                                   std::pair(&in.destination_nic(), "destination_nic")}) {
    ONECOPY_RETURN_IF_ERROR(CheckText(*text, at / name));
  }
  ONECOPY_RETURN_IF_ERROR(CheckNumber(in.bytes_per_second(), at / "bytes_per_second"));
  ONECOPY_RETURN_IF_ERROR(CheckNumber(in.latency_seconds(), at / "latency_seconds"));
  ProbeInfo value;
  value.node = in.node();
  value.link = in.link();
  value.source_memory = in.source_memory();
  value.source_device = in.source_device();
  value.destination_memory = in.destination_memory();
  value.destination_device = in.destination_device();
  value.source_nic = in.source_nic();
  value.destination_nic = in.destination_nic();
  ONECOPY_ASSIGN_OR_RETURN(value.viability, Parse(in.viability(), at / "viability"));
  value.bytes_per_second = in.bytes_per_second();
  value.latency_seconds = in.latency_seconds();
  ONECOPY_ASSIGN_OR_RETURN(value.time, Parse(in.time(), at / "time"));
  ONECOPY_ASSIGN_OR_RETURN(value.expire_time, Parse(in.expire_time(), at / "expire_time"));
  return value;
}

void Print(const ProbeInfo& value, v1::Probe* out) {
  out->set_node(ToUtf8(value.node));
  out->set_link(ToUtf8(value.link));
  out->set_source_memory(ToUtf8(value.source_memory));
  out->set_source_device(ToUtf8(value.source_device));
  out->set_destination_memory(ToUtf8(value.destination_memory));
  out->set_destination_device(ToUtf8(value.destination_device));
  out->set_source_nic(ToUtf8(value.source_nic));
  out->set_destination_nic(ToUtf8(value.destination_nic));
  Print(value.viability, out->mutable_viability());
  out->set_bytes_per_second(value.bytes_per_second);
  out->set_latency_seconds(value.latency_seconds);
  Print(value.time, out->mutable_time());
  Print(value.expire_time, out->mutable_expire_time());
}

Result<PathRateInfo> Parse(const v1::PathRate& in, const Field& at) {
  for (const auto& [text, name] : {std::pair(&in.path(), "path"), std::pair(&in.link(), "link"),
                                   std::pair(&in.source_memory(), "source_memory"),
                                   std::pair(&in.source_device(), "source_device"),
                                   std::pair(&in.destination_memory(), "destination_memory"),
                                   std::pair(&in.destination_device(), "destination_device")}) {
    ONECOPY_RETURN_IF_ERROR(CheckText(*text, at / name));
  }
  ONECOPY_RETURN_IF_ERROR(CheckNumber(in.bytes_per_second(), at / "bytes_per_second"));
  PathRateInfo value;
  value.path = in.path();
  value.link = in.link();
  value.source_memory = in.source_memory();
  value.source_device = in.source_device();
  value.destination_memory = in.destination_memory();
  value.destination_device = in.destination_device();
  value.source_staged = in.source_staged();
  value.destination_staged = in.destination_staged();
  value.least_bytes = in.least_bytes();
  value.bytes_per_second = in.bytes_per_second();
  value.transfers = in.transfers();
  ONECOPY_ASSIGN_OR_RETURN(value.time, Parse(in.time(), at / "time"));
  return value;
}

void Print(const PathRateInfo& value, v1::PathRate* out) {
  out->set_path(ToUtf8(value.path));
  out->set_link(ToUtf8(value.link));
  out->set_source_memory(ToUtf8(value.source_memory));
  out->set_source_device(ToUtf8(value.source_device));
  out->set_destination_memory(ToUtf8(value.destination_memory));
  out->set_destination_device(ToUtf8(value.destination_device));
  out->set_source_staged(value.source_staged);
  out->set_destination_staged(value.destination_staged);
  out->set_least_bytes(value.least_bytes);
  out->set_bytes_per_second(value.bytes_per_second);
  out->set_transfers(value.transfers);
  Print(value.time, out->mutable_time());
}

Result<Expiry> Parse(const v1::Expiry& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.what(), at / "what", kMaxText));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.file(), at / "file", kMaxText));
  Expiry value;
  value.what = in.what();
  value.file = in.file();
  ONECOPY_ASSIGN_OR_RETURN(value.begin_time, Parse(in.begin_time(), at / "begin_time"));
  ONECOPY_ASSIGN_OR_RETURN(value.expire_time, Parse(in.expire_time(), at / "expire_time"));
  return value;
}

void Print(const Expiry& value, v1::Expiry* out) {
  out->set_what(CutUtf8(ToUtf8(value.what), kMaxText));
  out->set_file(CutUtf8(ToUtf8(value.file), kMaxText));
  Print(value.begin_time, out->mutable_begin_time());
  Print(value.expire_time, out->mutable_expire_time());
}

Result<AccountInfo> Parse(const v1::Account& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.payer(), at / "payer"));
  AccountInfo value;
  value.payer = in.payer();
  ONECOPY_ASSIGN_OR_RETURN(
      value.charges,
      ParseEach(in.charges(), at / "charges",
                [](const v1::Account::Charge& one, const Field& of) -> Result<ChargeInfo> {
                  ONECOPY_RETURN_IF_ERROR(CheckText(one.what(), of / "what"));
                  return ChargeInfo{one.what(), one.count(), one.bytes()};
                }));
  return value;
}

void Print(const AccountInfo& value, v1::Account* out) {
  out->set_payer(ToUtf8(value.payer));
  for (const ChargeInfo& charge : value.charges) {
    v1::Account::Charge& one = *out->add_charges();
    one.set_what(charge.what);
    one.set_count(charge.count);
    one.set_bytes(charge.bytes);
  }
}

Result<NameConflict> Parse(const v1::NameConflict& in, const Field& at) {
  for (const auto& [text, name] : {std::pair<const std::string&, const char*>{in.name(), "name"},
                                   {in.address(), "address"},
                                   {in.other(), "other"},
                                   {in.told_by(), "told_by"}}) {
    ONECOPY_RETURN_IF_ERROR(CheckText(text, at / name));
  }
  return NameConflict{in.name(), in.address(), in.other(), in.told_by()};
}

void Print(const NameConflict& value, v1::NameConflict* out) {
  out->set_name(ToUtf8(value.name));
  out->set_address(ToUtf8(value.address));
  out->set_other(ToUtf8(value.other));
  out->set_told_by(ToUtf8(value.told_by));
}

Result<DiscoveryInfo> Parse(const v1::Discovery& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.kind(), at / "kind"));
  DiscoveryInfo value;
  value.kind = in.kind();
  ONECOPY_ASSIGN_OR_RETURN(value.viability, Parse(in.viability(), at / "viability"));
  value.peers = in.peers();
  value.strangers = in.strangers();
  value.refused = in.refused();
  if (in.has_answer_time()) {
    ONECOPY_ASSIGN_OR_RETURN(value.answer_time, Parse(in.answer_time(), at / "answer_time"));
  }
  return value;
}

void Print(const DiscoveryInfo& value, v1::Discovery* out) {
  out->set_kind(ToUtf8(value.kind));
  Print(value.viability, out->mutable_viability());
  out->set_peers(value.peers);
  out->set_strangers(value.strangers);
  out->set_refused(value.refused);
  if (value.answer_time) Print(*value.answer_time, out->mutable_answer_time());
}

Result<NodeInfo> Parse(const v1::Node& in, const Field& at) {
  for (const auto& [text, name] :
       {std::pair(&in.name(), "name"), std::pair(&in.address(), "address"),
        std::pair(&in.boot_id(), "boot_id"), std::pair(&in.version(), "version"),
        std::pair(&in.reason(), "reason"), std::pair(&in.uid_domain(), "uid_domain")}) {
    ONECOPY_RETURN_IF_ERROR(CheckText(*text, at / name));
  }
  ONECOPY_RETURN_IF_ERROR(CheckText(in.detail(), at / "detail", kMaxText));
  NodeInfo value;
  value.name = in.name();
  value.self = in.self();
  ONECOPY_ASSIGN_OR_RETURN(value.state, ParseNodeState(in.state(), at / "state"));
  value.address = in.address();
  value.boot_id = in.boot_id();
  value.protocol_min = in.protocol_min();
  value.protocol_max = in.protocol_max();
  value.version = in.version();
  value.reason = in.reason();
  value.detail = in.detail();
  ONECOPY_ASSIGN_OR_RETURN(value.since, Parse(in.since(), at / "since"));
  value.uid_domain = in.uid_domain();
  if (in.has_capabilities()) {
    ONECOPY_ASSIGN_OR_RETURN(value.capabilities,
                             Parse(in.capabilities(), in.name(), at / "capabilities"));
  }
  const auto parse = [](const auto& one, const Field& field) { return Parse(one, field); };
  ONECOPY_ASSIGN_OR_RETURN(value.probes, ParseEach(in.probes(), at / "probes", parse));
  value.slow_transfers = in.slow_transfers();
  for (const std::string& address : in.silent_addresses()) {
    ONECOPY_RETURN_IF_ERROR(CheckText(address, at / "silent_addresses"));
    value.silent_addresses.push_back(address);
  }
  ONECOPY_ASSIGN_OR_RETURN(value.path_rates, ParseEach(in.path_rates(), at / "path_rates", parse));
  ONECOPY_ASSIGN_OR_RETURN(value.expiries, ParseEach(in.expiries(), at / "expiries", parse));
  ONECOPY_ASSIGN_OR_RETURN(value.accounts, ParseEach(in.accounts(), at / "accounts", parse));
  if (in.has_metrics()) {
    const Field metrics = at / "metrics";
    ONECOPY_RETURN_IF_ERROR(CheckText(in.metrics().address(), metrics / "address"));
    MetricsInfo& info = value.metrics.emplace();
    info.address = in.metrics().address();
    ONECOPY_ASSIGN_OR_RETURN(info.viability,
                             Parse(in.metrics().viability(), metrics / "viability"));
  }
  ONECOPY_ASSIGN_OR_RETURN(value.conflicts, ParseEach(in.conflicts(), at / "conflicts", parse));
  if (in.has_discovery()) {
    ONECOPY_ASSIGN_OR_RETURN(value.discovery, Parse(in.discovery(), at / "discovery"));
  }
  return value;
}

void Print(const NodeInfo& value, v1::Node* out) {
  out->set_name(ToUtf8(value.name));
  out->set_self(value.self);
  out->set_state(PrintNodeState(value.state));
  out->set_address(ToUtf8(value.address));
  out->set_boot_id(ToUtf8(value.boot_id));
  out->set_protocol_min(value.protocol_min);
  out->set_protocol_max(value.protocol_max);
  out->set_version(ToUtf8(value.version));
  out->set_reason(ToUtf8(value.reason));
  out->set_detail(CutUtf8(ToUtf8(value.detail), kMaxText));
  Print(value.since, out->mutable_since());
  out->set_uid_domain(ToUtf8(value.uid_domain));
  if (value.capabilities) Print(*value.capabilities, out->mutable_capabilities());
  for (const ProbeInfo& probe : value.probes) Print(probe, out->add_probes());
  out->set_slow_transfers(value.slow_transfers);
  for (const std::string& address : value.silent_addresses) {
    out->add_silent_addresses(ToUtf8(address));
  }
  for (const PathRateInfo& rate : value.path_rates) Print(rate, out->add_path_rates());
  for (const Expiry& expiry : value.expiries) Print(expiry, out->add_expiries());
  for (const AccountInfo& account : value.accounts) Print(account, out->add_accounts());
  if (value.metrics) {
    out->mutable_metrics()->set_address(ToUtf8(value.metrics->address));
    Print(value.metrics->viability, out->mutable_metrics()->mutable_viability());
  }
  for (const NameConflict& conflict : value.conflicts) Print(conflict, out->add_conflicts());
  if (value.discovery) Print(*value.discovery, out->mutable_discovery());
}

Result<ExportInfo> Parse(const v1::Export& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.name(), at / "name"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.path(), at / "path", kMaxText));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.node(), at / "node"));
  return ExportInfo{in.node(), in.name(), in.path(), in.read(), in.write()};
}

void Print(const ExportInfo& value, v1::Export* out) {
  out->set_name(ToUtf8(value.name));
  out->set_path(ToUtf8(value.path));
  out->set_read(value.read);
  out->set_write(value.write);
  out->set_node(ToUtf8(value.node));
}

}  // namespace onecopy::codec
