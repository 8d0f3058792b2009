package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

func TestAWrongCallOfServeIsNamedAndExits2(t *testing.T) {
	startsMany(t)
	t.Parallel()
	at := place{dir: t.TempDir()}
	require.NoError(t, os.Mkdir(filepath.Join(at.dir, "agents"), 0o700))
	for _, c := range []struct{ args, says string }{
		{"", "--brokers is missing"},
		{"--brokers localhost", `--brokers: "localhost" is not HOST:PORT`},
		{"--brokers :9092", `":9092" is not HOST:PORT`},
		{"--brokers h:1 --roles ownr", `--roles: unknown role "ownr"; did you mean "owner"?`},
		{"--brokers h:1 --roles agent,apy", `did you mean "api"?`},
		{"--brokers h:1 --roles agent", "--agents is missing"},
		{"--brokers h:1 --metrics 127.0.0.1:1", "--metrics is for a process with only the role agent"},
		{"--brokers h:1 --roles agent --agents agents --metrics here", "--metrics \"here\" is not HOST:PORT"},
		{"--brokers h:1 --roles agent --agents agents --workflows agents", "--workflows needs one of the roles owner, api, projector"},
		{"--brokers h:1 --roles owner --agents agents", "--agents needs the role agent, but --roles is owner"},
		{"--brokers h:1 --node a/b", `--node "a/b" is not a valid name`},
		{"--brokers h:1 --node -x", "is not a valid name"},
		{"--brokers h:1 --namespace a/b", `--namespace "a/b" cannot begin the names of topics`},
		{"--brokers h:1 --http 8642", `--http "8642" is not HOST:PORT`},
		{"--brokers h:1 --http 0.0.0.0:8642", "add --advertise HOST:PORT"},
		{"--brokers h:1 --http [::]:8642", "add --advertise HOST:PORT"},
		{"--brokers h:1 --http :8642", "add --advertise HOST:PORT"},
		{"--brokers h:1 --http :8642 --advertise 0.0.0.0:8642", `--advertise "0.0.0.0:8642" is not HOST:PORT by which other nodes reach`},
		{"--brokers h:1 --http :8642 --advertise h:0", "is not HOST:PORT by which other nodes reach"},
		{"--brokers h:1 --http :8642 --advertise h:1", "other machines can reach the HTTP API (--http :8642), so callers must be known: add --tokens FILE"},
		{"--brokers h:1 --http 10.0.0.7:8642", "so callers must be known"},
		{"--brokers h:1 --node-key k --node-key-file f", "are both given"},
		{"--brokers h:1 --http-tls-cert c.pem", "--http-tls-cert and --http-tls-key belong together"},
		{"--brokers h:1 --http-tls-ca c.pem", "--http-tls-ca needs --http-tls-cert"},
		{"--brokers h:1 --oidc-role a=admin", "--oidc-issuer is missing"},
		{"--brokers h:1 --oidc-issuer http://login.example --oidc-audience a --oidc-role a=admin", "is not a URL with https"},
		{"--brokers h:1 --oidc-issuer https://login.example --oidc-role a=admin", "--oidc-audience is missing"},
		{"--brokers h:1 --oidc-issuer https://login.example --oidc-audience a", "--oidc-role is missing"},
		{"--brokers h:1 --oidc-issuer https://login.example --oidc-audience a --oidc-role a=admn", `did you mean "admin"?`},
		{"--brokers h:1 --partitions 0", "--partitions 0 is not from 1 to 1000"},
		{"--brokers h:1 --host https://sagalog.example", `--host "https://sagalog.example" is not the name of a host`},
		{"--brokers h:1 --host h:8642", `--host "h:8642" is not the name of a host`},
		{"--brokers h:1 --sweep -1s", "--sweep -1s is negative"},
		{"--brokers h:1 --payload-bytes 0", "--payload-bytes 0 is not possible: give a number from 1 to 524288"},
		{"--brokers h:1 --sasl SCRAM-SHA-265 --sasl-user u", `did you mean "SCRAM-SHA-256"?`},
		{"--brokers h:1 --sasl-user u", "--sasl is missing"},
		{"--brokers h:1 --sasl plain", "--sasl-user is missing"},
		{"--brokers h:1 --sasl plain --sasl-user u", "the password of u is missing: set SAGALOG_SASL_PASSWORD or --sasl-password-file"},
		{"--brokers h:1 --sasl plain --sasl-user u --sasl-password p --sasl-password-file f", "are both given"},
		{"--brokers h:1 --tls-cert c.pem", "--tls-cert and --tls-key belong together"},
		{"--broker h:1", `unknown flag --broker for "sagalog serve"; did you mean "--brokers"?`},
	} {
		p := at.run(t, append([]string{"serve"}, strings.Fields(c.args)...)...)
		require.Equal(t, 2, p.code(), c.args)
		require.Contains(t, p.err.String(), c.says, c.args)
		require.Empty(t, p.out.String(), c.args)
	}
	require.NoDirExists(t, filepath.Join(at.dir, "sagalog-data"), "a wrong call leaves nothing behind")
}

