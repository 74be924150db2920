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

// More than buffers there can be: an id that a record names makes no larger table.
constexpr uint32_t kMostSlots = 1U << 22;

std::string WorkerFor(const std::string& kind, const std::string& device) {
  return device.empty() ? kind : device;
}

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

void Buffers::Create(const Principal& who, const CreateBufferRequest& request,
                     Reply<BufferInfo> reply, std::optional<Account> account) {
  if (request.bytes == 0) {
    return reply(
        Status(Code::kInvalidArgument, reasons::kBadSize, "a buffer needs at least one byte"));
  }
  // The kind of memory whose device this is; where none knows it, the answer that says most.
  Status unknown(Code::kNotFound, reasons::kDeviceNotFound,
                 "node " + context_.node() + " has no memory \"" + Printable(request.memory) + "\"",
                 "use host, or a GPU such as cuda:0; see onecopy node show");
  Memory* memory = nullptr;
  std::string device;
  for (Memory* candidate : context_.memories) {
    Result<std::string> found = candidate->FindDevice(request.memory);
    if (found.ok() && !request.memory.empty()) {
      memory = candidate;
      device = *found;
      break;
    }
    if (request.memory.starts_with(candidate->kind())) unknown = found.status();
  }
  if (memory == nullptr) return reply(unknown);

  Buffer draft;
  draft.name = request.name;
  draft.owner = OwnerOf(who);
  draft.bytes = request.bytes;
  draft.keep_arrivals = request.keep_arrivals;
  const Owner payer = account ? account->payer : draft.owner;
  const std::string content = "create " + request.name + " " + std::to_string(request.bytes) + " " +
                              request.memory + (request.keep_arrivals ? " keep" : "");
  if (!request.validate_only) draft.held = kept_.Begin(draft.owner);
  if (draft.held != nullptr && !request.request_id.empty()) {
    draft.held->request_id = request.request_id;
    draft.held->request = content;
  }
  MakeRegion make = [this, memory, device, bytes = request.bytes, held = draft.held,
                     name = request.name]() -> Result<std::unique_ptr<Region>> {
    ONECOPY_ASSIGN_OR_RETURN(auto region, memory->Allocate(device, bytes));
    kept_.Hold(*region, held, name);
    return region;
  };
  Make({request.request_id, content, request.validate_only, who.administrator, who.session, payer,
        account ? std::move(account->take_room) : TakeRoom()},
       std::move(draft), WorkerFor(memory->kind(), device), std::move(make), std::move(reply));
}

Result<os::PassedFd> Buffers::TakeIfNamed(const SessionId& session, uint64_t fd_handle) {
  if (fd_handle == 0) return os::PassedFd();
  return sessions_.Take(session, fd_handle);
}

