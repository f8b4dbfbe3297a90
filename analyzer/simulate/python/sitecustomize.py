"""`memtrace simulate` puts this module on PYTHONPATH. It ends the job after --steps, and emulates missing ranks in exchanges that do not use a GPU.

RUNNING has the ranks that run: this one alone, or several together, which exchange their real data.

The environment's own sitecustomize runs first. Nothing happens before the job itself imports torch.
"""
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import os
import pickle
import sys

import memtrace_gloo
import memtrace_broadcasts

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = int(os.environ.get("SIMULATE_STEPS") or 0)


def ranks_in(name):
    return [int(r) for r in os.environ.get(name, "").split(",") if r]


RUNNING = ranks_in("SIMULATE_RANKS")


def run_own_sitecustomize():
    path = [p for p in sys.path if os.path.abspath(p or ".") != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def say(text):
    sys.stderr.write("memtrace: rank %s: %s\n" % (os.environ.get("RANK", 0), text))


# ---- --steps

def end_after_steps(optimizer_module):
    """Ends the job when the step after the last one begins: at a module's forward pass, or before another step of an optimizer.

    Steps are counted for each optimizer, so that the steps of several optimizers are one step of the job.
    """
    from torch.nn.modules.module import register_module_forward_pre_hook
    taken = {}

    def finish(*_):
        sys.stdout.flush()
        raise SystemExit(0)

    def before(optimizer, *_):
        if taken.get(id(optimizer), 0) >= STEPS:
            finish()

    def after(optimizer, *_):
        taken[id(optimizer)] = taken.get(id(optimizer), 0) + 1
        if taken[id(optimizer)] == STEPS and len([n for n in taken.values() if n >= STEPS]) == 1:
            register_module_forward_pre_hook(finish)

    optimizer_module.register_optimizer_step_pre_hook(before)
    optimizer_module.register_optimizer_step_post_hook(after)


# ---- missing ranks

running_of_new_group, backend_of_new_group = 1, ""  # of the group that is being created: number of running members, backend
exchanged = {}  # {a group's ranks: number of exchanges}

def emulated_gloo(c10d):
    """A substitute for ProcessGroupGloo, whose groups connect their processes: if members are missing, all members have this rank's data."""
    from torch._C import _distributed_c10d as native
    fake = getattr(native, "FakeProcessGroup", None) or memtrace_gloo.emulated_group(native)
    create = getattr(fake, "_create_internal", fake)
    is_whole = issubclass(fake, native.ProcessGroup)  # not a backend; a group has one backend for each device
    fake._set_sequence_number_for_group = lambda group: None  # PyTorch before 2.12 sets one for a Gloo group; a fake group raises an error
    real = c10d.ProcessGroupGloo

    class Emulated(type):
        def __instancecheck__(cls, group):
            return isinstance(group, (fake, real))

    class EmulatedGloo(metaclass=Emulated):
        """Takes the place of ProcessGroupGloo(store, rank, size, timeout)."""

        def __new__(cls, store, rank, size, *args, **keys):
            if 1 < running_of_new_group == size:
                return real(store, rank, size, *args, **keys)
            if is_whole and backend_of_new_group != "gloo":
                raise RuntimeError("memtrace simulate: a group of NCCL and Gloo (%s) with ranks that do not run needs PyTorch 2.2 or later; "
                                   "or init_process_group(\"nccl\")" % backend_of_new_group)
            return create(rank, size)

    for name in ("_Options", "Options", "create_device", "create_default_device"):
        if hasattr(c10d.ProcessGroupGloo, name):
            setattr(EmulatedGloo, name, getattr(c10d.ProcessGroupGloo, name))
    return EmulatedGloo


def members(c10d, group):
    """The global ranks of a group, in its order."""
    if group is None or group is c10d._get_default_group():
        return list(range(c10d.get_world_size()))
    return list(c10d._world.pg_group_ranks[group])


def wrap(c10d, name, answer):
    """Replaces a function: members of a group call answer(real, first, given) with the first argument, and the other arguments by name."""
    real = getattr(c10d, name, None)
    if real is None:
        return
    names = list(inspect.signature(real).parameters)

    def call(*args, **keys):
        given = {**dict(zip(names, args)), **keys}
        first = given.pop(names[0])
        if c10d._rank_not_in_group(given.get("group")):
            return real(first, **given)
        return answer(real, first, given)
    call.__name__, call.__doc__, call.__wrapped__ = name, real.__doc__, real
    replace(c10d, name, call)


def running_members(c10d, group):
    return [r for r in members(c10d, group) if r in RUNNING]


def receive_objects_from_missing_ranks(c10d, calls):
    """Objects of a missing rank are read from an auxiliary run of that rank. If they are unknown, the receiver keeps its own."""
    sent = calls.sent

    def from_one(place_of_all, take):
        """The answer for calls in which one rank of the group sends to all."""
        def answer(real, objects, given):
            ranks, sender = calls.peer(given, "src")
            sender = sender or 0
            if sender == sent.rank:
                sent.write("objects", ranks, memtrace_broadcasts.pickled(place_of_all(objects, given)))
            if sender in RUNNING:
                return calls.within(real, objects, given)
            said = sent.read_objects(ranks, sender)
            if said:
                take(objects, said, ranks)
        return answer

    def broadcast(objects, said, _):
        objects[:] = said

    def scatter(output, said, ranks):
        output[0] = said[ranks.index(sent.rank)]

    def send(real, objects, given):
        ranks, receiver = calls.peer(given, "dst")
        if receiver not in RUNNING:
            sent.write("objects", ranks, memtrace_broadcasts.pickled(objects), receiver)
        return calls.within(real, objects, given)

    def receive(real, objects, given):
        ranks, sender = calls.peer(given, "src")
        if sender is None or sender in RUNNING:
            return calls.within(real, objects, given)
        said = sent.read_objects(ranks, sender, sent.rank)
        if said:
            objects[:] = said
        return sender

    wrap(c10d, "broadcast_object_list", from_one(lambda objects, given: objects, broadcast))
    wrap(c10d, "scatter_object_list", from_one(lambda _, given: given.get("scatter_object_input_list"), scatter))
    wrap(c10d, "send_object_list", send)
    wrap(c10d, "recv_object_list", receive)


def replace(c10d, name, function):
    setattr(c10d, name, function)
    if hasattr(sys.modules.get("torch.distributed"), name):
        setattr(sys.modules["torch.distributed"], name, function)


def uses_the_store(c10d, group):
    """Whether the group exchanges objects on the CPU, and some but not all of its ranks run: no Gloo connects them."""
    running = running_members(c10d, group)
    if not 1 < len(running) < c10d.get_world_size(group):
        return False
    names = "_get_object_coll_device", "_get_pg_default_device", "_get_pg_device"  # PyTorch 2.6, 2.1, 2.0
    device = next((getattr(c10d, n) for n in names if hasattr(c10d, n)), None)
    return device is not None and str(device(group or c10d._get_default_group())) == "cpu"


def exchange_by_the_store(c10d, group, obj):
    """Exchanges `obj` between the running ranks; returns {global rank: its object}."""
    running = running_members(c10d, group)
    ranks = ".".join(map(str, members(c10d, group)))
    exchanged[ranks] = exchanged.get(ranks, 0) + 1
    tag = "memtrace:%d:%s" % (len(running), ".".join(str(i) for i in range(len(running))))
    store, own = c10d.PrefixStore("%s/objects/%s" % (tag, ranks), c10d._get_default_store()), str(c10d.get_rank())
    here, before = (c10d.PrefixStore(str(exchanged[ranks] - i), store) for i in (0, 1))
    here.set(own, pickle.dumps(obj))
    said = {r: pickle.loads(here.get(str(r))) for r in running}
    before.delete_key(own)  # all ranks have reached this exchange, so none still reads the previous one
    return said


def representatives(c10d, group):
    """For each rank of a group, itself if it runs, otherwise its representative, as comm_deputy() of the simulated device."""
    running, ranks = running_members(c10d, group), members(c10d, group)
    absent = [r for r in ranks if r not in running]
    return [running[absent.index(r) % len(running)] if r in absent else r for r in ranks]


def send_objects_by_the_store(c10d, calls):
    def wrap_call(name, by_store):
        def answer(real, objects, given):
            group = given.get("group")
            if not uses_the_store(c10d, group):
                return real(objects, **given)
            return by_store(objects, given, group, calls.peer(given, "src")[1] or 0)
        wrap(c10d, name, answer)

    def gather(everybody, given, group, _):
        said = exchange_by_the_store(c10d, group, given.get("obj"))
        everybody[:] = [said[r] for r in representatives(c10d, group)]

    def broadcast(objects, given, group, sender):
        objects[:] = exchange_by_the_store(c10d, group, list(objects))[sender]

    def scatter(output, given, group, sender):
        output[0] = exchange_by_the_store(c10d, group, given.get("scatter_object_input_list"))[sender][c10d.get_rank(group)]

    wrap_call("all_gather_object", gather)
    wrap_call("broadcast_object_list", broadcast)
    wrap_call("scatter_object_list", scatter)


def meet_by_the_store(c10d):
    """In barriers of a CPU group with missing members, the running members wait for each other. An emulated Gloo has no monitored_barrier()."""
    def wrap_barrier(name, is_real):
        real = getattr(c10d, name, None)

        def barrier(group=None, *args, **keys):
            if c10d._rank_not_in_group(group) or is_real(group, *args, **keys):
                return real(group, *args, **keys)
            if len(running_members(c10d, group)) > 1:
                exchange_by_the_store(c10d, group, None)
        if real is not None:
            barrier.__name__, barrier.__doc__, barrier.__wrapped__ = name, real.__doc__, real
            replace(c10d, name, barrier)

    def runs_as_a_whole(group, *_, **__):
        return 1 < len(running_members(c10d, group)) == c10d.get_world_size(group)

    def uses_the_gpu(group, async_op=False, device_ids=None, **_):
        bound = getattr(group or c10d._get_default_group(), "bound_device_id", None)
        return async_op or device_ids is not None or bound is not None or not uses_the_store(c10d, group)

    wrap_barrier("barrier", uses_the_gpu)
    wrap_barrier("monitored_barrier", runs_as_a_whole)


def gather_emulated_objects(c10d, calls):
    """gather_object() to a running rank: missing ranks have the objects of their representatives, as in all_gather_object()."""
    real = getattr(c10d, "gather_object", None)
    if real is None:
        return

    def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None, **_):
        ranks, receiver = calls.peer({"group": group, "dst": dst or 0, "group_dst": group_dst}, "dst")
        if calls.sent.rank not in ranks or receiver not in RUNNING:
            return
        running, everybody = running_members(c10d, group), [obj] * len(ranks)
        if len(running) > 1:
            c10d.all_gather_object(everybody, obj, group)
        if receiver == calls.sent.rank:
            object_gather_list[:] = everybody
    gather_object.__doc__ = real.__doc__
    replace(c10d, "gather_object", gather_object)


