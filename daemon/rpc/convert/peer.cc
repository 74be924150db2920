#include "daemon/rpc/convert/peer.h"

#include "daemon/rpc/convert/ranges.h"
#include "proto/codec/status_codec.h"
#include "proto/codec/utf8.h"
#include "transport/core/base/name.h"
#include "transport/core/ranges/range_groups.h"

namespace onecopy::rpc {
namespace {

Result<engine::Introduction> ParseIntroduction(const v1::Introduction& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckNodeName(in.node(), at / "node"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.boot_id(), at / "boot_id"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.version(), at / "version"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.address(), at / "address"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.uid_domain(), at / "uid_domain"));
  if (in.protocol_min() > in.protocol_max()) {
    return BadField(at / "protocol_min", "is above protocol_max");
  }
  engine::Introduction value;
  value.node = in.node();
  value.boot_id = in.boot_id();
  value.protocol_min = in.protocol_min();
  value.protocol_max = in.protocol_max();
  value.version = in.version();
  value.address = in.address();
  value.uid_domain = in.uid_domain();
  value.draining = in.draining();
  value.files = in.files();
  value.writes_files = in.writes_files();
  value.generation = in.capabilities_generation();
  if (in.has_capabilities()) {
    ONECOPY_ASSIGN_OR_RETURN(value.capabilities,
                             Parse(in.capabilities(), in.node(), at / "capabilities"));
  }
  return value;
}

void PrintIntroduction(const engine::Introduction& value, v1::Introduction* out) {
  out->set_node(value.node);
  out->set_boot_id(value.boot_id);
  out->set_protocol_min(value.protocol_min);
  out->set_protocol_max(value.protocol_max);
  out->set_version(ToUtf8(value.version));
  out->set_address(ToUtf8(value.address));
  out->set_uid_domain(value.uid_domain);
  out->set_draining(value.draining);
  out->set_files(value.files);
  out->set_writes_files(value.writes_files);
  out->set_capabilities_generation(value.generation);
  if (value.capabilities) Print(*value.capabilities, out->mutable_capabilities());
}

constexpr int kMaxNics = 256;
constexpr auto kParsePeer = [](const auto& in, const Field& at) { return Parse(in, at); };

// Of all parts together there are no more than a client may ask for.
Status CountPieces(const v1::Ranges& ranges, const Field& at, uint64_t* pieces) {
  *pieces += static_cast<uint64_t>(ranges.offset_bytes_size());
  if (*pieces <= kMaxRanges) return OkStatus();
  return BadField(
      at, "are too many: all parts together have " + std::to_string(kMaxRanges) + " at most");
}

}  // namespace

Status CheckNodeName(const std::string& name, const Field& at) {
  if (name.empty()) return BadField(at, "is missing");
  if (IsName(name)) return OkStatus();
  return BadField(at,
                  "is not a node's name: 1 to 63 letters, digits, dots, underscores or dashes, "
                  "beginning with a letter or digit",
                  reasons::kBadName);
}

Result<engine::HelloRequest> Parse(const v1::HelloRequest& in) {
  const Field at;
  if (!in.has_self()) return BadField(at / "self", "is missing");
  ONECOPY_RETURN_IF_ERROR(CheckText(in.known_boot_id(), at / "known_boot_id"));
  engine::HelloRequest value;
  ONECOPY_ASSIGN_OR_RETURN(value.self, ParseIntroduction(in.self(), at / "self"));
  value.known_generation = in.known_generation();
  value.known_boot_id = in.known_boot_id();
  ONECOPY_RETURN_IF_ERROR(CheckText(in.namesake(), at / "namesake"));
  value.namesake = in.namesake();
  return value;
}

void Print(const engine::HelloRequest& value, v1::HelloRequest* out) {
  PrintIntroduction(value.self, out->mutable_self());
  out->set_known_generation(value.known_generation);
  out->set_known_boot_id(value.known_boot_id);
  out->set_namesake(ToUtf8(value.namesake));
}

