"""A CPU group whose missing members have this rank's data, for PyTorch 2.0 and 2.1; later versions have FakeProcessGroup."""


def emulated_group(native):
    """The class; `native` is torch._C._distributed_c10d."""
    import torch

    def done(result):
        future = torch.futures.Future()
        future.set_result(result)
        return native._create_work_from_future(future)

    def nothing(self, *_, **__):
        return done([])

    def fill(outputs, source):
        for output in outputs:
            output.copy_(source)

    class EmulatedGroup(native.ProcessGroup):
        def name(self):
            return "gloo"

        def _set_sequence_number_for_group(self):
            pass

        def allgather(self, outputs, inputs, *_):
            for parts, own in zip(outputs, inputs):
                fill(parts, own)
            return done(outputs)

        gather = allgather

        def _allgather_base(self, output, own, *_):
            fill(output.view(-1).split(own.numel()), own.view(-1))
            return done(output)

        def scatter(self, outputs, inputs, *_):
            for output, parts in zip(outputs, inputs):
                output.copy_(parts[self.rank()])
            return done(outputs)

        reduce_scatter = scatter

        def _reduce_scatter_base(self, output, inputs, *_):
            output.view(-1).copy_(inputs.view(-1).split(output.numel())[self.rank()])
            return done(output)

        def alltoall(self, outputs, inputs, *_):
            for output, own in zip(outputs, inputs):
                output.copy_(own)
            return done(outputs)

        def alltoall_base(self, output, own, *_):
            if output.numel() == own.numel():
                output.copy_(own)
            return done(output)

        allreduce = allreduce_coalesced = broadcast = reduce = send = recv = recv_anysource = barrier = monitored_barrier = nothing

    return EmulatedGroup
