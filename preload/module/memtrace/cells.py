"""Cells of a notebook as phases."""
import sys

from memtrace import phase


def _number(info, shell):
    """The number that the notebook shows for the cell that begins. IPython has it in the result that it prepares; shell.execution_count is that
    number in older versions, and the next one in newer ones."""
    frame = sys._getframe(1)
    while frame:
        result = frame.f_locals.get("result")
        if info is not None and getattr(result, "info", None) is info:
            return result.execution_count
        frame = frame.f_back
    return shell.execution_count


class Cells:
    """Opens a phase when a cell begins and ends it with the cell. A cell that runs another one with run_cell() contains it."""

    def __init__(self, shell):
        self.shell = shell
        self.open = []

    def begin(self, info):
        number = _number(info, self.shell) if getattr(info, "store_history", True) else None
        one = phase(f"cell [{number}]" if number is not None else "cell []")
        one.__enter__()
        self.open.append(one)

    def end(self, _result):
        if self.open:
            self.open.pop().__exit__(None, None, None)


_loaded = {}


def load(shell):
    if id(shell) in _loaded:
        return
    cells = _loaded[id(shell)] = Cells(shell)
    shell.events.register("pre_run_cell", cells.begin)
    shell.events.register("post_run_cell", cells.end)


def unload(shell):
    cells = _loaded.pop(id(shell), None)
    if cells:
        shell.events.unregister("pre_run_cell", cells.begin)
        shell.events.unregister("post_run_cell", cells.end)