Result<engine::HelloReply> Parse(const v1::HelloResponse& in) {
  const Field at;
  if (!in.has_self()) return BadField(at / "self", "is missing");
  ONECOPY_ASSIGN_OR_RETURN(engine::Introduction self, ParseIntroduction(in.self(), at / "self"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.namesake(), at / "namesake"));
  return engine::HelloReply{std::move(self), in.namesake()};
}

void Print(const engine::HelloReply& value, v1::HelloResponse* out) {
  PrintIntroduction(value.self, out->mutable_self());
  out->set_namesake(ToUtf8(value.namesake));
}

Result<engine::ReserveRequest> Parse(const v1::ReserveRequest& in) {
  const Field at;
  if (!in.has_source() && in.parts().empty()) return BadField(at / "source", "is missing");
  ONECOPY_RETURN_IF_ERROR(CheckNodeName(in.destination_node(), at / "destination_node"));
  // A request that is only validated has no transfer.
  ONECOPY_RETURN_IF_ERROR(CheckText(in.transfer_id(), at / "transfer_id"));
  engine::ReserveRequest value;
  value.id = TransferId(in.transfer_id());
  ONECOPY_ASSIGN_OR_RETURN(value.uid, ParseUid(in, at));
  value.destination_node = in.destination_node();
  ONECOPY_ASSIGN_OR_RETURN(value.source, Parse(in.source(), at / "source"));
  value.validate_only = in.validate_only();
  value.begun = in.begun();
  if (in.has_source_ranges()) {
    ONECOPY_ASSIGN_OR_RETURN(Layout layout,
                             ParseLayout(in.source_ranges(), "source", at / "source_ranges"));
    value.ranges = std::make_shared<const Layout>(std::move(layout));
  }
  uint64_t pieces = 0;
  ONECOPY_ASSIGN_OR_RETURN(
      value.parts,
      ParseEach(
          in.parts(), at / "parts",
          [&pieces](const v1::SourcePart& one, const Field& of) -> Result<engine::SourcePart> {
            engine::SourcePart part;
            ONECOPY_ASSIGN_OR_RETURN(part.source, Parse(one.source(), of / "source"));
            ONECOPY_RETURN_IF_ERROR(CountPieces(one.ranges(), of / "ranges", &pieces));
            ONECOPY_ASSIGN_OR_RETURN(Layout layout,
                                     ParseLayout(one.ranges(), "source", of / "ranges"));
            part.ranges = std::make_shared<const Layout>(std::move(layout));
            return part;
          }));
  return value;
}

void Print(const engine::ReserveRequest& value, v1::ReserveRequest* out) {
  out->set_transfer_id(value.id.str());
  PrintUid(value.uid, out);
  out->set_destination_node(value.destination_node);
  Print(value.source, out->mutable_source());
  out->set_validate_only(value.validate_only);
  out->set_begun(value.begun);
  if (value.ranges != nullptr) Print(*value.ranges, out->mutable_source_ranges());
  for (const engine::SourcePart& part : value.parts) {
    v1::SourcePart* const part_out = out->add_parts();
    Print(part.source, part_out->mutable_source());
    Print(*part.ranges, part_out->mutable_ranges());
  }
}

namespace {

// What a whole reservation and those of parts have in common.
template <typename Message>
Result<engine::Reservation> ParseReserved(const Message& in, const Field& at, uint64_t* pieces) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.ticket(), at / "ticket"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.memory(), at / "memory"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.device(), at / "device"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.memory_id(), at / "memory_id"));
  engine::Reservation value;
  value.ticket = in.ticket();
  ONECOPY_ASSIGN_OR_RETURN(value.source, Parse(in.source(), at / "source"));
  value.memory = in.memory();
  value.device = in.device();
  value.memory_id = in.memory_id();
  if (in.has_place()) {
    ONECOPY_RETURN_IF_ERROR(CountPieces(in.place(), at / "place", pieces));
    ONECOPY_ASSIGN_OR_RETURN(Layout place, ParseLayout(in.place(), "source", at / "place"));
    value.place = std::make_shared<const Layout>(std::move(place));
  }
  return value;
}

