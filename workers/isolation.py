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
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from backends.stores.places import stop_threads
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

_SET_DEATH_SIGNAL = 1
_LOCAL_FAMILY = 1
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER, _MAKE_SOCKET = (1 << bit for bit in (0, 1, 2, 3, 9))
_READS = _READ_FILE | _READ_FOLDER
_WRITES = 0b1_1111_1111_0011
"""Landlock's rights to execute, write, remove and make; no rule grants one to ``isolate``."""
_TRUNCATE, _SINCE = 1 << 14, 3
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
"""The rights that a rule on a file may grant; further ones are those of folders."""


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
    stop_threads()
    if sys.platform != "linux":
        return [f"writing: {sys.platform} has no Landlock", f"the network: {sys.platform} has no seccomp"]
    _close_sockets()
    libc = ctypes.CDLL(None, use_errno=True)
    # The kernel demands this before a process without privileges may restrict itself.
    libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return [
        f"{capability}: {why}"
        for capability, why in (("writing", _restrict_files(libc, _WRITES, {})), ("the network", _forbid_sockets(libc)))
        if why
    ]


def _close_sockets() -> None:
    """Point sockets at the null device, since their owners close them by number."""
    with Path(os.devnull).open("r+b", buffering=0) as null:
        for number in [int(entry.name) for entry in os.scandir("/proc/self/fd")]:
            with contextlib.suppress(OSError):  # that of the listing itself, which is closed
                if stat.S_ISSOCK(os.fstat(number).st_mode):
                    os.dup2(null.fileno(), number, inheritable=False)


def confine(folder: Path, readable: Sequence[Path], sockets: Path) -> None:
    """Confine this process to a folder before it becomes another program, which dies with its parent.

    The program reads and executes what is below ``readable``, writes below ``folder``, makes a local socket in the folder
    ``sockets``, and reaches no network; as far as the kernel can take the rest.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    rules = dict.fromkeys(readable, _READS | _EXECUTE) | {
        Path("/dev"): _READS | _WRITE_FILE,
        sockets: _MAKE_SOCKET,
        folder: _READS | _WRITES | _TRUNCATE,
    }
    _restrict_files(libc, _READS | _WRITES, rules)
    _forbid_sockets(libc, local=True)


def _restrict_files(libc: ctypes.CDLL, refused: int, rules: Mapping[Path, int]) -> str | None:
    """Refuse rights on all files but those that rules grant below a path; return why that is not possible."""
    version = libc.syscall(_CREATE_RULESET, None, 0, 1)
    if version < 1:
        return f"the kernel has no Landlock ({os.strerror(ctypes.get_errno())})"
    rights = ctypes.c_uint64(refused | (_TRUNCATE if version >= _SINCE else 0))
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.byref(rights), ctypes.sizeof(rights), 0)
    for path, granted in rules.items():
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
            allowed = granted & rights.value & (rights.value if path.is_dir() else _OF_FILES)
            libc.syscall(_ADD_RULE, ruleset, 1, struct.pack("=Qi", allowed, handle), 0)
            os.close(handle)
    if ruleset < 0 or libc.syscall(_RESTRICT_SELF, ruleset, 0):
        return f"Landlock refused ({os.strerror(ctypes.get_errno())})"
    os.close(ruleset)
    return None


def _forbid_sockets(libc: ctypes.CDLL, *, local: bool = False) -> str | None:
    """Refuse sockets, or where ``local`` those that leave the machine; return why that is not possible."""
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        return f"the numbers of the system calls of {machine} aren't known here"
    architecture, refused = _ARCHITECTURES[machine]
    socket, *of_other_processes = refused
    tests = [(_EQUAL, number) for number in (*([] if local else [socket]), *of_other_processes, *_ANYWHERE)]
    if machine == "x86_64":
        tests.append((_AT_LEAST, _X32))
    count, extra = len(tests), 3 if local else 0
    # Loads the architecture, at byte 4 of what the filter sees, since the numbers of calls differ by it, then the
    # call's number, at byte 0. A match jumps over the remaining tests to the refusal at the end; what matches none is
    # allowed.
    program = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 0, count + 2 + extra, architecture),
        (_LOAD, 0, 0, 0),
        *((code, count - index + extra, 0, value) for index, (code, value) in enumerate(tests)),
        # A local socket is of the family of byte 16, the call's first argument.
        *([(_EQUAL, 0, 2, socket), (_LOAD, 0, 0, 16), (_EQUAL, 0, 1, _LOCAL_FAMILY)] if local else []),
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
