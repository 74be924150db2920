#include "daemon/engine/registry/buffers.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "daemon/engine/base/names.h"
#include "daemon/engine/base/paging.h"
#include "daemon/log/log.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::engine {
namespace {

// More than there can be buffers, so that the id of a damaged record cannot make the table huge.
constexpr uint32_t kMostSlots = 1U << 22;

Status InUse(const Buffer& buffer) {
  if (buffer.users.empty() && buffer.mapped_by.empty()) {
    return {Code::kFailedPrecondition, reasons::kBufferInUse,
            "buffer \"" + buffer.name + "\" has " + std::to_string(buffer.views.size()) +
                " view(s) of its memory, the first of them " + buffer.views.begin()->ToString(),
            "remove the views first, or use --force, which removes them too"};
  }
  if (buffer.users.empty()) {
    return {Code::kFailedPrecondition, reasons::kBufferInUse,
            "buffer \"" + buffer.name + "\" is mapped by " +
                std::to_string(buffer.mapped_by.size()) + " client(s), the first of them " +
                buffer.mapped_by.begin()->second,
            "have the clients close their mappings, or use --force, which revokes them"};
  }
  return {Code::kFailedPrecondition, reasons::kBufferInUse,
          "buffer \"" + buffer.name + "\" is used by " + std::to_string(buffer.users.size()) +
              " transfer(s), the first of them " + buffer.users.begin()->str(),
          "wait for the transfers, cancel them, or use --force"};
}

// The kind of memory. The memory of a process counts as "host" or "cuda", although the process
// itself copies it.
std::string MemoryOf(const Buffer& buffer) {
  const std::string& kind = buffer.region->place().kind;
  if (!IsOfProcess(kind)) return kind;
  return kind == kProcessGpuKind ? "cuda" : "host";
}

}  // namespace

Status Buffers::CheckNew(const std::string& name) const {
  ONECOPY_RETURN_IF_ERROR(CheckName(name, "buffer"));
  if (by_name_.contains(name) || making_.contains(name)) {
    return {Code::kAlreadyExists, reasons::kNameTaken,
            "node " + context_.node() + " has a buffer \"" + name + "\" already",
            "choose another name, or remove that one"};
  }
  return OkStatus();
}

std::string Buffers::ChooseName(const SessionId& session) {
  const ClientIdentity* const client = sessions_.Identity(session);
  const std::string number = std::to_string(next_name_++);
  return client == nullptr ? "view-" + number
                           : "client-" + std::to_string(client->pid) + "-" + number;
}

Buffer& Buffers::Add(Buffer draft) { return Enter(Place(std::move(draft))); }

Buffer& Buffers::Enter(Buffer& buffer) {
  by_name_[buffer.name] = buffer.id;
  by_owner_[buffer.owner].insert(buffer.name);
  Count(buffer, true);
  Record(buffer);
  return buffer;
}

void Buffers::Record(const Buffer& buffer) {
  if (buffer.held == nullptr) return;
  BufferRecord record;
  record.id = buffer.id;
  record.name = buffer.name;
  record.owner = buffer.owner;
  record.kind = buffer.region->place().kind;
  record.device = buffer.region->place().device;
  record.bytes = buffer.bytes;
  record.create_time = buffer.create_time;
  record.keep_arrivals = buffer.keep_arrivals;
  record.peer_room = buffer.room != nullptr;
  record.request_id = buffer.held->request_id;
  record.request = buffer.held->request;
  record.held = buffer.held->form;
  record.view_of = buffer.view_of;
  record.offset = buffer.offset;
  record.array = buffer.array;
  records_.Put(record);
}

void Buffers::Record(BufferId id) {
  if (const Buffer* const buffer = FindById(id)) Record(*buffer);
}

std::vector<HeldMemory::Holding> Buffers::ToHold() const {
  std::vector<HeldMemory::Holding> all;
  for (const Slot& slot : slots_) {
    const bool held = slot.buffer && slot.buffer->held != nullptr && !slot.buffer->view_of &&
                      slot.buffer->held->form.number != 0;
    if (!held) continue;
    const Buffer& buffer = *slot.buffer;
    all.push_back({buffer.id, buffer.name, buffer.region, buffer.held, buffer.held->form});
  }
  return all;
}

Status Buffers::CheckFree(BufferId id, const std::string& name) const {
  ONECOPY_RETURN_IF_ERROR(CheckNew(name));
  if (id.slot < kMostSlots && (id.slot >= slots_.size() || !slots_[id.slot].buffer)) {
    return OkStatus();
  }
  return {Code::kAlreadyExists, reasons::kNameTaken,
          "another buffer has the id " + id.ToString() + ", or no buffer can have it"};
}

