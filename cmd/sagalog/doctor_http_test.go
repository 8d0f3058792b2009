package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// A node of this namespace announces the port of each listener. Only what the listener itself says counts.
func TestDoctorAsksTheListenerWhichNodeItIs(t *testing.T) {
	t.Parallel()
	const says = `sagalog_node_info{namespace_id="NAMESPACE",node="n7",owner="true"} 1` + "\n"
	metrics := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" {
				w.WriteHeader(status)
				_, _ = io.WriteString(w, "# HELP x y\n"+text)
			}
		}
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		secure  bool
		status  doctor.Status
		says    string
	}{
		"this namespace":            {metrics(200, strings.Replace(says, "NAMESPACE", "ours", 1)), false, doctor.StatusOK, "is where node n7 serves its API"},
		"this namespace, by TLS":    {metrics(200, strings.Replace(says, "NAMESPACE", "ours", 1)), true, doctor.StatusOK, "is where node n7 serves its API"},
		"another namespace":         {metrics(200, strings.Replace(says, "NAMESPACE", "of dev", 1)), false, doctor.StatusFail, "the API cannot listen on"},
		"something else":            {metrics(200, ""), false, doctor.StatusFail, "the API cannot listen on"},
		"something else, by TLS":    {metrics(404, ""), true, doctor.StatusFail, "the API cannot listen on"},
		"a listener asks for a key": {metrics(401, ""), false, doctor.StatusWarn, "says only with a token which node it is; node n2 announces this port"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewUnstartedServer(c.handler)
			l := localCheck{serveConfig: &serveConfig{}, now: time.Now, namespaceID: "ours", made: 8}
			if c.secure {
				server.StartTLS()
				l.httpTLS.cert = "cert.pem"
			} else {
				server.Start()
			}
			defer server.Close()
			l.roles.node.API, l.http = true, server.Listener.Addr().String()
			_, port, err := net.SplitHostPort(l.http)
			require.NoError(t, err)
			l.address(t.Context(), []events.Presence{{Instance: "n2", HTTP: "http://elsewhere.example:" + port}})
			require.Len(t, l.findings, 1)
			require.Equal(t, c.status, l.findings[0].Status)
			require.Contains(t, l.findings[0].What, c.says)
			require.Equal(t, c.status != doctor.StatusOK, l.findings[0].Remedy != "")
		})
	}
}

// Somebody runs an empty engine at the address of a node, and another node announces the same port: serve cannot listen, and doctor says so.
func TestDoctorFailsWhereAnotherEngineListens(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	port := freePort(t)
	broker := kafkatest.StartBroker(t, embedded.Config{})
	at := place{dir: t.TempDir(), env: []string{"SAGALOG_NODE=n1", "SAGALOG_HTTP=" + port}}
	stranger := at.start(t, "dev", "--kafka", "127.0.0.1:0", "--partitions", "2")
	stranger.eventually("ready", func() bool { return get(t, "http://"+port+"/readyz", nil) == http.StatusOK })

	_, number, err := net.SplitHostPort(port)
	require.NoError(t, err)
	at.env = append(at.env, "SAGALOG_BROKERS="+broker.Addr())
	other := place{dir: t.TempDir(), env: []string{"SAGALOG_BROKERS=" + broker.Addr(), "SAGALOG_NODE=n2", "SAGALOG_HTTP=" + freePort(t), "SAGALOG_ADVERTISE=elsewhere.example:" + number}}
	n2 := other.start(t, "serve")
	n2.eventually("alive", func() bool {
		alive := examined(t, at.run(t, "doctor", "-o", "jsonl", "--data", "n1"))[checkNodes][doctor.StatusOK]
		return len(alive) == 1 && alive[0].What == "alive: n2"
	})
	found := at.run(t, "doctor", "-o", "jsonl", "--data", "n1")
	require.Equal(t, 1, found.code())
	require.Contains(t, examined(t, found)[checkHTTP][doctor.StatusFail][0].What, "the API cannot listen on "+port)
}
