/* Texts that must not enter a trace, and texts that must stay in it. The tokens are made up, in
 * their services' forms. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "process/secret.h"
#include "ordinary_arguments.h"

/* Under NAME, the value FIRST REST: in two parts, so that scanners of source code leave them alone.
 * Name "x" says nothing: these are known by their looks. */
static const struct {
	const char *name, *first, *rest;
} tokens[] = {
	{ "x", "hf_", "QxWmZrTyUiOpAsDfGhJkLzXcVbNmQwErTy" },
	{ "x", "sk-", "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7dE9fG1hJ3" },
	{ "x", "sk-proj-", "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9v-W1xY3zA5bC7dE9_fG1hJ3kL5" },
	{ "x", "sk-ant-api03-", "aB3dE5fG7hJ9kL1mN3pQ5r-S7tU9vW1xY3zA5bC7dE9fG1hJ3AA" },
	{ "x", "ghp_", "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5" },
	{ "x", "gho_", "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5" },
	{ "x", "ghu_", "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5" },
	{ "x", "ghr_", "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5" },
	{ "x", "ghs_", "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5" },
	{ "x", "github_pat_", "11ABCDEFG0aB3dE5fG7hJ9_kL1mN3pQ5rS7tU9vW1xY3zA5bC7dE9" },
	{ "x", "glpat-", "aB3dE5fG7hJ9kL1mN3pQ" },
	{ "x", "xoxb-", "123456789012-1234567890123-aB3dE5fG7hJ9kL1mN3pQ5rS7" },
	{ "x", "xoxp-", "123456789012-123456789012-123456789012-0a1b2c3d4e5f60718293a4b5c6d7e8f9" },
	{ "x", "AKIA", "Q3EGRIMEXAMPLE7Q" },
	{ "x", "ASIA", "Q3EGRIMEXAMPLE7Q" },
	{ "x", "eyJ",
	  "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U" },
	{ "x", "AIza", "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q" },
	{ "x", "nvapi-", "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7dE9fG1hJ3kL5mN7pQ9rS1tU3v" },
	{ "x", "dapi", "0a1b2c3d4e5f60718293a4b5c6d7e8f9" },
	{ "x", "gsk_", "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7dE9fG1hJ3kL5m" },
	{ "x", "pypi-", "AgEIcHlwaS5vcmcCJGFiY2RlZmdoLWlqa2wtNG1uby1wcXJzLXR1dnd4eXoxMjM0" },
	{ "x", "npm_", "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5" },
	{ "x", "ya29.", "a0AfB_byC1d2E3f4G5h6I7j8K9l0M1n2O3p4Q5r6S7t8U9v0" },
	{ "x", "sk_live_", "51H8aB3dE5fG7hJ9kL1mN3pQ" },
	{ "x", "rk_live_", "51H8aB3dE5fG7hJ9kL1mN3pQ" },
	{ "x", "sk_test_", "51H8aB3dE5fG7hJ9kL1mN3pQ" },
	{ "x", "rpa_", "A1B2C3D4E5F6G7H8I9J0K1L2M3N4O5P6Q7R8S9" },
	{ "x", "r8_", "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5b" },
	{ "x", "lsv2_", "pt_0a1b2c3d4e5f60718293a4b5c6d7e8f9_0a1b2c3d4e" },
	{ "x", "ls__", "0a1b2c3d4e5f60718293a4b5c6d7e8f9" },
	{ "x", "dop_v1_", "0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9" },
	{ "x", "SG.", "aB3dE5fG7hJ9kL1mN3pQ5r.aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7dE9f" },
	{ "x", "shpat_", "0a1b2c3d4e5f60718293a4b5c6d7e8f9" },
	{ "x", "dckr_pat_", "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9" },
	{ "x", "GOCSPX-", "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9v" },
	{ "x", "xai-", "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7dE9fG1hJ3" },
	{ "x", "hvs.", "CAESIaB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5" },
	{ "wandb_api_key", "0a1b2c3d4e5f607182", "93a4b5c6d7e8f90a1b2c3d" },
	{ "wandb-key", "0a1b2c3d4e5f607182", "93a4b5c6d7e8f90a1b2c3d" },
	{ "AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG", "/bPxRfiCYEXAMPLEKEY" },
	{ "aws_session_token", "FwoGZXIvYXdzEBYaDK", "7h6g5f4d3s2a1q0w9e8r" },
	{ "NVIDIA_NGC_KEY", "bmdjLXNlY3JldC1r", "ZXktMTIzNDU2Nzg5MA==" },
	{ "ngc", "aB3dE5fG7h", "J9kL1mN3" },
	{ "nvapi", "aB3dE5fG7h", "J9kL1mN3" },
	{ "sas", "aB3dE5fG7h", "J9kL1mN3" },
	{ "sig", "aB3dE5fG7h", "J9kL1mN3" },
	{ "X-Amz-Signature", "0a1b2c3d4e5f6071",
	  "8293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9" },
	{ "X-Goog-Signature", "0a1b2c3d4e5f6071",
	  "8293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9" },
	{ "passcode", "corr", "ecthorse" },
	{ "pass", "corr", "ecthorse" },
	{ "login-pass", "corr", "ecthorse" },
	{ "pw", "corr", "ecthorse" },
	{ "tok", "corr", "ecthorse" },
	{ "oauth", "corr", "ecthorse" },
	{ "apitoken", "corr", "ecthorse" },
	{ "hfkey", "corr", "ecthorse" },
	{ "signature", "corr", "ecthorse" },
	{ "hfToken", "corr", "ecthorse" },
	{ "HF_TOKEN_2", "corr", "ecthorse" },
	{ "db_password", "12345", "678" },
	{ "key", "aB3dE5fG7h", "J9kL1mN3" },
	{ "some_key_v2", "aB3dE5fG7hJ9kL1mN3pQ", "5rS7tU9vW1xY3zA5bC7d" },
	{ "MLFLOW_TRACKING_PASSWORD", "corr", "ecthorse" },
	{ "AccountKey", "aB3dE5fG7hJ9kL1mN3pQ", "5rS7tU9vW1xY3zA5bC7dE9fG1hJ3kL5mN7pQ9rS1tU3v==" },
};

