/* What must not enter a trace, and what must stay in it. The tokens are made up, in their services'
 * forms. */
#define _GNU_SOURCE
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
	/* what is written, and what is left of it */
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
	/* an argument, and what is stored of it */
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

/* Options of Megatron-LM, torchtitan, Transformers, DeepSpeed and their launchers, and what stands
 * in their files. */
static void test_ordinary_arguments_stay(void **state)
{
	static const char *const lines[] = {
		"pretrain_gpt.py|--num-layers|32|--hidden-size|4096|--num-attention-heads|32|--kv-channels|128",
		"--key-value-channels|128|--num-key-value-heads|8|--num-query-groups|8",
		"--max-tokens|4096|--max-tokens-to-oom|12000|--max_new_tokens=256|--tokens-per-batch|65536",
		"--tokenizer-type|GPT2BPETokenizer|--tokenizer-model|/data/llama/tokenizer.model",
		"--tokenizer-type|HuggingFaceTokenizer|--tokenizer-model|meta-llama/Meta-Llama-3.1-8B-Instruct",
		"--moe-token-dispatcher-type|alltoall|--moe-token-drop-policy|probs|--moe-pad-expert-input-to-capacity",
		"--data-path|1.0|/data/my-gpt2_text_document|--split|949,50,1|--json-keys|text|title",
		"--vocab-file|gpt2-vocab.json|--merge-file|gpt2-merges.txt|--eod-mask-loss|--reset-position-ids",
		"--position-embedding-type|rope|--max-position-embeddings|131072|--rotary-base|500000",
		"--no-query-key-layer-scaling|--apply-query-key-layer-scaling|--qk-layernorm|--qk-head-dim|128",
		"--tensor-model-parallel-size|4|--sequence-parallel|--recompute-method|uniform|--recompute-num-layers|1",
		"--optimizer|adam|--adam-beta1|0.9|--lr|3.0e-4|--lr-decay-style|cosine|--clip-grad|1.0",
		"--wandb-project|llama-70b-run7|--wandb-exp-name|tp8pp4-2024-11-22|--wandb-save-dir|/scratch/wandb",
		"--save|/checkpoints/llama3-70b/tp8_pp4/iter_0005000|--load|s3://bucket/checkpoints/llama3-70b",
		"--ckpt-format|torch_dist|--exit-signal-handler|--distributed-timeout-minutes|60|--rank|0",
		"--fp8-format|hybrid|--fp8-amax-history-len|1024|--transformer-impl|transformer_engine",
		"--job.config_file|./torchtitan/models/llama3/train_configs/llama3_8b.toml|--training.seq_len=8192",
		"--model.tokenizer_path=./assets/hf/Llama-3.1-8B|--parallelism.data_parallel_shard_degree=-1",
		"--activation_checkpoint.mode=selective|--activation_checkpoint.selective_ac_option=op|--metrics.enable_wandb",
		"--hf_assets_path=./assets/hf/Llama-3.1-8B|--checkpoint.initial_load_in_hf|hf_checkpoint_conversion=True",
		"--model_name_or_path|meta-llama/Llama-2-7b-hf|--torch_dtype|bfloat16|--attn_implementation|sdpa",
		"--per_device_train_batch_size|4|--gradient_accumulation_steps|8|--bf16|True|--tf32|True",
		"--label_names|labels|--text_column_name|text|--sort_key|length|--text-key|content|--group_by_key|id",
		"--bos_token|<s>|--eos_token|</s>|--pad-token|[PAD]|--pad_token_id|0|--image_token_index=32000",
		"--use_auth_token|True|--use_auth_token=False|--push_to_hub|False|--hub_model_id|me/llama-7b-sft",
		"--report_to|wandb|--run_name|qwen2.5-7b-lr1e5-bs128-2024-11-22-seed42|--output_dir|out/qwen2.5-7b",
		"--deepspeed|ds_config_zero3.json|--deepspeed_mpi|--zero-stage|3|--cpu-optimizer",
		"-m|deepspeed.launcher.launch|--world_info=eyJsb2NhbGhvc3QiOiBbMCwgMSwgMiwgM119|--master_addr=127.0.0.1|--master_port=29500",
		"--deepspeed_config|eyJ6ZXJvX29wdGltaXphdGlvbiI6eyJzdGFnZSI6MX19|--deepspeed=eyJ6ZXJvX29wdGltaXphdGlvbiI6eyJzdGFnZSI6MX19",
		"--world_info|eyJsb2NhbGhvc3QiOiBbMCwgMSwgMiwgM119|--node_rank=0",
		"-m|torch.distributed.run|--nproc-per-node|8|--rdzv-backend|c10d|--rdzv-endpoint|node-17.cluster:29400|--rdzv-id|12345",
		"--num_passes|3|--forward-pass|fused|--backward_pass_per_step=2|--pass|2|--single_pass|eager",
		"commit=8f14e45fceea167a5a36dedd4bea2543c0ffee12|--git-sha|0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d",
		"--revision|8f14e45fceea167a5a36dedd4bea2543c0ffee12|--run-id|550e8400-e29b-41d4-a716-446655440000",
		"--url|http://h:8080/a@b|--image|nvcr.io/nvidia/pytorch:24.10-py3|git+ssh://git@github.com/a/b.git",
		"-u|-p|8080|-k|8|-t|1:00:00|-p|gpu-a100-80gb|-n|4|-a|my_account|-ptrain|-Xfaulthandler|-Wignore",
		"+model.num_key_value_heads=8|trainer.max_steps=100|model.optim.name=adamw|~trainer.logger|exp_manager.name=gpt3-5b",
		"--keys|a,b,c|--sort-key|length|--key|length|--primary-key|id|--dataset_key=train|--key_padding_mask",
		"--metric-key=eval/loss_on_validation_set_of_2024|--state-dict-key|module.language_model.encoder.layers",
		"--lora_target_modules|q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj|--lora-key-dim=128",
		"--profile|--profile-ranks|0|8|--log-interval|10|--attention-dropout|0.0|--no-masked-softmax-fusion",
		"--ssh-private-key|/home/me/.ssh/id_ed25519|--auth|/etc/auth.json|--credentials|./gcp.json|--tls-key=~/x.key",
		"sk-1|sk-learn-pipeline|pypi-mirror|hf_transformers|npm_config|xoxo|ASIAN-languages|AKIAx|SG.linear|r8_small",
		"--author|me|--authors=a|--signal|USR1|--significant-digits|3|--patch-size|16|--patience=3|--passthrough|x",
		"--input-token-file|/data/tokens.bin|--tokenized-path|/data/tok|--token-type-ids|0|--password-file|/run/secret",
		"{\"train_batch_size\": 16, \"fp16\": {\"enabled\": true, \"loss_scale_window\": 1000}, \"wall_clock_breakdown\": false}",
		"--moe-layer-freq|([0]*3+[1]*58)|--pipeline-model-parallel-layout|Et*3|(tt|)*29,m|L",
	};
	static const char *const files[] = {
		("{\n  \"architectures\": [\"LlamaForCausalLM\"],\n  \"bos_token_id\": 128000,\n  \"eos_token_id\": [128001, 128008],\n"
		 "  \"num_key_value_heads\": 8,\n  \"max_position_embeddings\": 131072,\n  \"image_token_id\": 151655\n}\n"),
		"zero_optimization:\n  stage: 3\n  sub_group_size: 1e9\nmax_tokens: 4096\nsort_key: length\nbos_token: <s>\n",
		"tokenizer:\n  type: GPT2BPETokenizer\n  model: /data/tokenizer.model\nkey:\n  name: a\n  other: something else that is long\n",
		"commit: 8f14e45fceea167a5a36dedd4bea2543c0ffee12\nmodel: {name: llama3-70b, heads: [1, 2]}\n",
		"[job]\ndump_folder = \"./outputs\"\ntokenizer_path = \"./assets\"\nseed = 42\n",
		"# it's a comment\nname: 'it''s'\npath: /a/b # c\nurl: http://h:8080/a@b\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		arguments_are(lines[i], lines[i]);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		file_is(files[i], files[i]);
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

/* The time is linear in the text, whatever is in it: the job's first allocation waits for it. */
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
		double small = seconds_for(parts[i], 32 << 10),
		       large = seconds_for(parts[i], 128 << 10);
		if (large > 7 * small + 0.02)
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
