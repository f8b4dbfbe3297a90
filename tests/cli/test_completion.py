"""Completion of bash, zsh and fish, asked of the real shells: every command, every option that --help names, values, and command lines."""
import os
import pty
import select
import shutil
import subprocess

from harness import MEMTRACE, Case, environment
from test_docs import commands, options_in_help, output

BASH = """
source {script}
ask() {{ COMP_WORDS=(memtrace "$@"); COMP_CWORD=$#; _memtrace memtrace; printf '%s\\n' "${{COMPREPLY[@]}}"; echo ==; }}
"""
ZSH = """
autoload -Uz compinit && compinit -u -D
source {script}
compadd() {{
	if [[ ${{@[1,(i)(-|--)]}} == *-(O|A|D)\\ * ]]; then builtin compadd "$@"; return; fi
	local -a offered
	builtin compadd -A offered "$@"
	print -rl -- $offered >>{answers}
}}
answered() {{ print -r -- done >>{answers}; BUFFER= }}
zle -N answered
bindkey '^I' complete-word '^G' answered
PROMPT=ready
"""


class Completion(Case):
    shells = "bash", "zsh", "fish"

    def setUp(self):
        super().setUp()
        self.scripts = {}
        for shell in self.shells:
            self.scripts[shell] = os.path.join(self.dir, "memtrace." + shell)
            with open(self.scripts[shell], "w") as f:
                f.write(output("completion", shell))
        os.symlink(MEMTRACE, os.path.join(self.dir, "memtrace"))
        open(os.path.join(self.dir, "a-trace.mtr"), "w").close()
        self.env = environment(PATH=self.dir + ":" + os.environ["PATH"], HOME=self.dir, TERM="dumb", XDG_CONFIG_HOME=self.dir, XDG_DATA_HOME=self.dir)

    def ask_bash(self, questions):
        lines = "".join("ask %s\n" % " ".join("'%s'" % w for w in q) for q in questions)
        done = subprocess.run(["bash", "--norc", "-c", BASH.format(script=self.scripts["bash"]) + lines], env=self.env, cwd=self.dir, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(done.stderr, "")
        return [set(a.split()) for a in done.stdout.split("==\n")[:-1]]

    def ask_fish(self, questions):
        lines = "".join("complete -C 'memtrace %s'\necho ==\n" % " ".join(q) for q in questions)
        done = subprocess.run(["fish", "--no-config", "-c", "source %s\n%s" % (self.scripts["fish"], lines)], env=self.env, cwd=self.dir, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=120)
        self.assertEqual(done.stderr, "")
        return [{line.split("\t")[0] for line in a.splitlines()} for a in done.stdout.split("==\n")[:-1]]

    def ask_zsh(self, questions):
        """Through a terminal: the keys of each question, Tab, and what compadd was given."""
        answers = os.path.join(self.dir, "answers")
        with open(os.path.join(self.dir, ".zshrc"), "w") as f:
            f.write(ZSH.format(script=self.scripts["zsh"], answers=answers))
        open(answers, "w").close()
        keys = "".join("memtrace %s\t\a" % " ".join(q) for q in questions).encode() + b"exit\r"
        pid, terminal = pty.fork()
        if not pid:
            os.chdir(self.dir)
            os.execvpe("zsh", ["zsh", "-d", "-i"], dict(self.env, ZDOTDIR=self.dir))
        at, shown = 0, b""
        try:
            while select.select([terminal], [], [], 60)[0]:     # what it shows is read in between, or the terminal would be full
                shown += os.read(terminal, 65536)
                if b"ready" in shown and at < len(keys):
                    at += os.write(terminal, keys[at:at + 200])
        except OSError:     # it has ended
            pass
        os.close(terminal)
        self.assertEqual(os.waitpid(pid, 0)[1], 0, shown[-2000:])
        with open(answers) as f:
            return [set(a.split()) for a in f.read().split("done\n")[:-1]]

    def ask(self, questions):
        """{shell: the offers for each question}; shells that are not here are left out."""
        found = {s: getattr(self, "ask_" + s)(questions) for s in self.shells if shutil.which(s)}
        for shell, answers in found.items():
            self.assertEqual(len(answers), len(questions), shell)
        return found

    def test_every_option_of_every_help(self):
        names = commands()
        for shell, answers in self.ask([(c, "--") for c in names]).items():
            for command, offered in zip(names, answers):
                with self.subTest(shell=shell, command=command):
                    offered = {o.rstrip("=") for o in offered}
                    self.assertEqual(offered, set(options_in_help(command)) | {"--help"})

    def test_commands_and_the_options_of_a_report(self):
        for shell, (words, options, shells, helped) in self.ask([("",), ("--",), ("completion", ""), ("help", "")]).items():
            with self.subTest(shell):
                self.assertLessEqual({*commands(), "help"}, words)
                self.assertEqual({o.rstrip("=") for o in options}, {"--version", "--help", *options_in_help("report")})
                self.assertEqual(shells, set(self.shells))
                self.assertLessEqual(set(commands()), helped)

    def test_values_and_files(self):
        """A value's words, also behind "=" and after other options; no word where a number is expected; files of an argument."""
        questions = [("report", "--color", ""), ("report", "--top", "3", "--color", "al"), ("report", "--top", ""), ("report", "a-"), ("export", "--at", "p")]
        for shell, (color, always, top, files, at) in self.ask(questions).items():
            with self.subTest(shell):
                self.assertEqual(color, {"auto", "always", "never"})
                self.assertEqual(always, {"always"})
                self.assertEqual(top, set())
                self.assertEqual(at, {"peak"})
                # bash completes the names of files itself if nothing is offered.
                self.assertEqual(files, set() if shell == "bash" else {"a-trace.mtr"})
        for shell, words in ("bash", ("report", "--color", "=", "n")), ("fish", ("report", "--color=n",)), ("zsh", ("report", "--color=n",)):
            if shutil.which(shell):
                with self.subTest(shell):
                    answer, = getattr(self, "ask_" + shell)([words])
                    self.assertEqual({a.rpartition("=")[2] for a in answer}, {"never"})

    def test_command_lines(self):
        """Behind "--" the words are another program's."""
        questions = [("run", "--", "memtr"), ("simulate", "--gpus", "2", "--", "memtr"), ("estimate", "--", "memtr"), ("run", "--", "ls", "--js")]
        for shell, answers in self.ask(questions).items():
            with self.subTest(shell):
                self.assertEqual([sorted(a)[:1] for a in answers[:3]], [["memtrace"]] * 3)
                self.assertNotIn("--json", answers[3])

    def test_bad_names(self):
        for words in (), ("tcsh",), ("bash", "zsh"):
            said = self.run_([MEMTRACE, "completion", *words], status=2).stderr
            self.assertRegex(said, r"\Amemtrace: completion needs the name of a shell: bash, zsh or fish\n\Z")


if __name__ == "__main__":
    import unittest
    unittest.main()
