// Queues, and the bytes that they move.
#include <arpa/inet.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tests/support/fake_verbs/state.h"

namespace onecopy::fake_verbs {
namespace {

FakeQueuePair& Fake(ibv_qp* queue_pair) { return *reinterpret_cast<FakeQueuePair*>(queue_pair); }
FakeCompletions& Fake(ibv_cq* queue) { return *reinterpret_cast<FakeCompletions*>(queue); }
FakeReceives& Fake(ibv_srq* queue) { return *reinterpret_cast<FakeReceives*>(queue); }
QueuePair& Record(const FakeQueuePair& queue_pair) {
  return TheState().queue_pairs[queue_pair.record];
}
const PlantedPort& PortOf(const FakeQueuePair& queue_pair) {
  return queue_pair.device->planted.ports[queue_pair.init.port_num - 1U];
}

bool IsIpv4(const Gid& gid) {
  return std::all_of(gid.begin(), gid.begin() + 10, [](uint8_t byte) { return byte == 0; }) &&
         gid[10] == 0xff && gid[11] == 0xff;
}

// Whether packets of `from` reach `to`, by what was said when it was addressed.
bool Reaches(const FakeQueuePair& from, const FakeQueuePair& to) {
  const PlantedPort& here = PortOf(from);
  const PlantedPort& there = PortOf(to);
  if (here.wire != there.wire || here.state != IBV_PORT_ACTIVE || there.state != IBV_PORT_ACTIVE) {
    return false;
  }
  const uint16_t mine = here.pkeys[from.init.pkey_index];
  const uint16_t theirs = there.pkeys[to.init.pkey_index];
  if ((mine & 0x7fff) != (theirs & 0x7fff) || ((mine | theirs) & 0x8000) == 0) return false;
  const ibv_ah_attr& address = Record(from).addressed.ah_attr;
  if (!here.ethernet && address.dlid != there.lid) return false;
  if (address.is_global == 0) return !here.ethernet && !here.needs_grh && !there.needs_grh;
  if (address.grh.sgid_index >= here.gids.size()) return false;
  const Gid& source = here.gids[address.grh.sgid_index].gid;
  Gid destination{};
  std::copy_n(address.grh.dgid.raw, destination.size(), destination.begin());
  if (source == Gid{} || (here.ethernet && IsIpv4(source) != IsIpv4(destination))) return false;
  return std::any_of(there.gids.begin(), there.gids.end(),
                     [&](const PlantedGid& gid) { return gid.gid == destination; });
}

FakeQueuePair* PeerOf(const FakeQueuePair& queue_pair) {
  const auto found = TheState().live.find(Record(queue_pair).addressed.dest_qp_num);
  if (found == TheState().live.end()) return nullptr;
  FakeQueuePair* const peer = found->second;
  const ibv_qp_state state = Record(*peer).state;
  if (state != IBV_QPS_RTR && state != IBV_QPS_RTS) return nullptr;
  return Reaches(queue_pair, *peer) && Reaches(*peer, queue_pair) ? peer : nullptr;
}

void EnterError(FakeQueuePair& queue_pair) {
  QueuePair& record = Record(queue_pair);
  if (record.state == IBV_QPS_ERR) return;
  const bool received = record.state == IBV_QPS_RTR || record.state == IBV_QPS_RTS;
  record.state = IBV_QPS_ERR;
  record.ended_in_order = !received;
  for (const uint64_t id : std::exchange(queue_pair.swallowed, {})) {
    ibv_wc flushed{};
    flushed.wr_id = id;
    flushed.status = IBV_WC_WR_FLUSH_ERR;
    flushed.qp_num = queue_pair.qp.qp_num;
    Complete(Fake(queue_pair.qp.send_cq), flushed);
  }
  if (!received) return;
  // The receiver is always one entry ahead.
  auto& entries = Fake(queue_pair.qp.srq).entries;
  if (!entries.empty()) {
    queue_pair.taken.push_back(entries.front());
    entries.pop_front();
  }
  queue_pair.owes_last_receive = true;
  if (Fake(queue_pair.qp.recv_cq).armed) Complete(Fake(queue_pair.qp.recv_cq), {});
}

ibv_wc_status Read(FakeQueuePair& reader, const ibv_send_wr& request) {
  const ibv_sge& into = request.sg_list[0];
  FakeQueuePair* const owner = PeerOf(reader);
  if (owner == nullptr) return IBV_WC_RETRY_EXC_ERR;
  const std::byte* from =
      Remote(*owner, request.wr.rdma.rkey, request.wr.rdma.remote_addr, into.length);
  if (from == nullptr) {
    EnterError(*owner);
    return IBV_WC_REM_ACCESS_ERR;
  }
  std::byte* to = Local(into.lkey, into.addr, into.length);
  if (to == nullptr) return IBV_WC_LOC_PROT_ERR;
  std::memcpy(to, from, into.length);
  Record(reader).bytes_read += into.length;
  return IBV_WC_SUCCESS;
}

ibv_wc_status Send(FakeQueuePair& sender, const ibv_send_wr& request) {
  const bool is_inline = (request.send_flags & IBV_SEND_INLINE) != 0;
  const ibv_sge& from = request.sg_list[0];
  ++Record(sender).sends;
  if (is_inline) {
    ++Record(sender).sent_inline;
    if (from.length > Record(sender).most_inline) return IBV_WC_LOC_LEN_ERR;
  }
  FakeQueuePair* const receiver = PeerOf(sender);
  if (receiver == nullptr) return IBV_WC_RETRY_EXC_ERR;
  auto& entries = Fake(receiver->qp.srq).entries;
  if (entries.empty()) return IBV_WC_RNR_RETRY_EXC_ERR;
  const auto [entry, piece] = entries.front();
  entries.pop_front();
  const std::byte* bytes = is_inline ? reinterpret_cast<const std::byte*>(from.addr)
                                     : Local(from.lkey, from.addr, from.length);
  std::byte* const to = Local(piece.lkey, piece.addr, from.length);
  if (bytes == nullptr || to == nullptr) return IBV_WC_LOC_PROT_ERR;
  std::memcpy(to, bytes, from.length);
  ibv_wc arrived{};
  arrived.wr_id = entry.wr_id;
  arrived.opcode = IBV_WC_RECV;
  arrived.qp_num = receiver->qp.qp_num;
  arrived.byte_len = from.length;
  Complete(Fake(receiver->qp.recv_cq), arrived);
  return IBV_WC_SUCCESS;
}

ibv_wc_status Run(FakeQueuePair& queue_pair, const ibv_send_wr& request) {
  if (Record(queue_pair).state == IBV_QPS_ERR) return IBV_WC_WR_FLUSH_ERR;
  State& state = TheState();
  switch (request.opcode) {
    case IBV_WR_RDMA_READ:
      return Read(queue_pair, request);
    case IBV_WR_SEND:
      return Send(queue_pair, request);
    case IBV_WR_BIND_MW: {
      auto& window = *reinterpret_cast<FakeWindow*>(request.bind_mw.mw);
      window.region = reinterpret_cast<const FakeRegion*>(request.bind_mw.bind_info.mr);
      window.queue_pair = queue_pair.qp.qp_num;
      window.address = request.bind_mw.bind_info.addr;
      window.bytes = request.bind_mw.bind_info.length;
      window.window.rkey = request.bind_mw.rkey;
      return IBV_WC_SUCCESS;
    }
    case IBV_WR_LOCAL_INV:
      for (FakeWindow* window : state.windows) {
        if (window->window.rkey == request.invalidate_rkey) window->region = nullptr;
      }
      return IBV_WC_SUCCESS;
    default:
      return IBV_WC_LOC_QP_OP_ERR;
  }
}

}  // namespace

void Complete(FakeCompletions& queue, const ibv_wc& completion) {
  if (completion.qp_num != 0) queue.entries.push_back(completion);
  if (std::exchange(queue.armed, false)) ::eventfd_write(queue.cq.channel->fd, 1);
}

int PostSend(ibv_qp* queue_pair, ibv_send_wr* request, ibv_send_wr**) {
  const std::lock_guard lock(TheState().mutex);
  FakeQueuePair& fake = Fake(queue_pair);
  for (; request != nullptr; request = request->next) {
    if (fake.device->swallows && Record(fake).state != IBV_QPS_ERR) {
      fake.swallowed.push_back(request->wr_id);
      continue;
    }
    const ibv_wc_status status = Run(fake, *request);
    if (status == IBV_WC_SUCCESS && (request->send_flags & IBV_SEND_SIGNALED) == 0) continue;
    ibv_wc done{};
    done.wr_id = request->wr_id;
    done.status = status;
    done.qp_num = queue_pair->qp_num;
    Complete(Fake(queue_pair->send_cq), done);
    if (status != IBV_WC_SUCCESS) EnterError(fake);
  }
  return 0;
}

int PostReceive(ibv_srq* queue, ibv_recv_wr* request, ibv_recv_wr**) {
  const std::lock_guard lock(TheState().mutex);
  Fake(queue).entries.emplace_back(*request, request->sg_list[0]);
  return 0;
}

int Poll(ibv_cq* queue, int most, ibv_wc* completions) {
  const std::lock_guard lock(TheState().mutex);
  FakeCompletions& fake = Fake(queue);
  int count = 0;
  for (; count < most && !fake.entries.empty(); ++count) {
    completions[count] = fake.entries.front();
    fake.entries.pop_front();
  }
  if (count > 0) return count;
  // What queue pairs in error still owe comes after all else, one poll later.
  for (const auto& [number, queue_pair] : TheState().live) {
    if (queue_pair->qp.recv_cq != queue || !queue_pair->owes_last_receive) continue;
    queue_pair->owes_last_receive = false;
    for (const auto& [entry, piece] : std::exchange(queue_pair->taken, {})) {
      ibv_wc flushed{};
      flushed.wr_id = entry.wr_id;
      flushed.opcode = IBV_WC_RECV;
      flushed.status = IBV_WC_WR_FLUSH_ERR;
      flushed.qp_num = number;
      Complete(fake, flushed);
    }
    Record(*queue_pair).ended_in_order = true;
    if (!queue_pair->device->planted.tells_last_receive) continue;
    ibv_async_event last{};
    last.event_type = IBV_EVENT_QP_LAST_WQE_REACHED;
    last.element.qp = &queue_pair->qp;
    Raise(queue_pair->qp.context, last);
  }
  return 0;
}

int RequestNotification(ibv_cq* queue, int) {
  const std::lock_guard lock(TheState().mutex);
  Fake(queue).armed = true;
  return 0;
}

}  // namespace onecopy::fake_verbs

