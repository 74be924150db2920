# The picture of docs/architecture.md as data: what each folder may link to, by folder. onecopy_module() stops the
# configuration when a folder links to anything else, so the link graph cannot drift from the picture; tests/run checks
# reads this file too, and holds every #include against it.

# What every folder may use: the words that all of them have in common.
set(ONECOPY_EVERYWHERE values)

set(ONECOPY_LAYER_values "")
# A folder of rooms (onecopy_rooms) stands for all of them where others name it.
set(ONECOPY_LAYER_transport_core_base "")
set(ONECOPY_LAYER_transport_core_ranges transport/core/base)
set(ONECOPY_LAYER_transport_core_contracts transport/core/base transport/core/ranges)
set(ONECOPY_LAYER_transport_core_toolkit transport/core/base transport/core/contracts transport/core/ranges)
set(ONECOPY_LAYER_transport_os_base transport/core)
set(ONECOPY_LAYER_transport_os_threads transport/core transport/os/base)
set(ONECOPY_LAYER_transport_os_machine transport/core transport/os/base)
set(ONECOPY_LAYER_transport_os_memory transport/core transport/os/base transport/os/machine transport/os/threads)
set(ONECOPY_LAYER_transport_os_files transport/core transport/os/base transport/os/machine transport/os/memory)
set(ONECOPY_LAYER_transport_os_sockets transport/core transport/os/base transport/os/threads)
set(ONECOPY_LAYER_transport_digest "")
set(ONECOPY_LAYER_transport_orders transport/core transport/os)
set(ONECOPY_LAYER_transport_shim transport/core transport/os)
set(ONECOPY_LAYER_transport_ring transport/core transport/os)
set(ONECOPY_LAYER_transport_tls transport/core transport/os)
set(ONECOPY_LAYER_transport_topology transport/core transport/os)
set(ONECOPY_LAYER_transport_memory transport/core transport/os transport/shim)  # each folder below
set(ONECOPY_LAYER_transport_memory_process transport/core transport/orders transport/os)
set(ONECOPY_LAYER_transport_link transport/core transport/os transport/shim transport/tls)    # each folder below
set(ONECOPY_LAYER_transport_store transport/core transport/os transport/shim)   # each folder below
set(ONECOPY_LAYER_proto "")
set(ONECOPY_LAYER_proto_codec proto)
set(ONECOPY_LAYER_daemon_config transport/core transport/os)
set(ONECOPY_LAYER_daemon_log transport/core transport/os)
set(ONECOPY_LAYER_daemon_rundir transport/core transport/os)
set(ONECOPY_LAYER_daemon_plan transport/core)
set(ONECOPY_LAYER_daemon_pipeline transport/core transport/digest)
set(ONECOPY_LAYER_daemon_handover proto proto/codec transport/core transport/os)
set(ONECOPY_LAYER_daemon_holder transport/core transport/os)
set(ONECOPY_LAYER_daemon_holder_client daemon/engine/api daemon/holder daemon/log transport/core transport/os)
set(ONECOPY_LAYER_daemon_ring transport/core transport/os transport/ring)
# The rooms of the engine, from the ground up.
set(ONECOPY_LAYER_daemon_engine_api daemon/plan transport/core transport/digest transport/os)
set(ONECOPY_LAYER_daemon_engine_base daemon/engine/api daemon/pipeline transport/core transport/digest transport/os)
set(ONECOPY_LAYER_daemon_engine_registry daemon/engine/api daemon/engine/base daemon/log transport/core transport/os)
set(ONECOPY_LAYER_daemon_engine_arrivals
    daemon/engine/api daemon/engine/base daemon/engine/registry transport/core transport/os)
set(ONECOPY_LAYER_daemon_engine_mapping
    daemon/engine/api daemon/engine/base daemon/engine/registry daemon/handover daemon/log transport/core
    transport/os)
set(ONECOPY_LAYER_daemon_engine_peering
    daemon/engine/api daemon/engine/base daemon/log daemon/plan transport/core transport/os)
