#include "daemon/engine/registry/restoring.h"

#include <charconv>
#include <map>
#include <memory>
#include <utility>

#include "daemon/engine/base/routes.h"
#include "daemon/log/log.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::engine {
namespace {

constexpr uint64_t kMostLostTold = 100;  // buffers by their names, in the log

Status NotRestored(const std::string& why) {
  return {Code::kNotFound, reasons::kBufferNotFound, why};
}

// Whether the next process cannot restore it either. All other failures can pass: a GPU is missing
// or has no memory left for a context, a limit was lowered, another buffer has the name.
bool IsForEver(const Status& why) {
  return why.reason() == reasons::kBufferNotFound || why.reason() == reasons::kBadHandle;
}

}  // namespace

void Restoring::Run() {
  if (!needs_.held.on()) return;
  left_ = needs_.held.TakeLeft();
  const auto node = left_.records.extract(kNodeKey);
  const bool same = node.empty() || node.mapped() == needs_.context.node();
  if (!same) {
    log::Warning(
        "the buffers of the earlier daemon are gone",
        {{"why", "it was node " + node.mapped() + ", and this is " + needs_.context.node()}});
    for (const auto& [key, text] : left_.records) needs_.records.EraseLeft(key);
    left_.records.clear();
  }
  needs_.records.PutNode(needs_.context.node());
  RestoreBuffers();
  RestoreRights();
  FindArriving();
  FindOrdered();
  // The previous process was making or removing the buffer of this memory.
  for (const auto& [number, fd] : left_.descriptors) needs_.held.Release(number);
  left_ = {};
  if (restored_ == 0 && lost_ == 0) return;
  log::Info("buffers were restored after a restart", {{"buffers", std::to_string(restored_)},
                                                      {"bytes", std::to_string(bytes_)},
                                                      {"grants", std::to_string(granted_)},
                                                      {"lost", std::to_string(lost_)}});
}

void Restoring::RestoreBuffers() {
  // In the order of their ids, so that the table grows from its end.
  std::map<BufferId, std::pair<std::string, BufferRecord>> records;
  for (const auto& [key, text] : left_.records) {
    if (!key.starts_with(kBufferKeys)) continue;
    Result<BufferRecord> record = BufferOfText(text, needs_.context.node());
    if (record.ok()) {
      const BufferId id = record->id;
      if (KeyOf(id) != key) {
        Lose(key, *record, NotRestored("its record is under another buffer's key"));
        continue;
      }
      records.emplace(id, std::pair(key, *std::move(record)));
    } else {
      BufferRecord unknown;
      unknown.name = key;
      Lose(key, unknown, record.status());
    }
  }
  for (const auto& [id, entry] : records) {
    const auto& [key, record] = entry;
    if (record.view_of) continue;
    needs_.held.BeginAbove(record.held.number);
    if (const Status restored = Restore(record); IsForEver(restored)) Lose(key, record, restored);
  }
  // Views after all memory: a view can have a smaller id than its memory.
  for (const auto& [id, entry] : records) {
    const auto& [key, record] = entry;
    if (!record.view_of) continue;
    if (postponed_.contains(*record.view_of)) {
      postponed_.insert(id);
      needs_.buffers.Reserve(id);
      continue;
    }
    const Status restored = RestoreView(record);
    if (restored.reason() == reasons::kQuota || restored.reason() == reasons::kNameTaken) {
      Postpone(record, restored);
    } else if (!restored.ok()) {
      Lose(key, record, restored);
    }
  }
}

// Tickets rest on grants, so grants come first.
void Restoring::RestoreRights() {
  for (const auto& [key, text] : left_.records) {
    if (!key.starts_with(kGrantKeys)) continue;
    const Result<GrantRecord> record = GrantOfText(text, needs_.context.node());
    if (record.ok() && postponed_.contains(record->buffer)) continue;
    Buffer* const buffer = record.ok() ? needs_.buffers.FindById(record->buffer) : nullptr;
    if (buffer != nullptr && needs_.grants.Restore(*buffer, *record)) {
      ++granted_;
    } else {
      needs_.records.EraseLeft(key);
    }
  }
  // Each ticket gets a new number, above all old ones.
  for (const auto& [key, text] : left_.records) {
    if (!key.starts_with(kTicketKeys)) continue;
    uint64_t number = 0;
    const char* const digits = key.data() + std::string(kTicketKeys).size();
    (void)std::from_chars(digits, key.data() + key.size(), number);
    needs_.records.BeginTicketsAbove(number);
  }
  for (const auto& [key, text] : left_.records) {
    if (!key.starts_with(kTicketKeys)) continue;
    const Result<TicketRecord> record = TicketOfText(text, needs_.context.node());
    if (record.ok()) (void)needs_.tickets.Revive(*record);
    needs_.records.EraseLeft(key);
  }
}

void Restoring::FindArriving() {
  for (const auto& [key, text] : left_.records) {
    if (!key.starts_with(kArrivingKeys)) continue;
    Result<ArrivingRecord> record = ArrivingOfText(text, needs_.context.node());
    if (!record.ok()) {
      needs_.records.EraseLeft(kArrivedKeys + key.substr(std::string(kArrivingKeys).size()));
      needs_.records.EraseLeft(key);
      continue;
    }
    const auto arrived = left_.records.find(kArrivedKeys + record->request.id.str());
    uint64_t bytes = 0;
    if (arrived != left_.records.end()) {
      const std::string& digits = arrived->second;
      (void)std::from_chars(digits.data(), digits.data() + digits.size(), bytes);
    }
    arriving_.push_back({*std::move(record), bytes});
  }
  for (const auto& [key, text] : left_.records) {
    if (!key.starts_with(kArrivedKeys)) continue;
    const std::string id = key.substr(std::string(kArrivedKeys).size());
    if (!left_.records.contains(kArrivingKeys + id)) needs_.records.EraseLeft(key);
  }
}