template <typename Message>
void PrintReserved(const engine::Reservation& value, Message* out) {
  out->set_ticket(value.ticket);
  Print(value.source, out->mutable_source());
  out->set_memory(ToUtf8(value.memory));
  out->set_device(ToUtf8(value.device));
  out->set_memory_id(value.memory_id);
  if (value.place != nullptr) Print(*value.place, out->mutable_place());
}

// What is not said, or not known here, counts as the longest way.
FilePass ParsePass(v1::FilePass in) {
  if (in == v1::FILE_PASS_DIRECT) return FilePass::kDirect;
  return in == v1::FILE_PASS_MEMORY ? FilePass::kMemory : FilePass::kPageCache;
}

v1::FilePass PrintPass(FilePass value) {
  switch (value) {
    case FilePass::kDirect:
      return v1::FILE_PASS_DIRECT;
    case FilePass::kMemory:
      return v1::FILE_PASS_MEMORY;
    case FilePass::kPageCache:
    case FilePass::kHostBounce:  // of GPUs' memory alone, which a slot is not
    case FilePass::kGpuBounce:
      break;
  }
  return v1::FILE_PASS_PAGE_CACHE;
}

}  // namespace

Result<engine::Reservation> Parse(const v1::ReserveResponse& in, const Field& at) {
  uint64_t pieces = 0;
  ONECOPY_ASSIGN_OR_RETURN(engine::Reservation value, ParseReserved(in, at, &pieces));
  ONECOPY_ASSIGN_OR_RETURN(value.lifetime, Parse(in.lifetime(), at / "lifetime"));
  if (in.file_pass() != v1::FILE_PASS_UNSPECIFIED) value.file_pass = ParsePass(in.file_pass());
  pieces = 0;  // those of the first part once more
  ONECOPY_ASSIGN_OR_RETURN(
      value.parts,
      ParseEach(in.parts(), at / "parts", [&pieces](const v1::ReservedPart& one, const Field& of) {
        return ParseReserved(one, of, &pieces);
      }));
  return value;
}

Result<engine::Reservation> Parse(const v1::ReserveResponse& in) { return Parse(in, Field()); }

void Print(const engine::Reservation& value, v1::ReserveResponse* out) {
  PrintReserved(value, out);
  Print(value.lifetime, out->mutable_lifetime());
  if (value.file_pass) out->set_file_pass(PrintPass(*value.file_pass));
  for (const engine::Reservation& part : value.parts) PrintReserved(part, out->add_parts());
}