// A start that cannot work is refused with exit code 1 and a remedy. No output shows a secret.
func TestServeRefusesWhatCannotWork(t *testing.T) {
	startsMany(t)
	t.Parallel()
	const secret = "open-sesame"
	guarded := kafkatest.StartGuarded(t, kafkatest.GuardedOptions{SASL: true, TLS: true, Allowed: []kafkatest.Allowed{}})
	plain := kafkatest.StartGuarded(t, kafkatest.GuardedOptions{})
	lossy, err := kafka.Connect(plain.Config("", ""))
	require.NoError(t, err)
	t.Cleanup(lossy.Close)
	kafkatest.Create(t, lossy, kafka.Topics{Namespace: "lossy"}.Base(4)...)

	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "password"), []byte(kafkatest.LimitedPassword+"\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "text"), []byte("no certificate"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "public"), []byte(`{"tokens":[]}`), 0o600))
	require.NoError(t, os.Chmod(filepath.Join(dir, "public"), 0o644))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "dev", "broker"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "empty"), 0o700))
	tls := "--brokers " + guarded.Bootstrap() + " --tls-ca " + guarded.CAFile
	for name, c := range map[string]struct {
		args string
		say  []string
	}{
		"nothing listens":      {"--brokers 127.0.0.1:1", []string{"nothing listens there (connection refused). Remedy: start the broker, or correct host and port (--brokers)"}},
		"plain text to TLS":    {"--brokers " + guarded.Bootstrap(), []string{"the listener speaks TLS, but we spoke plain text. Remedy: add --tls"}},
		"TLS to plain text":    {"--tls --brokers " + plain.Bootstrap(), []string{"leave out --tls"}},
		"an unknown authority": {"--tls --brokers " + guarded.Bootstrap(), []string{"--tls-ca FILE"}},
		"no user":              {tls, []string{"the listener requires authentication (SASL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512), but we do not authenticate. Remedy: add --sasl"}},
		"a wrong password":     {tls + " --sasl SCRAM-SHA-512 --sasl-user limited --sasl-password " + secret, []string{"it does not accept the user limited", "SAGALOG_SASL_PASSWORD"}},
		"no permission": {tls + " --sasl plain --sasl-user limited --sasl-password-file password",
			[]string{"User:limited lacks permissions: READ on the topics", "kafka-acls.sh", "--add --allow-principal 'User:limited' --operation READ"}},
		"other partitions":       {"--namespace lossy --brokers " + plain.Bootstrap(), []string{"topic lossy.events: partitions is 4, must be 8", "--partitions 4"}},
		"a directory of dev":     {"--data dev --brokers " + plain.Bootstrap(), []string{"dev is a data directory of `sagalog dev`: it holds its own broker"}},
		"no file":                {"--brokers h:1 --tls-ca none.pem", []string{"--tls-ca: open none.pem: no such file"}},
		"no certificate":         {"--brokers h:1 --tls-ca text", []string{"--tls-ca: text holds no certificate in PEM form"}},
		"no password file":       {"--brokers h:1 --sasl plain --sasl-user u --sasl-password-file none", []string{"--sasl-password-file: open none"}},
		"no tokens":              {"--brokers h:1 --tokens none", []string{"--tokens: open none: no such file"}},
		"tokens for all":         {"--brokers h:1 --tokens public", []string{"--tokens: public has the mode 0644, so others can read or change it: run `chmod 600 public`"}},
		"a weak node key":        {"--brokers h:1 --tokens public --node-key " + secret, []string{"--node-key: line 1 of the key of the nodes has 11 characters"}},
		"no certificate of ours": {"--brokers h:1 --http-tls-cert text --http-tls-key text", []string{"--http-tls-cert and --http-tls-key: text and text: tls: failed to find any PEM data"}},
		"no agents":              {"--brokers h:1 --agents none", []string{"--agents: stat none"}},
		"empty agents":           {"--brokers h:1 --roles agent --agents empty", []string{"--agents: empty holds no *.yaml file"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"serve", "--http", "127.0.0.1:0", "--data", t.TempDir(), "--start-within", "2s"}, strings.Fields(c.args)...)
			p := place{dir: dir}.run(t, args...)
			require.Equal(t, 1, p.code())
			for _, part := range c.say {
				require.Contains(t, p.err.String(), part)
			}
			require.NotContains(t, p.err.String()+p.out.String(), secret)
			require.NotContains(t, p.err.String()+p.out.String(), kafkatest.LimitedPassword)
		})
	}
}