void Buffers::Register(const Principal& who, const RegisterBufferRequest& request,
                       Reply<BufferInfo> reply) {
  const ClientIdentity* client = sessions_.Identity(who.session);
  if (client == nullptr) {
    return reply(Status(Code::kUnauthenticated, reasons::kNoSession, "the session has ended"));
  }
  if (client->remote) {
    return reply(Status(Code::kFailedPrecondition, reasons::kNotServed,
                        "memory of a program on another machine cannot be registered with node " +
                            context_.node() + ": memory cannot be passed over a network",
                        "let the daemon allocate the buffer (CreateBuffer), or register with the "
                        "daemon of the program's own machine"));
  }
  // First of all, so that they are closed where the request is refused.
  Result<os::PassedFd> fd = TakeIfNamed(who.session, request.fd_handle);
  Result<os::PassedFd> dmabuf = TakeIfNamed(who.session, request.dmabuf_fd_handle);
  std::vector<Result<os::PassedFd>> taken;
  for (const DepositedAllocation& one : request.more) {
    taken.push_back(sessions_.Take(who.session, one.fd_handle));
  }
  if (!fd.ok()) return reply(fd.status());
  if (!dmabuf.ok()) return reply(dmabuf.status());
  std::vector<os::PassedFd> more;
  for (Result<os::PassedFd>& one : taken) {
    if (!one.ok()) return reply(one.status());
    more.push_back(std::move(*one));
  }
  if (request.bytes == 0) {
    return reply(
        Status(Code::kInvalidArgument, reasons::kBadSize, "a buffer needs at least one byte"));
  }
  Memory* memory = context_.FindMemory(request.kind);
  if (memory == nullptr) {
    return reply(
        Status(Code::kFailedPrecondition, reasons::kNotServed,
               "this onecopyd cannot register memory of kind \"" + Printable(request.kind) + "\""));
  }
  Result<std::string> device = memory->FindDevice(request.device);
  if (!device.ok()) return reply(device.status());

  ImportRequest import;
  import.form = request.form;
  import.device = *device;
  import.bytes = request.bytes;
  import.offset = request.offset;
  import.allocation_bytes = request.allocation_bytes;
  for (const DepositedAllocation& one : request.more) import.more.push_back({-1, one.bytes});
  import.handle = request.handle;
  import.dmabuf_offset = request.dmabuf_offset;
  import.dmabuf_refusal = request.dmabuf_refusal;
  import.owner_pid = client->pid;
  import.same_pid_namespace = client->same_pid_namespace;
  import.slab = slabs_.Find(who.session);
  import.region = request.region;
  import.read_only = request.read_only;

  Buffer draft;
  draft.name = request.name;
  if (draft.name.empty()) draft.name = ChooseName(who.session);
  draft.owner = OwnerOf(who);
  draft.bytes = request.bytes;
  draft.registered = true;
  draft.form = request.form;
  draft.session = who.session;
  draft.keep_arrivals = request.keep_arrivals;
  // A repetition passes its descriptor again, so its number is not part of what was asked.
  const std::string content =
      "register " + request.name + " " + std::to_string(request.bytes) + " " + request.form + " " +
      import.device + " " + std::to_string(request.offset) + " " + request.handle + " " +
      std::to_string(request.region) + " " + std::to_string(request.more.size()) +
      (request.read_only ? " read only" : "") + (request.keep_arrivals ? " keep" : "");
  Make(
      {request.request_id,
       content,
       request.validate_only,
       who.administrator,
       who.session,
       OwnerOf(who),
       {},
       memory->imports_at_once()},
      std::move(draft), WorkerFor(memory->kind(), *device),
      [memory, import = std::move(import), fd = std::move(*fd), dmabuf = std::move(*dmabuf),
       more = std::move(more)]() mutable {
        import.fd = fd.get();
        for (size_t i = 0; i < more.size(); ++i) import.more[i].fd = more[i].get();
        import.dmabuf_fd = dmabuf.get();
        return memory->Import(import);
      },
      std::move(reply));
}

