#include "client/python/native/node.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <sstream>
#include <utility>

#include "client/cli/output/document.h"
#include "client/cli/output/report.h"
#include "client/python/native/errors.h"
#include "client/python/native/gil.h"
#include "client/python/native/request.h"
#include "onecopy/file_copy.h"

namespace onecopy::python {

namespace nb = nanobind;

namespace {

std::string Dump(const cli::Json& document) {
  return document.dump(-1, ' ', false, cli::Json::error_handler_t::replace);
}

// The value of a call that is made without the GIL.
template <typename Call>
auto Unlocked(const Call& call) {
  const WithoutGil released;
  return Must(call());
}

template <typename Call>
void CheckUnlocked(const Call& call) {
  const WithoutGil released;
  Check(call());
}

OnUpdate ToOnUpdate(const nb::object& callback) {
  if (callback.is_none()) return {};
  return [&callback](const TransferInfo& transfer) { callback(TransferSnapshot(transfer)); };
}

TransferSnapshot Ended(Result<TransferInfo> result) {
  TransferInfo transfer = Must(std::move(result));
  Check(OutcomeOf(transfer));
  return TransferSnapshot(std::move(transfer));
}

FileCopyOptions OptionsOf(const TransferRequest& wanted, bool sync) {
  FileCopyOptions options;
  options.policy = wanted.policy;
  options.checksum = wanted.checksum;
  options.sync = sync;
  options.deadline = wanted.deadline;
  options.pacing = wanted.pacing;
  options.trace = wanted.trace;
  return options;
}

// Tells of a copy of a file as of a transfer. Both must outlive what is returned.
decltype(FileCopyOptions::on_progress) AsProgress(TransferInfo& info,
                                                  const Client::OnUpdate& note) {
  if (!note) return {};
  return [&info, &note](uint64_t done, std::optional<uint64_t> total) {
    info.state = TransferState::kRunning;
    info.bytes = total.value_or(0);
    info.bytes_done = done;
    note(info);
  };
}

void Note(FileCopy copied, TransferInfo* info) {
  info->id = copied.id;
  info->state = TransferState::kSucceeded;
  info->bytes = info->bytes_done = copied.bytes;
  info->parts = copied.windows;
  info->receipt = std::move(copied.receipt);
}

Client Connected(const ConnectOptions& options) {
  return Unlocked([&] { return Client::Connect(options); });
}

}  // namespace

std::string TransferSnapshot::Text() const {
  std::ostringstream text;
  cli::PrintReceipt(text, cli::MoveOf(info_));
  return text.str();
}

std::string TransferSnapshot::Document() const { return Dump(cli::ToJson(info_)); }

std::string TransferSnapshot::TextOfPlan() const {
  if (!info_.plan.has_value()) return {};
  std::ostringstream text;
  cli::PrintPlan(text, info_.source.ToString(), info_.destination.ToString(), *info_.plan);
  return text.str();
}

std::string TransferSnapshot::DocumentOfPlan() const {
  if (!info_.plan.has_value()) return "null";
  return Dump(cli::PlanToJson(info_.source.ToString(), info_.destination.ToString(), *info_.plan));
}

Node::Node(const std::string& run_dir, const std::string& program, int64_t timeout_ms,
           bool use_ring, const std::string& cuda_library, bool keep_arrivals)
    : client_(Connected({.run_dir = run_dir,
                         .program = program,
                         .timeout = std::chrono::milliseconds(timeout_ms),
                         .use_ring = use_ring,
                         .keep_arrivals = keep_arrivals,
                         .cuda_library = cuda_library})) {}

Node::~Node() {
  // The connection's end waits for what threads of the library do.
  const WithoutGil released;
  const Client gone = std::move(client_);
}

void Node::Ping() {
  CheckUnlocked([&] { return client_.Ping(); });
}

std::string Node::CreateBuffer(const std::string& name, uint64_t bytes, const std::string& memory,
                               const std::string& node, bool keep_arrivals) {
  return Dump(cli::ToJson(Unlocked([&] {
    return client_.CreateBuffer({.name = name,
                                 .bytes = bytes,
                                 .memory = memory,
                                 .node = node,
                                 .keep_arrivals = keep_arrivals});
  })));
}

std::string Node::CreateViews(const std::vector<View>& views) {
  std::vector<ViewRequest> requests;
  requests.reserve(views.size());
  for (const auto& [name, buffer, offset, dtype, item_bytes, shape, strides] : views) {
    requests.push_back({.name = name,
                        .range = {.buffer = buffer, .offset_bytes = offset},
                        .array = ArrayShape{dtype, item_bytes, shape, strides}});
  }
  return Dump(cli::ListToJson(Unlocked([&] { return client_.CreateViews(requests); })));
}

std::unique_ptr<Memory> Node::CreateMemory(const std::string& name, uint64_t bytes) {
  return std::make_unique<Memory>(Unlocked([&] { return client_.CreateHostBuffer(name, bytes); }));
}

std::unique_ptr<PoolHandle> Node::CreatePool(const std::string& name,
                                             std::optional<int> cuda_device, bool pinned,
                                             bool managed_overflow, uint64_t slab_bytes,
                                             uint64_t initial_bytes, uint64_t limit_bytes) {
  return std::make_unique<PoolHandle>(Unlocked([&] {
    return client_.CreatePool({.name = name,
                               .cuda_device = cuda_device,
                               .pinned = pinned,
                               .managed_overflow = managed_overflow,
                               .slab_bytes = slab_bytes,
                               .initial_bytes = initial_bytes,
                               .limit_bytes = limit_bytes});
  }));
}

std::string Node::RegisterMemfd(const std::string& name, int fd, uint64_t offset_bytes,
                                uint64_t bytes) {
  return Dump(
      cli::ToJson(Unlocked([&] { return client_.RegisterMemfd(name, fd, offset_bytes, bytes); })));
}

std::string Node::RegisterAll(const std::vector<Piece>& pieces) {
  std::vector<MemoryToRegister> memory;
  memory.reserve(pieces.size());
  for (const auto& [name, address, bytes, cuda, writable] : pieces) {
    memory.push_back({.name = name,
                      .pointer = reinterpret_cast<void*>(address),
                      .bytes = bytes,
                      .access = writable ? MemoryAccess::kReadWrite : MemoryAccess::kRead,
                      .cuda = cuda});
  }
  std::vector<Result<BufferInfo>> outcomes;
  {
    const WithoutGil released;
    outcomes = client_.RegisterAll(memory);
  }
  cli::Json documents = cli::Json::array();
  for (const Result<BufferInfo>& each : outcomes) {
    documents.push_back(each.ok() ? cli::ToJson(*each) : cli::ToJson(each.status()));
  }
  return Dump(documents);
}

std::optional<std::tuple<uint64_t, uint64_t, uint64_t>> Node::CudaAllocationOf(
    uint64_t pointer, uint64_t bytes) const {
  const Result<CudaAllocation> found = client_.FindCudaAllocation(pointer, bytes);
  if (!found.ok()) return std::nullopt;
  return std::tuple(found->start, found->bytes, found->id);
}

std::string Node::RegisterDmaBuf(const std::string& name, int fd, uint64_t offset_bytes,
                                 uint64_t bytes) {
  return Dump(
      cli::ToJson(Unlocked([&] { return client_.RegisterDmaBuf(name, fd, offset_bytes, bytes); })));
}

std::unique_ptr<Mapped> Node::MapBuffer(const std::string& buffer, std::optional<int> device) {
  return std::make_unique<Mapped>(
      Unlocked([&] { return client_.MapBuffer(buffer, {.cuda_device = device}); }));
}

std::string Node::GetBuffer(const std::string& node, const std::string& name) {
  return Dump(cli::ToJson(Unlocked([&] { return client_.GetBuffer(node, name); })));
}

std::string Node::ListBuffers(const std::string& node) {
  return Dump(cli::ListToJson(Unlocked([&] { return client_.ListBuffers(node); })));
}

void Node::DeleteBuffer(const std::string& name, bool force, const std::string& node) {
  CheckUnlocked([&] { return client_.DeleteBuffer(name, force, node); });
}

void Node::ReleaseBuffer(const std::string& name, bool force) {
  CheckUnlocked([&] { return client_.ReleaseBuffer(name, force); });
}

std::string Node::SumBuffer(const nb::tuple& range) {
  const Endpoint end = ToEndpoint(range);
  const BufferSum sum = Unlocked([&] { return client_.SumBuffer(end); });
  return Dump({{"algorithm", sum.algorithm},
               {"value", sum.value},
               {"bytes", sum.bytes},
               {"tree", sum.tree}});
}

std::string Node::CreateGrant(const nb::tuple& range, const std::string& to, bool read, bool write,
                              std::optional<int64_t> lifetime_ms) {
  CreateGrantRequest request{ToEndpoint(range), to, read, write, {}};
  if (lifetime_ms) request.lifetime = std::chrono::milliseconds(*lifetime_ms);
  return Dump(cli::ToJson(Unlocked([&] { return client_.CreateGrant(request); })));
}

std::string Node::ListGrants(const std::string& buffer, const std::string& node) {
  return Dump(cli::ListToJson(Unlocked([&] { return client_.ListGrants(buffer, node); })));
}

void Node::DeleteGrant(const std::string& id) {
  CheckUnlocked([&] { return client_.DeleteGrant(GrantId(id)); });
}

std::pair<std::string, std::string> Node::Plan(const nb::tuple& request) {
  const TransferRequest wanted = ToRequest(request);
  const onecopy::Plan plan = Unlocked([&] { return client_.PlanTransfer(wanted); });
  const std::string source = wanted.source.ToString();
  const std::string destination = wanted.destination.ToString();
  std::ostringstream text;
  cli::PrintPlan(text, source, destination, plan);
  return {text.str(), Dump(cli::PlanToJson(source, destination, plan))};
}

TransferSnapshot Node::Run(const nb::tuple& request, const nb::object& on_update,
                           const std::stop_source& stop) {
  TransferRequest wanted = ToRequest(request);
  if (on_update.is_none() && !stop.stop_requested()) {
    return Ended(RunWithFuture(std::make_shared<const TransferRequest>(std::move(wanted)),
                               stop.get_token()));
  }
  return Ended(Wait(
      [&](const Client::OnUpdate& note, std::stop_token token) {
        return client_.RunTransfer(wanted, note, std::move(token));
      },
      ToOnUpdate(on_update), stop));
}

std::unique_ptr<Prepared> Node::Prepare(const nb::tuple& request) {
  return std::make_unique<Prepared>(ToRequest(request));
}

TransferSnapshot Node::RunPrepared(const Prepared& prepared) {
  return Ended(RunWithFuture(prepared.request(), {}));
}

double Node::SecondsOf(const Prepared& prepared, uint64_t count) {
  const WithoutGil released;
  const auto begun = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < count; ++i) {
    Check(OutcomeOf(Must(client_.RunTransfer(*prepared.request()))));
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

// By a future: what goes by shared memory then needs no other thread, and what goes by gRPC shares
// the library's one.
Result<TransferInfo> Node::RunWithFuture(std::shared_ptr<const TransferRequest> request,
                                         const std::stop_token& stop) {
  return Wait([&] { return client_.RunTransferAsync(std::move(request)); }, stop);
}

TransferSnapshot Node::Start(const nb::tuple& request) {
  const TransferRequest wanted = ToRequest(request);
  return TransferSnapshot(Unlocked([&] { return client_.StartTransfer(wanted); }));
}

TransferSnapshot Node::StartPrepared(const Prepared& prepared) {
  return TransferSnapshot(Unlocked([&] { return client_.StartTransfer(*prepared.request()); }));
}

TransferSnapshot Node::CopyFile(const nb::tuple& request, bool reads,
                                std::optional<uint64_t> offset_bytes, std::optional<uint64_t> bytes,
                                bool sync, bool write_device, const nb::object& on_update,
                                const std::stop_source& stop) {
  const TransferRequest wanted = ToRequest(request);
  TransferInfo info;
  info.source = wanted.source;
  info.destination = wanted.destination;
  Endpoint& end = reads ? info.source : info.destination;
  const LocalFile file = {std::exchange(end.buffer, {}), -1, offset_bytes, bytes};
  end = {.node = client_.node(), .offset_bytes = offset_bytes, .bytes = bytes, .file = file.path};
  FileCopyOptions options = OptionsOf(wanted, sync);
  options.write_device = write_device;
  const auto copy = [&](const Client::OnUpdate& note, std::stop_token token) {
    options.stop = std::move(token);
    options.on_progress = AsProgress(info, note);
    return reads ? CopyFileToBuffer(client_, file, wanted.destination, options)
                 : CopyBufferToFile(client_, wanted.source, file, options);
  };
  return Ended(Wait(
      [&](const Client::OnUpdate& note, std::stop_token token) -> Result<TransferInfo> {
        ONECOPY_ASSIGN_OR_RETURN(FileCopy copied, copy(note, std::move(token)));
        Note(std::move(copied), &info);
        return info;
      },
      ToOnUpdate(on_update), stop));
}

std::vector<TransferSnapshot> Node::CopyFileToEach(const nb::tuple& request,
                                                   std::optional<uint64_t> offset_bytes,
                                                   std::optional<uint64_t> bytes,
                                                   const nb::object& on_update,
                                                   const std::stop_source& stop) {
  const TransferRequest wanted = ToRequest(request);
  const LocalFile file = {wanted.source.buffer, -1, offset_bytes, bytes};
  std::vector<Endpoint> ends = {wanted.destination};
  ends.insert(ends.end(), wanted.more_destinations.begin(), wanted.more_destinations.end());
  FileCopyOptions options = OptionsOf(wanted, false);
  std::vector<TransferSnapshot> ended;
  Ended(Wait(
      [&](const Client::OnUpdate& note, std::stop_token token) -> Result<TransferInfo> {
        TransferInfo info;
        info.source = {.node = client_.node(),
                       .offset_bytes = offset_bytes,
                       .bytes = bytes,
                       .file = file.path};
        info.destination = ends.front();
        options.stop = std::move(token);
        options.on_progress = AsProgress(info, note);
        ONECOPY_ASSIGN_OR_RETURN(std::vector<FileCopy> copied,
                                 onecopy::CopyFileToEach(client_, file, ends, options));
        for (size_t i = 0; i < copied.size(); ++i) {
          TransferInfo one;
          one.source = info.source;
          one.destination = ends[i];
          Note(std::move(copied[i]), &one);
          ended.emplace_back(std::move(one));
        }
        info.state = TransferState::kSucceeded;
        return info;
      },
      ToOnUpdate(on_update), stop));
  return ended;
}

std::vector<TransferSnapshot> Node::CopyPieces(const nb::tuple& request, int fd, bool reads,
                                               const FileTexts& texts, const FilePieces& pieces,
                                               bool sync, const nb::object& on_update,
                                               const std::stop_source& stop, const OwnParts& own) {
  const TransferRequest wanted = ToRequest(request);
  const LocalFile file = {wanted.source.buffer, fd};
  std::vector<FileText> written;
  written.reserve(texts.size() + own.size());
  for (const auto& [offset, text] : texts) written.push_back({offset, {text.c_str(), text.size()}});
  for (const auto& [offset, address, bytes] : own) {
    written.push_back({offset, {reinterpret_cast<const char*>(address), bytes}, true});
  }
  std::vector<FilePiece> parts;
  parts.reserve(pieces.size());
  for (const auto& [buffer, offset] : pieces) parts.push_back({offset, ToEndpoint(buffer)});
  FileCopyOptions options = OptionsOf(wanted, sync);
  std::vector<TransferSnapshot> ended;
  Ended(Wait(
      [&](const Client::OnUpdate& note, std::stop_token token) -> Result<TransferInfo> {
        TransferInfo info;
        options.stop = std::move(token);
        options.on_progress = AsProgress(info, note);
        auto copied = reads ? CopyFileToBuffers(client_, file, parts, options)
                            : CopyBuffersToFile(client_, written, parts, file, options);
        if (!copied.ok()) return copied.status();
        for (PiecesCopy& each : *copied) {
          TransferInfo one;
          one.source = reads ? each.file : each.buffer;
          one.destination = reads ? each.buffer : each.file;
          Note(std::move(each.copy), &one);
          ended.emplace_back(std::move(one));
        }
        info.state = TransferState::kSucceeded;
        return info;
      },
      ToOnUpdate(on_update), stop));
  return ended;
}

TransferSnapshot Node::ReadOwn(const std::string& path, int fd, const OwnParts& parts,
                               const nb::tuple& destination, std::optional<uint64_t> deadline_ms) {
  TransferInfo info;
  info.destination = ToEndpoint(destination);
  FileCopyOptions options;
  if (deadline_ms) options.deadline = std::chrono::milliseconds(*deadline_ms);
  std::vector<FileMemory> wanted;
  wanted.reserve(parts.size());
  uint64_t first = std::numeric_limits<uint64_t>::max();
  uint64_t end = 0;
  for (const auto& [offset, address, bytes] : parts) {
    wanted.push_back({offset, reinterpret_cast<std::byte*>(address), bytes});
    first = std::min(first, offset);
    end = std::max(end, offset + bytes);
  }
  FileCopy copy = Unlocked([&] { return CopyFileToMemory(client_, {path, fd}, wanted, options); });
  info.source = {.node = client_.node(), .offset_bytes = first, .bytes = end - first, .file = path};
  Note(std::move(copy), &info);
  return TransferSnapshot(std::move(info));
}

Queued Node::Enqueue(const nb::tuple& request, std::optional<uint64_t> after,
                     std::optional<uint64_t> then) {
  const TransferRequest wanted = ToRequest(request);
  return Queued(Unlocked([&] {
    return client_.RunTransferAsync(wanted, StreamOrder{after, then});
  }));
}

TransferSnapshot Queued::Await(const std::stop_source& stop) const {
  return Ended(Wait(future_, stop.get_token()));
}

TransferSnapshot Node::Await(const std::string& id, const nb::object& on_update,
                             const std::stop_source& stop) {
  return Ended(Wait(
      [&](const Client::OnUpdate& note, std::stop_token token) {
        return client_.AwaitTransfer(TransferId(id), note, std::move(token));
      },
      ToOnUpdate(on_update), stop));
}

TransferSnapshot Node::GetTransfer(const std::string& id) {
  return TransferSnapshot(Unlocked([&] { return client_.GetTransfer(TransferId(id)); }));
}

std::vector<TransferSnapshot> Node::ListTransfers() {
  std::vector<TransferSnapshot> list;
  for (TransferInfo& each : Unlocked([&] { return client_.ListTransfers(); })) {
    list.emplace_back(std::move(each));
  }
  return list;
}

TransferSnapshot Node::Cancel(const std::string& id) {
  return TransferSnapshot(Unlocked([&] { return client_.CancelTransfer(TransferId(id)); }));
}

std::unique_ptr<Watch> Node::WatchArrivals(const std::string& buffer) {
  return std::make_unique<Watch>(Unlocked([&] { return client_.WatchArrivals(buffer); }));
}

void Node::Tell(const std::string& node, const std::string& buffer, const nb::bytes& message,
                const std::string& request_id) {
  const MessageRequest request{.destination = {.node = node, .buffer = buffer},
                               .message = std::string(message.c_str(), message.size()),
                               .request_id = request_id};
  CheckUnlocked([&] { return client_.SendMessage(request); });
}

std::string Node::ListExports(const std::string& node) {
  return Dump(cli::ListToJson(Unlocked([&] { return client_.ListExports(node); })));
}

std::string Node::GetNode(const std::string& name) {
  return Dump(cli::ToJson(Unlocked([&] { return client_.GetNode(name); })));
}

std::string Node::ListNodes() {
  return Dump(cli::ListToJson(Unlocked([&] { return client_.ListNodes(); })));
}

}  // namespace onecopy::python
