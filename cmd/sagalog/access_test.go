package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/internal/access/accesstest"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// Two nodes that other machines can reach: with tokens, with TLS, and each asks the other about its partitions.
func TestNodesWithTokensAndTLS(t *testing.T) {
	t.Parallel()
	broker := kafkatest.StartBroker(t, embedded.Config{})
	at := place{dir: t.TempDir()}
	cert, key := accesstest.Certificate(t, at.dir, 1)
	at.env = []string{
		"SAGALOG_BROKERS=" + broker.Addr(), "SAGALOG_PARTITIONS=4", "SAGALOG_TOKENS=access/tokens.json", "SAGALOG_NODE_KEY_FILE=access/node.key",
		"SAGALOG_HTTP_TLS_CERT=" + cert, "SAGALOG_HTTP_TLS_KEY=" + key, "SAGALOG_HTTP_TLS_CA=" + cert, "SAGALOG_API_CA=" + cert,
	}
	initialized := at.run(t, "token", "init", "access")
	require.Equal(t, 0, initialized.code())
	require.Contains(t, initialized.out.String(), "--token-file access/admin.token")
	admin, err := os.ReadFile(filepath.Join(at.dir, "access", "admin.token"))
	require.NoError(t, err)
	repeated := at.run(t, "token", "init", "access")
	require.Equal(t, 0, repeated.code())
	require.Equal(t, 2, strings.Count(repeated.err.String(), "exists and is left as it is"), repeated.err.String())
	again, err := os.ReadFile(filepath.Join(at.dir, "access", "admin.token"))
	require.NoError(t, err)
	require.Equal(t, admin, again, "files that exist stay")

	var nodes []*program
	var urls []string
	for _, name := range []string{"n1", "n2"} {
		n := at.start(t, "serve", "--node", name, "--data", name, "--http", "127.0.0.1:0")
		nodes, urls = append(nodes, n), append(urls, n.endpoints(filepath.Join(at.dir, name)).HTTP)
		require.True(t, strings.HasPrefix(urls[len(urls)-1], "https://"))
	}
	as := func(args ...string) *program {
		return place{dir: at.dir, env: append(at.env, "SAGALOG_TOKEN="+strings.TrimSpace(string(admin)))}.run(t, args...)
	}
	nodes[0].eventually("both nodes own partitions, and the first learns from the second which", func() bool {
		out := as("partitions", "list", "--api", urls[0], "-o", "json").out.String()
		return strings.Contains(out, `"owner": "n1"`) && strings.Contains(out, `"owner": "n2"`) && strings.Count(out, "state_hash") == 4
	})

	nobody := at.run(t, "task", "list", "--api", urls[0])
	require.Equal(t, 1, nobody.code())
	require.Contains(t, nobody.err.String(), "needs a token")
	write(t, filepath.Join(at.dir, "w.yaml"), "workflow: order\nsteps:\n  pack: {agent: pack}\n")
	require.Equal(t, 0, as("workflow", "apply", "w.yaml", "--api", urls[0]).code())
	made := as("token", "create", "--file", "access/tokens.json", "--name", "shop", "--role", "submitter", "--to", "shop.token")
	require.Equal(t, 0, made.code(), made.err.String())
	for i := range few(8, 3) { // about tasks in partitions of both nodes
		id := fmt.Sprintf("o%d", i)
		submit := at.run(t, "task", "submit", "--api", urls[i%2], "-w", "order", "--id", id, "--token-file", "shop.token")
		require.Equal(t, 0, submit.code(), submit.err.String())
		require.Equal(t, 1, at.run(t, "task", "cancel", id, "--api", urls[0], "--token-file", "shop.token").code())
		cancel := as("task", "cancel", id, "--api", urls[0])
		require.Equal(t, 0, cancel.code(), cancel.err.String())
		require.Contains(t, as("task", "history", id, "--api", urls[0], "-o", "json").out.String(), `"by": "admin"`)
	}
	who := at.run(t, "whoami", "--api", urls[1], "--token-file", "shop.token", "-o", "jsonl")
	require.JSONEq(t, `{"name":"shop","role":"submitter","access":"on"}`, who.out.String())

	serialOf := func(url string) int64 {
		c, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{RootCAs: pool(t, cert)})
		if err != nil {
			return 0
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	require.EqualValues(t, 1, serialOf(urls[0]))
	accesstest.Certificate(t, at.dir, 2)
	nodes[0].eventually("the new certificate", func() bool { return serialOf(urls[0]) == 2 })
	require.Equal(t, 0, at.run(t, "token", "revoke", "shop", "--file", "access/tokens.json").code())
	nodes[1].eventually("revoked", func() bool { return at.run(t, "whoami", "--api", urls[1], "--token-file", "shop.token").code() == 1 })
	for i, n := range nodes {
		require.Equal(t, 0, n.stop())
		require.NotContains(t, n.err.String()+n.out.String(), strings.TrimSpace(string(admin)), "node %d", i)
	}
}

func pool(t *testing.T, cert string) *x509.CertPool {
	t.Helper()
	text, err := os.ReadFile(cert)
	require.NoError(t, err)
	p := x509.NewCertPool()
	require.True(t, p.AppendCertsFromPEM(text))
	return p
}

// The example's producer works too, and has no more rights than it needs.
func TestDevWithTokens(t *testing.T) {
	t.Parallel()
	at := place{dir: t.TempDir()}
	require.Equal(t, 0, at.run(t, "token", "init", "access").code())
	p := at.start(t, "dev", "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--partitions", "2", "--tokens", "access/tokens.json")
	url := p.endpoints(filepath.Join(at.dir, "sagalog-data")).HTTP
	require.Equal(t, http.StatusUnauthorized, get(t, url+"/v1/tasks", nil))
	require.Equal(t, http.StatusOK, get(t, url+"/healthz", nil))
	p.eventually("a delivery", func() bool {
		return strings.Contains(at.run(t, "task", "list", "--api", url, "--token-file", "access/admin.token").out.String(), "demo-")
	})
	require.Contains(t, p.out.String(), "Access      on")
	require.Equal(t, 0, p.stop())
}

func TestTokensAreListedAndRevoked(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	at := place{dir: t.TempDir(), env: []string{"SAGALOG_TOKENS=tokens.json"}}
	made := at.run(t, "token", "create", "--name", "ci", "--role", "submitter", "--expires", "720h")
	require.Equal(t, 0, made.code(), made.err.String())
	text := strings.TrimSpace(made.out.String())
	require.Regexp(t, `^sagalog_[A-Za-z0-9_-]{43}$`, text)
	list := at.run(t, "token", "list")
	require.Regexp(t, `(?m)^ci +submitter +20\S+Z +20\S+Z$`, list.out.String())
	require.NotContains(t, list.out.String(), text)
	require.Equal(t, 4, at.run(t, "token", "create", "--name", "ci", "--role", "viewer").code())
	require.Equal(t, 3, at.run(t, "token", "revoke", "cd").code())
	revoked := at.run(t, "token", "revoke", "ci")
	require.Equal(t, 0, revoked.code())
	require.Contains(t, revoked.err.String(), "sagalog job list", "its jobs go on")
	require.Equal(t, "[]\n", at.run(t, "token", "list", "-o", "json").out.String())
	for args, says := range map[string]string{
		"create --role viewer":           "--name is missing",
		"create --name a":                `--role: "" is not a role`,
		"create --name a --role admn":    `did you mean "admin"`,
		"create --name a/b --role admin": "",
	} {
		p := at.run(t, append([]string{"token"}, strings.Fields(args)...)...)
		require.NotEqual(t, 0, p.code(), args)
		require.Contains(t, p.err.String(), says)
	}
	without := place{dir: at.dir}.run(t, "token", "list")
	require.Equal(t, 2, without.code())
	require.Contains(t, without.err.String(), "--file is missing")
}
