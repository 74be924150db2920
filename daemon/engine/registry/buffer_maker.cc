#include "daemon/engine/registry/buffer_maker.h"

#include <chrono>
#include <memory>
#include <utility>

#include "daemon/engine/base/names.h"
#include "daemon/log/log.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

std::string WorkerFor(const std::string& kind, const std::string& device) {
  return device.empty() ? kind : device;
}

}  // namespace

std::string BufferMaker::WhyNotHeld(const Owner& owner) const {
  if (needs_.records.CanName(owner)) return {};
  return "its owner is a user in a container: after a restart, the daemon could take a user of "
         "another container for this one";
}

void BufferMaker::Create(const Principal& who, const CreateBufferRequest& request,
                         Reply<BufferInfo> reply, std::optional<Account> account) {
  if (request.bytes == 0) {
    return reply(
        Status(Code::kInvalidArgument, reasons::kBadSize, "a buffer needs at least one byte"));
  }
  // The kind of memory whose device this is; where none knows it, the answer that says most.
  Status unknown(
      Code::kNotFound, reasons::kDeviceNotFound,
      "node " + needs_.context.node() + " has no memory \"" + Printable(request.memory) + "\"",
      "use host, or a GPU such as cuda:0; see onecopy node show");
  Memory* memory = nullptr;
  std::string device;
  for (Memory* candidate : needs_.context.memories) {
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
  if (!request.validate_only) draft.held = needs_.held.Begin(WhyNotHeld(draft.owner));
  if (draft.held != nullptr && !request.request_id.empty()) {
    draft.held->request_id = request.request_id;
    draft.held->request = content;
  }
  MakeRegion make = [this, memory, device, bytes = request.bytes, held = draft.held,
                     name = request.name]() -> Result<std::unique_ptr<Region>> {
    ONECOPY_ASSIGN_OR_RETURN(auto region, memory->Allocate(device, bytes));
    needs_.held.Hold(*region, held, name);
    return region;
  };
  Make({request.request_id, content, request.validate_only, who.administrator, who.session, payer,
        account ? std::move(account->take_room) : TakeRoom()},
       std::move(draft), WorkerFor(memory->kind(), device), std::move(make), std::move(reply));
}

Result<os::PassedFd> BufferMaker::TakeIfNamed(const SessionId& session, uint64_t fd_handle) {
  if (fd_handle == 0) return os::PassedFd();
  return needs_.sessions.Take(session, fd_handle);
}

void BufferMaker::Register(const Principal& who, const RegisterBufferRequest& request,
                           Reply<BufferInfo> reply) {
  const ClientIdentity* client = needs_.sessions.Identity(who.session);
  if (client == nullptr) {
    return reply(Status(Code::kUnauthenticated, reasons::kNoSession, "the session has ended"));
  }
  if (client->remote) {
    return reply(Status(Code::kFailedPrecondition, reasons::kNotServed,
                        "memory of a program on another machine cannot be registered with node " +
                            needs_.context.node() + ": memory cannot be passed over a network",
                        "let the daemon allocate the buffer (CreateBuffer), or register with the "
                        "daemon of the program's own machine"));
  }
  // First of all, so that they are closed where the request is refused.
  Result<os::PassedFd> fd = TakeIfNamed(who.session, request.fd_handle);
  Result<os::PassedFd> dmabuf = TakeIfNamed(who.session, request.dmabuf_fd_handle);
  std::vector<Result<os::PassedFd>> taken;
  for (const DepositedAllocation& one : request.more) {
    taken.push_back(needs_.sessions.Take(who.session, one.fd_handle));
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
  Memory* memory = needs_.context.FindMemory(request.kind);
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
  import.slab = needs_.slabs.Find(who.session);
  import.region = request.region;
  import.read_only = request.read_only;

  Buffer draft;
  draft.name = request.name;
  if (draft.name.empty()) draft.name = needs_.buffers.ChooseName(who.session);
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

void BufferMaker::Make(Params params, Buffer draft, const std::string& worker, MakeRegion make,
                       Reply<BufferInfo> reply) {
  const Owner who = params.payer;
  if (!params.validate_only) {
    auto shared = std::make_shared<Reply<BufferInfo>>(std::move(reply));
    auto again = [this, shared, request = params.request_id](Result<BufferId> made) {
      if (!made.ok()) return (*shared)(made.status());
      const Buffer* buffer = needs_.buffers.FindById(*made);
      if (buffer != nullptr) return (*shared)(needs_.buffers.Describe(*buffer));
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
  if (Status fresh = needs_.buffers.CheckNew(draft.name); !fresh.ok()) return reply(fresh);
  Result<Ledger::Charge> charge =
      needs_.context.ledger.Take(Charged::kBuffers, who, params.administrator);
  if (!charge.ok()) return reply(charge.status());
  draft.charge = std::move(*charge);
  if (params.take_room) {
    auto room = params.take_room();
    if (!room.ok()) return reply(room.status());
    draft.room = std::move(*room);
  }
  const std::string name = draft.name;
  needs_.buffers.BeginMaking(name);
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
    needs_.buffers.EndMaking(name);
    log::Debug("memory of a buffer", {{"buffer", name},
                                      {"form", draft.form.empty() ? "own" : draft.form},
                                      {"took_us", std::to_string(took->count() / 1000)},
                                      {"outcome", region.ok() ? "OK" : region.status().reason()}});
    if (!region.ok()) return reply(region.status());
    if (!validate_only) return reply(Add(std::move(draft), std::move(*region), queue));
    draft.region = needs_.context.workers.Share(queue, std::move(*region));
    BufferInfo info = needs_.buffers.Describe(draft);
    info.id.clear();
    reply(std::move(info));
  };
  if (params.at_once) return add(made());
  needs_.context.workers.Run<std::unique_ptr<Region>>(queue, std::move(made), std::move(add));
}

BufferMaker::MakeRegion BufferMaker::UnlessGone(const SessionId& session, MakeRegion make) const {
  return [gone = needs_.sessions.Gone(session),
          make = std::move(make)]() mutable -> Result<std::unique_ptr<Region>> {
    if (gone != nullptr && *gone) {
      return Status(Code::kAborted, reasons::kOwnerDied, "the client that asked for it has gone");
    }
    return make();
  };
}

Result<BufferInfo> BufferMaker::Add(Buffer draft, std::unique_ptr<Region> region,
                                    const WorkQueue& queue) {
  draft.region = needs_.context.workers.Share(queue, std::move(region));
  if (draft.registered && needs_.sessions.Identity(draft.session) == nullptr) {
    return Status(Code::kAborted, reasons::kOwnerDied,
                  "the client went away while its memory was registered");
  }
  const Buffer& buffer = needs_.buffers.Add(std::move(draft));
  const HeldRef& held = buffer.held;
  if (held != nullptr && held->form.passing) needs_.held.HoldLater();
  return needs_.buffers.Describe(buffer);
}

}  // namespace onecopy::engine
