"""The job array and the training job in examples/ on a real Slurm of one node, started here: Debian's slurmctld, slurmd, slurm-client and munge."""
import getpass
import glob
import os
import shutil
import socket
import subprocess
import sys
import time
import unittest

from harness import MEMTRACE, ROOT, Case, python

DAEMONS = ("munged", "slurmctld", "slurmd")
CONFIGURATION = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={dir}/munge.socket
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
GresTypes=gpu
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MailProg=/bin/true
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=4096 Gres=gpu:2
PartitionName=all Nodes={host} Default=YES
"""


def found(name):
    return shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


@unittest.skipUnless(all(map(found, (*DAEMONS, "sbatch"))), "no Slurm here: apt-get install slurmctld slurmd slurm-client munge")
class Slurm(Case):
    def setUp(self):
        super().setUp()
        for folder in ("state", "spool", "slurm"):
            os.mkdir(os.path.join(self.dir, folder))
        os.chmod(self.dir, 0o755)  # munged needs access for all users to the directory of its socket
        self.place = os.path.join(self.dir, "slurm")
        with open(os.path.join(self.place, "key"), "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write(os.urandom(64))
        with open(os.path.join(self.place, "slurm.conf"), "w") as f:
            f.write(CONFIGURATION.format(host=socket.gethostname().split(".")[0], ports=free_ports(2), user=getpass.getuser(), dir=self.dir,
                                         cpus=os.cpu_count()))
        with open(os.path.join(self.place, "gres.conf"), "w") as f:
            f.write("Name=gpu File=/dev/zero\nName=gpu File=/dev/full\n")    # any devices
        self.env = {**os.environ, "SLURM_CONF": os.path.join(self.place, "slurm.conf"),
                    "PATH": os.path.dirname(MEMTRACE) + os.pathsep + os.environ["PATH"]}
        self.daemon("munged", "--foreground", "--force", "--socket=%s/munge.socket" % self.dir,
                    *("--%s-file=%s/%s" % (kind, self.place, kind) for kind in ("key", "pid", "log", "seed")))
        self.daemon("slurmctld", "-D")
        self.daemon("slurmd", "-D")
        self.wait_for_the_node()

    def daemon(self, name, *arguments):
        log = open(os.path.join(self.place, name + ".out"), "w")
        started = subprocess.Popen([found(name), *arguments], env=self.env, stdout=log, stderr=log, start_new_session=True)
        log.close()
        self.addCleanup(started.wait)
        self.addCleanup(started.terminate)

    def logs(self):
        text = ""
        for name in DAEMONS:
            with open(os.path.join(self.place, name + ".out")) as f:
                text += "%s:\n%s" % (name, f.read()[-1500:])
        return text

    def slurm(self, *command, status=0):
        done = subprocess.run(command, env=self.env, cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
        if status is not None:
            self.assertEqual(done.returncode, status, done.stdout + done.stderr + self.logs())
        return done.stdout

    def wait_for_the_node(self):
        for _ in range(120):
            if self.slurm("sinfo", "-h", "-o", "%t", status=None).strip() == "idle":
                return
            time.sleep(0.5)
        self.fail("the node never became idle\n" + self.logs())

    def test_job_array(self):
        """Three ranks of 512, one task each; the report shows all as one run. Rank r allocates r + 1 MiB."""
        job = os.path.join(self.dir, "job.py")
        with open(job, "w") as f:
            f.write("import ctypes, os\nn = int(os.environ['RANK']) + 1\n"
                    "assert ctypes.CDLL(None).cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(n << 20)) == 0\n")
        printed = self.slurm(MEMTRACE, "simulate", "-o", self.traces, "--gpu", "H100-80GB", "--world-size", "512", "--ranks", "0,64,448",
                             "--print-commands", "--", sys.executable, job)
        with open(os.path.join(self.dir, "commands"), "w") as f:
            f.write(printed)
        self.slurm("sbatch", "--wait", "--mem", "512M", "--array", "1-3", os.path.join(ROOT, "examples", "simulate.sbatch"), "commands")
        ranks = {r["rank"]: r for r in self.report()["ranks"]}
        self.assertEqual(sorted(ranks), [0, 64, 448])
        for rank, entry in ranks.items():
            self.assertEqual((entry["world_size"], entry["simulated"], entry["end"]), (512, True, "exit"))
            self.assertEqual(entry["peak"]["by_owner"]["application"], rank + 1 << 20)

    @unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
    def test_training(self):
        """Two ranks that srun starts, with gloo's messages between them. The GPUs are simulated: `simulate` is in the place of `run`."""
        bin = os.path.join(self.dir, "bin")
        os.mkdir(bin)
        with open(os.path.join(bin, "memtrace"), "w", opener=lambda path, flags: os.open(path, flags, 0o700)) as f:
            f.write('#!/bin/sh\n[ "$1" != run ] || { shift; set -- simulate --gpus 2 "$@"; }\nexec %s "$@"\n' % MEMTRACE)
        self.env.update(PATH=":".join((bin, os.path.dirname(python()), os.environ["PATH"])), OMP_NUM_THREADS="1")
        small = "--layers 2 --width 128 --heads 4 --vocabulary 512 --length 128 --steps 2".split()
        examples = os.path.join(ROOT, "examples")
        self.slurm("sbatch", "--wait", "--nodes", "1", "--ntasks-per-node", "2", "--gpus-per-node", "2", "--cpus-per-task", "1",
                   os.path.join(examples, "train.sbatch"), os.path.join(examples, "train_gpt2.py"), *small)
        self.traces, = glob.glob(os.path.join(self.dir, "traces-*"))
        with open(glob.glob(os.path.join(self.dir, "slurm-*.out"))[0]) as f:
            said = f.read()
        ranks = self.report()["ranks"]
        self.assertEqual([(r["rank"], r["world_size"], r["end"], len(r["communicators"])) for r in ranks], [(n, 2, "exit", 1) for n in (0, 1)], said)
        self.assertIn("step 2: %.2f GiB" % (max(r["peak"]["allocated_bytes"] for r in ranks) / 2**30), said)
        self.assertRegex(said, r"rank \d of 2")


if __name__ == "__main__":
    unittest.main()