void Buffers::Make(Params params, Buffer draft, const std::string& worker, MakeRegion make,
                   Reply<BufferInfo> reply) {
  const Owner who = params.payer;
  if (!params.validate_only) {
    auto shared = std::make_shared<Reply<BufferInfo>>(std::move(reply));
    auto again = [this, shared, request = params.request_id](Result<BufferId> made) {
      if (!made.ok()) return (*shared)(made.status());
      const Buffer* buffer = FindById(*made);
      if (buffer != nullptr) return (*shared)(Describe(*buffer));
      (*shared)(RequestLog<BufferId>::Forgotten(request));
    };
    auto seen =
        requests_.Begin(who, params.administrator, params.request_id, params.content, again);
    if (!seen.ok()) return (*shared)(seen.status());
    if (seen->action == RequestLog<BufferId>::Action::kWait) return;
    if (seen->action == RequestLog<BufferId>::Action::kRepeat) return again(*seen->made);
    reply = [this, who, id = params.request_id, shared](Result<BufferInfo> info) {
      if (info.ok()) {
        requests_.Conclude(who, id, BufferId::Parse(info->id));
      } else {
        requests_.Conclude(who, id, info.status());
      }
      (*shared)(std::move(info));
    };
  }
  if (Status fresh = CheckNew(draft.name); !fresh.ok()) return reply(fresh);
  Result<Ledger::Charge> charge =
      context_.ledger.Take(Charged::kBuffers, who, params.administrator);
  if (!charge.ok()) return reply(charge.status());
  draft.charge = std::move(*charge);
  if (params.take_room) {
    auto room = params.take_room();
    if (!room.ok()) return reply(room.status());
    draft.room = std::move(*room);
  }
  const std::string name = draft.name;
  making_.insert(name);
  const auto took = std::make_shared<std::chrono::nanoseconds>();
  const WorkQueue queue(worker, who);
  auto made = [make = UnlessGone(params.session, std::move(make)), took]() mutable {
    const auto begun = std::chrono::steady_clock::now();
    auto region = make();
    *took = std::chrono::steady_clock::now() - begun;
    return region;
  };
  Reply<std::unique_ptr<Region>> add = [this, name, queue, took, draft = std::move(draft),
                                        validate_only = params.validate_only,
                                        reply = std::move(reply)](
                                           Result<std::unique_ptr<Region>> region) mutable {
    making_.erase(name);
    log::Debug("memory of a buffer", {{"buffer", name},
                                      {"form", draft.form.empty() ? "own" : draft.form},
                                      {"took_us", std::to_string(took->count() / 1000)},
                                      {"outcome", region.ok() ? "OK" : region.status().reason()}});
    if (!region.ok()) return reply(region.status());
    if (!validate_only) return reply(Add(std::move(draft), std::move(*region), queue));
    draft.region = context_.workers.Share(queue, std::move(*region));
    BufferInfo info = Describe(draft);
    info.id.clear();
    reply(std::move(info));
  };
  if (params.at_once) return add(made());
  context_.workers.Run<std::unique_ptr<Region>>(queue, std::move(made), std::move(add));
}

Buffers::MakeRegion Buffers::UnlessGone(const SessionId& session, MakeRegion make) const {
  return [gone = sessions_.Gone(session),
          make = std::move(make)]() mutable -> Result<std::unique_ptr<Region>> {
    if (gone != nullptr && *gone) {
      return Status(Code::kAborted, reasons::kOwnerDied, "the client that asked for it has gone");
    }
    return make();
  };
}

Result<BufferInfo> Buffers::Add(Buffer draft, std::unique_ptr<Region> region,
                                const WorkQueue& queue) {
  draft.region = context_.workers.Share(queue, std::move(region));
  if (draft.registered && sessions_.Identity(draft.session) == nullptr) {
    return Status(Code::kAborted, reasons::kOwnerDied,
                  "the client went away while its memory was registered");
  }
  const Buffer& buffer = PlaceNamed(std::move(draft));
  const HeldRef& held = buffer.held;
  if (held != nullptr && held->form.passing) kept_.HoldLater();
  return Describe(buffer);
}

std::string Buffers::ChooseName(const SessionId& session) {
  const ClientIdentity* const client = sessions_.Identity(session);
  const std::string number = std::to_string(next_name_++);
  return client == nullptr ? "view-" + number
                           : "client-" + std::to_string(client->pid) + "-" + number;
}

Buffer& Buffers::PlaceNamed(Buffer draft) { return Enter(Place(std::move(draft))); }

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
  kept_.Put(record);
}

void Buffers::Record(BufferId id) {
  if (const Buffer* const buffer = FindById(id)) Record(*buffer);
}

std::vector<Kept::Holding> Buffers::ToHold() const {
  std::vector<Kept::Holding> all;
  for (const Slot& slot : slots_) {
    const bool held = slot.buffer && slot.buffer->held != nullptr && !slot.buffer->view_of &&
                      slot.buffer->held->form.number != 0;
    if (!held) continue;
    const Buffer& buffer = *slot.buffer;
    all.push_back({buffer.id, buffer.name, buffer.region, buffer.held, buffer.held->form});
  }
  return all;
}