// A node starts, tells the service manager, prints its addresses, locks its data directory, and ends cleanly on a signal.
func TestANodeRunsUntilItIsAskedToEnd(t *testing.T) {
	t.Parallel()
	broker := kafkatest.StartBroker(t, embedded.Config{})
	manager, err := net.ListenPacket("unixgram", filepath.Join(t.TempDir(), "notify"))
	require.NoError(t, err)
	defer manager.Close()
	at := place{dir: t.TempDir(), env: []string{"SAGALOG_BROKERS=" + broker.Addr(), "SAGALOG_NAMESPACE=shop", "SAGALOG_PARTITIONS=3", "NOTIFY_SOCKET=" + manager.LocalAddr().String()}}
	data := filepath.Join(at.dir, "n1")
	node := []string{"serve", "--data", data, "--http", "127.0.0.1:0", "--node", "n1"}
	n1 := at.start(t, node...)
	said := make([]byte, 100)
	require.NoError(t, manager.SetReadDeadline(time.Now().Add(stepWait)))
	n, _, err := manager.ReadFrom(said)
	require.NoError(t, err)
	require.Equal(t, "READY=1", string(said[:n]))
	e := n1.endpoints(data)
	require.Equal(t, broker.Addr(), e.Kafka)
	require.Equal(t, "n1", e.Node)
	n1.eventually("ready", func() bool { return get(t, e.HTTP+"/readyz", nil) == http.StatusOK })
	for _, part := range []string{"node n1, is running. Ctrl-C ends it.", "Namespace   shop", "Roles       owner,agent,api,projector", "Brokers     " + broker.Addr(), e.HTTP} {
		require.Contains(t, n1.out.String(), part)
	}

	second := at.run(t, node...)
	require.Equal(t, 1, second.code())
	require.Contains(t, second.err.String(), fmt.Sprintf("the data directory is in use by process %d", n1.cmd.Process.Pid))

	other := at.run(t, "serve", "--data", t.TempDir(), "--http", "127.0.0.1:0", "--node", "n2", "--partitions", "5")
	require.Equal(t, 1, other.code())
	require.Contains(t, other.err.String(), "namespace shop has 3 partitions, fixed when it was created")

	require.Equal(t, 0, n1.stop())
	require.NotContains(t, n1.err.String(), "level=ERROR")

	elsewhere := place{dir: at.dir} // dev refuses SAGALOG_BROKERS
	require.Contains(t, elsewhere.run(t, "dev", "--data", data, "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0").err.String(), "is a data directory of `sagalog serve`")
	require.NoDirExists(t, filepath.Join(data, "broker"))

	// the same directory and name can be used again
	again := at.start(t, append(node, "--quiet")...)
	again.eventually("ready again", func() bool { return get(t, again.endpoints(data).HTTP+"/readyz", nil) == http.StatusOK })
	require.Equal(t, 0, again.stop())
	require.Empty(t, again.out.String())

	// The data directory belongs to one namespace.
	foreign := at.run(t, append(node, "--namespace", "bar")...)
	require.Equal(t, 1, foreign.code())
	require.Contains(t, foreign.err.String(), "and these brokers have no namespace bar")
}

