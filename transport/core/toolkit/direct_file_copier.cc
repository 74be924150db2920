#include "transport/core/toolkit/direct_file_copier.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <utility>

#include "transport/core/ranges/scatter.h"
#include "transport/core/toolkit/file_copier.h"

namespace onecopy {
namespace {

constexpr size_t kEdges = 16;  // under way at a time: two of one range, many of many
constexpr uint64_t kEdgeBytes = 4096;
// Of what is going to be moved, to see which way it goes.
constexpr uint64_t kMostToProve = uint64_t{4} << 20;

Result<RegionRef> MakeEdges() {
  void* const at = std::aligned_alloc(kEdgeBytes, kEdges * kEdgeBytes);
  if (at == nullptr) {
    return Status(Code::kResourceExhausted, reasons::kNoMemory,
                  "out of memory: cannot allocate two pages");
  }
  auto edges = std::make_shared<Region>(Place{"host", {}}, static_cast<std::byte*>(at),
                                        kEdges * kEdgeBytes, true, [at] { std::free(at); });
  edges->SetStepName("pinned");
  return edges;
}

class DirectRoute final : public CopyRoute {
 public:
  struct Parts {
    std::string node;
    RegionRef from;
    RegionRef to;
    std::shared_ptr<DirectFile> direct;
    std::shared_ptr<void> attached;
    RegionRef edges;
    std::unique_ptr<CopyRoute> edge_route;  // between the edges and the GPU
  };

  explicit DirectRoute(Parts parts)
      : parts_(std::move(parts)),
        reads_(parts_.from->file() != nullptr),
        file_(reads_ ? *parts_.from->file() : *parts_.to->file()),
        memory_(reads_ ? parts_.to : parts_.from) {
    const FileUse use = reads_ ? FileUse::kRead : FileUse::kWrite;
    for (size_t i = 0; i < steps_.size(); ++i) {
      steps_[i] = std::make_shared<const std::vector<Step>>(
          StepsOf(static_cast<FilePass>(i), use, parts_.node, memory_->step_name()));
      std::vector<Step> edge =
          StepsOf(static_cast<FilePass>(i), use, parts_.node, parts_.edges->step_name());
      const std::vector<Step>& copy = *parts_.edge_route->steps();
      edge.insert(reads_ ? edge.end() : edge.begin(), copy.begin(), copy.end());
      edge_steps_[i] = std::make_shared<const std::vector<Step>>(std::move(edge));
    }
    for (size_t i = 0; i < kEdges; ++i) free_edges_.push_back(i);
  }

  void Copy(uint64_t from_offset, uint64_t to_offset, uint64_t bytes, Done done) override {
    const StridedCopy copy{.from = from_offset, .to = to_offset, .bytes = bytes};
    if (Status wrong = CheckInside({&copy, 1}, parts_.from->bytes(), parts_.to->bytes());
        !wrong.ok()) {
      return Refuse(std::move(wrong), std::move(done));
    }
    const uint64_t at = reads_ ? from_offset : to_offset;
    const Span span{memory_, reads_ ? to_offset : from_offset, bytes};
    if (IsWhole(at, span)) return CopyDirectly(at, span, std::move(done));
    // Edges have their pieces to themselves, and are less than a grain: longer ones are ranges that
    // lie unlike in file and memory.
    auto batch = std::make_shared<Batch>();
    batch->left = (bytes + kEdgeBytes - 1) / kEdgeBytes;
    batch->done = std::move(done);
    batch->steps = parts_.edge_route->steps();
    if (batch->left == 0) return Refuse(OkStatus(), std::move(batch->done));
    executor().Post([this, at, span, batch] {
      for (uint64_t begun = 0; begun < span.bytes; begun += kEdgeBytes) {
        const uint64_t piece = std::min(kEdgeBytes, span.bytes - begun);
        waiting_.push_back({at + begun, {span.region, span.offset + begun, piece}, batch});
      }
      BeginEdges();
    });
  }

