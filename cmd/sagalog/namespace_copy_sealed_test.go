//go:build unix

package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/internal/callback"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// An encrypted namespace is copied by the program under another name, without the key file, while a service works. The service reports with the
// ticket that it got before the copy, to the copy, whose content can be read and erased.
func TestAnEncryptedNamespaceIsCopiedWhileAServiceWorks(t *testing.T) {
	startsMany(t)
	t.Parallel()
	service, old, next := newPrinter(t), kafkatest.StartBroker(t, embedded.Config{}), kafkatest.StartBroker(t, embedded.Config{})
	at, _ := printShop(t, service)
	require.NoError(t, os.WriteFile(filepath.Join(at.dir, "callback.key"), []byte(strings.Repeat("k", callback.LeastSecret)), 0o600))
	ok := func(args ...string) string {
		t.Helper()
		p := at.run(t, args...)
		require.Equal(t, 0, p.code(), "%v: %s", args, p.err.String())
		return p.out.String()
	}
	serve := func(broker *embedded.Broker, name string, more ...string) (*program, string) {
		p := at.start(t, append([]string{"serve", "--brokers", broker.Addr(), "--data", name, "--http", "127.0.0.1:0", "--node", name, "--partitions", "2",
			"--callback-key-file", "callback.key", "--seal-key-file", "seal.key"}, more...)...)
		api := p.endpoints(filepath.Join(at.dir, name)).HTTP
		p.eventually("ready", func() bool { return get(t, api+"/readyz", nil) == http.StatusOK })
		return p, api
	}
	ok("key", "create", "seal.key")
	n, api := serve(old, "n1", "--agents", "a")
	ok("workflow", "apply", "--api", api, "w/print.yaml")
	ok("task", "submit", "--api", api, "-w", "print", "--id", "printing", "--label", "subject=c-17", "--input", `{"page":"`+secretWord+`"}`)
	url := <-service.jobs
	require.Equal(t, 0, n.stop())
	require.Contains(t, ok("namespace", "copy", "--brokers", old.Addr(), "--to-brokers", next.Addr(), "--to-namespace", "clinic"), "tasks: 1, of which 1 have not ended")

	m, api := serve(next, "n2", "--namespace", "clinic") // it has no agent, so nobody makes the call again
	code, body := post(api+url[strings.Index(url, "/v1/reports/"):], `{"output":{"sheets":2}}`)
	require.Equal(t, http.StatusAccepted, code, body)
	var got printed
	require.NoError(t, json.Unmarshal([]byte(ok("task", "get", "--api", api, "printing", "--wait", "-o", "json")), &got))
	require.Equal(t, "processed", got.State)
	require.JSONEq(t, `{"sheets":2}`, string(got.Output))
	require.Contains(t, ok("task", "get", "--api", api, "printing", "-o", "json"), secretWord, "the content opens in the copy")
	ok("namespace", "erase", "--brokers", next.Addr(), "--namespace", "clinic", "--subject", "c-17", "--yes")
	m.eventually("erased", func() bool {
		text := ok("task", "get", "--api", api, "printing", "-o", "json")
		return strings.Contains(text, "$erased") && !strings.Contains(text, secretWord)
	})
	require.Equal(t, 0, m.stop())
	ok("verify", "--brokers", next.Addr(), "--namespace", "clinic", "--at-rest")
}
