"""What docs/grpc.md says, with the real grpcio."""

import contextlib
import pathlib
import re
import subprocess
import sys
import threading

import grpc
import pytest
from grpc_daemon import ROOT, onecopy


@contextlib.contextmanager
def session(channel, client="test"):
    """The session's message, and the metadata of its calls."""
    from onecopy.v1 import session_pb2, session_pb2_grpc

    request = session_pb2.OpenSessionRequest(client=client)
    stream = session_pb2_grpc.SessionServiceStub(channel).OpenSession(request, timeout=60)
    try:
        opened = next(stream)
        yield opened, [("onecopy-session", opened.token)], stream
    finally:
        stream.cancel()


def local(daemon):
    return grpc.insecure_channel(f"unix:{daemon.run_dir}/api.sock", options=[("grpc.use_local_subchannel_pool", 1)])


def buffers(channel):
    from onecopy.v1 import buffer_pb2_grpc

    return buffer_pb2_grpc.BufferServiceStub(channel)


def remove(channel, *names):
    from onecopy.v1 import buffer_pb2

    with session(channel) as (_, token, _):
        for name in names:
            buffers(channel).DeleteBuffer(buffer_pb2.DeleteBufferRequest(name=name), metadata=token)


def test_the_example_is_twenty_lines_of_a_function_and_runs_as_a_program(daemon, generated):
    code = re.search(r"```python\n(.*?)```", (ROOT / "docs/grpc.md").read_text(), re.S).group(1)
    lines = [line for line in code.splitlines() if line.strip() and not line.strip().startswith("#")]
    assert len(lines) <= 22
    example = generated / "example.py"
    example.write_text(code)
    done = subprocess.run([sys.executable, example, f"unix:{daemon.run_dir}/api.sock"], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    assert "@west SUCCEEDED" in done.stdout
    assert 'path: "local"' in done.stdout
    assert "verified: true" in done.stdout
    remove(local(daemon), "here", "there")


def test_the_example_runs_over_tls(daemon, shown, capsys):
    channel = shown["secure"](daemon.api, *daemon.user(1000), "west")
    shown["run"](channel)
    said = capsys.readouterr().out
    assert said.startswith("1000+cert@west SUCCEEDED")
    assert "verified: true" in said
    remove(channel, "here", "there")


def test_who_has_a_certificate_has_nothing_of_the_same_uid(daemon, shown):
    from onecopy.v1 import buffer_pb2, node_pb2, node_pb2_grpc

    onecopy("buffer", "create", "mine", "--size", "4096", run_dir=daemon.run_dir)
    try:
        channel = shown["secure"](daemon.api, *daemon.user(0), "west")  # as root by the number alone
        with session(channel) as (opened, token, _):
            assert opened.owner == "0+cert@west"
            assert not buffers(channel).ListBuffers(buffer_pb2.ListBuffersRequest(), metadata=token).buffers
            with pytest.raises(grpc.RpcError) as seen:
                buffers(channel).GetBuffer(buffer_pb2.GetBufferRequest(name="mine"), metadata=token)
            assert shown["reason"](seen.value)[0] == "BUFFER_NOT_FOUND"
            with pytest.raises(grpc.RpcError) as level:
                node_pb2_grpc.NodeServiceStub(channel).SetLogLevel(node_pb2.SetLogLevelRequest(level="debug"),
                                                                   metadata=token)
            assert shown["reason"](level.value)[0] == "NOT_OWNER"
            onecopy("grant", "add", "mine", "--to", opened.owner, "--read", run_dir=daemon.run_dir)
            got = buffers(channel).GetBuffer(buffer_pb2.GetBufferRequest(name="mine"), metadata=token)
            assert got.bytes == 4096
    finally:
        onecopy("buffer", "rm", "mine", run_dir=daemon.run_dir)


def test_no_memory_can_be_registered_over_a_network(daemon, shown):
    from onecopy.v1 import buffer_pb2

    channel = shown["secure"](daemon.api, *daemon.user(1001), "west")
    requests = [buffer_pb2.RegisterBufferRequest(bytes=1, memfd=buffer_pb2.RegisterBufferRequest.Memfd(fd_handle=1)),
                buffer_pb2.RegisterBufferRequest(
                    bytes=1, cuda_ipc=buffer_pb2.RegisterBufferRequest.CudaIpc(handle=bytes(64), device="cuda:0"))]
    with session(channel) as (_, token, _):
        for request in requests:
            with pytest.raises(grpc.RpcError) as failure:
                buffers(channel).RegisterBuffer(request, metadata=token)
            assert failure.value.code() == grpc.StatusCode.FAILED_PRECONDITION
            reason, remedy = shown["reason"](failure.value)
            assert reason == "NOT_SERVED"
            assert "CreateBuffer" in remedy


def test_a_token_ends_with_its_stream_and_is_nobody_elses(daemon, shown):
    from onecopy.v1 import buffer_pb2

    channel = local(daemon)
    other = shown["secure"](daemon.api, *daemon.user(1002), "west")
    listed = buffer_pb2.ListBuffersRequest()
    with session(channel) as (_, token, _):
        buffers(channel).ListBuffers(listed, metadata=token)
        with pytest.raises(grpc.RpcError) as stolen:
            buffers(other).ListBuffers(listed, metadata=token)
        assert shown["reason"](stolen.value)[0] == "NO_SESSION"
    late = None
    for _ in range(1000):  # the daemon hears of the end soon
        try:
            buffers(channel).ListBuffers(listed, metadata=token)
        except grpc.RpcError as failure:
            late = failure
            break
    assert late is not None and late.code() == grpc.StatusCode.UNAUTHENTICATED
    assert shown["reason"](late)[0] == "NO_SESSION"
    with pytest.raises(grpc.RpcError) as none:
        buffers(channel).ListBuffers(listed)
    assert shown["reason"](none.value)[0] == "NO_SESSION"


def test_a_certificate_for_another_node_or_of_a_node_is_refused(daemon, shown):
    other = daemon.user(1003, "east", name="elsewhere")
    node = (f"{daemon.authority}/ca.pem", f"{daemon.folder}/west.pem", f"{daemon.folder}/west.key")
    for files in (other, node):
        with pytest.raises(grpc.RpcError) as failure, session(shown["secure"](daemon.api, *files, "west")):
            pass
        assert failure.value.code() == grpc.StatusCode.UNAUTHENTICATED
        assert shown["reason"](failure.value)[0] == "CERT_REJECTED"


def test_without_a_certificate_of_the_authority_nobody_comes_in(daemon, shown):
    stranger = daemon.folder / "stranger"
    onecopy("cert", "init-ca", str(stranger))
    onecopy("cert", "issue-user", "1000", "--node", "west", "--ca", str(stranger), "--out", str(stranger))
    ca = f"{daemon.authority}/ca.pem"
    foreign = shown["secure"](daemon.api, ca, f"{stranger}/user-1000.pem", f"{stranger}/user-1000.key", "west")
    none = grpc.secure_channel(daemon.api, grpc.ssl_channel_credentials(pathlib.Path(ca).read_bytes()),
                               options=[("grpc.ssl_target_name_override", "west")])
    for channel in (foreign, none, grpc.insecure_channel(daemon.api)):
        with pytest.raises(grpc.RpcError) as failure, session(channel):
            pass
        assert failure.value.code() == grpc.StatusCode.UNAVAILABLE


def test_a_certificate_that_is_revoked_ends_its_session(daemon, shown):
    import signal

    files = daemon.user(1004)
    channel = shown["secure"](daemon.api, *files, "west")
    with session(channel) as (_, _, stream):
        onecopy("cert", "revoke", files[1], "--ca", str(daemon.authority))
        daemon.process.send_signal(signal.SIGHUP)
        with pytest.raises(grpc.RpcError) as ended:
            next(stream)
        assert ended.value.code() == grpc.StatusCode.UNAUTHENTICATED
        assert shown["reason"](ended.value)[0] == "CERT_REJECTED"


def test_pages_and_request_ids(daemon):
    from onecopy.v1 import buffer_pb2

    channel = local(daemon)
    names = [f"page-{i:02}" for i in range(25)]
    with session(channel) as (_, token, _):
        stub = buffers(channel)
        for name in names:
            request = buffer_pb2.CreateBufferRequest(request_id=f"make-{name}", name=name, bytes=1, memory="host")
            made = stub.CreateBuffer(request, metadata=token)
            assert stub.CreateBuffer(request, metadata=token).id == made.id
        seen, page = [], ""
        while True:
            answer = stub.ListBuffers(buffer_pb2.ListBuffersRequest(page_size=10, page_token=page), metadata=token)
            seen += [buffer.name for buffer in answer.buffers if buffer.name.startswith("page-")]
            page = answer.next_page_token
            if not page:
                break
        assert seen == names
    remove(channel, *names)


def test_many_sessions_of_many_threads(daemon):
    opened = []

    def many():
        channel = local(daemon)
        for _ in range(50):
            with session(channel) as (one, _, _):
                opened.append(one.token)
        channel.close()

    threads = [threading.Thread(target=many) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(opened)) == 400


def test_the_request_of_two_tensors_that_the_reference_shows(daemon, generated):
    from onecopy.v1 import buffer_pb2, transfer_pb2, transfer_pb2_grpc

    del generated
    code, = (each for each in re.findall(r"```python\n(.*?)```", (ROOT / "docs/api.md").read_text(), re.S)
             if "more_sources" in each)
    names = {"transfer_pb2": transfer_pb2}
    exec(compile(code, "docs/api.md", "exec"), names)
    channel = local(daemon)
    made = {"keys": 65536, "values": 65536, "cache": 131072}
    with session(channel) as (_, token, _):
        for name, size in made.items():
            buffers(channel).CreateBuffer(buffer_pb2.CreateBufferRequest(name=name, bytes=size, memory="host"),
                                          metadata=token)
        stub = transfer_pb2_grpc.TransferServiceStub(channel)
        moved = stub.CreateTransfer(names["request"], metadata=token)
        last = None
        for last in stub.WatchTransfer(transfer_pb2.WatchTransferRequest(id=moved.id), metadata=token):
            pass
        assert last.state == transfer_pb2.SUCCEEDED, last
        assert last.bytes == 131072
    remove(channel, *made)


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(("named", "carried", "kept"), [
    (TRACE, [], TRACE),
    ("", [TRACE], TRACE),  # as a tracing library's interceptor adds it
    (TRACE, [OTHER], TRACE),
    ("", ["nonsense"], ""),  # by which a transfer does not fail: a proxy may have written it
    ("", [], ""),
])
def test_a_trace_goes_by_the_request_or_by_the_metadata_of_the_call(daemon, generated, named, carried, kept):
    from onecopy.v1 import buffer_pb2, transfer_pb2, transfer_pb2_grpc

    channel = local(daemon)
    with session(channel) as (_, token, _):
        for name in ("from", "to"):
            buffers(channel).CreateBuffer(buffer_pb2.CreateBufferRequest(name=name, bytes=4096, memory="host"), metadata=token)
        stub = transfer_pb2_grpc.TransferServiceStub(channel)
        request = transfer_pb2.CreateTransferRequest(source={"buffer": "from"}, destination={"buffer": "to"}, trace=named)
        moved = stub.CreateTransfer(request, metadata=token + [("traceparent", each) for each in carried])
        assert moved.trace == kept
        assert stub.GetTransfer(transfer_pb2.GetTransferRequest(id=moved.id), metadata=token).trace == kept
    remove(channel, "from", "to")


def test_a_named_trace_that_is_nonsense_is_refused(daemon, generated):
    from onecopy.v1 import transfer_pb2, transfer_pb2_grpc

    channel = local(daemon)
    with session(channel) as (_, token, _):
        request = transfer_pb2.CreateTransferRequest(source={"buffer": "from"}, destination={"buffer": "to"}, trace="nonsense")
        with pytest.raises(grpc.RpcError, match="traceparent") as caught:
            transfer_pb2_grpc.TransferServiceStub(channel).CreateTransfer(request, metadata=token)
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