// The variable of the service manager may be left over from another service. The node warns and works.
func TestANodeWorksWithoutItsServiceManager(t *testing.T) {
	t.Parallel()
	broker := kafkatest.StartBroker(t, embedded.Config{})
	at := place{dir: t.TempDir(), env: []string{"NOTIFY_SOCKET=" + filepath.Join(t.TempDir(), "gone")}}
	n := at.start(t, "serve", "--brokers", broker.Addr(), "--data", "n", "--http", "127.0.0.1:0", "--node", "n1", "--partitions", "1", "--roles", "owner,api")
	data := filepath.Join(at.dir, "n")
	n.eventually("ready", func() bool { return get(t, n.endpoints(data).HTTP+"/readyz", nil) == http.StatusOK })
	require.Contains(t, n.err.String(), `level=WARN msg="the service manager was not notified`)
	require.Contains(t, n.err.String(), "unset NOTIFY_SOCKET")
	require.Equal(t, 0, n.stop())
}

// A process with only agents waits for the first node, works, needs no directory, and uses its node's name.
func TestAgentsInASeparateProcess(t *testing.T) {
	t.Parallel()
	broker := kafkatest.StartBroker(t, embedded.Config{})
	calls := make(chan string, 10)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls <- r.URL.Path
		_, _ = io.WriteString(w, `{"done":true}`)
	}))
	defer service.Close()
	at := place{dir: t.TempDir(), env: []string{"SAGALOG_BROKERS=" + broker.Addr(), "SHOP_URL=" + service.URL}}
	write(t, filepath.Join(at.dir, "agents", "pack.yaml"), "agent: pack\nhttp: {base: \"${ env.SHOP_URL }\"}\ndo: {method: PUT, path: \"/pack/${ input.item }\"}\n")
	write(t, filepath.Join(at.dir, "workflows", "order.yaml"), "workflow: order\nsteps:\n  pack: {agent: pack, with: {item: \"${ input.item }\"}}\n")

	agents := at.start(t, "serve", "--roles", "agent", "--agents", "agents", "--node", "hands-1")
	agents.eventually("waiting", func() bool {
		return strings.Contains(agents.err.String(), "namespace sagalog does not exist yet: agents wait for it")
	})

	data := filepath.Join(at.dir, "n1")
	n1 := at.start(t, "serve", "--roles", "owner,api,projector", "--workflows", "workflows", "--data", data, "--http", "127.0.0.1:0", "--node", "n1", "--partitions", "2")
	e := n1.endpoints(data)
	agents.eventually("running", func() bool { return strings.Contains(agents.out.String(), "Agents      pack") }) // the last line that is printed
	require.Contains(t, agents.out.String(), "node hands-1, is running")
	require.NotContains(t, agents.out.String(), "HTTP API")
	require.NoDirExists(t, filepath.Join(at.dir, "sagalog-data"))

	var known struct {
		Agents []struct {
			Instance string `json:"instance"`
		} `json:"agents"`
	}
	n1.eventually("known", func() bool { return get(t, e.HTTP+"/v1/agents", &known) == http.StatusOK && len(known.Agents) == 1 })
	require.Equal(t, "hands-1", known.Agents[0].Instance)

	submit := at.run(t, "task", "submit", "--api", e.HTTP, "-w", "order", "--id", "o1", "--input", `{"item":"lamp"}`, "--wait")
	require.Equal(t, 0, submit.code())
	require.Equal(t, "/pack/lamp", <-calls)
	require.Equal(t, 0, agents.stop())
	require.Equal(t, 0, n1.stop())
}