def make_groups_by_rank(c10d):
    """Creates split groups as new groups, because a split group gives NCCL neither its size nor its members."""
    if hasattr(c10d, "_get_split_source"):
        c10d._get_split_source = lambda *_: None
    if not hasattr(c10d, "split_group"):
        return

    def split_group(parent_pg=None, split_ranks=None, timeout=None, pg_options=None, group_desc=None, **_):
        parent = parent_pg or c10d._get_default_group()
        members = c10d.get_process_group_ranks(parent)
        for ranks in split_ranks or []:
            if c10d.get_rank(parent) in ranks:
                return c10d.new_group([members[r] for r in ranks], timeout=timeout, pg_options=pg_options, group_desc=group_desc)
        return None
    split_group.__doc__ = c10d.split_group.__doc__
    c10d.split_group = split_group


def name_running_members(c10d):
    """Puts the running members of a group into its store keys, if several run; analyzer/simulate/together.c reads them."""
    real = c10d._new_process_group_helper

    def helper(group_size, group_rank, global_ranks_in_group, backend, store, *args, **keys):
        global running_of_new_group, backend_of_new_group
        ranks = list(global_ranks_in_group) or list(range(group_size))
        running = [i for i, r in enumerate(ranks) if r in RUNNING]
        if running and len(RUNNING) > 1:
            store = c10d.PrefixStore("memtrace:%d:%s" % (len(ranks), ".".join(map(str, running))), store)
        running_of_new_group, backend_of_new_group = len(running), str(backend)
        return real(group_size, group_rank, global_ranks_in_group, backend, store, *args, **keys)
    c10d._new_process_group_helper = helper