using namespace onecopy::fake_verbs;

extern "C" {

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return new ibv_comp_channel{context, ::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE), 0};
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  ::close(channel->fd);
  delete channel;
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cq_context,
                      ibv_comp_channel* channel, int) {
  auto* const queue = new FakeCompletions;
  queue->cq.context = context;
  queue->cq.channel = channel;
  queue->cq.cq_context = cq_context;
  queue->cq.cqe = entries;
  return &queue->cq;
}

int ibv_destroy_cq(ibv_cq* queue) {
  const std::lock_guard lock(TheState().mutex);
  delete reinterpret_cast<FakeCompletions*>(queue);
  return 0;
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq**, void**) {
  eventfd_t one = 0;
  return ::eventfd_read(channel->fd, &one) == 0 ? 0 : -1;
}

void ibv_ack_cq_events(ibv_cq*, unsigned int) {}

ibv_srq* ibv_create_srq(ibv_pd* domain, ibv_srq_init_attr*) {
  auto* const queue = new FakeReceives;
  queue->srq.context = domain->context;
  queue->srq.pd = domain;
  return &queue->srq;
}

int ibv_destroy_srq(ibv_srq* queue) {
  const std::lock_guard lock(TheState().mutex);
  delete reinterpret_cast<FakeReceives*>(queue);
  return 0;
}

ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* wanted) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  FakeDevice& device = DeviceOf(domain->context);
  if (wanted->cap.max_inline_data > device.planted.most_inline) {
    errno = EINVAL;
    return nullptr;
  }
  auto* const made = new FakeQueuePair;
  made->device = &device;
  made->qp.context = domain->context;
  made->qp.pd = domain;
  made->qp.send_cq = wanted->send_cq;
  made->qp.recv_cq = wanted->recv_cq;
  made->qp.srq = wanted->srq;
  made->qp.qp_type = wanted->qp_type;
  made->qp.qp_num = state.next_number++;
  made->record = state.queue_pairs.size();
  QueuePair& record = state.queue_pairs.emplace_back();
  record.device = device.planted.name;
  record.number = made->qp.qp_num;
  record.most_inline = wanted->cap.max_inline_data;
  state.live[made->qp.qp_num] = made;
  return &made->qp;
}