// Everything is set by environment variables: TLS, a user with the least permissions, and the file with the password.
func TestANodeOnAGuardedClusterWithTheLeastPermissions(t *testing.T) {
	t.Parallel()
	g := kafkatest.StartGuarded(t, kafkatest.GuardedOptions{SASL: true, TLS: true, ClientCertificate: true, Allowed: kafkatest.Enough("sagalog")})
	at := place{dir: t.TempDir(), env: []string{
		"SAGALOG_BROKERS=" + g.Bootstrap(), "SAGALOG_TLS_CA=" + g.CAFile, "SAGALOG_TLS_CERT=" + g.CertFile, "SAGALOG_TLS_KEY=" + g.KeyFile,
		"SAGALOG_SASL=scram-sha-512", "SAGALOG_SASL_USER=limited", "SAGALOG_SASL_PASSWORD_FILE=password", "SAGALOG_HTTP=127.0.0.1:0", "SAGALOG_NODE=n1",
	}}
	write(t, filepath.Join(at.dir, "password"), kafkatest.LimitedPassword+"\n")
	write(t, filepath.Join(at.dir, "workflows", "order.yaml"), "workflow: order\nsteps:\n  pack: {agent: pack}\n")
	write(t, filepath.Join(at.dir, "agents", "pack.yaml"), "agent: pack\nhttp: {base: \"http://127.0.0.1:1\"}\ndo: {method: PUT, path: /}\n")
	n := at.start(t, "serve", "--workflows", "workflows", "--agents", "agents")
	e := n.endpoints(filepath.Join(at.dir, "sagalog-data"))
	n.eventually("ready", func() bool { return get(t, e.HTTP+"/readyz", nil) == http.StatusOK })
	require.Equal(t, 0, at.run(t, "task", "submit", "--api", e.HTTP, "-w", "order", "--id", "o1").code())
	require.Equal(t, 0, n.stop())
	require.NotContains(t, n.err.String()+n.out.String(), kafkatest.LimitedPassword)
	require.NotContains(t, n.err.String(), "AUTHORIZATION_FAILED")

	hashes := at.run(t, "state", "hash", "--rebuild", "-o", "json")
	require.Equal(t, 0, hashes.code())
	var rows []hashRow
	require.NoError(t, json.Unmarshal([]byte(hashes.out.String()), &rows))
	require.Len(t, rows, 8)
}

// A node on the broker of a running `dev`, with another namespace.
func TestServeOnTheBrokerOfDev(t *testing.T) {
	t.Parallel()
	at := place{dir: t.TempDir()}
	dev := at.start(t, "dev", "--data", "dev", "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--demo", "none")
	kafka := dev.endpoints(filepath.Join(at.dir, "dev")).Kafka
	n := at.start(t, "serve", "--brokers", kafka, "--namespace", "beside", "--data", "n", "--http", "127.0.0.1:0")
	e := n.endpoints(filepath.Join(at.dir, "n"))
	n.eventually("ready", func() bool { return get(t, e.HTTP+"/readyz", nil) == http.StatusOK })
	require.Equal(t, 0, n.stop())
	require.Equal(t, 0, dev.stop())
}

// get returns the status of an answer, or 0, and decodes its body.
func get(t *testing.T, url string, into any) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stepWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	if into != nil {
		require.NoError(t, json.NewDecoder(res.Body).Decode(into))
	}
	return res.StatusCode
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestServeRefusesAForeignDirectory(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]bool{"notes.txt": true, "lost+found": false, ".snapshot": false, lockFile: false, "state": false, endpointsFile: false} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		err := serveDirectory(dir)
		require.Equal(t, refused, err != nil, name)
		if refused {
			require.ErrorContains(t, err, "is not a data directory of sagalog: it holds other files, such as notes.txt")
		}
	}
}