def emulate_missing_ranks(c10d):
    sent = memtrace_broadcasts.Sent(os.environ["SIMULATE_SENT"], int(os.environ["RANK"]), ranks_in("SIMULATE_ASKED"), say)
    calls = memtrace_broadcasts.Calls(c10d, sent, members, RUNNING)
    if len(RUNNING) > 1:
        send_objects_by_the_store(c10d, calls)
    name_running_members(c10d)
    calls.install(wrap)
    receive_objects_from_missing_ranks(c10d, calls)
    meet_by_the_store(c10d)
    gather_emulated_objects(c10d, calls)
    make_groups_by_rank(c10d)
    if hasattr(c10d, "ProcessGroupGloo"):
        c10d.ProcessGroupGloo = emulated_gloo(c10d)


def skip_comparison_with_rank_0(utils):
    """ZeRO-3 compares its order of parameters with rank 0's. If rank 0 does not run, the comparison is skipped."""
    if len(RUNNING) > 1 and 0 in RUNNING:
        return
    for name in ("assert_ints_same_as_other_ranks", "assert_lst_len_same_as_other_ranks"):
        if hasattr(utils, name):
            setattr(utils, name, lambda *_, **__: None)
    if hasattr(utils, "get_lst_from_rank0"):
        utils.get_lst_from_rank0 = lambda lst: lst


