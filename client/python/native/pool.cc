#include "client/python/native/pool.h"

#include <algorithm>

#include "client/cli/output/document.h"
#include "client/python/native/at_exit.h"
#include "client/python/native/errors.h"
#include "client/python/native/gil.h"
#include "onecopy/reasons.h"

namespace onecopy::python {

namespace nb = nanobind;

namespace {

constexpr StreamHandle kLegacyStream = 1;  // CU_STREAM_LEGACY, which is stream 0 by another name
constexpr StreamHandle kPerThread = 2;     // CU_STREAM_PER_THREAD: on each thread another one

int GetPieceBuffer(PyObject* self, Py_buffer* view, int flags) {
  const PoolPiece* piece = nb::inst_ptr<PoolPiece>(self);
  if (!piece->on_host()) {
    PyErr_SetString(PyExc_BufferError,
                    "GPU memory has no Python buffer: use DLPack, or copy the array");
    view->obj = nullptr;
    return -1;
  }
  return LendView(self, view, piece->address(), piece->bytes(), flags);
}

// What a pool keeps for its transfers may have pieces, which keep the pool.
int VisitKept(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  for (const nb::object& each : nb::inst_ptr<PoolPiece>(self)->keeps()) Py_VISIT(each.ptr());
  return 0;
}

int ClearKept(PyObject* self) {
  nb::inst_ptr<PoolPiece>(self)->LetGo();
  return 0;
}

std::string Text(const cli::Json& document) {
  return document.dump(-1, ' ', false, cli::Json::error_handler_t::replace);
}

StreamHandle Known(StreamHandle stream) { return stream == kLegacyStream ? 0 : stream; }

}  // namespace

PoolPiece::PoolPiece(std::shared_ptr<Pool> pool, void* data, uint64_t bytes, StreamHandle stream,
                     nb::object keeps)
    : pool_(std::move(pool)),
      data_(data),
      bytes_(bytes),
      stream_(Known(stream)),
      waits_(stream == kPerThread) {
  keeps_.push_back(std::move(keeps));
}

// Fails in a child alone, where the parent has the piece. What cannot be ordered is not given back
// rather than too early.
PoolPiece::~PoolPiece() {
  const WithoutGil released;  // another thread may be making a slab
  if (SettleUses()) static_cast<void>(pool_->Deallocate(data_, 0, stream_));
  pool_.reset();  // may be the last of it, and then waits for streams and the daemon
}

bool PoolPiece::SettleUses() const { return ComesAfter(*pool_, stream_, others_, waits_); }

bool ComesAfter(Pool& pool, StreamHandle stream, const std::vector<StreamHandle>& others,
                bool all) {
  Status order;
  for (const StreamHandle other : others) {
    if (order.ok()) order = pool.Follow(stream, other);
  }
  if (order.reason() == reasons::kStreamCapturing) return false;  // a wait would end the capture
  return (order.ok() && !all) || pool.Synchronize().ok();
}

std::pair<std::string, uint64_t> PoolPiece::Place() const {
  Result<Endpoint> place = Status();
  {
    const WithoutGil released;  // likewise
    place = pool_->endpoint(data_);
  }
  const Endpoint found = Must(std::move(place));
  return {found.buffer, found.offset_bytes.value_or(0)};
}

void PoolPiece::HandTo(StreamHandle stream) const {
  const WithoutGil released;
  Check(pool_->Follow(Known(stream), stream_));
}

void PoolPiece::UsedBy(StreamHandle stream, const nb::object& owner) {
  stream = Known(stream);
  if (stream == stream_ || std::ranges::find(others_, stream) != others_.end()) return;
  if (stream == kPerThread || (owner.is_none() && stream != 0)) {
    waits_ = true;
    return;
  }
  others_.push_back(stream);
  keeps_.push_back(owner);
}

void PoolPiece::MoveTo(StreamHandle stream, const nb::object& owner) {
  stream = Known(stream);
  HandTo(stream);
  keeps_.push_back(owner);
  stream_ = stream;
  waits_ = stream == kPerThread;
  others_.clear();
}

PoolHandle::~PoolHandle() {
  const WithoutGil released;
  pool_.reset();  // may be the last of it, and then waits for the daemon
}

std::unique_ptr<PoolPiece> PoolHandle::Allocate(uint64_t bytes, StreamHandle stream,
                                                const nb::object& keeps) {
  auto* const data = reinterpret_cast<void*>(AllocateBytes(bytes, stream));
  return std::make_unique<PoolPiece>(pool_, data, bytes, stream, keeps);
}

std::unique_ptr<PoolPiece> PoolHandle::AllocateIdle(uint64_t bytes, const nb::object& keeps) {
  void* data = nullptr;
  {
    const WithoutGil released;
    data = Must(pool_->AllocateIdle(bytes));
  }
  return std::make_unique<PoolPiece>(pool_, data, bytes, 0, keeps);
}

uint64_t PoolHandle::AllocateBytes(uint64_t bytes, StreamHandle stream) {
  const WithoutGil released;
  return reinterpret_cast<uintptr_t>(Must(pool_->Allocate(bytes, Known(stream))));
}

void PoolHandle::Deallocate(uint64_t address, uint64_t bytes, StreamHandle stream) {
  const WithoutGil released;
  Check(pool_->Deallocate(reinterpret_cast<void*>(address), bytes, Known(stream)));
}

std::optional<std::pair<std::string, uint64_t>> PoolHandle::Find(uint64_t address,
                                                                 uint64_t bytes) const {
  const WithoutGil released;
  Result<Endpoint> found = pool_->endpoint(reinterpret_cast<const void*>(address), bytes);
  if (!found.ok()) return std::nullopt;
  return std::pair(std::move(found->buffer), found->offset_bytes.value_or(0));
}

void PoolHandle::Grow(uint64_t bytes) {
  const WithoutGil released;
  Check(pool_->Grow(bytes));
}

uint64_t PoolHandle::Trim(uint64_t keep_bytes) {
  const WithoutGil released;
  return Must(pool_->Trim(keep_bytes));
}

void PoolHandle::ReleaseStream(StreamHandle stream) {
  const WithoutGil released;
  Check(pool_->ReleaseStream(Known(stream)));
}

std::vector<std::string> PoolHandle::Slabs() const {
  std::vector<PoolSlab> slabs;
  {
    const WithoutGil released;
    slabs = pool_->slabs();
  }
  std::vector<std::string> documents;
  for (const PoolSlab& slab : slabs) documents.push_back(Text(cli::ToJson(slab.buffer)));
  return documents;
}

std::string PoolHandle::Statistics() const {
  const PoolStatistics now = [&] {
    const WithoutGil released;
    return pool_->statistics();
  }();
  return Text({{"slabs", now.slabs},
               {"bytes_reserved", now.bytes_reserved},
               {"bytes_managed", now.bytes_managed},
               {"bytes_in_use", now.bytes_in_use},
               {"bytes_asked", now.bytes_asked},
               {"peak_bytes", now.peak_bytes},
               {"largest_free", now.largest_free},
               {"blocks_in_use", now.blocks_in_use},
               {"allocations", now.allocations},
               {"deallocations", now.deallocations},
               {"failures", now.failures},
               {"from_recent", now.from_recent},
               {"from_others", now.from_others},
               {"synchronized", now.synchronized},
               {"grown", now.grown},
               {"trimmed", now.trimmed}});
}

PyType_Slot* PoolPieceSlots() {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&GetPieceBuffer)},
                                {Py_bf_releasebuffer, reinterpret_cast<void*>(&GiveViewBack)},
                                {Py_tp_traverse, reinterpret_cast<void*>(&VisitKept)},
                                {Py_tp_clear, reinterpret_cast<void*>(&ClearKept)},
                                {0, nullptr}};
  return slots;
}

}  // namespace onecopy::python
