#include "bench/work/transfer_mover.h"

#include <fnmatch.h>

#include <algorithm>
#include <chrono>

#include "bench/daemons/process_facts.h"
#include "bench/measure/payload.h"
#include "bench/work/host_traffic.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::bench {
namespace {

// Of one transfer: what takes longer is stuck.
constexpr std::chrono::minutes kDeadline{10};

bool IsMemory(const BufferInfo& buffer, const std::string& memory) {
  return memory == "host" ? buffer.memory == "host" : buffer.device == memory;
}

// The buffer that was lent on a peer, of this memory and at least so long.
Result<Endpoint> FindLent(Client& client, const Node& node, const std::string& memory,
                          uint64_t bytes) {
  ONECOPY_ASSIGN_OR_RETURN(const std::vector<BufferInfo> buffers, client.ListBuffers(node.name));
  uint64_t most = 0;
  for (const BufferInfo& buffer : buffers) {
    if (buffer.name.rfind(kLentPrefix, 0) != 0 || !IsMemory(buffer, memory)) continue;
    most = std::max(most, buffer.bytes);
    if (buffer.bytes < bytes) continue;
    return Endpoint{
        .node = node.name, .buffer = buffer.id, .offset_bytes = uint64_t{0}, .bytes = bytes};
  }
  const std::string remedy = "run there: onecopy-bench lend --size " + std::to_string(bytes);
  if (most > 0) {
    return Status(Code::kResourceExhausted, reasons::kNoMemory,
                  FormatBytes(most) + " of " + memory + " memory are lent on " + node.name +
                      ", and " + FormatBytes(bytes) + " are needed",
                  remedy);
  }
  return Status(Code::kFailedPrecondition, reasons::kBufferNotFound,
                "no buffer of " + memory + " memory is lent on " + node.name, remedy);
}

}  // namespace

End::Far::~Far() {
  // Where the daemon has gone, the buffer has too.
  if (made) static_cast<void>(client->DeleteBuffer(endpoint.buffer, true));
}

Result<End> End::Create(const Node& node, const std::string& memory, uint64_t bytes,
                        const std::optional<ClientMemory>& mine) {
  ONECOPY_ASSIGN_OR_RETURN(Client connected,
                           mine ? Client::Connect({.run_dir = node.run_dir,
                                                   .program = "onecopy-bench",
                                                   .cuda_library = mine->cuda_library})
                                : node.Connect());
  auto client = std::make_shared<Client>(std::move(connected));
  ONECOPY_ASSIGN_OR_RETURN(HostBuffer window, client->CreateHostBuffer({}, bytes));
  End end(client, std::move(window));
  if (mine) {
    ONECOPY_RETURN_IF_ERROR(end.Register(*mine, bytes));
  } else if (node.elsewhere) {
    ONECOPY_ASSIGN_OR_RETURN(Endpoint lent, FindLent(*client, node, memory, bytes));
    end.far_ = std::make_unique<Far>(client, std::move(lent), false);
  } else if (memory == "process") {
    std::vector<std::byte> own(bytes);
    ONECOPY_ASSIGN_OR_RETURN(const BufferInfo info, client->RegisterMemory({}, own.data(), bytes));
    end.far_ = std::make_unique<Far>(client, Endpoint{.node = info.node, .buffer = info.id}, true);
    end.far_->own = std::move(own);
  } else if (memory != "host") {
    ONECOPY_ASSIGN_OR_RETURN(
        const BufferInfo gpu,
        client->CreateBuffer(
            {.name = "bench-" + end.window_.info().id, .bytes = bytes, .memory = memory}));
    end.far_ = std::make_unique<Far>(client, Endpoint{.node = gpu.node, .buffer = gpu.id}, true);
  }
  return end;
}

Status End::Register(const ClientMemory& mine, uint64_t bytes) {
  ONECOPY_ASSIGN_OR_RETURN(auto memory,
                           GpuMemory::Allocate(mine.gpu, mine.kind, mine.offset + bytes));
  const shim::ScopedCudaContext scope(mine.gpu->api(), mine.gpu->context());
  ONECOPY_ASSIGN_OR_RETURN(
      const BufferInfo registered,
      client_->RegisterCuda("bench-" + window_.info().id, memory->address() + mine.offset, bytes));
  far_ = std::make_unique<Far>(client_, Endpoint{.node = registered.node, .buffer = registered.id},
                               true);
  far_->memory = std::move(memory);
  return OkStatus();
}

Status End::Copy(const Endpoint& from, const Endpoint& to) {
  ONECOPY_ASSIGN_OR_RETURN(
      const TransferInfo done,
      client_->RunTransfer({.source = from, .destination = to, .deadline = kDeadline}));
  return OutcomeOf(done);
}