int ibv_modify_qp(ibv_qp* queue_pair, ibv_qp_attr* attributes, int) {
  const std::lock_guard lock(TheState().mutex);
  FakeQueuePair& fake = Fake(queue_pair);
  QueuePair& record = Record(fake);
  const PlantedDevice& device = fake.device->planted;
  switch (attributes->qp_state) {
    case IBV_QPS_INIT:
      fake.init = *attributes;
      break;
    case IBV_QPS_RTR:
      if (attributes->max_dest_rd_atomic > device.reads_in) return EINVAL;
      record.addressed = *attributes;
      break;
    case IBV_QPS_RTS:
      if (attributes->max_rd_atomic > device.reads_out) return EINVAL;
      record.started = *attributes;
      break;
    case IBV_QPS_ERR:
      EnterError(fake);
      return 0;
    default:
      return EINVAL;
  }
  record.state = attributes->qp_state;
  return 0;
}

int ibv_query_qp(ibv_qp*, ibv_qp_attr*, int, ibv_qp_init_attr*) { return ENOSYS; }

// As mlx5 does: what it has completed and nobody has polled yet goes with it.
int ibv_destroy_qp(ibv_qp* queue_pair) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  FakeQueuePair& fake = Fake(queue_pair);
  EnterError(fake);
  QueuePair& record = Record(fake);
  state.lost_receives += fake.taken.size();
  for (ibv_cq* queue : {queue_pair->send_cq, queue_pair->recv_cq}) {
    auto& entries = Fake(queue).entries;
    for (const ibv_wc& entry : entries) {
      if (entry.qp_num == queue_pair->qp_num && entry.opcode == IBV_WC_RECV) ++state.lost_receives;
    }
    std::erase_if(entries, [&](const ibv_wc& entry) { return entry.qp_num == queue_pair->qp_num; });
  }
  record.exists = false;
  if (fake.owes_last_receive) record.ended_in_order = false;
  for (FakeContext* context : state.contexts) {
    auto& events = context->events;
    std::erase_if(events, [&](const ibv_async_event& event) {
      if (event.event_type != IBV_EVENT_QP_LAST_WQE_REACHED || event.element.qp != queue_pair) {
        return false;
      }
      eventfd_t one = 0;
      ::eventfd_read(context->context.async_fd, &one);
      return true;
    });
  }
  state.live.erase(queue_pair->qp_num);
  delete &fake;
  return 0;
}

}  // extern "C"
