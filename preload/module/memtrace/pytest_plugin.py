"""Limits of GPU memory for tests: pytest -p memtrace.pytest_plugin, or the entry point of the installed package.

    @pytest.mark.max_gpu_memory("4GiB")
    def test_forward(): ...

A test with the marker runs in a phase of its own. It fails if PyTorch had more allocated on a device while it ran, with what held the memory at
that moment, and what `memtrace report` finds: the cause and what would make room. Memory that was allocated before the test counts. Without the recorder (`memtrace run -- pytest`) the limit is not checked, which the
summary says.

The plugin is loaded in every run of pytest where the package is installed, so it uses nothing that an old pytest lacks.
"""
import functools

import pytest

import memtrace
from memtrace import command

_SHOWN = 5  # categories and places in a message
_FINDINGS = 2
_devices = range(16)


def pytest_configure(config):
    config.addinivalue_line("markers", 'max_gpu_memory(size): fail the test if PyTorch allocates more than this at once on a GPU, such as "4GiB"')
    _unchecked.clear()


_unchecked = []


def pytest_collection_modifyitems(items):
    for item in items:
        marker = item.get_closest_marker("max_gpu_memory")
        if not marker:
            continue
        try:
            (given,) = list(marker.args) + list(marker.kwargs.values())
            limit = command.size(given)
        except ValueError as why:
            raise pytest.UsageError(f"{item.nodeid}: max_gpu_memory needs one size: {why}") from None
        item.runtest = functools.partial(_within_limit, item, limit, item.runtest)


def _is_of(finding, rank):
    """Does the finding say what made the peak of the device? What PyTorch has cached is in no tensor, and not limited."""
    return ((finding["rank"], finding["device"]) == (rank["rank"], rank["device"]) and finding["bytes"] > 0 and "cached" not in finding["evidence"]
            and (finding["cause"] or finding["remedies"]))


def _findings(report, rank):
    """The cause first: a line for each, and one for what is proposed."""
    found = [finding for finding in report["findings"] if _is_of(finding, rank)]
    for finding in sorted(found, key=lambda one: not one["cause"])[:_FINDINGS]:
        yield f"  {'cause' if finding['cause'] else 'room'}: {finding['rule']}, {finding['confidence']} confidence: {finding['message']}"
        for remedy in finding["remedies"][:1]:
            saving = remedy.get("saving_bytes")
            yield f"    try: {remedy['action']}" + (f", saves about {command.text(saving)}" if saving else "")


def _verdict(report, limit, phase):
    """The message for the device with the highest peak; None if all keep the limit."""
    worst = max(report["ranks"], key=lambda rank: rank["peak"]["allocated_bytes"])
    peak = worst["peak"]
    used = peak["allocated_bytes"]
    if used <= limit:
        return None
    lines = [f"{command.text(used)} of GPU memory on device {worst['device']}, {command.text(used - limit)} more than the {command.text(limit)} of max_gpu_memory"]
    categories = sorted(peak["by_category"].items(), key=lambda row: -row[1])
    lines.append("  " + ", ".join(f"{name} {command.text(size)}" for name, size in categories[:_SHOWN] if size > 0))
    for stack in sorted(peak["stacks"], key=lambda row: -row["bytes"])[:_SHOWN]:
        blocks = "1 block" if stack["blocks"] == 1 else f"{stack['blocks']} blocks"
        lines.append(f"  {command.text(stack['bytes']):>12}  {blocks}  {stack['category']}  {stack['frame']}")
    lines.extend(_findings(report, worst))
    lines.append(f"  memtrace report --advise --phase '{phase}' {memtrace.trace()}")
    return "\n".join(lines)


def _over(limit):
    """Can the limit have been passed? The peaks of the process say that it was not."""
    found = [memtrace.peak(device) for device in _devices]
    return any(peak is not None and peak > limit for peak in found)


def _within_limit(item, limit, runtest):
    __tracebackhide__ = True  # pytest: this frame is not the test's
    # The end of a longer name tells tests apart.
    name = item.nodeid.encode()[-memtrace._NAME_BYTES:].decode(errors="ignore")
    with memtrace.phase(name):
        runtest()
    if not memtrace.recording():
        _unchecked.append(item.nodeid)
    elif _over(limit):
        try:
            verdict = _verdict(command.report(name), limit, name)
        except (RuntimeError, OSError, ValueError) as why:
            verdict = f"the peak of the process is above max_gpu_memory, and that of the test is not known: {why}"
        if verdict:
            pytest.fail(verdict, pytrace=False)


def pytest_terminal_summary(terminalreporter):
    if _unchecked:
        terminalreporter.write_line(
            f"max_gpu_memory was not checked in {len(_unchecked)} tests: they used no GPU, or memtrace does not record (memtrace run -- pytest ...)")
