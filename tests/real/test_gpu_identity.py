"""The GPU of a rank, whatever number the rank uses for it: UUID and PCI address, and the ranks that share it."""
import os
import struct
import unittest

from harness import MEMTRACE, mtr
from test_hooks_device import Programs


class Identity(Programs):
    def ranks(self, *visible, **settings):
        """One rank of a job for each of the named devices; each rank sees its device only."""
        program = self.program("families")
        for rank, devices in enumerate(visible):
            self.run_program(program, "linear", "link", RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=len(visible), LOCAL_WORLD_SIZE=len(visible),
                             TORCHELASTIC_RUN_ID="one", CUDA_VISIBLE_DEVICES=devices, CUDASIM_GPUS=4, **settings)
        return self.report()["ranks"]

    def test_each_sees_its_own(self):
        ranks = self.ranks("2", "0")
        self.assertEqual([r["device"] for r in ranks], [0, 0])
        # on the simulated device: "cudasim" and the device's number on the whole machine
        uuid = "GPU-63756461-7369-6d00-0000-0000000000%02x"
        self.assertEqual([r["gpu_uuid"] for r in ranks], [uuid % 2, uuid % 0])
        self.assertEqual([r["gpu_pci_bus_id"] for r in ranks], ["0000:03:00.0", "0000:01:00.0"])
        self.assertEqual([r["shares_gpu_with"] for r in ranks], [[], []])
        text = self.text()
        self.assertRegex(text, r"(?m)^ +0 +\S+ +0 000002 ")
        self.assertRegex(text, r"(?m)^ +1 +\S+ +0 000000 ")
        self.assertNotIn("\nshared", text)

    def test_named_by_uuid(self):
        ranks = self.ranks("GPU-63756461-7369-6d00-0000-000000000003")
        self.assertEqual(ranks[0]["gpu_pci_bus_id"], "0000:04:00.0")

    def together(self):
        """Moves the second trace's start to that of the first: they ran one after the other."""
        first, second = self.paths()
        with open(first, "rb") as f:
            f.seek(40)
            start = f.read(8)
        with open(second, "r+b") as f:
            f.seek(40)
            f.write(start)

    def test_shared(self):
        self.ranks("1", "1,2")
        self.assertEqual([r["shares_gpu_with"] for r in self.report()["ranks"]], [[], []])  # not at the same time
        self.together()
        ranks = self.report()["ranks"]
        self.assertEqual([[o["rank"] for o in r["shares_gpu_with"]] for r in ranks], [[1], [0]])
        self.assertEqual(ranks[0]["shares_gpu_with"][0]["pid"], ranks[1]["pid"])
        self.assertIn("\nshared      ranks 0, 1 are on one GPU, GPU-63756461-7369-6d00-0000-000000000001 of host ", self.text())

    def test_of_two_nodes(self):
        """The simulated device is the same on each node: ranks of two nodes share no GPU."""
        program = self.program("families")
        for rank in (0, 8):
            self.run_program(program, "linear", "link", RANK=rank, LOCAL_RANK=0, WORLD_SIZE=16, LOCAL_WORLD_SIZE=8, TORCHELASTIC_RUN_ID="one")
        self.together()
        self.assertEqual([r["shares_gpu_with"] for r in self.report()["ranks"]], [[], []])


if __name__ == "__main__":
    unittest.main()
