// The module onecopy._native: what the package's Python files are made of. Private.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "client/python/native/at_exit.h"
#include "client/python/native/errors.h"
#include "client/python/native/formats.h"
#include "client/python/native/gil.h"
#include "client/python/native/mapped.h"
#include "client/python/native/memory.h"
#include "client/python/native/node.h"
#include "client/python/native/pool.h"
#include "client/python/native/ranges.h"
#include "client/python/native/request.h"
#include "client/python/native/tensor.h"
#include "client/python/native/text.h"
#include "client/python/native/torch_hooks.h"
#include "client/python/native/undisturbed.h"
#include "onecopy/block_layout.h"
#include "onecopy/size.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace onecopy::python;

namespace {

void BindTransfers(nb::module_& module) {
  nb::class_<std::stop_source>(module, "Stop")
      .def(nb::init<>())
      .def("request", [](std::stop_source& stop) { stop.request_stop(); })
      .def_prop_ro("requested", [](const std::stop_source& stop) { return stop.stop_requested(); });
  nb::class_<TransferSnapshot>(module, "Transfer")
      .def_prop_ro("id", [](const TransferSnapshot& self) { return self.info().id.str(); })
      .def_prop_ro("state",
                   [](const TransferSnapshot& self) {
                     return std::string(onecopy::StateName(self.info().state));
                   })
      .def_prop_ro("is_final",
                   [](const TransferSnapshot& self) { return onecopy::IsFinal(self.info().state); })
      .def_prop_ro("bytes", [](const TransferSnapshot& self) { return self.info().bytes; })
      .def_prop_ro("bytes_done",
                   [](const TransferSnapshot& self) { return self.info().bytes_done; })
      .def_prop_ro("error",
                   [](const TransferSnapshot& self) -> nb::object {
                     const onecopy::Status outcome = OutcomeOf(self.info());
                     if (outcome.ok() || !onecopy::IsFinal(self.info().state)) return nb::none();
                     return ToException(outcome);
                   })
      .def("text", &TransferSnapshot::Text)
      .def("document", &TransferSnapshot::Document)
      .def("plan_text", &TransferSnapshot::TextOfPlan)
      .def("plan_document", &TransferSnapshot::DocumentOfPlan);
}

void BindLayouts(nb::module_& module) {
  nb::class_<onecopy::BlockLayout>(module, "BlockLayout")
      .def("ends", [](const onecopy::BlockLayout& self) {
        std::vector<std::pair<std::string, std::string>> ends;
        for (const onecopy::Endpoint& end : self.buffers()) ends.emplace_back(end.node, end.buffer);
        return ends;
      });
  nb::class_<BlockNumbers>(module, "BlockNumbers");
  module.def(
      "make_layout",
      [](const nb::list& ends, uint64_t block_bytes, uint64_t count, uint64_t offset,
         uint64_t stride, uint64_t layers, uint64_t layer_stride) {
        std::vector<onecopy::Endpoint> buffers;
        for (const nb::handle end : ends) buffers.push_back(ToEndpoint(nb::cast<nb::tuple>(end)));
        return Must(onecopy::BlockLayout::Make(
            buffers, {block_bytes, count, offset, stride, layers, layer_stride}));
      },
      "ends"_a, "block_bytes"_a, "count"_a, "offset"_a, "stride"_a, "layers"_a, "layer_stride"_a,
      nb::sig("def make_layout(ends: list[tuple[str, str, int | None, int | None]], "
              "block_bytes: int, count: int, offset: int, stride: int, layers: int, "
              "layer_stride: int) -> BlockLayout"));
  module.def("block_numbers", &PackBlockNumbers, "numbers"_a, "side"_a,
             nb::sig("def block_numbers(numbers: tuple[int, int, bool, tuple[int, ...], "
                     "tuple[int, ...]], side: str) -> BlockNumbers"));
  module.def("pack_blocks", &PackBlocks, "source"_a, "source_blocks"_a, "destination"_a,
             "blocks"_a);
}

void BindMemory(nb::module_& module) {
  nb::class_<Memory>(module, "Memory", nb::type_slots(MemorySlots()), nb::is_weak_referenceable())
      .def_prop_ro("address", &Memory::address)
      .def_prop_ro("bytes", &Memory::bytes)
      .def_prop_ro("id", &Memory::id)
      .def("document", &Memory::Document)
      .def("close", &Memory::Close);
  nb::class_<Mapped>(module, "Mapped", nb::type_slots(MappedSlots()))
      .def_prop_ro("address", &Mapped::address)
      .def_prop_ro("bytes", &Mapped::bytes)
      .def_prop_ro("cuda_device", &Mapped::cuda_device)
      .def_prop_ro("revocation_fd", &Mapped::revocation_fd)
      .def_prop_ro("valid", &Mapped::IsValid)
      .def("check", &Mapped::CheckValid)
      .def("document", &Mapped::Document);
  nb::class_<Tensor>(module, "Tensor")
      .def_ro("address", &Tensor::address)
      .def_ro("bits", &Tensor::bits)
      .def_ro("shape", &Tensor::shape)
      .def_ro("strides", &Tensor::strides)
      .def_ro("read_only", &Tensor::read_only)
      .def_ro("protocol", &Tensor::protocol)
      .def("fields", &Tensor::Fields,
           nb::sig("def fields(self) -> tuple[int, int, tuple[int, ...], tuple[int, ...], "
                   "tuple[int, int], bool, str, tuple[int, int, int] | str]"))
      .def_prop_ro("device",
                   [](const Tensor& self) { return std::pair(self.device.type, self.device.id); });
  nb::class_<Ranges>(module, "Ranges").def("__len__", &Ranges::size);
  module.def(
      "pack_ranges", &PackRanges, "source"_a, "destination"_a, "bytes"_a.none(),
      nb::sig("def pack_ranges(source: tuple[int, int, bool, tuple[int, ...], tuple[int, ...]], "
              "destination: tuple[int, int, bool, tuple[int, ...], tuple[int, ...]], "
              "bytes: int | None) -> Ranges"));
  BindLayouts(module);
  module.def("copy_bytes", &CopyBytes, "target"_a, "source"_a);
  module.def("import_tensor", &ImportTensor, "array"_a);
  module.def("flat_memory", &FlatMemoryOf, "array"_a.none(),
             nb::sig("def flat_memory(array: object | None) -> tuple[int, int, bool, bool, object, "
                     "tuple[int, ...]] | None"));
  module.def(
      "export_tensor",
      [](const nb::object& owner, uint64_t address, std::pair<int32_t, int32_t> device,
         std::tuple<uint8_t, uint8_t, uint16_t> type, const std::vector<int64_t>& shape,
         const std::vector<int64_t>& strides, bool read_only, bool versioned) {
        return ExportTensor(owner, address, {device.first, device.second},
                            {std::get<0>(type), std::get<1>(type), std::get<2>(type)}, shape,
                            strides, read_only, versioned);
      },
      "owner"_a, "address"_a, "device"_a, "type"_a, "shape"_a, "strides"_a, "read_only"_a,
      "versioned"_a);
}

void BindPools(nb::module_& module) {
  nb::class_<PoolPiece>(module, "PoolPiece", nb::type_slots(PoolPieceSlots()),
                        nb::is_weak_referenceable())
      .def_prop_ro("address", &PoolPiece::address)
      .def_prop_ro("bytes", &PoolPiece::bytes)
      .def_prop_ro("stream", &PoolPiece::stream)
      .def("place", &PoolPiece::Place)
      .def("hand_to", &PoolPiece::HandTo, "stream"_a)
      .def("used_by", &PoolPiece::UsedBy, "stream"_a, "owner"_a.none())
      .def("move_to", &PoolPiece::MoveTo, "stream"_a, "owner"_a.none())
      .def("wait_at_end", &PoolPiece::WaitAtEnd);
  nb::class_<PoolHandle>(module, "Pool")
      .def_prop_ro("cuda_device", [](const PoolHandle& self) { return self.pool()->cuda_device(); })
      .def("allocate", &PoolHandle::Allocate, "bytes"_a, "stream"_a = 0,
           "keeps"_a.none() = nb::none())
      .def("allocate_idle", &PoolHandle::AllocateIdle, "bytes"_a, "keeps"_a)
      .def("allocate_bytes", &PoolHandle::AllocateBytes, "bytes"_a, "stream"_a)
      .def("deallocate", &PoolHandle::Deallocate, "address"_a, "bytes"_a, "stream"_a)
      .def("find", &PoolHandle::Find, "address"_a, "bytes"_a)
      .def("grow", &PoolHandle::Grow, "bytes"_a)
      .def("trim", &PoolHandle::Trim, "keep_bytes"_a)
      .def("release_stream", &PoolHandle::ReleaseStream, "stream"_a)
      .def("slabs", &PoolHandle::Slabs)
      .def("statistics", &PoolHandle::Statistics);
  module.def(
      "set_torch_pool",
      [](int device, const PoolHandle* pool) {
        std::shared_ptr<onecopy::Pool> chosen = pool == nullptr ? nullptr : pool->pool();
        const WithoutGil released;  // the last of another one may go, and waits
        SetTorchPool(device, std::move(chosen));
      },
      "device"_a, "pool"_a.none());
  // Blocks that torch has, allocations that failed, and why the last one did.
  module.def("torch_hooks", [] {
    const TorchHooks now = TorchHooksNow();
    return std::tuple(now.blocks, now.failures, now.last_error);
  });
}

void BindNode(nb::module_& module) {
  // Of a request without an element.
  module.def("nothing_moved", [] {
    onecopy::TransferInfo info;
    info.state = onecopy::TransferState::kSucceeded;
    return TransferSnapshot(std::move(info));
  });
  nb::class_<Queued>(module, "Queued")
      .def_prop_ro("done", &Queued::done)
      .def("wait", &Queued::Await, "stop"_a, nb::sig("def wait(self, stop: Stop) -> Transfer"))
      .def("cancel", &Queued::Cancel);
  nb::class_<Prepared>(module, "Prepared");
  nb::class_<Watch>(module, "Watch")
      .def("poll", &Watch::Poll, "most"_a)
      .def(
          "wait", &Watch::Wait, "most"_a, "limit_ms"_a.none(), "stop"_a,
          nb::sig("def wait(self, most: int, limit_ms: int | None, stop: Stop) -> tuple[str, int]"))
      .def("close", &Watch::Close);
  nb::class_<Node>(module, "Node")
      .def(nb::init<const std::string&, const std::string&, int64_t, bool, const std::string&,
                    bool>(),
           "run_dir"_a, "program"_a, "timeout_ms"_a, "use_ring"_a, "cuda_library"_a = "",
           "keep_arrivals"_a = false)
      .def_prop_ro("name", [](const Node& self) { return self.client().node(); })
      .def_prop_ro("daemon_version",
                   [](const Node& self) { return self.client().daemon_version(); })
      .def_prop_ro("run_dir", [](const Node& self) { return self.client().run_dir(); })
      .def_prop_ro("session", [](const Node& self) { return self.client().session().number; })
      .def("ping", &Node::Ping)
      .def("create_buffer", &Node::CreateBuffer, "name"_a, "bytes"_a, "memory"_a, "node"_a = "",
           "keep_arrivals"_a = false)
      .def("create_views", &Node::CreateViews, "views"_a)
      .def("create_memory", &Node::CreateMemory, "name"_a, "bytes"_a)
      .def("create_pool", &Node::CreatePool, "name"_a, "cuda_device"_a.none(), "pinned"_a,
           "managed_overflow"_a, "slab_bytes"_a, "initial_bytes"_a, "limit_bytes"_a)
      .def("register_memfd", &Node::RegisterMemfd, "name"_a, "fd"_a, "offset_bytes"_a, "bytes"_a)
      .def("register_all", &Node::RegisterAll, "pieces"_a)
      .def("cuda_allocation", &Node::CudaAllocationOf, "pointer"_a, "bytes"_a)
      .def("register_dmabuf", &Node::RegisterDmaBuf, "name"_a, "fd"_a, "offset_bytes"_a, "bytes"_a)
      .def("map_buffer", &Node::MapBuffer, "buffer"_a, "device"_a.none())
      .def("get_buffer", &Node::GetBuffer, "node"_a, "name"_a)
      .def("list_buffers", &Node::ListBuffers, "node"_a)
      .def("delete_buffer", &Node::DeleteBuffer, "name"_a, "force"_a, "node"_a = "")
      .def("release_buffer", &Node::ReleaseBuffer, "name"_a, "force"_a)
      .def("sum_buffer", &Node::SumBuffer, "range"_a,
           nb::sig("def sum_buffer(self, range: tuple[object, ...]) -> str"))
      .def(
          "create_grant", &Node::CreateGrant, "range"_a, "to"_a, "read"_a, "write"_a,
          "lifetime_ms"_a.none(),
          nb::sig(
              "def create_grant(self, range: tuple[object, ...], to: str, read: bool, write: bool, "
              "lifetime_ms: int | None) -> str"))
      .def("list_grants", &Node::ListGrants, "buffer"_a, "node"_a)
      .def("delete_grant", &Node::DeleteGrant, "id"_a)
      .def("plan", &Node::Plan, "request"_a,
           nb::sig("def plan(self, request: tuple[object, ...]) -> tuple[str, str]"))
      .def("run", &Node::Run, "request"_a, "on_update"_a.none(), "stop"_a,
           nb::sig("def run(self, request: tuple[object, ...], on_update: object, stop: Stop) -> "
                   "Transfer"))
      .def("prepare", &Node::Prepare, "request"_a,
           nb::sig("def prepare(self, request: tuple[object, ...]) -> Prepared"))
      .def("run_prepared", &Node::RunPrepared, "prepared"_a)
      .def("start_prepared", &Node::StartPrepared, "prepared"_a)
      .def("seconds_of", &Node::SecondsOf, "prepared"_a, "count"_a)
      .def("start", &Node::Start, "request"_a,
           nb::sig("def start(self, request: tuple[object, ...]) -> Transfer"))
      .def("copy_file", &Node::CopyFile, "request"_a, "reads"_a, "offset_bytes"_a.none(),
           "bytes"_a.none(), "sync"_a, "write_device"_a, "on_update"_a.none(), "stop"_a,
           nb::sig("def copy_file(self, request: tuple[object, ...], reads: bool, offset_bytes: "
                   "int | None, bytes: int | None, sync: bool, write_device: bool, on_update: "
                   "object, stop: Stop) -> Transfer"))
      .def("copy_file_to_each", &Node::CopyFileToEach, "request"_a, "offset_bytes"_a.none(),
           "bytes"_a.none(), "on_update"_a.none(), "stop"_a,
           nb::sig("def copy_file_to_each(self, request: tuple[object, ...], offset_bytes: int | "
                   "None, bytes: int | None, on_update: object, stop: Stop) -> list[Transfer]"))
      .def("broadcast", &Node::Broadcast, "request"_a, "retry_for_ms"_a, "piece_bytes"_a,
           "on_update"_a.none(), "stop"_a,
           nb::sig("def broadcast(self, request: tuple[object, ...], retry_for_ms: int, "
                   "piece_bytes: int, on_update: object, stop: Stop) -> "
                   "list[tuple[Transfer, list[tuple[str, int, object]]]]"))
      .def("copy_pieces", &Node::CopyPieces, "request"_a, "fd"_a, "reads"_a, "texts"_a, "pieces"_a,
           "sync"_a, "on_update"_a.none(), "stop"_a, "own"_a = Node::OwnParts(),
           nb::sig("def copy_pieces(self, request: tuple[object, ...], fd: int, reads: bool, "
                   "texts: list[tuple[int, bytes]], pieces: list[tuple[tuple[object, ...], int]], "
                   "sync: bool, on_update: object, stop: Stop, own: list[tuple[int, int, int]] = "
                   "...) -> list[Transfer]"))
      .def("read_own", &Node::ReadOwn, "path"_a, "fd"_a, "parts"_a, "destination"_a,
           "deadline_ms"_a.none(),
           nb::sig("def read_own(self, path: str, fd: int, parts: list[tuple[int, int, int]], "
                   "destination: tuple[object, ...], deadline_ms: int | None) -> Transfer"))
      .def("enqueue", &Node::Enqueue, "request"_a, "after"_a.none(), "then"_a.none(),
           nb::sig("def enqueue(self, request: tuple[object, ...], after: int | None, then: int | "
                   "None) -> Queued"))
      .def("wait", &Node::Await, "id"_a, "on_update"_a.none(), "stop"_a)
      .def("get_transfer", &Node::GetTransfer, "id"_a)
      .def("list_transfers", &Node::ListTransfers)
      .def("cancel", &Node::Cancel, "id"_a)
      .def("watch_arrivals", &Node::WatchArrivals, "buffer"_a)
      .def("tell", &Node::Tell, "node"_a, "buffer"_a, "message"_a, "request_id"_a)
      .def("list_exports", &Node::ListExports, "node"_a)
      .def("get_node", &Node::GetNode, "name"_a)
      .def("list_nodes", &Node::ListNodes);
}

}  // namespace

NB_MODULE(_native, module) {
  RegisterErrors();
  WatchExit();
  nb::class_<Undisturbed>(module, "Undisturbed", nb::type_slots(UndisturbedSlots()))
      .def(nb::init<nb::callable>(), "work"_a,
           nb::sig("def __init__(self, work: collections.abc.Callable[..., object]) -> None"))
      .def("__call__", &Undisturbed::Call,
           nb::sig("def __call__(self, *arguments: object) -> None"));
  BindTransfers(module);
  BindMemory(module);
  BindPools(module);
  BindNode(module);
  BindFormats(module);
  module.def(
      "parse_bytes", [](const std::string& text) { return Must(onecopy::ParseBytes(text)); },
      "text"_a);
}