Status End::Put(uint64_t seed) {
  FillPayload(window_.data(), window_.bytes(), seed);
  return far_ ? Copy(window_.endpoint(), far_->endpoint) : OkStatus();
}

Result<bool> End::Holds(uint64_t seed) {
  if (far_) {
    FillPayload(window_.data(), window_.bytes(), seed + 1);  // nothing right is left there
    ONECOPY_RETURN_IF_ERROR(Copy(far_->endpoint, window_.endpoint()));
  }
  return !FindWrong(window_.data(), window_.bytes(), seed);
}

Result<std::vector<std::byte>> End::Read() {
  if (far_) ONECOPY_RETURN_IF_ERROR(Copy(far_->endpoint, window_.endpoint()));
  return std::vector<std::byte>(window_.data(), window_.data() + window_.bytes());
}

TransferMover::TransferMover(End source, End destination, const TransferParams& params)
    : source_(std::move(source)), destination_(std::move(destination)), policy_(params.policy()) {
  if (!params.from.pid || !params.to.pid) return;
  daemons_.push_back(*params.from.pid);
  if (*params.to.pid != *params.from.pid) daemons_.push_back(*params.to.pid);
}

Result<std::unique_ptr<TransferMover>> TransferMover::Create(const TransferParams& params,
                                                             uint64_t bytes) {
  ONECOPY_ASSIGN_OR_RETURN(End source,
                           End::Create(params.from, params.from_memory, bytes, params.from_client));
  ONECOPY_ASSIGN_OR_RETURN(End destination,
                           End::Create(params.to, params.to_memory, bytes, params.to_client));
  return std::unique_ptr<TransferMover>(
      new TransferMover(std::move(source), std::move(destination), params));
}

TransferRequest TransferMover::Request() const {
  return {.source = source_.endpoint(),
          .destination = destination_.endpoint(),
          .policy = policy_,
          .deadline = kDeadline};
}

Status PolicyRefusal(const Status& planned, const std::string& path) {
  for (const Refusal& refusal : planned.refusals()) {
    if (::fnmatch(path.c_str(), refusal.path.c_str(), 0) != 0) continue;
    return {planned.code(), refusal.reason, refusal.detail, refusal.remedy};
  }
  return planned;
}

Status TransferMover::Plan() {
  const auto plan = source_.client().PlanTransfer(Request());
  return PolicyRefusal(plan.status(), policy_.path_glob);
}

std::optional<double> TransferMover::DaemonsCpuSeconds() const {
  if (daemons_.empty()) return std::nullopt;
  double sum = 0;
  for (const pid_t daemon : daemons_) {
    const Result<double> seconds = ReadCpuSeconds(daemon);
    if (!seconds.ok()) return std::nullopt;  // it has ended; the transfer tells
    sum += *seconds;
  }
  return sum;
}

Result<Moved> TransferMover::Move() {
  using Clock = std::chrono::steady_clock;
  const std::optional<double> cpu_before = DaemonsCpuSeconds();
  const Clock::time_point begin = Clock::now();
  ONECOPY_ASSIGN_OR_RETURN(const TransferInfo done, source_.client().RunTransfer(Request()));
  const double client_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const std::optional<double> cpu_after = DaemonsCpuSeconds();
  ONECOPY_RETURN_IF_ERROR(OutcomeOf(done));
  const Receipt& receipt = done.receipt;
  Moved moved;
  moved.seconds = receipt.seconds;
  moved.lanes = static_cast<unsigned>(receipt.lanes.size());
  moved.loopback = std::all_of(receipt.steps.begin(), receipt.steps.end(), [](const auto& one) {
    return one.step.by != "wire" || one.step.loopback;
  });
  if (cpu_before && cpu_after) moved.cpu_seconds = *cpu_after - *cpu_before;
  moved.details["client_bytes_per_second"] = static_cast<double>(done.bytes) / client_seconds;
  moved.details["client_seconds"] = client_seconds;
  moved.details["negotiation_seconds"] = receipt.negotiation_seconds;
  moved.details["copies"] = static_cast<double>(receipt.copies());
  moved.details["computed_host_memory_bytes_per_byte"] = HostTraffic(receipt, done.bytes);
  return moved;
}

Result<std::unique_ptr<Mover>> MakeTransfer(const TransferParams& params, uint64_t bytes) {
  ONECOPY_ASSIGN_OR_RETURN(std::unique_ptr<TransferMover> transfer,
                           TransferMover::Create(params, bytes));
  return std::unique_ptr<Mover>(std::move(transfer));
}

}  // namespace onecopy::bench
