"""The examples start as they say: the command lines in their heads on the simulated device, with small models. What a cluster would do is a stand-in's."""
import glob
import json
import os
import re
import shutil
import socket
import subprocess
import time
import unittest

import test_dist
import test_old_glibc
from harness import MEMTRACE, PRELOAD, ROOT, SIM, Case, add_tests, python

EXAMPLES = os.path.join(ROOT, "examples")
SMALL = "--layers 2 --width 128 --heads 4 --vocabulary 512 --length 128 --steps 2".split()
BATCH = ["--batch", "200"]   # gibibytes, of which train_gpt2.py prints two digits
OLD = os.path.join(test_old_glibc.CACHE, "debian-11")
# `memtrace run` on a machine without a GPU: the simulated device is in its place.
RUN = """#!/bin/sh
[ "${1:-}" != run ] || { shift; set -- simulate --gpus 2 "$@"; }
exec %s "$@"
"""
SRUN = """#!/bin/sh
for i in $(seq 0 $((SLURM_NTASKS - 1))); do
	SLURM_PROCID=$i SLURM_LOCALID=$i "$@" &
done
for i in $(seq 0 $((SLURM_NTASKS - 1))); do
	wait -n 2>/dev/null || wait
done
"""
# A container is a root of Debian 11 here, with glibc 2.31; the simulated device is the GPU that the container engine would bring.
ENGINE = """#!/bin/bash
set -eu
root={root} binds=() settings=() folder=/
shift # run, exec
while [[ $1 == -* ]]; do
	case $1 in
	-v | --bind) binds+=("$2"); shift ;;
	-e) settings+=("$2"); shift ;;
	--env) IFS=, read -ra settings <<<"$2"; shift ;;
	-w | --pwd) folder=$2; shift ;;
	--gpus | --shm-size) shift ;;
	--rm | --nv) ;;
	*) echo "what is $1?" >&2; exit 64 ;;
	esac
	shift
done
shift # the image
settings=("${{settings[@]/libmemtrace.so/libmemtrace.so:/memtrace/libcudasim.so}}")
binds+=("{sim}:/memtrace/libcudasim.so")
script='mount --rbind /proc "$0/proc"; mount --rbind /dev "$0/dev"; mount -t tmpfs none "$0/mnt"; mkdir -p "$0/memtrace"'
for bind in "${{binds[@]}}"; do
	IFS=: read -r from to mode <<<"$bind"
	to=$root${{to:-$from}}
	if [ -d "$from" ]; then script+="; mkdir -p '$to'"; else script+="; touch '$to'"; fi
	script+="; mount --bind '$from' '$to'"
done
exec unshare --mount sh -euc "$script"'; exec chroot "$0" /usr/bin/env -C "$@"' "$root" "$folder" "${{settings[@]}}" "$@"
"""
# NVIDIA's hook, which Docker calls for --gpus, brings the driver's library into the container: here the simulated device.
HOOK = """#!/bin/sh
set -eu
root=$(python3 -c 'import json, sys; print(json.load(open(json.load(sys.stdin)["bundle"] + "/config.json"))["root"]["path"])')
cp {sim} "$root/usr/lib/x86_64-linux-gnu/libcuda.so.1"
"""
# Apptainer's own program, in the root of the system that has it; the simulated device is the driver's library there, which --nv takes.
APPTAINER = """#!/bin/sh
set -eu
enter='root=$1 here=$PWD
mount --bind $root $root
for folder in proc dev sys; do mount --rbind /$folder $root/$folder; done
mount -t tmpfs none $root/mnt; mount -t tmpfs none $root/tmp
mkdir -p $root/mnt/debian-11 $root/mnt/before $root$2 $root{build}
mount --bind {old} $root/mnt/debian-11; mount --bind $2 $root$2; mount --bind {build} $root{build}
mount --bind {sim} $root/usr/lib/x86_64-linux-gnu/libcuda.so.1
shift 2
cd $root; pivot_root . mnt/before
exec chroot . /bin/sh -euc "cd $here; exec /usr/bin/apptainer \\"\\$@\\"" sh "$@"'
exec unshare --mount --propagation private sh -euc "$enter" sh {root} {dir} "$@"
"""
IN_A_CONTAINER = """
import ctypes
cuda, context, block = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(3 << 20)) == 0
print(open("/etc/debian_version").read())
"""