void Buffers::Reserve(BufferId id) {
  if (id.slot >= kMostSlots) return;
  while (slots_.size() <= id.slot) {
    free_slots_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.push_back({first_generation_, std::nullopt});
  }
  std::erase(free_slots_, id.slot);
}

void Buffers::PutBack(Buffer draft) {
  const BufferId id = draft.id;
  Reserve(id);
  slots_[id.slot].generation = id.generation;
  const Buffer& buffer = Enter(slots_[id.slot].buffer.emplace(std::move(draft)));
  if (buffer.view_of) FindById(*buffer.view_of)->views.insert(id);
}

void Buffers::Count(const Buffer& buffer, bool comes) {
  if (buffer.view_of) {
    figures_.views += comes ? 1 : -1;
    return;
  }
  const auto place =
      figures_.buffers
          .try_emplace({MemoryOf(buffer), buffer.region->place().device, buffer.registered})
          .first;
  place->second.transfers += comes ? 1 : -1;
  place->second.bytes += comes ? buffer.bytes : -buffer.bytes;
  if (place->second.transfers == 0) figures_.buffers.erase(place);
}

Result<BufferId> Buffers::AddView(const Principal& who, Buffer draft) {
  Buffer* const memory = FindById(*draft.view_of);
  if (memory == nullptr || !memory->removing.ok()) {
    return Status(Code::kNotFound, reasons::kBufferNotFound,
                  "the buffer of the view is being removed");
  }
  if (draft.name.empty()) draft.name = ChooseName(who.session);
  ONECOPY_RETURN_IF_ERROR(CheckNew(draft.name));
  const uint64_t dimensions = draft.array ? draft.array->shape.size() : 0;
  ONECOPY_ASSIGN_OR_RETURN(
      draft.charge,
      context_.ledger.Take(Charged::kBuffers, PayerAt(context_.node(), who.node, draft.owner),
                           who.administrator, dimensions * 2 * sizeof(uint64_t)));
  const BufferId id = Add(std::move(draft)).id;
  FindById(*FindById(id)->view_of)->views.insert(id);
  return id;
}

