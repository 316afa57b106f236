"""What programs call, by the names of the libraries that they use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from forewarn.monitors.rules.libraries.code.program import Program, Texts

Asked = Callable[[Program], bool]
Table = Mapping[str, tuple[str, Asked]]
"""Predicates by name: when each holds, in a sentence, and the question."""

FETCHES = (
    "requests.get", "requests.request", "requests.head", "requests.Session.get",
    "requests.session.get", "httpx.get", "urllib.request.urlopen",
    "urllib.request.urlretrieve", "urllib3.PoolManager.request", "aiohttp.request",
    "wget.download", "pandas.read_html",
)  # fmt: skip
POSTS = (
    "requests.post", "requests.put", "requests.patch", "requests.Session.post",
    "requests.session.post", "requests.Session.put", "httpx.post", "httpx.put",
    "?.sendto", "?.sendall", "?.sendmail", "?.send_message", "?.storbinary",
    "?.storlines", "socket.socket.send",
)  # fmt: skip
COPIES = (
    "shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree", "shutil.move",
    "os.rename", "os.replace", "os.link", "os.symlink", "shutil.copyfileobj",
)  # fmt: skip
LISTS = (
    "os.listdir", "os.scandir", "os.walk", "glob.glob", "glob.iglob",
    "pathlib.Path.iterdir", "pathlib.Path.glob", "pathlib.Path.rglob", "?.iterdir",
    "?.rglob", "os.fwalk",
)  # fmt: skip
DELETES = (
    "os.remove", "os.unlink", "os.rmdir", "os.removedirs", "shutil.rmtree",
    "pathlib.Path.unlink", "pathlib.Path.rmdir", "?.unlink", "send2trash.send2trash",
)  # fmt: skip
SHELLS = (
    "os.system", "os.popen", "subprocess.run", "subprocess.call", "subprocess.Popen",
    "subprocess.check_output", "subprocess.check_call", "subprocess.getoutput",
    "subprocess.getstatusoutput", "os.execv", "os.execvp", "os.execl", "os.spawnl",
    "pty.spawn", "asyncio.create_subprocess_shell",
)  # fmt: skip
EVALUATES = ("eval", "exec", "compile", "builtins.eval", "builtins.exec",
              "__import__", "importlib.import_module")  # fmt: skip
UNPACKS = (
    "pickle.load", "pickle.loads", "marshal.load", "marshal.loads", "yaml.load",
    "yaml.unsafe_load", "yaml.full_load", "shelve.open", "dill.load", "dill.loads",
    "jsonpickle.decode", "pickle.Unpickler", "joblib.load", "cloudpickle.loads",
)  # fmt: skip
KILLS = (
    "os.kill", "os.killpg", "?.terminate", "?.kill", "signal.pthread_kill",
    "psutil.Process.terminate", "psutil.Process.kill",
)  # fmt: skip
ENCODES = ("base64.b64encode", "base64.b32encode", "base64.b16encode",
            "base64.b85encode", "base64.encodebytes", "codecs.encode",
            "base64.urlsafe_b64encode")  # fmt: skip
DECODES = ("base64.b64decode", "base64.b32decode", "base64.b16decode",
            "base64.b85decode", "base64.decodebytes", "base64.urlsafe_b64decode",
            "codecs.decode", "bytes.fromhex", "zlib.decompress")  # fmt: skip


def fetches(program: Program) -> bool:
    return any(program.called(*FETCHES))


def posts(program: Program) -> bool:
    return any(program.called(*POSTS)) or any(
        "POST" in call.argument(0, "method") or "PUT" in call.argument(0, "method")
        for call in program.called("?.request", "urllib.request.Request")
    )


def opens(program: Program) -> Iterator[tuple[Texts, str]]:
    """What is opened, and how: the paths, and `r`, `w`, `a` or `x`."""
    opening = ("open", "io.open", "os.open", "codecs.open", "gzip.open",
               "pathlib.Path.open", "?.open", "tarfile.open",
               "zipfile.ZipFile", "fileinput.input")  # fmt: skip
    for call in program.called(*opening):
        modes = call.argument(1, "mode")
        wrote = sorted(m[0] for m in modes if m and m[0] in "wax")
        yield call.argument(0, "file"), wrote[0] if wrote else "r"
    for call in program.called("?.read_text", "?.read_bytes"):
        yield call.argument(0), "r"
    for call in program.called("?.write_text", "?.write_bytes", "?.touch"):
        yield call.argument(0), "w"
    for call in program.called("urllib.request.urlretrieve", "wget.download"):
        yield call.argument(1, "filename"), "w"


def writes(program: Program) -> bool:
    return any(mode != "r" for _, mode in opens(program))