namespace {

Result<engine::StartPart> ParsePart(const v1::StartPart& in, const Field& at, uint64_t* pieces,
                                    uint64_t* places, OverlapBudget* budget) {
  engine::StartPart part;
  ONECOPY_ASSIGN_OR_RETURN(part.reservation,
                           ParseReserved(in.reservation(), at / "reservation", places));
  part.destination = in.destination();
  const Field source_at = at / "source_ranges";
  const Field destination_at = at / "destination_ranges";
  ONECOPY_RETURN_IF_ERROR(CountPieces(in.source_ranges(), source_at, pieces));
  ONECOPY_ASSIGN_OR_RETURN(Layout source, ParseLayout(in.source_ranges(), "source", source_at));
  ONECOPY_ASSIGN_OR_RETURN(Layout destination,
                           ParseLayout(in.destination_ranges(), "destination", destination_at));
  ONECOPY_ASSIGN_OR_RETURN(
      part.ranges, Scatter::Join(std::move(source), std::move(destination), in.ranges(), budget));
  return part;
}

// Nothing, where the request has none. The caller's word that they are apart is not asked.
Status ParseParts(const v1::StartRequest& in, const Field& at, engine::StartRequest* value) {
  const auto& more = in.more_destinations();
  if (static_cast<size_t>(more.size()) >= kMaxBuffers) {
    return BadField(at / "more_destinations", "are too many");
  }
  ONECOPY_ASSIGN_OR_RETURN(
      value->asked.more_destinations,
      ParseEach(more, at / "more_destinations",
                [](const v1::Endpoint& one, const Field& of) { return Parse(one, of); }));
  uint64_t pieces = 0;
  uint64_t places = 0;
  OverlapBudget budget;
  ONECOPY_ASSIGN_OR_RETURN(
      value->parts,
      ParseEach(in.parts(), at / "parts", [&](const v1::StartPart& one, const Field& of) {
        return ParsePart(one, of, &pieces, &places, &budget);
      }));
  std::vector<RangeGroup> groups;
  for (const engine::StartPart& part : value->parts) {
    if (part.destination > value->asked.more_destinations.size()) {
      return BadField(at / "parts", "name a destination that does not exist");
    }
    groups.push_back({0, part.destination, part.ranges});
  }
  return CheckGroupsApart(groups, &budget);
}

void PrintParts(const engine::StartRequest& value, v1::StartRequest* out) {
  for (const Endpoint& one : value.asked.more_destinations) {
    Print(one, out->add_more_destinations());
  }
  for (const engine::StartPart& part : value.parts) {
    v1::StartPart* const part_out = out->add_parts();
    PrintReserved(part.reservation, part_out->mutable_reservation());
    part_out->set_destination(part.destination);
    Print(part.ranges->source, part_out->mutable_source_ranges());
    Print(part.ranges->destination, part_out->mutable_destination_ranges());
    part_out->set_ranges(part.ranges->ranges);
  }
}

}  // namespace

Result<engine::StartRequest> Parse(const v1::StartRequest& in) {
  const Field at;
  if (!in.has_reservation() && in.parts().empty())
    return BadField(at / "reservation", "is missing");
  if (!in.has_destination()) return BadField(at / "destination", "is missing");
  ONECOPY_RETURN_IF_ERROR(CheckText(in.transfer_id(), at / "transfer_id"));
  engine::StartRequest value;
  value.id = TransferId(in.transfer_id());
  ONECOPY_ASSIGN_OR_RETURN(value.uid, ParseUid(in, at));
  ONECOPY_ASSIGN_OR_RETURN(value.reservation, Parse(in.reservation(), at / "reservation"));
  ONECOPY_ASSIGN_OR_RETURN(value.asked.destination, Parse(in.destination(), at / "destination"));
  ONECOPY_ASSIGN_OR_RETURN(value.asked.policy, Parse(in.policy(), at / "policy"));
  value.asked.policy.client_file = in.client_file();
  if (in.has_series()) {
    ONECOPY_ASSIGN_OR_RETURN(value.series, Parse(in.series(), at / "series"));
  }
  value.asked.checksum = in.checksum();
  value.asked.sync = in.sync();
  ONECOPY_ASSIGN_OR_RETURN(value.asked.pacing, Parse(in.pacing(), at / "pacing"));
  ONECOPY_ASSIGN_OR_RETURN(value.asked.trace, codec::ParseTrace(in.trace(), at / "trace"));
  // Nothing left is no mistake here: time passes on the way.
  if (in.has_deadline()) {
    ONECOPY_ASSIGN_OR_RETURN(value.asked.deadline, Parse(in.deadline(), at / "deadline"));
  }
  value.asked.validate_only = in.validate_only();
  ONECOPY_RETURN_IF_ERROR(codec::CheckMessage(in.message(), at / "message"));
  value.asked.message = in.message();
  if (in.has_source_ranges() || in.has_destination_ranges()) {
    ONECOPY_ASSIGN_OR_RETURN(Layout source,
                             ParseLayout(in.source_ranges(), "source", at / "source_ranges"));
    ONECOPY_ASSIGN_OR_RETURN(Layout destination, ParseLayout(in.destination_ranges(), "destination",
                                                             at / "destination_ranges"));
    ONECOPY_ASSIGN_OR_RETURN(value.ranges,
                             Scatter::Join(std::move(source), std::move(destination), in.ranges()));
  }
  value.asked_ranges = in.ranges();
  ONECOPY_RETURN_IF_ERROR(ParseParts(in, at, &value));
  return value;
}

