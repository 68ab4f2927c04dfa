"""What the figures depend on besides the code: the processor, its memory, the versions, and whether it is quiet."""

import os
import platform
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def output(*command, cwd=ROOT):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=cwd).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _read(path):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except OSError:
        return ""


def processor():
    found = re.search(r"model name\s*: (.*)", _read("/proc/cpuinfo"))
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def processor_family():
    """The model name says little on a virtual machine; family and model number say more."""
    info = _read("/proc/cpuinfo")
    numbers = [re.search(rf"^{key}\s*: (\d+)", info, re.M) for key in ("cpu family", "model", "stepping")]
    return "family {}, model {}, stepping {}".format(*(n.group(1) for n in numbers)) if all(numbers) else ""


def vector_sets():
    flags = re.search(r"^flags\s*: (.*)", _read("/proc/cpuinfo"), re.M)
    known = ("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "amx_tile")
    return " ".join(f for f in known if flags and f in flags.group(1).split())


def threads():
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def memory_mb(key):
    """MemTotal or MemAvailable in megabytes; 0 when the system does not say."""
    found = re.search(rf"^{key}:\s+(\d+) kB", _read("/proc/meminfo"), re.M)
    return int(found.group(1)) * 1024 / 1e6 if found else 0


def commit():
    changed = output("git", "status", "--porcelain", "--untracked-files=no", "--", "src", "include", "cmake")
    return (output("git", "rev-parse", "--short", "HEAD") or "unknown") + (" with changes" if changed else "")


def compiler():
    return (output("cc", "--version").splitlines() or ["unknown"])[0]


def slug():
    name = re.sub(r"[^a-z0-9]+", "-", processor().lower().replace("(r)", "").replace("(tm)", "")).strip("-")
    return f"{name}-{threads()}-threads"


def load():
    """Processes that want to run besides this one, averaged over the last minute."""
    return os.getloadavg()[0]


def conditions():
    return {"processor": processor(), "family": processor_family(), "vectors": vector_sets(), "threads": threads(),
            "memory_gb": round(memory_mb("MemTotal") / 1e3, 1), "system": f"{platform.system()} {platform.release()}",
            "compiler": compiler()}