set(ONECOPY_LAYER_daemon_engine_staging
    daemon/engine/api daemon/engine/base daemon/engine/registry daemon/engine/peering daemon/log daemon/pipeline
    transport/core transport/digest transport/os)
set(ONECOPY_LAYER_daemon_engine_probing
    daemon/engine/api daemon/engine/base daemon/engine/registry daemon/engine/peering daemon/log daemon/plan
    transport/core transport/os)
set(ONECOPY_LAYER_daemon_engine_sharing
    daemon/engine/api daemon/engine/base daemon/engine/registry daemon/engine/peering daemon/handover daemon/log
    transport/core transport/os)
set(ONECOPY_LAYER_daemon_engine_transfers
    daemon/engine/api daemon/engine/base daemon/engine/registry daemon/engine/arrivals daemon/engine/peering
    daemon/engine/staging daemon/engine/probing daemon/engine/sharing daemon/log daemon/pipeline daemon/plan transport/core transport/digest transport/os)
set(ONECOPY_LAYER_daemon_engine_rings
    daemon/engine/api daemon/engine/base daemon/engine/registry daemon/engine/arrivals daemon/engine/peering daemon/engine/staging
    daemon/engine/probing daemon/engine/sharing daemon/engine/transfers daemon/log daemon/pipeline daemon/plan
    daemon/ring transport/core transport/digest transport/os transport/ring)
set(ONECOPY_LAYER_daemon_engine
    daemon/engine/api daemon/engine/base daemon/engine/registry daemon/engine/arrivals daemon/engine/mapping daemon/engine/peering
    daemon/engine/staging daemon/engine/probing daemon/engine/sharing daemon/engine/transfers daemon/engine/rings daemon/log
    transport/core transport/digest transport/os)
set(ONECOPY_LAYER_daemon_attach
    daemon/engine/api daemon/engine/base daemon/engine/registry daemon/log proto proto/codec transport/core transport/orders
    transport/os transport/ring)
set(ONECOPY_LAYER_daemon_rpc_grpc proto/codec transport/core)
set(ONECOPY_LAYER_daemon_rpc_convert daemon/engine/api proto proto/codec transport/core transport/digest)
set(ONECOPY_LAYER_daemon_rpc_identity
    daemon/rpc/convert daemon/engine/base daemon/engine/registry daemon/log proto/codec transport/core transport/os
    transport/tls)
set(ONECOPY_LAYER_daemon_rpc_outgoing
    daemon/rpc/convert daemon/rpc/grpc daemon/rpc/identity daemon/engine/api proto proto/codec transport/core
    transport/os)
set(ONECOPY_LAYER_daemon_rpc_serving
    daemon/rpc/convert daemon/rpc/grpc daemon/rpc/identity daemon/engine/api daemon/engine/base
    daemon/engine/registry daemon/log proto proto/codec transport/core transport/os transport/tls)
set(ONECOPY_LAYER_daemon_discovery
    daemon/engine/api daemon/engine/base daemon/log transport/core transport/os transport/tls)
set(ONECOPY_LAYER_daemon_discovery_etcd daemon/discovery daemon/log transport/core transport/os)
set(ONECOPY_LAYER_daemon_status daemon/engine/api transport/core transport/tls)
set(ONECOPY_LAYER_daemon_metrics
    daemon/engine/api daemon/log daemon/status transport/core transport/os transport/tls)
set(ONECOPY_LAYER_client_lib_include "")  # public headers: they and values/ are all that users see
# The rooms of the client's library, from the ground up.
set(ONECOPY_LAYER_client_lib_calls client/lib/include proto proto/codec transport/core transport/os)
set(ONECOPY_LAYER_client_lib_attach
    client/lib/include client/lib/calls proto proto/codec transport/core transport/os)
set(ONECOPY_LAYER_client_lib_slab client/lib/include client/lib/attach proto transport/core transport/orders
    transport/os transport/shim)
