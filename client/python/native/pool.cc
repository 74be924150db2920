#include "client/python/native/pool.h"

#include "client/cli/output/document.h"
#include "client/python/native/errors.h"

namespace onecopy::python {

namespace nb = nanobind;

namespace {

int GetPieceBuffer(PyObject* self, Py_buffer* view, int flags) {
  const PoolPiece* piece = nb::inst_ptr<PoolPiece>(self);
  return PyBuffer_FillInfo(view, self, reinterpret_cast<void*>(piece->address()),
                           static_cast<Py_ssize_t>(piece->bytes()), 0, flags);
}

std::string Text(const cli::Json& document) {
  return document.dump(-1, ' ', false, cli::Json::error_handler_t::replace);
}

}  // namespace

// Fails in a child alone, where the parent has the piece.
PoolPiece::~PoolPiece() {
  const nb::gil_scoped_release released;  // another thread may be making a slab
  static_cast<void>(pool_->Deallocate(data_));
}

std::pair<std::string, uint64_t> PoolPiece::Place() const {
  const Endpoint found = Must(pool_->endpoint(data_));
  return {found.buffer, found.offset_bytes.value_or(0)};
}

PoolHandle::~PoolHandle() {
  const nb::gil_scoped_release released;
  pool_.reset();  // may be the last of it, and then waits for the daemon
}

std::unique_ptr<PoolPiece> PoolHandle::Allocate(uint64_t bytes) {
  void* data = nullptr;
  {
    const nb::gil_scoped_release released;
    data = Must(pool_->Allocate(bytes));
  }
  return std::make_unique<PoolPiece>(pool_, data, bytes);
}

void PoolHandle::Grow(uint64_t bytes) {
  const nb::gil_scoped_release released;
  Check(pool_->Grow(bytes));
}

uint64_t PoolHandle::Trim(uint64_t keep_bytes) {
  const nb::gil_scoped_release released;
  return Must(pool_->Trim(keep_bytes));
}

std::vector<std::string> PoolHandle::Slabs() const {
  std::vector<PoolSlab> slabs;
  {
    const nb::gil_scoped_release released;
    slabs = pool_->slabs();
  }
  std::vector<std::string> documents;
  for (const PoolSlab& slab : slabs) documents.push_back(Text(cli::ToJson(slab.buffer)));
  return documents;
}

std::string PoolHandle::Statistics() const {
  const PoolStatistics now = [&] {
    const nb::gil_scoped_release released;
    return pool_->statistics();
  }();
  return Text({{"slabs", now.slabs},
               {"bytes_reserved", now.bytes_reserved},
               {"bytes_in_use", now.bytes_in_use},
               {"bytes_asked", now.bytes_asked},
               {"peak_bytes", now.peak_bytes},
               {"largest_free", now.largest_free},
               {"blocks_in_use", now.blocks_in_use},
               {"allocations", now.allocations},
               {"deallocations", now.deallocations},
               {"failures", now.failures},
               {"from_recent", now.from_recent},
               {"grown", now.grown},
               {"trimmed", now.trimmed}});
}

PyType_Slot* PoolPieceSlots() {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&GetPieceBuffer)},
                                {0, nullptr}};
  return slots;
}

}  // namespace onecopy::python