static char buffer[1 << 18];

static struct masked empty(void)
{
	return (struct masked){ buffer, 0, sizeof(buffer) - 1, 0 };
}

static void same(struct masked m, const char *expected, size_t n, const char *what)
{
	if (m.cut || m.n != n || memcmp(m.s, expected, n) != 0)
		fail_msg("%s\n  masked:   %.*s\n  expected: %.*s", what, (int)m.n, m.s, (int)n,
			 expected);
}

/* Arguments as a shell has them, here with | between. */
static void arguments_are(const char *line, const char *expected)
{
	char *in = strdup(line), *out = strdup(expected);
	struct masked m = empty();

	for (char *p = in; *p; p++)
		*p = *p == '|' ? 0 : *p;
	for (char *p = out; *p; p++)
		*p = *p == '|' ? 0 : *p;
	secret_mask_arguments(&m, in, strlen(line));
	for (size_t i = 0; i < m.n; i++)
		m.s[i] = m.s[i] ? m.s[i] : '|';
	same(m, expected, strlen(expected), line);
	free(in);
	free(out);
}

static void file_is(const char *text, const char *expected)
{
	struct masked m = empty();

	secret_mask_file(&m, text, strlen(text));
	same(m, expected, strlen(expected), text);
}

/* TEXT with its @N the token's name and its @V what `with` says, in `to`. */
static const char *filled(char *to, size_t room, const char *text, const char *name,
			  const char *with)
{
	size_t n = 0;

	for (; *text && n + 200 < room; text++) {
		if (*text == '@' && (text[1] == 'N' || text[1] == 'V'))
			n += (size_t)snprintf(to + n, room - n, "%s", *++text == 'N' ? name : with);
		else
			to[n++] = *text;
	}
	to[n] = 0;
	return to;
}

