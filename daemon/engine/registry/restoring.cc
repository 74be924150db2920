#include "daemon/engine/registry/restoring.h"

#include <charconv>
#include <utility>

#include "daemon/log/log.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::engine {
namespace {

// The name of the node stands there: users are users of a node.
constexpr char kNodeKey[] = "node";
constexpr uint64_t kMostLostTold = 100;  // buffers by their names, in the log

Status NotRestored(const std::string& why) {
  return {Code::kNotFound, reasons::kBufferNotFound, why};
}

// Whether the next process could not restore it, either. All else may pass: a GPU that is not there
// now, or has no memory left for a context; a limit that was lowered; a name that another buffer
// has.
bool IsForEver(const Status& why) {
  return why.reason() == reasons::kBufferNotFound || why.reason() == reasons::kBadHandle;
}

}  // namespace

void Restoring::Run() {
  if (!needs_.kept.on()) return;
  left_ = needs_.kept.TakeLeft();
  const auto node = left_.records.extract(kNodeKey);
  const bool same = node.empty() || node.mapped() == needs_.context.node();
  if (!same) {
    log::Warning(
        "the buffers of the earlier daemon are gone",
        {{"why", "it was node " + node.mapped() + ", and this is " + needs_.context.node()}});
    for (const auto& [key, text] : left_.records) needs_.kept.Drop(key, 0);
    left_.records.clear();
  }
  needs_.kept.PutNode(kNodeKey, needs_.context.node());
  RestoreBuffers();
  RestoreRights();
  FindArriving();
  // Memory whose buffer was just being made, or removed.
  for (const auto& [number, fd] : left_.descriptors) needs_.kept.Drop({}, number);
  left_ = {};
  if (restored_ == 0 && lost_ == 0) return;
  log::Info("buffers were restored after a restart", {{"buffers", std::to_string(restored_)},
                                                      {"bytes", std::to_string(bytes_)},
                                                      {"grants", std::to_string(granted_)},
                                                      {"lost", std::to_string(lost_)}});
}

void Restoring::RestoreBuffers() {
  // Memory before its views, which may have smaller ids.
  std::vector<std::pair<std::string, BufferRecord>> views;
  for (const auto& [key, text] : left_.records) {
    if (!key.starts_with(kBufferKeys)) continue;
    Result<BufferRecord> record = BufferOfText(text, needs_.context.node());
    if (!record.ok()) {
      BufferRecord unknown;
      unknown.name = key;
      Lose(key, unknown, record.status());
      continue;
    }
    if (record->view_of) {
      views.emplace_back(key, *std::move(record));
      continue;
    }
    needs_.kept.BeginAbove(record->held.number);
    if (const Status restored = Restore(*record); IsForEver(restored)) Lose(key, *record, restored);
  }
  for (const auto& [key, record] : views) {
    if (postponed_.contains(*record.view_of)) {
      postponed_.insert(record.id);
      needs_.buffers.Reserve(record.id);
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

// Grants before what rests on them.
void Restoring::RestoreRights() {
  for (const auto& [key, text] : left_.records) {
    if (!key.starts_with(kGrantKeys)) continue;
    const Result<GrantRecord> record = GrantOfText(text, needs_.context.node());
    if (record.ok() && postponed_.contains(record->buffer)) continue;
    Buffer* const buffer = record.ok() ? needs_.buffers.FindById(record->buffer) : nullptr;
    if (buffer != nullptr && needs_.grants.Restore(*buffer, *record)) {
      ++granted_;
    } else {
      needs_.kept.Drop(key, 0);
    }
  }
  // Each gets a number of this process, above those that are there.
  for (const auto& [key, text] : left_.records) {
    if (!key.starts_with(kTicketKeys)) continue;
    uint64_t number = 0;
    const char* const digits = key.data() + std::string(kTicketKeys).size();
    (void)std::from_chars(digits, key.data() + key.size(), number);
    needs_.kept.BeginTicketsAbove(number);
  }
  for (const auto& [key, text] : left_.records) {
    if (!key.starts_with(kTicketKeys)) continue;
    const Result<TicketRecord> record = TicketOfText(text, needs_.context.node());
    if (record.ok()) (void)needs_.tickets.Revive(*record);
    needs_.kept.Drop(key, 0);
  }
}

void Restoring::FindArriving() {
  for (const auto& [key, text] : left_.records) {
    if (!key.starts_with(kArrivingKeys)) continue;
    Result<ArrivingRecord> record = ArrivingOfText(text, needs_.context.node());
    if (!record.ok()) {
      needs_.kept.Drop(kArrivedKeys + key.substr(std::string(kArrivingKeys).size()), 0);
      needs_.kept.Drop(key, 0);
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
    if (!left_.records.contains(kArrivingKeys + id)) needs_.kept.Drop(key, 0);
  }
}

Status Restoring::Restore(const BufferRecord& record) {
  if (record.held.number == 0 || !record.held.why.empty()) {
    return NotRestored(record.held.why.empty() ? "it was not held" : record.held.why);
  }
  auto held = left_.descriptors.extract(record.held.number);
  if (held.empty()) return NotRestored("nothing has held its memory");
  Memory* const memory = needs_.context.FindMemory(record.kind);
  Status restored(Code::kFailedPrecondition, reasons::kNotServed,
                  "this onecopyd has no memory of kind " + record.kind);
  if (memory != nullptr) {
    ImportRequest kept;
    kept.form = record.held.form;
    kept.device = record.device;
    kept.bytes = record.bytes;
    kept.offset = record.held.offset;
    kept.allocation_bytes = record.held.allocation_bytes;
    kept.fd = held.mapped().get();
    Result<std::unique_ptr<Region>> region = memory->Restore(kept);
    restored = region.status();
    if (restored.ok()) restored = needs_.buffers.Restore(record, std::move(*region));
  }
  if (restored.ok()) {
    ++restored_;
    bytes_ += record.bytes;
  } else if (IsForEver(restored)) {
    needs_.kept.Drop({}, record.held.number);
  } else {
    needs_.kept.HoldOn(record.held.number, std::move(held.mapped()));
    Postpone(record, restored);
  }
  return restored;
}

Status Restoring::RestoreView(const BufferRecord& record) {
  if (needs_.buffers.FindById(*record.view_of) == nullptr) return NotRestored("its memory is gone");
  return needs_.buffers.RestoreView(record);
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
  needs_.kept.Drop(key, 0);
  if (++lost_ > kMostLostTold) return;
  log::Warning("a buffer is gone since the restart", {{"buffer", record.name},
                                                      {"bytes", std::to_string(record.bytes)},
                                                      {"owner", record.owner.ToString()},
                                                      {"why", why.ToString()}});
}

}  // namespace onecopy::engine
