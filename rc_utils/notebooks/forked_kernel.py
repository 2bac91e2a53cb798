"""Notebook kernels forked from one process that has imported what the notebooks import.

Most pages take less time to compute than an ordinary kernel takes to import. For Linux alone: elsewhere it is not safe
to fork a process that has loaded numerical libraries.
"""

import multiprocessing
import os

import matplotlib
from ipykernel.kernelapp import IPKernelApp
from jupyter_client import AsyncKernelManager
from jupyter_client.provisioning import LocalProvisioner

_IMPORTED = ["__main__", "rc_utils.notebooks.forked_kernel", "rc_utils.counting.count"]
_IMPORTED += [f"rc_utils.pages.{name}" for name in ("show", "statistics", "training_evolution")]


class ForkedKernelManager(AsyncKernelManager):
    """A manager that forks its kernel instead of starting a Python of its own."""

    def __init__(self, **options):
        super().__init__(**options)
        self.provisioner = _ForkProvisioner(kernel_id=self.kernel_id, kernel_spec=self.kernel_spec, parent=self)


class _ForkProvisioner(LocalProvisioner):
    async def launch_kernel(self, cmd, *, env=None, cwd=None, **kwargs):
        """Fork a kernel with the arguments of `cmd`, the command line of an ordinary one."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_IMPORTED)
        arguments = cmd[cmd.index("ipykernel_launcher") + 1 :]
        process = context.Process(target=_run_kernel, args=(arguments, dict(env or os.environ), cwd or os.getcwd()))
        process.start()
        self.process, self.pid, self.cwd = _Popen(process), process.pid, cwd
        return self.connection_info


class _Popen:
    """What a provisioner asks of a `subprocess.Popen`, answered by a `multiprocessing.Process`."""

    stdin = stdout = stderr = None

    def __init__(self, process):
        self.process = process
        self.kill, self.terminate = process.kill, process.terminate

    def poll(self):
        return self.process.exitcode

    def wait(self):
        self.process.join()
        return self.process.exitcode

    def send_signal(self, number):
        os.kill(self.process.pid, number)


def _run_kernel(arguments, environment, folder):
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    # An ordinary kernel names this backend in its environment, before matplotlib is imported.
    matplotlib.rcParams["backend"] = environment.get("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    IPKernelApp.launch_instance(arguments, parent_handle=os.getppid())