  void CopyMany(std::vector<StridedCopy> copies, Done done) override {
    if (Status wrong = CheckInside(copies, parts_.from->bytes(), parts_.to->bytes()); !wrong.ok()) {
      return Refuse(std::move(wrong), std::move(done));
    }
    auto batch = std::make_shared<Batch>();
    batch->done = std::move(done);
    batch->steps = steps();
    std::vector<DirectFile::Piece> whole;
    std::vector<Edge> edges;
    for (const StridedCopy& copy : copies) {
      for (uint64_t i = 0; i < copy.count; ++i) {
        const uint64_t from = copy.from + i * copy.from_stride;
        const uint64_t to = copy.to + i * copy.to_stride;
        Split(reads_ ? from : to, {memory_, reads_ ? to : from, copy.bytes}, batch, whole, edges);
      }
    }
    batch->left = whole.size() + edges.size();
    if (batch->left == 0) return Refuse(OkStatus(), std::move(batch->done));
    executor().Post([this, whole = std::move(whole), edges = std::move(edges)]() mutable {
      waiting_.insert(waiting_.end(), std::make_move_iterator(edges.begin()),
                      std::make_move_iterator(edges.end()));
      BeginEdges();
      if (!whole.empty()) parts_.direct->MoveMany(!reads_, std::move(whole));
    });
  }

  Status Prove(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) override {
    const uint64_t at = reads_ ? from_offset : to_offset;
    const uint64_t inside = reads_ ? to_offset : from_offset;
    const uint64_t grain = parts_.direct->grain();
    const uint64_t head = (grain - at % grain) % grain;
    if (bytes < head + grain) return OkStatus();
    const uint64_t whole = std::min((bytes - head) / grain * grain, kMostToProve);
    ONECOPY_ASSIGN_OR_RETURN(
        proof_, parts_.direct->Prove(!reads_, at + head, {memory_, inside + head, whole}));
    return OkStatus();
  }
  std::string proof() const override { return proof_; }

  const StepList& steps() const override { return steps_[static_cast<size_t>(FilePass::kDirect)]; }
  unsigned depth() const override { return parts_.direct->depth(); }
  uint64_t chunk_bytes() const override { return parts_.direct->chunk_bytes(); }
  uint64_t grain() const override { return parts_.direct->grain(); }
  Executor& executor() override { return parts_.direct->executor(); }

 private:
  static constexpr size_t kPasses = static_cast<size_t>(FilePass::kGpuBounce) + 1;

  // Its copies complete on one thread.
  struct Batch {
    uint64_t left = 0;
    Status status;
    StepList steps;
    Done done;

    void Ended(Status ended, const StepList& taken) {
      if (!ended.ok() && status.ok()) status = std::move(ended);
      // Of the pieces of one batch those that took the most steps count for all.
      if (taken->size() > steps->size()) steps = taken;
      if (--left == 0) done(std::move(status), steps);
    }
  };
  struct Edge {
    uint64_t at = 0;  // in the file
    Span span;        // of the GPU
    std::shared_ptr<Batch> batch;
  };

  bool IsWhole(uint64_t at, const Span& span) const {
    const auto address = reinterpret_cast<uintptr_t>(span.address());
    return span.bytes > 0 && (at | address | span.bytes) % grain() == 0;
  }

  // What of it is whole grains on both sides, and what is none.
  void Split(uint64_t at, const Span& span, const std::shared_ptr<Batch>& batch,
             std::vector<DirectFile::Piece>& whole, std::vector<Edge>& edges) {
    const uint64_t head = std::min(span.bytes, (grain() - at % grain()) % grain());
    const uint64_t middle = (span.bytes - head) / grain() * grain();
    const Span direct{span.region, span.offset + head, middle};
    const bool alike = IsWhole(at + head, direct);
    const auto add_edge = [&](uint64_t begin, uint64_t end) {
      for (uint64_t i = begin; i < end; i += kEdgeBytes) {
        edges.push_back(
            {at + i, {span.region, span.offset + i, std::min(kEdgeBytes, end - i)}, batch});
      }
    };
    if (!alike) return add_edge(0, span.bytes);
    add_edge(0, head);
    add_edge(head + middle, span.bytes);
    whole.push_back({at + head, direct, [this, batch](Status status, FilePass pass) {
                       batch->Ended(std::move(status), steps_[static_cast<size_t>(pass)]);
                     }});
  }

  void CopyDirectly(uint64_t at, const Span& span, Done done) {
    StoreFile::Done moved = [this, done = std::move(done)](Status status, FilePass pass) mutable {
      done(std::move(status), steps_[static_cast<size_t>(pass)]);
    };
    if (reads_) return parts_.direct->Read(at, span, std::move(moved));
    parts_.direct->Write(at, span, std::move(moved));
  }