static void test_tokens_in_arguments(void **state)
{
	static const char *const forms[] = {
		"train.py|--@N|@V|--lr|0.1",
		"train.py|--@N=@V|--lr|0.1",
		"train.py|--opts={\"lr\": 0.1, \"@N\": \"@V\", \"list\": [1, 2]}|--lr|0.1",
		"train.py|--opts={'@N': '@V', 'lr': 0.1}|--lr|0.1",
		"train.py|https://host/data?lr=0.1&@N=@V&more=1|--lr|0.1",
		"train.py|+trainer.@N=@V|--lr|0.1",
		"bash|-c|exec python train.py --@N @V --lr 0.1",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
		char value[256], in[2048], out[2048];
		snprintf(value, sizeof(value), "%s%s", tokens[i].first, tokens[i].rest);
		for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
			if (f == 6 && strchr(tokens[i].name, 'A') == tokens[i].name)
				continue;
			arguments_are(filled(in, sizeof(in), forms[f], tokens[i].name, value),
				      filled(out, sizeof(out), forms[f], tokens[i].name, "***"));
		}
	}
}

static void test_tokens_in_the_environment(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
		char value[256], name[64];
		struct masked m = empty();
		snprintf(value, sizeof(value), "%s%s", tokens[i].first, tokens[i].rest);
		snprintf(name, sizeof(name), "%s%s", strcmp(tokens[i].name, "key") ? "TORCH_" : "",
			 tokens[i].name);
		secret_mask_value(&m, name, value, strlen(value));
		same(m, "***", 3, name);
	}
}

static void test_tokens_in_a_configuration(void **state)
{
	/* the written text, and the part of it that is left */
	static const struct {
		const char *text, *masked;
	} forms[] = {
		{ "{\"num_layers\": 4, \"@N\": \"@V\", \"more\": [1, 2]}\n",
		  "{\"num_layers\": 4, \"@N\": \"***\", \"more\": [1, 2]}\n" },
		{ "{\n  \"a\": {\n    \"@N\": \"@V\"\n  },\n  \"b\": 2\n}\n",
		  "{\n  \"a\": {\n    \"@N\": \"***\"\n  },\n  \"b\": 2\n}\n" },
		{ "num_layers: 4\n@N: @V\nmore: [1, 2]\n",
		  "num_layers: 4\n@N: \"***\"\nmore: [1, 2]\n" },
		{ "a:\n  @N: '@V'   # mine\n  b: 2\n", "a:\n  @N: '***'   # mine\n  b: 2\n" },
		{ "a:\n  - @N: @V # mine\n    b: 2\n", "a:\n  - @N: \"***\" # mine\n    b: 2\n" },
		{ "a: {b: 2, @N: @V, c: 3}\n", "a: {b: 2, @N: \"***\", c: 3}\n" },
		{ "@N: >-\n  @V\nb: 2\n", "@N: \"***\"\nb: 2\n" },
		{ "args: [\"--@N\", \"@V\", \"--lr\", \"0.1\"]\n",
		  "args: [\"--@N\", \"***\", \"--lr\", \"0.1\"]\n" },
		{ "args: [--@N, @V, --lr, 0.1]\n", "args: [--@N, \"***\", --lr, 0.1]\n" },
		{ "args:\n- --@N\n- @V\n- --lr\n", "args:\n- --@N\n- \"***\"\n- --lr\n" },
		{ "cmd: python train.py --@N @V --lr 0.1\n",
		  "cmd: python train.py --@N *** --lr 0.1\n" },
		{ "url: https://host/data?@N=@V&lr=0.1\nb: 2\n",
		  "url: https://host/data?@N=***&lr=0.1\nb: 2\n" },
		{ "[run]\n@N = \"@V\"\nb = 2\n", "[run]\n@N = \"***\"\nb = 2\n" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
		char value[256], in[2048], out[2048];
		snprintf(value, sizeof(value), "%s%s", tokens[i].first, tokens[i].rest);
		for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
			if (f == 6 && (tokens[i].name[0] == 'x' || strstr(tokens[i].name, "key")))
				continue; /* below */
			file_is(filled(in, sizeof(in), forms[f].text, tokens[i].name, value),
				filled(out, sizeof(out), forms[f].masked, tokens[i].name, "***"));
		}
	}
}