Buffer& Buffers::Place(Buffer draft) {
  uint32_t slot = 0;
  if (free_slots_.empty()) {
    slot = static_cast<uint32_t>(slots_.size());
    slots_.push_back({first_generation_, std::nullopt});
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  draft.id = {slot, ++slots_[slot].generation};
  draft.create_time = std::chrono::system_clock::now();
  if (draft.registered) by_session_[draft.session].insert(draft.id);
  return slots_[slot].buffer.emplace(std::move(draft));
}

Buffer* Buffers::FindById(BufferId id) {
  if (id.slot >= slots_.size() || slots_[id.slot].generation != id.generation) return nullptr;
  return slots_[id.slot].buffer ? &*slots_[id.slot].buffer : nullptr;
}

Result<Buffer*> Buffers::Find(const std::string& name, bool files) {
  const auto named = by_name_.find(name);
  // No name is an id, since ids begin with a digit, hold one dot and nothing but digits; where one
  // does, it wins.
  Buffer* buffer =
      named != by_name_.end() ? FindById(named->second) : FindById(BufferId::Parse(name));
  const bool meant = buffer != nullptr && (files || !buffer->file);
  if (meant && buffer->removing.ok()) return buffer;
  return Status(Code::kNotFound, reasons::kBufferNotFound,
                "node " + context_.node() + " has no buffer \"" + Printable(name) + "\"",
                "see `onecopy buffer ls " + context_.node() + "`, or create it on node " +
                    context_.node() + ": `onecopy buffer create " + Printable(name) +
                    " --size SIZE`");
}

std::set<BufferId> Buffers::RegisteredBy(const SessionId& session) const {
  const auto of = by_session_.find(session);
  return of == by_session_.end() ? std::set<BufferId>() : of->second;
}

void Buffers::Hold(BufferId id, const TransferId& transfer) {
  if (Buffer* buffer = FindById(id)) buffer->users.insert(transfer);
}

void Buffers::Release(BufferId id, const TransferId& transfer) {
  Buffer* buffer = FindById(id);
  if (buffer == nullptr) return;
  buffer->users.erase(transfer);
  const bool over = (buffer->file && !buffer->kept) || !buffer->removing.ok();
  if (over && IsIdle(*buffer)) Erase(*buffer);
}

void Buffers::Remove(BufferId id, bool force, Status why, StatusReply done) {
  Buffer* buffer = FindById(id);
  if (buffer == nullptr) return done(OkStatus());
  if (!force && (!IsIdle(*buffer) || !buffer->mapped_by.empty())) return done(InUse(*buffer));
  removals_[id].push_back(std::move(done));
  if (!buffer->removing.ok()) return;
  buffer->removing = why;
  if (IsIdle(*buffer)) return Erase(*buffer);
  const std::set<TransferId> users = buffer->users;
  const std::set<BufferId> views = buffer->views;
  for (const BufferId view : views) Remove(view, true, why, [](const Status&) {});
  for (const TransferId& transfer : users) evict_(transfer, why);
}

void Buffers::EndSession(const SessionId& session) {
  for (const BufferId id : RegisteredBy(session)) {
    const Buffer* buffer = FindById(id);
    if (buffer == nullptr) continue;
    Remove(id, true,
           {Code::kAborted, reasons::kOwnerDied,
            "the client that registered buffer \"" + buffer->name + "\" has gone"},
           [](const Status&) {});
  }
}

void Buffers::Erase(Buffer& buffer) {
  const BufferId id = buffer.id;
  const Status why = buffer.removing;
  if (buffer.held != nullptr) {
    records_.Erase(id);
    if (!buffer.view_of) buffer.held->over = true;
  }
  if (!buffer.file) {
    Count(buffer, false);
    by_name_.erase(buffer.name);
    const auto owned = by_owner_.find(buffer.owner);
    owned->second.erase(buffer.name);
    if (owned->second.empty()) by_owner_.erase(owned);
  }
  if (const auto of = by_session_.find(buffer.session); of != by_session_.end()) {
    of->second.erase(id);
    if (of->second.empty()) by_session_.erase(of);
  }
  const std::optional<BufferId> view_of = buffer.view_of;
  slots_[id.slot].buffer.reset();
  free_slots_.push_back(id.slot);
  if (removed_) removed_(id, why);
  auto removal = removals_.extract(id);
  if (!removal.empty()) {
    for (StatusReply& done : removal.mapped()) done(OkStatus());
  }
  Buffer* const memory = view_of ? FindById(*view_of) : nullptr;
  if (memory == nullptr) return;
  memory->views.erase(id);
  // That went first, and has waited for its views.
  if (!memory->removing.ok() && IsIdle(*memory)) Erase(*memory);
}

BufferInfo Buffers::Describe(const Buffer& buffer) const {
  BufferInfo info;
  info.node = context_.node();
  info.name = buffer.name;
  info.id = buffer.id.ToString();
  info.memory = MemoryOf(buffer);
  info.device = buffer.region->place().device;
  info.bytes = buffer.bytes;
  info.owner = buffer.owner.ToString();
  info.registered = buffer.registered;
  info.create_time = buffer.create_time;
  info.transfers = static_cast<uint32_t>(buffer.users.size());
  info.keep_arrivals = buffer.keep_arrivals;
  info.form = buffer.region->form().empty() ? buffer.form : buffer.region->form();
  if (buffer.view_of) info.view_of = buffer.view_of->ToString();
  info.offset_bytes = buffer.offset;
  info.array = buffer.array;
  return info;
}

Buffers::Names Buffers::NamesOf(const Owners& owners, const Principal& who) const {
  Names names;
  owners.ForEachSame(by_owner_, OwnerOf(who),
                     [&](const Names& of_one) { names.insert(of_one.begin(), of_one.end()); });
  return names;
}

Result<Page<BufferInfo>> Buffers::List(const PageRequest& page, const Names& names) const {
  return TakePage<BufferInfo>(
      page, names, [](const std::string& name) { return name; },
      [](const std::string&) { return true; },
      [&](const std::string& name) { return Describe(*slots_[by_name_.at(name).slot].buffer); });
}

Result<Page<BufferInfo>> Buffers::ListAll(const PageRequest& page) const {
  return TakePage<BufferInfo>(
      page, by_name_, [](const auto& entry) { return entry.first; },
      [](const auto&) { return true; },
      [&](const auto& entry) { return Describe(*slots_[entry.second.slot].buffer); });
}

void Buffers::Clear() {
  for (const Slot& slot : slots_) {
    if (slot.buffer && slot.buffer->survives()) slot.buffer->region->Leave();
  }
  figures_ = {};
  by_name_.clear();
  by_owner_.clear();
  by_session_.clear();
  slots_.clear();
  free_slots_.clear();
  removals_.clear();
}

}  // namespace onecopy::engine