def plan_alone(utils):
    """torch.distributed.checkpoint: a coordinator plans for all ranks. If the coordinator or all other ranks are missing, a rank plans for itself."""
    real = utils._DistWrapper.reduce_scatter

    def reduce_scatter(self, step, map_fun, reduce_fun):
        coordinator = getattr(self, "global_coordinator_rank", self.coordinator_rank)
        if self.use_dist and self.get_world_size() > 1 and (len(RUNNING) == 1 or coordinator not in RUNNING):
            return reduce_fun([map_fun()])[0]
        return real(self, step, map_fun, reduce_fun)
    utils._DistWrapper.reduce_scatter = reduce_scatter


def expect_missing_shards(planner):
    """A checkpoint has no shards of missing ranks, so an incomplete tensor is no error."""
    lists = "list" in str(inspect.signature(planner._validate_global_plan).return_annotation).lower()
    planner._validate_global_plan = lambda *_: [] if lists else True


def use_the_emulated_store(rendezvous):
    """init_method="tcp://HOST:PORT" names a machine of the real job; the emulated store takes its place. env:// finds it without help."""
    real = rendezvous._create_c10d_store

    def create(hostname, port, *args, **keys):
        return real(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), *args, **keys)
    rendezvous._create_c10d_store = create


# ---- kernels of Triton

def compute_small_kernels(jit):
    import memtrace_triton
    memtrace_triton.compute_small_kernels(jit)


# ---- when a module has been imported

class AfterImport(importlib.abc.MetaPathFinder):
    def __init__(self, actions):
        self.actions = actions

    def find_spec(self, name, path, target=None):
        action = self.actions.pop(name, None)
        if action is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec and spec.loader:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                action(module)
            spec.loader.exec_module = exec_module
        return spec


def main():
    actions = {"triton.runtime.jit": compute_small_kernels}
    if STEPS:
        actions["torch.optim.optimizer"] = end_after_steps
    if RUNNING:
        actions["torch.distributed.distributed_c10d"] = emulate_missing_ranks
        actions["torch.distributed.rendezvous"] = use_the_emulated_store
        actions["torch.distributed.checkpoint.utils"] = plan_alone
        actions["torch.distributed.checkpoint.default_planner"] = expect_missing_shards
        actions["deepspeed.runtime.zero.utils"] = skip_comparison_with_rank_0
    sys.meta_path.insert(0, AfterImport(actions))
    run_own_sitecustomize()


main()
