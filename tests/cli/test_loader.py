"""`memtrace run` and `simulate` report before the start if the program's loader cannot load our libraries."""
import os
import shutil
import struct
import subprocess
import unittest

from harness import BUILD, MEMTRACE, Case, environment

YOUNG = """
	.text
	.globl	stub
	.type	stub, %function
stub:	.symver	stub, young@@GLIBC_2.99, remove
"""


class Loader(Case):
    def setUp(self):
        super().setUp()
        self.bin = os.path.join(self.dir, "bin")
        os.mkdir(self.bin)
        for name in ("memtrace", "libmemtrace.so", "libcudasim.so"):
            shutil.copy(os.path.join(BUILD, name), self.bin)
        shutil.copytree(os.path.join(BUILD, "cudasim", "python"), os.path.join(self.bin, "cudasim", "python"))
        self.ran = os.path.join(self.dir, "ran")

    def memtrace(self, *command, sub="run", **settings):
        return subprocess.run([os.path.join(self.bin, "memtrace"), sub, "--", *command], env=environment(**settings), cwd=self.dir,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def script(self, name, first_line):
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.write("%s\nopen('ran', 'w')\n" % first_line)
        os.chmod(path, 0o755)
        return path

    def refused(self, reason, command=None, sub="run", **settings):
        done = self.memtrace(*(command or ["touch", self.ran]), sub=sub, **settings)
        self.assertEqual((done.returncode, done.stdout), (125, ""), done.stderr)
        self.assertRegex(done.stderr, r"\Amemtrace: [^\n]*%s[^\n]*\n\Z" % reason)
        self.assertFalse(os.path.exists(self.ran), "the command ran")

    def make_young(self, name):
        """Replaces library NAME by one that needs glibc 2.99, which no system has."""
        libc, versions, source = (os.path.join(self.dir, n) for n in ("libc.so.6", "map", "young.S"))
        with open(versions, "w") as f:
            f.write("GLIBC_2.99 { };\n")
        with open(source, "w") as f:
            f.write(YOUNG)
        subprocess.run(["cc", "-shared", "-nostdlib", source, "-o", libc, "-Wl,-soname,libc.so.6", "-Wl,--version-script=" + versions], check=True)
        caller = os.path.join(self.dir, "caller.c")
        with open(caller, "w") as f:
            f.write("void young(void); void call(void) { young(); }\n")
        subprocess.run(["cc", "-shared", "-fPIC", "-nostdlib", caller, libc, "-o", os.path.join(self.bin, name)], check=True)

    def test_younger_libc(self):
        """A library built on a newer system: every program of the job would end at its start."""
        self.make_young("libmemtrace.so")
        by_hand = subprocess.run(["touch", self.ran], env=environment(LD_PRELOAD=os.path.join(self.bin, "libmemtrace.so")), stderr=subprocess.PIPE)
        self.assertNotEqual(by_hand.returncode, 0)  # the failure that the check prevents
        what = "would not take libmemtrace.so .*GLIBC_2.99.* not found.*; build memtrace on this system"
        self.refused(what)
        self.refused(what, sub="simulate")
        for name, line in (("env", "#!/usr/bin/env python3"), ("split", "#!/usr/bin/env -S A=1 python3 -u"), ("twice", "#!" + self.script("inner", "#!/bin/sh"))):
            with self.subTest(name):
                self.refused(what, [self.script(name, line)])

    def test_simulated_device(self):
        """simulate also checks the simulated device's library; run does not."""
        self.make_young("libcudasim.so")
        self.refused("would not take libcudasim.so .*GLIBC_2.99", sub="simulate")
        self.assertEqual(self.memtrace("true").returncode, 0)

    def test_other_processor(self):
        """A library for another processor, which the loader would only ignore, and a 32-bit program."""
        path = os.path.join(self.bin, "libmemtrace.so")
        with open(path, "r+b") as f:
            f.seek(4)
            f.write(b"\1")
        self.refused("wrong ELF class.*; build memtrace for the processor of that program")
        shutil.copy(os.path.join(BUILD, "libmemtrace.so"), path)
        with open(path, "r+b") as f:
            f.seek(18)
            f.write(struct.pack("<H", 243))  # RISC-V
        self.refused("would not take libmemtrace.so")
        shutil.copy(os.path.join(BUILD, "libmemtrace.so"), path)
        program = shutil.copy("/bin/true", os.path.join(self.dir, "program"))
        with open(program, "r+b") as f:
            f.seek(4)
            f.write(b"\1")
        self.refused("program is a program for another kind of processor", [program])

    def test_damaged_file(self):
        path = os.path.join(self.bin, "libmemtrace.so")
        with open(path, "r+b") as f:
            f.truncate(100)
        self.refused("would not take libmemtrace.so .*; see that the file is whole")
        os.remove(path)
        self.refused("there is no libmemtrace.so")

    def test_noexec(self):
        """A library on a file system that is mounted noexec."""
        library = os.path.join(self.dir, "lib", "memtrace")
        os.makedirs(library)
        inner = "mount -t tmpfs -o noexec none {0} && mv {1}/libmemtrace.so {0} && exec {1}/memtrace run -- touch {2}".format(library, self.bin, self.ran)
        done = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", inner], env=environment(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        if done.returncode != 125 and "memtrace" not in done.stderr:
            self.skipTest("no mounts here: " + done.stderr.strip())
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("is its file system mounted noexec?", done.stderr)
        self.assertFalse(os.path.exists(self.ran))

    def test_nothing_to_say(self):
        """A loadable program, a missing program, and one without a loader are started as before."""
        source = os.path.join(self.dir, "static.c")
        with open(source, "w") as f:
            f.write("int main(void) { return 7; }\n")
        subprocess.run(["cc", "-static", source, "-o", os.path.join(self.dir, "static")], check=True)
        for command, status in ((["true"], 0), (["false"], 1), ([self.script("fine", "#!/usr/bin/env python3")], 0), ([os.path.join(self.dir, "static")], 7),
                                (["sh", "-c", "exit 9"], 9), (["no-such-command"], 127), ([self.dir], 126)):
            with self.subTest(command[0]):
                self.assertEqual(self.memtrace(*command).returncode, status)
                self.assertEqual(self.memtrace(*command, LD_DEBUG="files", LD_DEBUG_OUTPUT=os.path.join(self.dir, "debug")).returncode, status)


if __name__ == "__main__":
    unittest.main()