static void test_addresses_and_headers(void **state)
{
	/* an argument, and its stored form */
	static const struct {
		const char *line, *masked;
	} cases[] = {
		{ "--load|s3://user:secret@bucket/x", "--load|s3://user:***@bucket/x" },
		{ "postgresql://me:p%40ss:w@db:5432/x?a=b", "postgresql://me:***@db:5432/x?a=b" },
		{ "git+https://0123abcdTOKEN@github.com/a/b.git",
		  "git+https://***@github.com/a/b.git" },
		{ "https://oauth2:abc@gitlab.com/a", "https://oauth2:***@gitlab.com/a" },
		{ "https://hooks.slack"
		  ".com/services/T00/B00/abcDEF",
		  "https://hooks.slack"
		  ".com/services/***" },
		{ "--hook=https://discord.com/api/webhooks/12/ab_c-d",
		  "--hook=https://discord.com/api/webhooks/***" },
		{ "https://b.s3.amazonaws.com/k?X-Amz-Date=1&X-Amz-Signature=0a1b&x=2",
		  "https://b.s3.amazonaws.com/k?X-Amz-Date=1&X-Amz-Signature=***&x=2" },
		{ "https://a.blob.core.windows.net/c?sv=2022&se=2030&sig=ab%2Bcd%3D",
		  "https://a.blob.core.windows.net/c?sv=2022&se=2030&sig=***" },
		{ "https://storage.googleapis.com/b?X-Goog-Signature=0a1b2c&x=2",
		  "https://storage.googleapis.com/b?X-Goog-Signature=***&x=2" },
		{ "AccountName=me;AccountKey=abcd==;EndpointSuffix=core",
		  "AccountName=me;AccountKey=***;EndpointSuffix=core" },
		{ "-H|Authorization: Bearer abc def", "-H|Authorization: ***" },
		{ "-H|X-Api-Key: abc", "-H|X-Api-Key: ***" },
		{ "--say|it is Bearer abcdefgh12345678 then", "--say|it is Bearer *** then" },
		{ "--headers={\"Authorization\": \"Basic ZGVtbzpwQDU1\", \"a\": 1}",
		  "--headers={\"Authorization\": \"***\", \"a\": 1}" },
		{ "--opts={\\\"token\\\": \\\"abc\\\", \\\"b\\\": 1}",
		  "--opts={\\\"token\\\": \\\"***\\\", \\\"b\\\": 1}" },
		{ "--env|WANDB_API_KEY=X", "--env|WANDB_API_KEY=***" },
		{ "--password=a b,c=d", "--password=***" },
		{ "--pem|-----BEGIN PRIVATE"
		  " KEY-----\nMIIE\n-----END PRIVATE"
		  " KEY-----\n",
		  "--pem|***\n" },
		{ "-----BEGIN OPENSSH PRIVATE"
		  " KEY-----\nMIIE",
		  "***" },
		/* options of one letter: a secret only where it looks like one */
		{ "-k|aB3dE5fG7hJ9kL1m|-p|8080", "-k|***|-p|8080" },
		{ "-paB3dE5fG7hJ9kL1m|-p8080|-p|train", "-p***|-p8080|-p|train" },
		/* more values of one option */
		{ "--token|abc|def|--lr|0.1", "--token|***|***|--lr|0.1" },
		{ "--token|abc|config.yaml|lr=0.1", "--token|***|config.yaml|lr=0.1" },
		{ "--hf-token|-x|--token|--lr", "--hf-token|-x|--token|--lr" },
		{ "--use_auth_token|True|--token|${HF_TOKEN}|--token|$HF_TOKEN",
		  "--use_auth_token|True|--token|${HF_TOKEN}|--token|$HF_TOKEN" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		arguments_are(cases[i].line, cases[i].masked);
}

static void test_forms_of_files(void **state)
{
	static const struct {
		const char *text, *masked;
	} cases[] = {
		{ "{\"password\": 12345678, \"b\": 1}", "{\"password\": \"***\", \"b\": 1}" },
		{ "{\"secrets\": {\"a\": \"b}\", \"c\": [1]}, \"b\": 1}",
		  "{\"secrets\": \"***\", \"b\": 1}" },
		{ "{\"secrets\": [\"a]\", \"c\"], \"b\": 1}", "{\"secrets\": \"***\", \"b\": 1}" },
		{ "{\"password\":12345678,\"b\":{\"db\":\"a://me:abc@h\"}}",
		  "{\"password\":\"***\",\"b\":{\"db\":\"a://me:***@h\"}}" },
		{ "a: {db: mysql://me:abc@h/x, b: 1}\n", "a: {db: mysql://me:***@h/x, b: 1}\n" },
		{ "{\"token\": null, \"use_auth_token\": true}",
		  "{\"token\": null, \"use_auth_token\": true}" },
		{ "{\"token\": \"a\\\"b\", \"c\": \"d\"}", "{\"token\": \"***\", \"c\": \"d\"}" },
		{ "{\"args\": \"--token abc --lr 1\", \"env\": \"A=1\\nHF_TOKEN=abc\\nB=2\"}",
		  "{\"args\": \"--token *** --lr 1\", \"env\": \"A=1\\nHF_TOKEN=***\\nB=2\"}" },
		{ "{\"h\": [\"Authorization: Bearer abc\"], \"b\": 1}",
		  "{\"h\": [\"Authorization: ***\"], \"b\": 1}" },
		{ "{\"pem\": \"-----BEGIN RSA PRIVATE"
		  " KEY-----\\nMII=\\n-----END RSA PRIVATE"
		  " KEY-----\\n\", \"b\": 1}",
		  "{\"pem\": \"***\\n\", \"b\": 1}" },
		{ "token:\n  value: abc\n  more: def\nb: 1\n", "token: \"***\"\nb: 1\n" },
		{ "secrets:\n- abc\n- def\nb: 1\n", "secrets: \"***\"\nb: 1\n" },
		{ "a:\n  token: |\n    abc\n\n    def\n  b: 1\n",
		  "a:\n  token: \"***\"\n  b: 1\n" },
		{ "password: two\n  lines\nb: 1\n", "password: \"***\"\nb: 1\n" },
		{ "token: &t abc\nother: *t\n", "token: &t \"***\"\nother: *t\n" },
		{ "pem: |\n  -----BEGIN PRIVATE"
		  " KEY-----\n  MII\n  -----END PRIVATE"
		  " KEY-----\nb: 1\n",
		  "pem: |\n  \"***\"\nb: 1\n" },
		{ "hf_token: abc\r\nb: 1\r\n", "hf_token: \"***\"\r\nb: 1\r\n" },
		{ "# token: abc\nb: it's 'so'\nc: 1\n", "# token: \"***\"\nb: it's 'so'\nc: 1\n" },
		{ "db: mysql://me:abc@host/x\n", "db: mysql://me:***@host/x\n" },
		{ "setup: |\n  export HF_TOKEN=abc\n  python x.py\n",
		  "setup: |\n  export HF_TOKEN=***\n  python x.py\n" },
		{ "deepspeed:\n  token: abc\n", "deepspeed:\n  token: \"***\"\n" },
		{ "a: {sig: 'x', auth: token=abc\n    def, b: 1}\n",
		  "a: {sig: '***', auth: \"***\", b: 1}\n" },
		{ "a: {secrets: {q\"t: ['}', \"]\", 'it''s']}, b: 1}\n",
		  "a: {secrets: \"***\", b: 1}\n" },
		{ "a: --token\nb: abc\n", "a: --token\nb: abc\n" },
		{ "a: {b: --token, c: 1}\n", "a: {b: --token, c: 1}\n" },
		{ "pem: '-----BEGIN\n  PRIVATE"
		  " KEY-----\n\n  MI\n\n  -----END PRIVATE\n  KEY-----'\nb: 1\n",
		  "pem: '***'\nb: 1\n" },
		{ "token:", "token:" },
		{ "token", "token" },
		{ "", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		file_is(cases[i].text, cases[i].masked);
}

static void test_ordinary_arguments_stay(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(ordinary_lines) / sizeof(ordinary_lines[0]); i++)
		arguments_are(ordinary_lines[i], ordinary_lines[i]);
	for (size_t i = 0; i < sizeof(ordinary_files) / sizeof(ordinary_files[0]); i++)
		file_is(ordinary_files[i], ordinary_files[i]);
}

/* What does not fit is cut, and said to be. */
static void test_cut(void **state)
{
	static const char text[] = "token: abc\nnum_layers: 4\n";
	char small[24];

	(void)state;
	for (size_t room = 0; room < sizeof(small); room++) {
		struct masked m = { small, 0, room, 0 };
		secret_mask_file(&m, text, sizeof(text) - 1);
		assert_int_equal(m.n, room);
		assert_int_equal(m.cut, 1);
		assert_memory_equal(small, "token: \"***\"\nnum_layers: 4\n", room);
	}
}

static double seconds_for(const char *part, size_t bytes)
{
	static char text[128 << 10];
	struct timespec a, b;
	struct masked m = empty();
	size_t n = strlen(part);

	memset(text, 'x', sizeof(text));
	for (size_t at = 0; at + n <= bytes; at += n)
		memcpy(text + at, part, n);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	secret_mask_file(&m, text, bytes);
	m = empty();
	secret_mask_value(&m, "", text, bytes);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	return (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9;
}

/* The time is linear in the text, for any content: the job's first allocation waits for it. */
static void test_time(void **state)
{
	static const char *const parts[] = {
		"token: ",
		"key: ",
		"--token ",
		"\"key: ",
		"eyJ.",
		"hf_",
		"Bearer ",
		"://:@",
		"          ",
		"{[",
		"key:\n ",
		"pass: /a ",
		"'",
		"\\\"",
		"&x ",
		"- ",
		"\n",
		"--key\t",
		"a=b=",
		"password: ${ ",
		"token: &x ",
		"{key: key: key: key: key: key: ",
		"{pass: /a pass: /a pass: /a ",
		"https://hooks.slack"
		".com/services/",
		"-----BEGIN PRIVATE"
		" KEY",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		double small = INFINITY, large = INFINITY;
		/* the machine's other work makes a measurement longer, never shorter */
		for (int try = 0; try < 8 && !(large <= 8 * small); try++) {
			small = fmin(small, seconds_for(parts[i], 32 << 10));
			large = fmin(large, seconds_for(parts[i], 128 << 10));
		}
		if (large > 8 * small + 0.02)
			fail_msg("\"%s\": 32 KiB take %.3f s, 128 KiB %.3f s", parts[i], small,
				 large);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tokens_in_arguments),
		cmocka_unit_test(test_tokens_in_the_environment),
		cmocka_unit_test(test_tokens_in_a_configuration),
		cmocka_unit_test(test_addresses_and_headers),
		cmocka_unit_test(test_forms_of_files),
		cmocka_unit_test(test_ordinary_arguments_stay),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_time),
	};

	return cmocka_run_group_tests_name("secrets", tests, NULL, NULL);
}
