"""Put on PYTHONPATH by `memtrace simulate`: ends the job after --steps, and answers for ranks that do not run where no GPU is in between.

Runs the environment's own sitecustomize first. Nothing happens before the job itself imports torch.
"""
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = int(os.environ.get("SIMULATE_STEPS") or 0)
ALONE = os.environ.get("CUDASIM_ALONE") == "1"


def run_the_other_one():
    path = [p for p in sys.path if os.path.abspath(p or ".") != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def say(text):
    sys.stderr.write("memtrace: rank %s: %s\n" % (os.environ.get("RANK", 0), text))


# ---- --steps

def end_after_steps(optimizer_module):
    """Ends the job where the step after the last one begins: at a module's forward pass, or at an optimizer that is about to step again.

    Each optimizer is counted for itself, so that several of them a step are one step.
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


# ---- ranks that do not run

def played_gloo(c10d):
    """Gloo's groups connect their processes; with the others absent, a group whose members all hold what this rank holds."""
    from torch._C import _distributed_c10d as native
    fake = getattr(native, "FakeProcessGroup", None)
    if fake is None:
        def gloo(*_, **__):
            raise RuntimeError("memtrace simulate: a Gloo group with ranks that do not run needs PyTorch 2.2 or later")
        return gloo
    create = getattr(fake, "_create_internal", fake)
    fake._set_sequence_number_for_group = lambda group: None  # PyTorch before 2.12 gives a Gloo group one, and a fake one says that it has none

    class Played(type):
        def __instancecheck__(cls, group):
            return isinstance(group, fake)

    class PlayedGloo(metaclass=Played):
        """What ProcessGroupGloo(store, rank, size, timeout) gives."""

        def __new__(cls, store, rank, size, timeout=None, **_):
            return create(rank, size)

    for name in ("_Options", "Options", "create_device", "create_default_device"):
        if hasattr(c10d.ProcessGroupGloo, name):
            setattr(PlayedGloo, name, getattr(c10d.ProcessGroupGloo, name))
    return PlayedGloo


def is_absent(c10d, group, rank_in_world, rank_in_group):
    if rank_in_group is not None:
        return rank_in_group != c10d.get_rank(group)
    return (rank_in_world or 0) != c10d.get_rank()


def leave_objects_alone(c10d):
    """Objects that an absent rank would send cannot be known: the receiver keeps what it has, as if that rank were like it."""
    told = set()

    def wrap(name, source, group_source, answer):
        real = getattr(c10d, name, None)
        if real is None:
            return

        def call(objects, *args, **keys):
            names = real.__code__.co_varnames[1:]
            given = {**dict(zip(names, args)), **keys}
            if c10d._rank_not_in_group(given.get("group")):
                return real(objects, *args, **keys)
            if not is_absent(c10d, given.get("group"), given.get(source), given.get(group_source)):
                return real(objects, *args, **keys)
            if name not in told:
                told.add(name)
                say("%s from rank %s, which does not run: this rank keeps its own objects" % (name, given.get(source)))
            return answer(objects, given)
        call.__name__, call.__doc__, call.__wrapped__ = name, real.__doc__, real
        setattr(c10d, name, call)
        if hasattr(sys.modules.get("torch.distributed"), name):
            setattr(sys.modules["torch.distributed"], name, call)

    def scattered(output, given):
        objects = given.get("scatter_object_input_list")
        if objects:
            output[0] = objects[c10d.get_rank(given.get("group"))]

    wrap("broadcast_object_list", "src", "group_src", lambda objects, given: None)
    wrap("recv_object_list", "src", "group_src", lambda objects, given: given.get("src") or 0)
    wrap("scatter_object_list", "src", "group_src", scattered)


def gather_own_objects(c10d):
    """gather_object() to this rank: the others would have sent what this rank has."""
    def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None):
        if c10d._rank_not_in_group(group) or is_absent(c10d, group, dst, group_dst):
            return
        object_gather_list[:] = [obj] * c10d.get_world_size(group)
    if hasattr(c10d, "gather_object"):
        gather_object.__doc__ = c10d.gather_object.__doc__
        c10d.gather_object = gather_object


def make_groups_by_rank(c10d):
    """A group that is split off its parent tells NCCL neither its size nor its members; one made for itself does."""
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


def play_absent_ranks(c10d):
    leave_objects_alone(c10d)
    gather_own_objects(c10d)
    make_groups_by_rank(c10d)
    if hasattr(c10d, "ProcessGroupGloo"):
        c10d.ProcessGroupGloo = played_gloo(c10d)


def compare_with_nobody(utils):
    """ZeRO-3 compares its order of parameters with rank 0's; where that does not run there is nothing to compare with."""
    for name in ("assert_ints_same_as_other_ranks", "assert_lst_len_same_as_other_ranks"):
        if hasattr(utils, name):
            setattr(utils, name, lambda *_, **__: None)
    if hasattr(utils, "get_lst_from_rank0"):
        utils.get_lst_from_rank0 = lambda lst: lst


def meet_at_the_played_store(rendezvous):
    """init_method="tcp://HOST:PORT" names a machine of the real job: here one store plays it, which env:// finds by itself."""
    real = rendezvous._create_c10d_store

    def create(hostname, port, *args, **keys):
        return real(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), *args, **keys)
    rendezvous._create_c10d_store = create


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
    actions = {}
    if STEPS:
        actions["torch.optim.optimizer"] = end_after_steps
    if ALONE:
        actions["torch.distributed.distributed_c10d"] = play_absent_ranks
        actions["torch.distributed.rendezvous"] = meet_at_the_played_store
        actions["deepspeed.runtime.zero.utils"] = compare_with_nobody
    if actions:
        sys.meta_path.insert(0, AfterImport(actions))
    run_the_other_one()


main()