void Print(const engine::StartRequest& value, v1::StartRequest* out) {
  out->set_transfer_id(value.id.str());
  PrintUid(value.uid, out);
  Print(value.reservation, out->mutable_reservation());
  Print(value.asked.destination, out->mutable_destination());
  Print(value.asked.policy, out->mutable_policy());
  out->set_client_file(value.asked.policy.client_file);
  if (value.series) Print(*value.series, out->mutable_series());
  out->set_checksum(value.asked.checksum);
  out->set_sync(value.asked.sync);
  if (value.asked.pacing != Pacing()) Print(value.asked.pacing, out->mutable_pacing());
  out->set_trace(value.asked.trace.str());
  if (value.asked.deadline) Print(*value.asked.deadline, out->mutable_deadline());
  out->set_validate_only(value.asked.validate_only);
  out->set_message(value.asked.message);
  PrintParts(value, out);
  out->set_ranges(value.ranges == nullptr ? value.asked_ranges : value.ranges->ranges);
  if (value.ranges == nullptr) return;
  Print(value.ranges->source, out->mutable_source_ranges());
  Print(value.ranges->destination, out->mutable_destination_ranges());
}

Result<engine::ConnectRequest> Parse(const v1::ConnectRequest& in) {
  const Field at;
  ONECOPY_RETURN_IF_ERROR(CheckText(in.link(), at / "link"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.offer(), at / "offer", codec::kMaxOpaque));
  return engine::ConnectRequest{in.link(), in.offer()};
}

void Print(const engine::ConnectRequest& value, v1::ConnectRequest* out) {
  out->set_link(ToUtf8(value.link));
  out->set_offer(value.offer);
}

Result<engine::ConnectReply> Parse(const v1::ConnectResponse& in) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.answer(), Field() / "answer", codec::kMaxOpaque));
  return engine::ConnectReply{in.answer(), in.connection(), {}};
}

void Print(const engine::ConnectReply& value, v1::ConnectResponse* out) {
  out->set_answer(value.answer);
  out->set_connection(value.connection);
}

Result<engine::PrepareRequest> Parse(const v1::PrepareRequest& in) {
  const Field at;
  ONECOPY_RETURN_IF_ERROR(CheckText(in.ticket(), at / "ticket"));
  if (!in.has_transfer()) return BadField(at / "transfer", "is missing");
  engine::PrepareRequest value;
  value.ticket = in.ticket();
  ONECOPY_ASSIGN_OR_RETURN(value.id, ParseTransferId(in.transfer_id(), at / "transfer_id"));
  value.connection = in.connection();
  value.loan = in.loan();
  value.channel = in.channel();
  value.staged = in.staged();
  value.chunk_bytes = in.chunk_bytes();
  value.places = in.places();
  value.arrived_bytes = in.arrived_bytes();
  value.until_bytes = in.until_bytes();
  if (in.nics_size() > kMaxNics) return BadField(at / "nics", "are too many");
  for (const std::string& nic : in.nics()) {
    ONECOPY_RETURN_IF_ERROR(CheckText(nic, at / "nics"));
    value.nics.push_back(nic);
  }
  // Nothing left is no mistake here: time passes on the way.
  if (in.has_deadline()) {
    ONECOPY_ASSIGN_OR_RETURN(value.deadline, Parse(in.deadline(), at / "deadline"));
  }
  ONECOPY_ASSIGN_OR_RETURN(value.transfer, Parse(in.transfer(), at / "transfer"));
  if (in.has_series()) {
    ONECOPY_ASSIGN_OR_RETURN(value.series, Parse(in.series(), at / "series"));
  }
  return value;
}