Status Buffers::Restore(const BufferRecord& record, std::unique_ptr<Region> region) {
  const Owner payer = PayerAt(context_.node(), record.owner.node, record.owner);
  Buffer draft;
  const auto take_room = [&]() -> Status {
    ONECOPY_RETURN_IF_ERROR(CheckFree(record.id, record.name));
    // It was allowed once: the limits of one user do not take it away now.
    ONECOPY_ASSIGN_OR_RETURN(draft.charge, context_.ledger.Take(Charged::kBuffers, payer, true));
    if (!record.peer_room) return OkStatus();
    ONECOPY_ASSIGN_OR_RETURN(
        draft.room, context_.ledger.Share(Charged::kPeerBuffers, payer, false, record.bytes));
    return OkStatus();
  };
  if (const Status room = take_room(); !room.ok()) {
    region->Leave();
    return room;
  }
  draft.id = record.id;
  draft.name = record.name;
  draft.owner = record.owner;
  draft.bytes = record.bytes;
  draft.create_time = record.create_time;
  draft.keep_arrivals = record.keep_arrivals;
  draft.held = std::make_shared<Held>();
  draft.held->request_id = record.request_id;
  draft.held->request = record.request;
  draft.held->form = record.held;
  kept_.Adopt(*region, draft.held);
  draft.region = context_.workers.Share(WorkQueue(WorkerFor(record.kind, record.device), payer),
                                        std::move(region));
  PlaceAgain(std::move(draft));
  // So that a client that repeats its request, because the answer was lost, gets this buffer.
  if (record.request_id.empty()) return OkStatus();
  const auto seen =
      requests_.Begin(payer, true, record.request_id, record.request, [](const auto&) {});
  if (seen.ok()) requests_.Conclude(payer, record.request_id, record.id);
  return OkStatus();
}

Status Buffers::RestoreView(const BufferRecord& record) {
  const Buffer& memory = *FindById(*record.view_of);
  ONECOPY_RETURN_IF_ERROR(CheckFree(record.id, record.name));
  Buffer draft;
  draft.id = record.id;
  draft.name = record.name;
  draft.owner = record.owner;
  draft.region = memory.region;
  draft.held = memory.held;
  draft.view_of = record.view_of;
  draft.offset = record.offset;
  draft.bytes = record.bytes;
  draft.array = record.array;
  draft.create_time = record.create_time;
  draft.keep_arrivals = record.keep_arrivals;
  ONECOPY_RETURN_IF_ERROR(CheckWithin({draft.offset, draft.bytes}, memory.bytes, "the memory"));
  if (draft.array) ONECOPY_RETURN_IF_ERROR(BytesOf(*draft.array).status());
  const uint64_t dimensions = draft.array ? draft.array->shape.size() : 0;
  ONECOPY_ASSIGN_OR_RETURN(
      draft.charge, context_.ledger.Take(Charged::kBuffers,
                                         PayerAt(context_.node(), record.owner.node, record.owner),
                                         true, dimensions * 2 * sizeof(uint64_t)));
  PlaceAgain(std::move(draft));
  FindById(*record.view_of)->views.insert(record.id);
  return OkStatus();
}

Status Buffers::CheckFree(BufferId id, const std::string& name) const {
  ONECOPY_RETURN_IF_ERROR(CheckNew(name));
  if (id.slot < kMostSlots && (id.slot >= slots_.size() || !slots_[id.slot].buffer)) {
    return OkStatus();
  }
  return {Code::kAlreadyExists, reasons::kNameTaken,
          "the id " + id.ToString() + " is another buffer's, or none that can be"};
}

void Buffers::Reserve(BufferId id) {
  if (id.slot >= kMostSlots) return;
  while (slots_.size() <= id.slot) {
    free_slots_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.push_back({first_generation_, std::nullopt});
  }
  std::erase(free_slots_, id.slot);
}

void Buffers::PlaceAgain(Buffer draft) {
  const BufferId id = draft.id;
  Reserve(id);
  slots_[id.slot].generation = id.generation;
  Enter(slots_[id.slot].buffer.emplace(std::move(draft)));
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
  const BufferId id = PlaceNamed(std::move(draft)).id;
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
    kept_.Erase(id);
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
    const HeldRef& held = slot.buffer ? slot.buffer->held : nullptr;
    if (held != nullptr && held->form.why.empty()) slot.buffer->region->Leave();
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
