#include "bench/work/file_mover.h"

#include <chrono>

#include "bench/ceiling/together.h"
#include "bench/daemons/process_facts.h"
#include "bench/work/host_traffic.h"
#include "onecopy/reasons.h"

namespace onecopy::bench {
namespace {

constexpr std::chrono::minutes kFileDeadline{10};

}  // namespace

Result<std::unique_ptr<FileMover>> FileMover::Create(const FileMoverParams& params,
                                                     uint64_t bytes) {
  ONECOPY_ASSIGN_OR_RETURN(std::unique_ptr<PayloadFile> file,
                           PayloadFile::Plan(params.file, bytes));
  ONECOPY_ASSIGN_OR_RETURN(Client client, params.node.Connect());
  const Node& buffers = params.buffers ? *params.buffers : params.node;
  ONECOPY_ASSIGN_OR_RETURN(End end, End::Create(buffers, params.memory, bytes));
  return std::unique_ptr<FileMover>(
      new FileMover(params, std::move(file), std::move(client), std::move(end)));
}

Status FileMover::Fill(uint64_t seed) {
  if (params_.writes) {
    // What is written in place is there before, as the library makes it otherwise.
    if (params_.through_cache) ONECOPY_RETURN_IF_ERROR(file_->MakeEmpty());
    return end_.Put(seed);
  }
  ONECOPY_RETURN_IF_ERROR(file_->Put(seed));
  if (params_.cold) return file_->Drop();
  ONECOPY_ASSIGN_OR_RETURN(const bool cached, file_->Cached());
  if (cached) return OkStatus();
  return {Code::kResourceExhausted, reasons::kNoMemory,
          file_->path() + " does not stay in the page cache", "ask for less with --sizes"};
}

Result<Receipt> FileMover::CopyThroughCache() {
  ONECOPY_ASSIGN_OR_RETURN(Endpoint file, client_.PassFile(file_->path(), file_->fd()));
  file.offset_bytes = 0;
  file.bytes = file_->bytes();
  TransferRequest request;
  request.source = params_.writes ? end_.endpoint() : file;
  request.destination = params_.writes ? file : end_.endpoint();
  request.policy.path_glob = params_.path;
  request.deadline = kFileDeadline;
  ONECOPY_ASSIGN_OR_RETURN(TransferInfo done, client_.RunTransfer(request));
  ONECOPY_RETURN_IF_ERROR(OutcomeOf(done));
  return std::move(done.receipt);
}

FileCopyOptions FileMover::Options() const {
  FileCopyOptions options;
  options.policy.path_glob = params_.path;
  options.deadline = kFileDeadline;
  return options;
}

Status FileMover::Plan() {
  ONECOPY_RETURN_IF_ERROR(file_->MakeEmpty());
  const LocalFile file{.path = file_->path()};
  const auto plan = params_.writes ? PlanBufferToFile(client_, end_.endpoint(), file, Options())
                                   : PlanFileToBuffer(client_, file, end_.endpoint(), Options());
  file_->Remove();
  return PolicyRefusal(plan.status(), params_.path);
}

Result<Receipt> FileMover::Copy() {
  if (params_.through_cache) return CopyThroughCache();
  const FileCopyOptions options = Options();
  const LocalFile file{.path = file_->path()};
  Result<FileCopy> copied = params_.writes
                                ? CopyBufferToFile(client_, end_.endpoint(), file, options)
                                : CopyFileToBuffer(client_, file, end_.endpoint(), options);
  if (!copied.ok()) return copied.status();
  return std::move(copied->receipt);
}

std::optional<double> FileMover::CpuSeconds() const {
  double all = ProcessCpuSeconds();
  std::vector<std::optional<pid_t>> daemons = {params_.node.pid};
  if (params_.buffers) daemons.push_back(params_.buffers->pid);
  for (const std::optional<pid_t>& pid : daemons) {
    if (!pid) return std::nullopt;
    const Result<double> daemon = ReadCpuSeconds(*pid);
    if (!daemon.ok()) return std::nullopt;  // it has ended; the transfer tells
    all += *daemon;
  }
  return all;
}

Result<Moved> FileMover::Move() {
  using Clock = std::chrono::steady_clock;
  const std::optional<double> cpu_before = CpuSeconds();
  const Clock::time_point begin = Clock::now();
  ONECOPY_ASSIGN_OR_RETURN(const Receipt receipt, Copy());
  const double client_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const std::optional<double> cpu_after = CpuSeconds();
  Moved moved;
  moved.seconds = receipt.seconds;
  if (cpu_before && cpu_after) moved.cpu_seconds = *cpu_after - *cpu_before;
  moved.details["client_bytes_per_second"] = static_cast<double>(file_->bytes()) / client_seconds;
  moved.details["client_seconds"] = client_seconds;
  moved.details["negotiation_seconds"] = receipt.negotiation_seconds;
  moved.details["copies"] = static_cast<double>(receipt.copies());
  moved.details["computed_host_memory_bytes_per_byte"] = HostTraffic(receipt, file_->bytes());
  return moved;
}

Result<bool> FileMover::Verify(uint64_t seed) {
  if (!params_.writes) return end_.Holds(seed);
  const Result<bool> right = file_->Holds(seed);
  file_->Remove();  // before the disk is busy with writes that are not needed
  return right;
}

}  // namespace onecopy::bench