def clusters():
    return subprocess.run([os.path.join(ROOT, "tests", "cluster-env.sh"), python()], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


class Examples(Case):
    def setUp(self):
        super().setUp()
        for path in filter(os.path.isfile, glob.glob(os.path.join(EXAMPLES, "*"))):
            shutil.copy(path, self.dir)
        os.mkdir(self.path("bin"))
        self.program("memtrace", RUN % MEMTRACE)
        with socket.create_server(("127.0.0.1", 0)) as free:    # for Lightning and torchrun
            port = str(free.getsockname()[1])
        self.env = {"PATH": ":".join((self.path("bin"), os.path.dirname(python()), os.environ["PATH"])), "MASTER_PORT": port, "PET_MASTER_PORT": port, "OMP_NUM_THREADS": "1",
                    "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "ACCELERATE_USE_CPU": "false"}

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def program(self, name, text):
        with open(self.path("bin", name), "w") as f:
            f.write(text)
        os.chmod(self.path("bin", name), 0o755)

    def lines_of(self, name):
        """The indented command lines in the head of an example."""
        with open(self.path(name)) as f:
            head = re.match(r'"""(.*?)"""|(?:#[^\n]*\n)+', f.read(), re.S).group(0)
        return re.findall(r"^(?:#  | ) +(\S+ .*|.*\.sh .*)$", head, re.M)

    def check_peaks(self, said, ranks):
        """The report has each rank's peak, to the byte as PyTorch counted it."""
        told = {int(r): int(n) for r, n in re.findall(r"rank (\d+): (\d+) bytes at the most", said)}
        self.assertEqual(len(told), ranks, said)
        report = self.report()["ranks"]
        self.assertEqual({max(r["rank"], 0): r["peak"]["allocated_bytes"] for r in report if r["peak"]["allocated_bytes"]}, told)

    def check_rank_0(self, said):
        """The report of two ranks has rank 0's peak as train_gpt2.py counted it, in GiB with two digits."""
        ranks = self.report()["ranks"]
        self.assertEqual([r["rank"] for r in ranks], [0, 1])
        self.assertEqual("%.2f" % (ranks[0]["peak"]["allocated_bytes"] / 2**30), re.search(r"step 2: (\S+) GiB", said).group(1))

    def check(self, name, row):
        script, ranks = row
        run, report = self.lines_of(script)
        self.assertEqual(report, "memtrace report traces")
        done = self.run_(["sh", "-c", run + " " + " ".join(SMALL)], timeout=300, **self.env)
        self.check_peaks(done.stdout, ranks)

    def test_torchrun(self):
        """As in train_gpt2.py's head, with the library in LD_PRELOAD; the device is preloaded too."""
        line, = self.lines_of("train_gpt2.py")
        self.program("memtrace", '#!/bin/sh\necho "%s:%s"\n' % (PRELOAD, SIM))
        done = self.run_(["sh", "-c", line + " " + " ".join(SMALL + BATCH)], timeout=300, MEMTRACE_DIR=self.traces, CUDASIM_GPUS="2", **self.env)
        self.check_rank_0(done.stdout)

    def test_slurm(self):
        """The batch script with the variables of an allocation; srun is a stand-in that starts the tasks."""
        self.program("srun", SRUN.replace("#!/bin/sh", "#!/bin/bash"))
        self.program("scontrol", "#!/bin/sh\n[ \"$*\" = 'show hostnames here[0-1]' ] && echo localhost\n")
        done = self.run_(["bash", "train.sbatch", "train_gpt2.py", *SMALL, *BATCH], timeout=300, SLURM_SUBMIT_DIR=self.dir, SLURM_JOB_ID="%d" % os.getpid(),
                         SLURM_JOB_NODELIST="here[0-1]", SLURM_NTASKS="2", **self.env)
        self.assertRegex(done.stdout, r"rank \d of 2")
        self.traces = self.path("traces-%d" % os.getpid())
        self.check_rank_0(done.stdout)

    def read_manifest(self):
        job = subprocess.run([python(), "-c", "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))", self.path("kubernetes.yaml")],
                             check=True, stdout=subprocess.PIPE, text=True).stdout
        return json.loads(job)

    def test_kubernetes(self):
        """The manifest is a Job whose volumes are there; its first container unpacks the wheel, and the other one records the job with that."""
        job = self.read_manifest()
        self.assertEqual((job["apiVersion"], job["kind"]), ("batch/v1", "Job"))
        pod = job["spec"]["template"]["spec"]
        volumes = {"memtrace": self.path("unpacked"), "traces": self.traces, "workspace": self.dir, "shm": "/dev/shm"}
        self.assertEqual(volumes.keys(), {v["name"] for v in pod["volumes"]})

        def started(container):
            places = {m["mountPath"]: volumes[m["name"]] for m in container["volumeMounts"]}
            return [re.sub(r"\A(%s)(?=/|\Z)" % "|".join(places), lambda m: places[m[0]], word) for word in container["command"] + container.get("args", [])]

        test_dist.make("wheel")
        os.mkdir(self.traces)
        shutil.copy(test_dist.package("*x86_64.whl"), self.traces)
        (first,), (container,) = pod["initContainers"], pod["containers"]
        self.run_(started(first), timeout=120, **self.env)
        memtrace = self.path("unpacked", "bin", "memtrace")
        self.assertEqual(self.run_([memtrace, "preload-path"]).stdout, self.path("unpacked", "lib", "memtrace", "libmemtrace.so\n"))
        os.rename(memtrace, memtrace + "-itself")
        self.program(memtrace, RUN % (memtrace + "-itself"))
        command = started(container)
        self.assertEqual(command[-1], self.path("train_gpt2.py"))
        self.assertIn("--nproc-per-node %d" % container["resources"]["limits"]["nvidia.com/gpu"], " ".join(command))
        done = self.run_(command + SMALL + BATCH, timeout=300, **self.env)
        self.check_rank_0(done.stdout)

    @unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
    def test_kubernetes_schema(self):
        """Kubernetes' own schemas take the manifest, and refuse a key that is misspelt."""
        job = self.read_manifest()
        validate = "import json, kubernetes_validate, sys; kubernetes_validate.validate(json.loads(sys.argv[1]), '1.37', strict=True)"
        self.run_([python(), "-c", validate, json.dumps(job)], PYTHONPATH=clusters())
        job["spec"]["template"]["spec"]["volume"] = []
        self.assertIn("'volume' was unexpected", self.run_([python(), "-c", validate, json.dumps(job)], PYTHONPATH=clusters(), status=1).stderr)

    def test_ray(self):
        """The environment of the runtime_env records a process; test_ray_cluster asks Ray itself."""
        self.program("memtrace", "#!/bin/sh\nexec %s \"$@\"\n" % MEMTRACE)
        script = "import json, ray_task; print(json.dumps(ray_task.runtime_env('traces')))"
        given = json.loads(self.run_([python(), "-c", script], **self.env).stdout)
        self.assertEqual(given, {"env_vars": {"LD_PRELOAD": PRELOAD, "MEMTRACE_DIR": self.traces}})
        worker = dict(self.env, **given["env_vars"])
        worker["LD_PRELOAD"] += ":" + SIM
        said = self.run_([python(), "-c", "import ray_task; print('rank 0: %d bytes at the most' % ray_task.train())"], timeout=300, **worker).stdout
        self.check_peaks(said, 1)

    @unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
    def test_ray_cluster(self):
        """As its head says, on a Ray cluster of this machine: Ray gives the runtime_env to its own worker. The GPU is simulated."""
        self.program("memtrace", "#!/bin/sh\necho %s:%s\n" % (PRELOAD, SIM))
        run, _ = self.lines_of("ray_task.py")
        said = self.run_(["sh", "-c", run], timeout=600, PYTHONPATH=clusters(), RAY_TMPDIR=self.path("ray"), RAY_AUTH_MODE="disabled",
                         RAY_USAGE_STATS_ENABLED=0, RAY_OVERRIDE_RESOURCES='{"GPU": 1, "CPU": 1}', **self.env).stdout
        self.check_peaks(said, 1)
        self.assertEqual(self.report()["ranks"][0]["command"], "ray::train")

    def test_containers(self):
        """docker.sh and apptainer.sh with a stand-in for the engine: a job in Debian 11 (glibc 2.31) is recorded."""
        with open(self.path("job.py"), "w") as f:
            f.write(IN_A_CONTAINER)
        for name in "docker", "apptainer":
            with self.subTest(name):
                self.run_(["sh", "-n", name + ".sh"])
                if os.geteuid() != 0 or not os.path.exists(os.path.join(OLD, "complete")):
                    continue        # test_old_glibc makes the root
                self.program(name, ENGINE.format(root=OLD, sim=SIM))
                shutil.rmtree(self.traces, ignore_errors=True)
                done = self.run_(["./%s.sh" % name, "image", "python3", "job.py"], timeout=120, **self.env)
                self.assertRegex(done.stdout, r"\A11\.")
                self.assertGreater(self.report()["ranks"][0]["peak"]["device_bytes"], 3 << 20)

    @unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
    @unittest.skipUnless(shutil.which("mmdebstrap"), "no mmdebstrap here, which makes a system with Apptainer")
    def test_apptainer_itself(self):
        """apptainer.sh with Apptainer itself: the image is Debian 11, with glibc 2.31."""
        old = self.debian_11()
        made = subprocess.run([os.path.join(ROOT, "tests", "apptainer-env.sh")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if made.returncode:
            self.skipTest("no system with Apptainer: " + made.stderr[-300:])
        self.program("apptainer", APPTAINER.format(root=made.stdout.strip(), dir=self.dir, build=os.path.dirname(PRELOAD), old=old, sim=SIM))
        self.assertRegex(self.run_(["apptainer", "--version"], **self.env).stdout, r"\Aapptainer version \d")
        self.run_(["apptainer", "build", "debian-11.sif", "/mnt/debian-11"], **self.env)
        with open(self.path("job.py"), "w") as f:
            f.write(IN_A_CONTAINER)
        done = self.run_(["./apptainer.sh", "debian-11.sif", "python3", "job.py"], timeout=120, **self.env)
        self.assertRegex(done.stdout, r"\A11\.")
        self.assertGreater(self.report()["ranks"][0]["peak"]["device_bytes"], 3 << 20)

    def debian_11(self):
        """A root of Debian 11, as test_old_glibc has it."""
        if os.geteuid() != 0:
            self.skipTest("only root makes images here")
        return test_old_glibc.make_root(*test_old_glibc.Debian11.root)

    def docker(self):
        """Docker's own engine, until the test ends; the environment of its client."""
        folder = subprocess.run([os.path.join(ROOT, "tests", "docker-env.sh")], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        self.program("nvidia-container-runtime-hook", HOOK.format(sim=SIM))
        at = {name: self.path("docker", name) for name in ("data", "exec", "pid", "socket", "log")}
        os.mkdir(self.path("docker"))
        env = dict(self.env, DOCKER_HOST="unix://" + at["socket"], PATH=":".join((self.path("bin"), folder + "/usr/bin", folder + "/usr/sbin", os.environ["PATH"])))
        with open(at["log"], "w") as log:
            engine = subprocess.Popen(["dockerd", "-H", env["DOCKER_HOST"], "-p", at["pid"], "--data-root", at["data"], "--exec-root", at["exec"], "--storage-driver=vfs",
                                       "--bridge=none", "--iptables=false", "--ip6tables=false"], env=dict(os.environ, **env), stdout=log, stderr=log)
        self.addCleanup(lambda: (engine.terminate(), engine.wait(60)))
        until = time.monotonic() + 120
        while subprocess.run(["docker", "version"], env=dict(os.environ, **env), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
            if engine.poll() is not None or time.monotonic() > until:
                with open(at["log"]) as log:
                    self.skipTest("Docker's engine does not start here: " + log.read()[-300:])
            time.sleep(0.5)
        return env

    @unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
    def test_docker_engine(self):
        """docker.sh with Docker's own engine: the image is Debian 11, with glibc 2.31."""
        image = "tar -C %s --exclude=./proc --exclude=./dev --exclude=./sys -c . | docker import - debian11" % self.debian_11()
        env = self.docker()
        self.run_(["sh", "-c", image], timeout=300, **env)
        with open(self.path("job.py"), "w") as f:
            f.write(IN_A_CONTAINER)
        done = self.run_(["./docker.sh", "debian11", "python3", "job.py"], timeout=120, **env)
        self.assertRegex(done.stdout, r"\A11\.")
        self.assertGreater(self.report()["ranks"][0]["peak"]["device_bytes"], 3 << 20)


FRAMEWORKS = {"accelerate": ("train_accelerate.py", 2), "deepspeed": ("train_deepspeed.py", 2), "lightning": ("train_lightning.py", 2),
              "megatron": ("train_megatron.py", 2)}
add_tests(Examples, {}, FRAMEWORKS)

if __name__ == "__main__":
    unittest.main()
