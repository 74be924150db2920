#include "daemon/engine/registry/record_texts.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "onecopy/reasons.h"

namespace onecopy {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ArrayShape, dtype, item_bytes, shape, strides)

}  // namespace onecopy

namespace onecopy::engine {
namespace {

using Json = nlohmann::json;

int64_t Microseconds(WallTime time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
}

WallTime TimeOf(int64_t microseconds) {
  return WallTime(
      std::chrono::duration_cast<WallTime::duration>(std::chrono::microseconds(microseconds)));
}

// Clients choose some of these texts. They may be invalid UTF-8, and that must not throw.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Runs `read` on the text's JSON, which throws if a key is missing or has another type.
template <typename Record, typename Read>
Result<Record> Parse(const std::string& text, const Read& read) {
  Status why(Code::kInvalidArgument, reasons::kBadHandle,
             "a record of the earlier daemon cannot be read: " + text.substr(0, 200));
  try {
    Record record;
    if (!read(Json::parse(text), record)) return why;
    return record;
  } catch (const Json::exception&) {
    return why;
  }
}

bool ReadOwner(const Json& json, const char* key, const std::string& node, Owner& owner) {
  const Result<Owner> read = ParseOwner(json.at(key).get<std::string>(), node);
  if (read.ok()) owner = *read;
  return read.ok();
}

bool ReadId(const Json& json, const char* key, BufferId& id) {
  id = BufferId::Parse(json.at(key).get<std::string>());
  return id != BufferId{};
}

Json ToJson(const Endpoint& end) {
  Json json = {{"node", end.node}, {"buffer", end.buffer}};
  if (!end.file.empty()) json["file"] = end.file;
  if (end.offset_bytes) json["offset"] = *end.offset_bytes;
  if (end.bytes) json["bytes"] = *end.bytes;
  return json;
}

Endpoint EndOf(const Json& json) {
  Endpoint end;
  json.at("node").get_to(end.node);
  json.at("buffer").get_to(end.buffer);
  end.file = json.value("file", "");
  if (json.contains("offset")) end.offset_bytes = json.at("offset").get<uint64_t>();
  if (json.contains("bytes")) end.bytes = json.at("bytes").get<uint64_t>();
  return end;
}

Json ToJson(const Policy& policy) {
  Json json = {{"path", policy.path_glob},
               {"link", policy.link},
               {"emulated", policy.allow_emulated},
               {"client_file", policy.client_file}};
  if (policy.at_most_copies) json["at_most_copies"] = *policy.at_most_copies;
  return json;
}

Policy PolicyOf(const Json& json) {
  Policy policy;
  json.at("path").get_to(policy.path_glob);
  json.at("link").get_to(policy.link);
  json.at("emulated").get_to(policy.allow_emulated);
  json.at("client_file").get_to(policy.client_file);
  if (json.contains("at_most_copies")) {
    policy.at_most_copies = json.at("at_most_copies").get<uint32_t>();
  }
  return policy;
}

Json ToJson(const Pacing& pacing) {
  return {{"rate_limit", pacing.rate_limit_bytes_per_second},
          {"priority", NameOf(pacing.priority)}};
}

Pacing PacingOf(const Json& json) {
  Pacing pacing;
  json.at("rate_limit").get_to(pacing.rate_limit_bytes_per_second);
  pacing.priority =
      ParsePriority(json.at("priority").get<std::string>()).value_or(Priority::kNormal);
  return pacing;
}

// Of a record that an earlier version wrote, none.
TraceContext TraceOf(const Json& json) {
  const Result<TraceContext> trace = TraceContext::Parse(json.value("trace", ""));
  return trace.ok() ? *trace : TraceContext();
}

}  // namespace

std::string KeyOf(BufferId id) { return kBufferKeys + id.ToString(); }
std::string KeyOf(const GrantId& id) { return kGrantKeys + id.str(); }
std::string KeyOfTicket(uint64_t number) { return kTicketKeys + std::to_string(number); }

std::string ToText(const BufferRecord& record) {
  Json json = {{"id", record.id.ToString()},
               {"name", record.name},
               {"owner", record.owner.ToString()},
               {"bytes", record.bytes},
               {"created", Microseconds(record.create_time)}};
  if (record.keep_arrivals) json["keep_arrivals"] = true;
  if (record.view_of) {
    json["view_of"] = record.view_of->ToString();
    json["offset"] = record.offset;
    if (record.array) json["array"] = *record.array;
    return Dump(json);
  }
  json["kind"] = record.kind;
  json["device"] = record.device;
  if (record.peer_room) json["peer_room"] = true;
  if (!record.request_id.empty()) {
    json["request_id"] = record.request_id;
    json["request"] = record.request;
  }
  json["held"] = {{"number", record.held.number},
                  {"form", record.held.form},
                  {"offset", record.held.offset},
                  {"allocation_bytes", record.held.allocation_bytes},
                  {"why", record.held.why}};
  return Dump(json);
}

std::string ToText(const GrantRecord& record) {
  Json json = {{"id", record.id.str()},         {"buffer", record.buffer.ToString()},
               {"offset", record.range.offset}, {"bytes", record.range.bytes},
               {"to", record.to.ToString()},    {"read", record.read},
               {"write", record.write}};
  if (record.expire_time) json["expires"] = Microseconds(*record.expire_time);
  return Dump(json);
}

std::string ToText(const TicketRecord& record) {
  Json json = {{"text", record.text},
               {"transfer", record.transfer.str()},
               {"whole", record.whole.str()},
               {"buffer", record.buffer.ToString()},
               {"offset", record.range.offset},
               {"bytes", record.range.bytes},
               {"destination", record.destination_node},
               {"initiator", record.initiator},
               {"owner", record.owner.ToString()}};
  if (record.grant) json["grant"] = record.grant->str();
  return Dump(json);
}

std::string ToText(const ArrivingRecord& record) {
  const StartRequest& request = record.request;
  const Reservation& source = request.reservation;
  return Dump({{"id", request.id.str()},
               {"owner", Owner{request.uid, record.caller}.ToString()},
               {"administrator", request.administrator},
               {"ticket", source.ticket},
               {"source", ToJson(source.source)},
               {"memory", source.memory},
               {"device", source.device},
               {"memory_id", source.memory_id},
               {"destination", ToJson(request.asked.destination)},
               {"policy", ToJson(request.asked.policy)},
               {"checksum", request.asked.checksum},
               {"pacing", ToJson(request.asked.pacing)},
               {"trace", request.asked.trace.str()},
               {"path", record.path},
               {"created", Microseconds(record.create_time)},
               {"resumed_from", record.resumed_from},
               {"vain_starts", record.vain_starts}});
}

std::string ToText(const OrderedRecord& record) {
  const TransferInfo& info = record.info;
  Json json = {{"id", info.id.str()},
               {"role", info.role},
               {"owner", record.owner.ToString()},
               {"source", ToJson(info.source)},
               {"destination", ToJson(info.destination)},
               {"bytes", info.bytes},
               {"trace", info.trace.str()},
               {"created", Microseconds(info.create_time)}};
  if (record.bundle) {
    json["source_buffers"] = info.source_buffers;
    json["destination_buffers"] = info.destination_buffers;
  }
  if (!record.request_id.empty()) {
    json["request_id"] = record.request_id;
    json["request"] = record.request;
  }
  return Dump(json);
}

Result<BufferRecord> BufferOfText(const std::string& text, const std::string& node) {
  return Parse<BufferRecord>(text, [&node](const Json& json, BufferRecord& record) {
    json.at("name").get_to(record.name);
    json.at("bytes").get_to(record.bytes);
    record.create_time = TimeOf(json.at("created").get<int64_t>());
    record.keep_arrivals = json.value("keep_arrivals", false);
    if (!ReadId(json, "id", record.id) || !ReadOwner(json, "owner", node, record.owner)) {
      return false;
    }
    if (json.contains("view_of")) {
      BufferId of;
      json.at("offset").get_to(record.offset);
      if (json.contains("array")) record.array = json.at("array").get<ArrayShape>();
      if (!ReadId(json, "view_of", of)) return false;
      record.view_of = of;
      return true;
    }
    json.at("kind").get_to(record.kind);
    json.at("device").get_to(record.device);
    record.peer_room = json.value("peer_room", false);
    record.request_id = json.value("request_id", "");
    record.request = json.value("request", "");
    const Json& held = json.at("held");
    held.at("number").get_to(record.held.number);
    held.at("form").get_to(record.held.form);
    held.at("offset").get_to(record.held.offset);
    held.at("allocation_bytes").get_to(record.held.allocation_bytes);
    held.at("why").get_to(record.held.why);
    return true;
  });
}

Result<GrantRecord> GrantOfText(const std::string& text, const std::string& node) {
  return Parse<GrantRecord>(text, [&node](const Json& json, GrantRecord& record) {
    record.id = GrantId(json.at("id").get<std::string>());
    json.at("offset").get_to(record.range.offset);
    json.at("bytes").get_to(record.range.bytes);
    json.at("read").get_to(record.read);
    json.at("write").get_to(record.write);
    if (json.contains("expires")) record.expire_time = TimeOf(json.at("expires").get<int64_t>());
    return ReadId(json, "buffer", record.buffer) && ReadOwner(json, "to", node, record.to);
  });
}

Result<TicketRecord> TicketOfText(const std::string& text, const std::string& node) {
  return Parse<TicketRecord>(text, [&node](const Json& json, TicketRecord& record) {
    json.at("text").get_to(record.text);
    record.transfer = TransferId(json.at("transfer").get<std::string>());
    record.whole = TransferId(json.at("whole").get<std::string>());
    json.at("offset").get_to(record.range.offset);
    json.at("bytes").get_to(record.range.bytes);
    json.at("destination").get_to(record.destination_node);
    json.at("initiator").get_to(record.initiator);
    if (json.contains("grant")) record.grant = GrantId(json.at("grant").get<std::string>());
    return !record.text.empty() && !record.transfer.empty() &&
           ReadId(json, "buffer", record.buffer) && ReadOwner(json, "owner", node, record.owner);
  });
}

Result<ArrivingRecord> ArrivingOfText(const std::string& text, const std::string& node) {
  return Parse<ArrivingRecord>(text, [&node](const Json& json, ArrivingRecord& record) {
    StartRequest& request = record.request;
    Owner owner;
    if (!ReadOwner(json, "owner", node, owner)) return false;
    request.id = TransferId(json.at("id").get<std::string>());
    request.uid = owner.uid;
    record.caller = owner.node;
    json.at("administrator").get_to(request.administrator);
    json.at("ticket").get_to(request.reservation.ticket);
    request.reservation.source = EndOf(json.at("source"));
    json.at("memory").get_to(request.reservation.memory);
    json.at("device").get_to(request.reservation.device);
    json.at("memory_id").get_to(request.reservation.memory_id);
    request.asked.destination = EndOf(json.at("destination"));
    request.asked.policy = PolicyOf(json.at("policy"));
    json.at("checksum").get_to(request.asked.checksum);
    if (json.contains("pacing")) request.asked.pacing = PacingOf(json.at("pacing"));
    request.asked.trace = TraceOf(json);
    json.at("path").get_to(record.path);
    record.create_time = TimeOf(json.at("created").get<int64_t>());
    record.resumed_from = json.value("resumed_from", uint64_t{0});
    record.vain_starts = json.value("vain_starts", uint32_t{0});
    const Endpoint& to = request.asked.destination;
    return !request.id.empty() && to.offset_bytes && to.bytes;
  });
}

Result<OrderedRecord> OrderedOfText(const std::string& text, const std::string& node) {
  return Parse<OrderedRecord>(text, [&node](const Json& json, OrderedRecord& record) {
    TransferInfo& info = record.info;
    info.id = TransferId(json.at("id").get<std::string>());
    const int role = json.at("role").get<int>();
    info.role = static_cast<TransferRole>(role);
    info.source = EndOf(json.at("source"));
    info.destination = EndOf(json.at("destination"));
    json.at("bytes").get_to(info.bytes);
    info.trace = TraceOf(json);
    info.create_time = TimeOf(json.at("created").get<int64_t>());
    record.bundle = json.contains("source_buffers");
    if (record.bundle) {
      json.at("source_buffers").get_to(info.source_buffers);
      json.at("destination_buffers").get_to(info.destination_buffers);
    }
    record.request_id = json.value("request_id", "");
    record.request = json.value("request", "");
    if (!ReadOwner(json, "owner", node, record.owner)) return false;
    info.owner = record.owner.ToString();
    const bool known = info.role == TransferRole::kSource ||
                       info.role == TransferRole::kDestination ||
                       info.role == TransferRole::kInitiator;
    return known && !info.id.empty();
  });
}

}  // namespace onecopy::engine