  // The executor's thread, from here on.
  void BeginEdges() {
    while (!waiting_.empty() && !free_edges_.empty()) {
      auto edge = std::make_shared<Edge>(std::move(waiting_.front()));
      waiting_.pop_front();
      const size_t slot = free_edges_.back();
      free_edges_.pop_back();
      if (reads_) {
        ReadEdge(edge, slot);
      } else {
        CopyEdge(edge, slot, FilePass::kPageCache);
      }
    }
  }

  void ReadEdge(const std::shared_ptr<Edge>& edge, size_t slot) {
    file_.Read(edge->at, {parts_.edges, slot * kEdgeBytes, edge->span.bytes},
               [this, edge, slot](Status status, FilePass pass) {
                 executor().Post([this, edge, slot, pass, status = std::move(status)]() mutable {
                   if (!status.ok()) return EndEdge(edge, slot, std::move(status), pass);
                   CopyEdge(edge, slot, pass);
                 });
               });
  }

  // Between the slot and the GPU.
  void CopyEdge(const std::shared_ptr<Edge>& edge, size_t slot, FilePass pass) {
    const uint64_t here = slot * kEdgeBytes;
    const uint64_t there = edge->span.offset;
    parts_.edge_route->Copy(
        reads_ ? here : there, reads_ ? there : here, edge->span.bytes,
        [this, edge, slot, pass](Status status, const StepList&) {
          executor().Post([this, edge, slot, pass, status = std::move(status)]() mutable {
            if (reads_ || !status.ok()) return EndEdge(edge, slot, std::move(status), pass);
            WriteEdge(edge, slot);
          });
        });
  }

  void WriteEdge(const std::shared_ptr<Edge>& edge, size_t slot) {
    file_.Write(edge->at, {parts_.edges, slot * kEdgeBytes, edge->span.bytes},
                [this, edge, slot](Status status, FilePass pass) {
                  executor().Post([this, edge, slot, pass, status = std::move(status)]() mutable {
                    EndEdge(edge, slot, std::move(status), pass);
                  });
                });
  }

  void EndEdge(const std::shared_ptr<Edge>& edge, size_t slot, Status status, FilePass pass) {
    free_edges_.push_back(slot);
    BeginEdges();
    edge->batch->Ended(std::move(status), edge_steps_[static_cast<size_t>(pass)]);
  }

  // Completions never come before Copy has returned.
  void Refuse(Status why, Done done) {
    executor().Post([why = std::move(why), steps = steps(), done = std::move(done)]() mutable {
      done(std::move(why), steps);
    });
  }

  Parts parts_;
  const bool reads_;
  StoreFile& file_;
  const RegionRef memory_;
  std::array<StepList, kPasses> steps_;
  std::array<StepList, kPasses> edge_steps_;
  std::string proof_;
  std::deque<Edge> waiting_;
  std::vector<size_t> free_edges_;
};

}  // namespace

bool DirectFileCopier::Copies(const Place& from, const Place& to) const {
  return (from.kind == kFileKind && !to.device.empty()) ||
         (!from.device.empty() && to.kind == kFileKind);
}

Result<std::unique_ptr<CopyRoute>> DirectFileCopier::Prepare(const RegionRef& from,
                                                             const RegionRef& to) {
  const bool reads = from->file() != nullptr;
  const RegionRef& memory = reads ? to : from;
  const auto& way = (reads ? from : to)->direct_way();
  if (way == nullptr || way->file == nullptr) {
    if (way != nullptr && !way->why_not.ok()) return way->why_not;
    return Status(Code::kFailedPrecondition, reasons::kNoGds,
                  "the file cannot be read directly into GPU memory");
  }
  ONECOPY_ASSIGN_OR_RETURN(RegionRef edges, MakeEdges());
  const Place& here = edges->place();
  const Place& there = memory->place();
  Copier* const copier = reads ? find_copier_(here, there) : find_copier_(there, here);
  if (copier == nullptr) {
    return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                  "this node cannot copy between host memory and " + memory->step_name());
  }
  DirectRoute::Parts parts;
  ONECOPY_ASSIGN_OR_RETURN(parts.edge_route,
                           reads ? copier->Prepare(edges, memory) : copier->Prepare(memory, edges));
  ONECOPY_ASSIGN_OR_RETURN(parts.attached, way->file->Attach(memory));
  parts.node = node_;
  parts.from = from;
  parts.to = to;
  parts.direct = way->file;
  parts.edges = std::move(edges);
  return std::unique_ptr<CopyRoute>(std::make_unique<DirectRoute>(std::move(parts)));
}

}  // namespace onecopy