void Print(const engine::PrepareRequest& value, v1::PrepareRequest* out) {
  out->set_ticket(value.ticket);
  out->set_transfer_id(value.id.str());
  out->set_connection(value.connection);
  out->set_loan(value.loan);
  out->set_channel(value.channel);
  out->set_staged(value.staged);
  out->set_chunk_bytes(value.chunk_bytes);
  out->set_places(value.places);
  out->set_arrived_bytes(value.arrived_bytes);
  out->set_until_bytes(value.until_bytes);
  for (const std::string& nic : value.nics) out->add_nics(ToUtf8(nic));
  if (value.deadline) Print(*value.deadline, out->mutable_deadline());
  Print(value.transfer, out->mutable_transfer());
  if (value.series) Print(*value.series, out->mutable_series());
}

Result<engine::PrepareReply> Parse(const v1::PrepareResponse& in) {
  engine::PrepareReply value;
  value.lent = {in.lent_offset_bytes(), in.lent_bytes()};
  value.begins_at_bytes = in.begins_at_bytes();
  return value;
}

void Print(const engine::PrepareReply& value, v1::PrepareResponse* out) {
  out->set_lent_offset_bytes(value.lent.offset);
  out->set_lent_bytes(value.lent.bytes);
  out->set_begins_at_bytes(value.begins_at_bytes);
}

Result<engine::FinishRequest> Parse(const v1::FinishRequest& in) {
  ONECOPY_ASSIGN_OR_RETURN(TransferId id,
                           ParseTransferId(in.transfer_id(), Field() / "transfer_id"));
  Status status;
  ONECOPY_RETURN_IF_ERROR(codec::ParseStatus(in.status(), Field() / "status", &status));
  return engine::FinishRequest{std::move(id), std::move(status), in.checksum(), in.channel(),
                               in.unproven()};
}

void Print(const engine::FinishRequest& value, v1::FinishRequest* out) {
  out->set_transfer_id(value.id.str());
  *out->mutable_status() = ToProto(value.status);
  out->set_checksum(value.checksum);
  out->set_channel(value.channel);
  out->set_unproven(value.unproven);
}

Result<engine::FinishReply> Parse(const v1::FinishResponse& in) {
  const Field at;
  ONECOPY_RETURN_IF_ERROR(CheckText(in.checksum(), at / "checksum"));
  engine::FinishReply value;
  ONECOPY_RETURN_IF_ERROR(codec::ParseStatus(in.failure(), at / "failure", &value.failure));
  ONECOPY_ASSIGN_OR_RETURN(value.steps, ParseEach(in.steps(), at / "steps", kParsePeer));
  if (in.block_sums().size() > digest::kMostBlockSums * digest::kDigestBytes) {
    return BadField(at / "block_sums",
                    "has more than " + std::to_string(digest::kMostBlockSums) + " checksums");
  }
  value.checksum = {in.checksum(), {in.block_bytes(), in.block_sums()}};
  value.shared = in.shared();
  ONECOPY_RETURN_IF_ERROR(CheckText(in.storage(), at / "storage"));
  value.storage = in.storage();
  return value;
}

void Print(const engine::FinishReply& value, v1::FinishResponse* out) {
  if (!value.failure.ok()) *out->mutable_failure() = ToProto(value.failure);
  for (const ExecutedStep& step : value.steps) Print(step, out->add_steps());
  out->set_checksum(value.checksum.root);
  out->set_block_bytes(value.checksum.blocks.block_bytes);
  out->set_block_sums(value.checksum.blocks.sums);
  out->set_shared(value.shared);
  out->set_storage(ToUtf8(value.storage));
}

Result<TransferInfo> Parse(const v1::ReportRequest& in) {
  const Field at;
  if (!in.has_transfer()) return BadField(at / "transfer", "is missing");
  return Parse(in.transfer(), at / "transfer");
}

Result<TransferId> Parse(const v1::QueryTransferRequest& in) {
  return ParseTransferId(in.transfer_id(), Field() / "transfer_id");
}

}  // namespace onecopy::rpc