void Restoring::FindOrdered() {
  for (const auto& [key, text] : left_.records) {
    if (!key.starts_with(kOrderedKeys)) continue;
    Result<OrderedRecord> record = OrderedOfText(text, needs_.context.node());
    if (record.ok()) {
      ordered_.push_back(*std::move(record));
    } else {
      needs_.records.EraseLeft(key);
    }
  }
}

Status Restoring::Restore(const BufferRecord& record) {
  if (record.held.number == 0 || !record.held.why.empty()) {
    return NotRestored(record.held.why.empty() ? "it was not held" : record.held.why);
  }
  auto held = left_.descriptors.extract(record.held.number);
  if (held.empty()) return NotRestored("nothing has held its memory");
  const Status restored = Import(record, held.mapped().get());
  if (restored.ok()) {
    ++restored_;
    bytes_ += record.bytes;
  } else if (IsForEver(restored)) {
    needs_.held.Release(record.held.number);
  } else {
    needs_.held.HoldOn(record.held.number, std::move(held.mapped()));
    Postpone(record, restored);
  }
  return restored;
}

Status Restoring::Import(const BufferRecord& record, int fd) {
  Memory* const memory = needs_.context.FindMemory(record.kind);
  if (memory == nullptr) {
    return {Code::kFailedPrecondition, reasons::kNotServed,
            "this onecopyd has no memory of kind " + record.kind};
  }
  ImportRequest request;
  request.form = record.held.form;
  request.device = record.device;
  request.bytes = record.bytes;
  request.offset = record.held.offset;
  request.allocation_bytes = record.held.allocation_bytes;
  request.fd = fd;
  ONECOPY_ASSIGN_OR_RETURN(std::unique_ptr<Region> region, memory->Restore(request));
  const Owner payer = PayerAt(needs_.context.node(), record.owner.node, record.owner);
  Result<Buffer> draft = Draft(record, 0);
  if (draft.ok() && record.peer_room) {
    auto room = needs_.context.ledger.Share(Charged::kPeerBuffers, payer, false, record.bytes);
    if (room.ok()) {
      draft->room = *std::move(room);
    } else {
      draft = room.status();
    }
  }
  if (!draft.ok()) {
    region->Leave();
    return draft.status();
  }
  draft->held = std::make_shared<Held>();
  draft->held->request_id = record.request_id;
  draft->held->request = record.request;
  draft->held->form = record.held;
  needs_.held.Adopt(*region, draft->held);
  const WorkQueue queue(WorkerOf(region->place()), payer);
  draft->region = needs_.context.workers.Share(queue, std::move(region));
  needs_.buffers.PutBack(*std::move(draft));
  // A client repeats its request if the answer was lost. It gets this buffer.
  needs_.maker.Remember(payer, record);
  return OkStatus();
}

Status Restoring::RestoreView(const BufferRecord& record) {
  const Buffer* const memory = needs_.buffers.FindById(*record.view_of);
  if (memory == nullptr) return NotRestored("its memory is gone");
  ONECOPY_RETURN_IF_ERROR(CheckWithin({record.offset, record.bytes}, memory->bytes, "the memory"));
  if (record.array) ONECOPY_RETURN_IF_ERROR(BytesOf(*record.array).status());
  const uint64_t dimensions = record.array ? record.array->shape.size() : 0;
  ONECOPY_ASSIGN_OR_RETURN(Buffer draft, Draft(record, dimensions * 2 * sizeof(uint64_t)));
  draft.region = memory->region;
  draft.held = memory->held;
  needs_.buffers.PutBack(std::move(draft));
  return OkStatus();
}

Result<Buffer> Restoring::Draft(const BufferRecord& record, uint64_t charged_bytes) const {
  ONECOPY_RETURN_IF_ERROR(needs_.buffers.CheckFree(record.id, record.name));
  Buffer draft;
  draft.id = record.id;
  draft.name = record.name;
  draft.owner = record.owner;
  draft.bytes = record.bytes;
  draft.create_time = record.create_time;
  draft.keep_arrivals = record.keep_arrivals;
  draft.view_of = record.view_of;
  draft.offset = record.offset;
  draft.array = record.array;
  const Owner payer = PayerAt(needs_.context.node(), record.owner.node, record.owner);
  // As an administrator's: the previous process allowed it, so one user's limit does not end it.
  ONECOPY_ASSIGN_OR_RETURN(
      draft.charge, needs_.context.ledger.Take(Charged::kBuffers, payer, true, charged_bytes));
  return draft;
}

void Restoring::Postpone(const BufferRecord& record, const Status& why) {
  postponed_.insert(record.id);
  needs_.buffers.Reserve(record.id);
  if (postponed_.size() > kMostLostTold) return;
  log::Warning("a buffer cannot be restored now, and is held for the next start",
               {{"buffer", record.name},
                {"bytes", std::to_string(record.bytes)},
                {"owner", record.owner.ToString()},
                {"why", why.ToString()}});
}

void Restoring::Lose(const std::string& key, const BufferRecord& record, const Status& why) {
  needs_.records.EraseLeft(key);
  if (++lost_ > kMostLostTold) return;
  log::Warning("a buffer is gone since the restart", {{"buffer", record.name},
                                                      {"bytes", std::to_string(record.bytes)},
                                                      {"owner", record.owner.ToString()},
                                                      {"why", why.ToString()}});
}

}  // namespace onecopy::engine