set(ONECOPY_LAYER_client_lib_ring client/lib/include client/lib/attach client/lib/calls proto transport/core
    transport/digest transport/ring)
set(ONECOPY_LAYER_client_lib_session client/lib/include client/lib/attach client/lib/calls client/lib/ring
    client/lib/slab proto proto/codec transport/core transport/os transport/shim)
set(ONECOPY_LAYER_client_lib_memory client/lib/include client/lib/attach client/lib/calls client/lib/session proto
    proto/codec transport/core transport/os transport/shim)
set(ONECOPY_LAYER_client_lib_transfers client/lib/include client/lib/calls client/lib/session proto transport/core
    transport/os transport/shim)
set(ONECOPY_LAYER_client_lib_broadcast client/lib/include client/lib/calls client/lib/memory client/lib/transfers
    transport/core)
set(ONECOPY_LAYER_client_lib_files client/lib/include client/lib/calls client/lib/memory client/lib/transfers
    transport/core transport/digest transport/os)
set(ONECOPY_LAYER_client_lib_arrivals client/lib/include client/lib/calls client/lib/session proto transport/core)
set(ONECOPY_LAYER_client_lib_pool client/lib/include client/lib/calls client/lib/memory client/lib/session
    client/lib/transfers transport/core)
set(ONECOPY_LAYER_client_lib client/lib/calls client/lib/attach client/lib/slab client/lib/ring client/lib/session
    client/lib/memory client/lib/transfers client/lib/broadcast client/lib/files client/lib/arrivals
    client/lib/pool)
set(ONECOPY_LAYER_client_examples client/lib)  # its public headers alone
set(ONECOPY_LAYER_client_doctor
    client/lib transport/core transport/os transport/shim transport/tls transport/topology)
set(ONECOPY_LAYER_client_nixl client/lib transport/core transport/os transport/shim)
set(ONECOPY_LAYER_client_formats client/cli/output transport/core transport/os)
set(ONECOPY_LAYER_client_cli
    client/cli/output client/doctor client/formats client/lib client/nixl transport/core transport/os transport/tls)
set(ONECOPY_LAYER_client_python client/cli/output client/formats client/lib transport/core transport/os)
set(ONECOPY_LAYER_client_cli_output client/lib transport/core)
set(ONECOPY_LAYER_bench
    bench/daemons bench/load bench/matrix bench/measure bench/report bench/tune bench/work transport/core
    transport/os transport/shim)
set(ONECOPY_LAYER_bench_measure transport/core)
set(ONECOPY_LAYER_bench_load transport/core transport/shim)
set(ONECOPY_LAYER_bench_ceiling bench/measure transport/core transport/os transport/shim)
set(ONECOPY_LAYER_bench_daemons client/lib transport/core transport/os)
set(ONECOPY_LAYER_bench_report bench/measure transport/core)
set(ONECOPY_LAYER_bench_tools bench/daemons bench/measure transport/core transport/os)
set(ONECOPY_LAYER_bench_matrix
    bench/ceiling bench/daemons bench/measure bench/work client/lib transport/core transport/os transport/shim)
set(ONECOPY_LAYER_bench_tune bench/daemons bench/measure bench/work transport/core)
set(ONECOPY_LAYER_bench_work
    bench/ceiling bench/daemons bench/measure bench/tools client/lib transport/core transport/os transport/shim
    transport/tls)

set(ONECOPY_LAYER_deploy_manual bench client/cli daemon daemon/config transport/core)

# The files right in daemon/ put the program together: they may use all that is below it, and these.
set(ONECOPY_PROGRAM_daemon transport/core transport/os transport/shim transport/tls transport/topology)

# The only folders that see gRPC.
set(ONECOPY_GRPC_FOLDERS
    daemon/discovery/etcd daemon/rpc/grpc daemon/rpc/identity daemon/rpc/outgoing daemon/rpc/serving client/lib
    client/lib/calls client/lib/ring client/lib/session client/lib/memory client/lib/transfers
    client/lib/arrivals)
