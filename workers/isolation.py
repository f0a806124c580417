"""Take network, writing and starting programs from a process that reads PDFs, if the kernel allows it.

A seccomp filter refuses sockets, and Landlock writes and ``exec``; neither needs a privilege or a namespace, so both work in
containers. Results go through a pipe to a process that was forked before, and writes them to the store.
"""

import contextlib
import ctypes
import errno
import os
import pickle
import platform
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from schemas.corpus import ParseOptions
from schemas.errors import BadInputError, ContractError, FailureCode, InsetError, TransientError
from schemas.ports import ObjectStore
from workers.child_processes import Done, run_all

Put = Callable[[str, bytes], None]
"""Writes an object, by name."""

# AUDIT_ARCH_…, and the numbers of socket, ptrace, process_vm_readv and process_vm_writev
_ARCHITECTURES = {"x86_64": (0xC000003E, (41, 101, 310, 311)), "aarch64": (0xC00000B7, (198, 117, 270, 271))}
_ANYWHERE = (425, 438)
"""io_uring_setup, which can open sockets, and pidfd_getfd, which can take those of another process."""
_X32 = 0x40000000
"""On x86-64, system calls from this number on are those of another ABI."""

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EACCES
_SET_NO_NEW_PRIVS, _SET_SECCOMP, _FILTER = 38, 22, 2

_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_WRITES = 0b1_1111_1111_0011
"""Landlock's rights to execute, write, remove and make; no rule grants one."""
_TRUNCATE, _SINCE = 1 << 14, 3


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("value", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


def missing_isolation() -> list[str]:
    """Return what ``isolate`` can't take from a child process of this machine, with the reason; [] if it takes all."""
    ((_, last),) = run_all(_isolate_child, [None], ParseOptions(workers=1))
    return last.result if isinstance(last, Done) else [f"the network: {last.message}"]


def _isolate_child(_task: None, _opened: Callable[[int], None]) -> list[str]:
    return isolate()


def isolate() -> list[str]:
    """Take network, writing and ``exec`` from this thread and its children for good; open sockets are closed.

    Returns what of writing and the network could not be taken, each with the reason.
    """
    if sys.platform != "linux":
        return [f"writing: {sys.platform} has no Landlock", f"the network: {sys.platform} has no seccomp"]
    _close_sockets()
    libc = ctypes.CDLL(None, use_errno=True)
    # The kernel demands this before a process without privileges may restrict itself.
    libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return [
        f"{capability}: {why}"
        for capability, why in (("writing", _forbid_writing(libc)), ("the network", _forbid_sockets(libc)))
        if why
    ]


def _close_sockets() -> None:
    """Point sockets at the null device, since their owners close them by number."""
    with Path(os.devnull).open("r+b", buffering=0) as null:
        for number in [int(entry.name) for entry in os.scandir("/proc/self/fd")]:
            with contextlib.suppress(OSError):  # that of the listing itself, which is closed
                if stat.S_ISSOCK(os.fstat(number).st_mode):
                    os.dup2(null.fileno(), number, inheritable=False)


def _forbid_writing(libc: ctypes.CDLL) -> str | None:
    version = libc.syscall(_CREATE_RULESET, None, 0, 1)
    if version < 1:
        return f"the kernel has no Landlock ({os.strerror(ctypes.get_errno())})"
    rights = ctypes.c_uint64(_WRITES | (_TRUNCATE if version >= _SINCE else 0))
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.byref(rights), ctypes.sizeof(rights), 0)
    if ruleset < 0 or libc.syscall(_RESTRICT_SELF, ruleset, 0):
        return f"Landlock refused ({os.strerror(ctypes.get_errno())})"
    os.close(ruleset)
    return None


def _forbid_sockets(libc: ctypes.CDLL) -> str | None:
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        return f"the numbers of the system calls of {machine} aren't known here"
    architecture, refused = _ARCHITECTURES[machine]
    tests = [(_EQUAL, number) for number in (*refused, *_ANYWHERE)]
    if machine == "x86_64":
        tests.append((_AT_LEAST, _X32))
    count = len(tests)
    # Loads the architecture, at byte 4 of what the filter sees, since the numbers of calls differ by it, then the
    # call's number, at byte 0. A match jumps over the remaining tests to the refusal at the end; what matches none is
    # allowed.
    program = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 0, count + 2, architecture),
        (_LOAD, 0, 0, 0),
        *((code, count - index, 0, value) for index, (code, value) in enumerate(tests)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    instructions = (_Instruction * len(program))(*(_Instruction(*step) for step in program))
    if libc.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(_Program(len(program), instructions))):
        return f"seccomp refused ({os.strerror(ctypes.get_errno())})"
    return None


@contextlib.contextmanager
def writing(store: ObjectStore, *folders: str) -> Iterator[Put]:
    """Yield a function that writes objects below these folders, even once this process is isolated.

    A forked process writes them, so call this in a process of one thread. At the end of the block all are written.
    """
    objects, ours = Pipe(duplex=False)
    outcome, theirs = Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:
        try:
            # Each process closes the ends of the other, so that the death of one ends the pipe for the other.
            ours.close()
            outcome.close()
            _write_objects(store, folders, objects, theirs)
        finally:
            # Exit handlers and buffers belong to the process that was forked.
            os._exit(0)
    objects.close()
    theirs.close()

    def put(name: str, data: bytes) -> None:
        try:
            ours.send_bytes(name.encode())
            ours.send_bytes(data)
        # The writer ends early only on an error, which it has sent.
        except BrokenPipeError:
            finish()

    def finish() -> None:
        try:
            error: InsetError | None = pickle.loads(outcome.recv_bytes())  # noqa: S301  the process that writes made it
        except EOFError:
            error = TransientError("the process that writes to the store ended; refresh again")
        if error is not None:
            raise error

    with objects, outcome, ours:
        yield put
        ours.close()
        finish()
    os.waitpid(pid, 0)


def _write_objects(store: ObjectStore, folders: tuple[str, ...], objects: Connection, outcome: Connection) -> None:
    """Write objects until the process that reads the PDF closes its end, or dies."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    error: InsetError | None = None
    try:
        while True:
            name = objects.recv_bytes().decode()
            data = objects.recv_bytes()
            # The PDF may have taken over the process that sends names, so it writes nowhere else.
            if not name.startswith(folders) or ".." in name:
                raise BadInputError(f"reading it tried to write {name!r}", FailureCode.CRASHED)
            store.put(name, data)
    except EOFError:
        pass
    except InsetError as caught:
        error = caught
    except Exception as caught:  # noqa: BLE001  it is the other process's to raise
        error = ContractError(f"writing to the store failed: {type(caught).__name__}: {caught}")
    # The sender's next write fails by this, and it then reads the error.
    objects.close()
    with contextlib.suppress(BrokenPipeError):
        outcome.send_bytes(pickle.dumps(error))
