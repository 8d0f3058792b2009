package main

import (
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// mistake is an operator's mistake: the flags, the check of doctor that finds it, and the message.
type mistake struct {
	args  string
	check string
	says  string
	// remedy is part of the advice.
	remedy string
	// missing says that there are no brokers that could be asked what was left behind.
	unreachable bool
}

// clean is an operator's machine and cluster, on which nothing may be left behind.
type clean struct {
	dir     string
	cluster *kafka.Cluster
}

// Doctor finds each mistake beforehand, and names the place and a remedy. Serve refuses it with the same words and exit
// code 1, and leaves nothing behind.
func (c clean) mistaken(t *testing.T, m mistake) {
	t.Helper()
	before := c.things(t, m)
	args := strings.Fields(m.args)
	examination := place{dir: c.dir}.run(t, append([]string{"doctor", "-o", "jsonl", "--http", "127.0.0.1:0"}, args...)...)
	require.Equal(t, 1, examination.code(), examination.out.String())
	found := examined(t, examination)[m.check][doctor.StatusFail]
	require.NotEmpty(t, found, "no %s in %s", m.check, examination.out.String())
	require.Contains(t, found[0].What, m.says)
	require.Contains(t, found[0].Remedy, m.remedy)
	require.Equal(t, before, c.things(t, m), "doctor changes nothing")

	serve := place{dir: c.dir}.run(t, append([]string{"serve", "--http", "127.0.0.1:0", "--start-within", "2s"}, args...)...)
	require.Equal(t, 1, serve.code(), serve.err.String())
	require.Contains(t, serve.err.String(), m.says)
	require.Contains(t, serve.err.String(), m.remedy)
	require.Empty(t, serve.out.String())
	require.Equal(t, before, c.things(t, m), "a refused start leaves nothing behind")
}

// things lists the topics and the files, without the contents of lock files.
func (c clean) things(t *testing.T, m mistake) (all []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), probePrefix) {
			return nil // of another check beside this one, which removes it
		}
		all = append(all, path)
		return err
	}))
	if m.unreachable || c.cluster == nil {
		return all
	}
	topics, err := c.cluster.ListTopics(t.Context(), "")
	require.NoError(t, err)
	return append(all, topics...)
}

func TestAnOperatorsMistakeIsFoundAndRefused(t *testing.T) {
	startsMany(t)
	t.Parallel()
	broker := kafkatest.StartBroker(t, embedded.Config{})
	cluster := kafkatest.Connect(t, broker)
	namespaces(t, cluster)
	secured := kafkatest.StartGuarded(t, kafkatest.GuardedOptions{SASL: true, TLS: true})
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	silent := listening(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	busy := listening(t, func(net.Conn) {})
	dir := t.TempDir()
	files(t, dir)
	write(t, filepath.Join(dir, "tokens.json"), `{"tokens": []}`)
	write(t, filepath.Join(dir, "public.json"), `{"tokens": []}`)
	require.NoError(t, os.Chmod(filepath.Join(dir, "public.json"), 0o644))
	t.Cleanup(func() { // when all checks have ended
		probes, err := filepath.Glob(filepath.Join(dir, probePrefix+"*"))
		require.NoError(t, err)
		require.Empty(t, probes)
	})
	c := clean{dir: dir, cluster: cluster}

	brokers := "--brokers " + broker.Addr() + " "
	ours := brokers + "--namespace ours "
	user := "--brokers " + secured.Bootstrap() + " --tls-ca " + secured.CAFile + " --sasl SCRAM-SHA-512 "
	for name, m := range map[string]mistake{
		"nothing listens":             {"--brokers 127.0.0.1:1", doctor.CheckBrokers, "nothing listens there (connection refused)", "start the broker, or correct host and port", true},
		"a web server":                {"--brokers " + strings.TrimPrefix(web.URL, "http://"), doctor.CheckBrokers, "it is not a Kafka broker", "correct host and port", true},
		"a port that does not answer": {"--brokers " + silent, doctor.CheckBrokers, "does not answer within", "look at the broker", true},
		"an unknown name":             {"--brokers broker.invalid:9092", doctor.CheckBrokers, "the name broker.invalid is not known", "DNS", true},
		"plain text to TLS":           {"--brokers " + secured.Bootstrap(), doctor.CheckSecurity, "the listener speaks TLS, but we spoke plain text", "--tls-ca FILE", true},
		"TLS to plain text":           {brokers + "--tls", doctor.CheckSecurity, "the listener speaks plain text, but we spoke TLS", "leave out --tls", false},
		"an unknown authority":        {"--tls --brokers " + secured.Bootstrap(), doctor.CheckSecurity, "certificate", "--tls-ca FILE", true},
		"no user":                     {"--tls-ca " + secured.CAFile + " --brokers " + secured.Bootstrap(), doctor.CheckSecurity, "requires authentication", "add --sasl", true},
		"a wrong password":            {user + "--sasl-user limited --sasl-password wrong", doctor.CheckSecurity, "does not accept the user limited", "SAGALOG_SASL_PASSWORD", true},
		"a wrong user":                {user + "--sasl-user nobody --sasl-password " + kafkatest.LimitedPassword, doctor.CheckSecurity, "does not accept the user nobody", "--sasl-user", true},

		"another number of partitions": {ours + "--partitions 5", doctor.CheckNamespace, "namespace ours has 2 partitions, fixed when it was created, but --partitions is 5", "leave out --partitions", false},
		"a newer namespace":            {brokers + "--namespace newer", doctor.CheckNamespace, "it has format 99", "run the newer version of sagalog", false},
		"a barrier of a newer version": {brokers + "--namespace barrier", checkLog, "barrier.events/0 at offset 1", "run the newer version of sagalog", false},
		"a fact of an unknown kind":    {brokers + "--namespace unknown", checkLog, "unknown.events/1 at offset 1", "run the newer version of sagalog", false},
		"something else in the log":    {brokers + "--namespace foreign", checkLog, "foreign.events/0 at offset 0", "let only owners write there", false},

		"state of another namespace":         {ours + "--data theirs", checkData, "the ID 018f-theirs, and namespace ours of these brokers has the ID", "--namespace that it belongs to", false},
		"state of another cluster":           {brokers + "--namespace none --data theirs", checkData, "these brokers have no namespace none", "--brokers and the --namespace", false},
		"state of a newer version":           {ours + "--data newer", checkData, "was written by a newer version", "run the newer version of sagalog", false},
		"a directory of dev":                 {ours + "--data dev", checkData, "is a data directory of `sagalog dev`", "--data", false},
		"a file for a directory":             {ours + "--data file", checkData, "is a file, not a directory", "give a directory (--data)", false},
		"a directory that cannot be created": {ours + "--data /proc/sagalog", checkData, "cannot be made", "--data", false},
		"a directory in use":                 {ours + "--data locked", checkData, "the data directory is in use by process", "stop that process", false},
		"a port that is taken":               {ours + "--http " + busy, checkHTTP, "address already in use", "--http", false},
		"an address of another machine":      {ours + "--tokens tokens.json --http 192.0.2.1:8642", checkHTTP, "the API cannot listen on 192.0.2.1:8642", "--http", false},
		"tokens that others can read":        {ours + "--tokens public.json", checkAccess, "public.json has the mode 0644, so others can read or change it", "sagalog token init", false},
		"a certificate of no kind":           {ours + "--http-tls-cert tokens.json --http-tls-key tokens.json", checkAccess, "failed to find any PEM data", "correct the file", false},
		"invalid agents":                     {ours + "--agents agents", checkAgents, "agents/a.yaml:2", "correct the files of --agents", false},
		"invalid workflows":                  {ours + "--workflows workflows", checkWorkflows, "b.yaml:3:", "", false},
		"no workflows":                       {ours + "--workflows nowhere", checkWorkflows, "--workflows: open nowhere", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.mistaken(t, m)
		})
	}
}

// Without a permission on a topic or group a node would fail in a loop, so each permission is checked first.
func TestEachMissingPermissionIsFoundBeforehand(t *testing.T) {
	startsMany(t)
	t.Parallel()
	const namespace = "sagalog"
	topics := kafka.Topics{Namespace: namespace}.Base(2)
	enough := kafkatest.Enough(namespace)
	for i := range len(topics) + 1 {
		lacking := namespace + ".owners"
		if i < len(topics) {
			lacking = topics[i].Name
		}
		t.Run(lacking, func(t *testing.T) {
			t.Parallel()
			var allowed []kafkatest.Allowed
			for _, s := range topics {
				if s.Name != lacking {
					allowed = append(allowed, kafkatest.Allowed{Prefix: s.Name, To: enough[0].To})
				}
			}
			if lacking != namespace+".owners" {
				allowed = append(allowed, enough[2])
			}
			g := kafkatest.StartGuarded(t, kafkatest.GuardedOptions{SASL: true, Allowed: allowed})
			admin, err := kafka.Connect(g.Config(kafkatest.AdminUser, "PLAIN"))
			require.NoError(t, err)
			t.Cleanup(admin.Close)
			kafkatest.Create(t, admin, topics...)
			clean{dir: t.TempDir(), cluster: admin}.mistaken(t, mistake{
				args:  "--brokers " + g.Bootstrap() + " --sasl PLAIN --sasl-user limited --sasl-password " + kafkatest.LimitedPassword,
				check: doctor.CheckPermissions, says: lacking, remedy: "kafka-acls.sh",
			})
		})
	}
}

// doctor takes the same flags as serve, so that one call can replace the other.
func TestDoctorTakesEveryFlagOfServe(t *testing.T) {
	startsMany(t)
	t.Parallel()
	flags := doctorCommand().Flags()
	serveCommand().Flags().VisitAll(func(f *pflag.Flag) {
		require.NotNil(t, flags.Lookup(f.Name), "--%s", f.Name)
	})
	at := place{dir: t.TempDir()}
	for _, args := range []string{"--partitions 0", "--sweep -1s", "--payload-bytes 0", "--http 0.0.0.0:8642", "--roles agent"} {
		p := at.run(t, append([]string{"doctor", "--brokers", "h:1"}, strings.Fields(args)...)...)
		require.Equal(t, 2, p.code(), args)
	}
	quiet := at.run(t, "doctor", "--brokers", "127.0.0.1:1", "--http", "127.0.0.1:0", "--quiet", "-o", "jsonl")
	require.Equal(t, 1, quiet.code())
	require.Len(t, examined(t, quiet), 1, "checks that pass are not printed")
}

// A single broker keeps only one copy. Doctor warns of this before there is anything to lose.
func TestDoctorWarnsOfOneCopyBeforeTheFirstStart(t *testing.T) {
	t.Parallel()
	broker := kafkatest.StartBroker(t, embedded.Config{})
	p := place{dir: t.TempDir()}.run(t, "doctor", "--brokers", broker.Addr(), "--http", "127.0.0.1:0", "-o", "jsonl")
	require.Equal(t, 0, p.code())
	require.Len(t, examined(t, p)[doctor.CheckReplicas][doctor.StatusWarn], 1)
}

// An implausible clock is refused. A clock behind the log is a warning with both times.
func TestAWrongClockIsReported(t *testing.T) {
	t.Parallel()
	l := localCheck{serveConfig: &serveConfig{}, now: func() time.Time { return time.Date(1970, 1, 1, 0, 3, 0, 0, time.UTC) }}
	l.clock()
	require.Len(t, l.findings, 1)
	require.Equal(t, doctor.StatusFail, l.findings[0].Status)
	require.Contains(t, l.findings[0].What, "1970-01-01T00:03:00Z")
	l = localCheck{serveConfig: &serveConfig{}, now: time.Now}
	l.clock()
	require.Empty(t, l.findings)

	now := time.Now()
	facts := tail{topic: "x.events", partition: 2}
	for i, at := range []time.Time{now.Add(-time.Hour), now.Add(30 * time.Second), now.Add(2 * time.Hour)} {
		r, err := events.EncodeFact(&events.Fact{Epoch: events.Epoch{N: 1, ID: "a"}, Sequence: uint64(i), Time: events.At(at), Body: &events.InputsPassed{}}, 2, "/x")
		require.NoError(t, err)
		r.Offset = int64(i)
		require.NoError(t, facts.read(r))
		found := facts.findings(now, 1)
		require.Len(t, found, 1)
		require.Equal(t, i == 2, found[0].Check == checkClock, found[0].What)
	}
	differ := facts.findings(now, 1)[0]
	require.Contains(t, differ.What, "x.events/2 at offset 2")
	require.Contains(t, differ.What, "two clocks differ")
	require.Contains(t, differ.Remedy, "set the one that is wrong", "the wrong clock may be that of this machine")

	l = localCheck{serveConfig: &serveConfig{member: member{namespace: "x"}}, now: func() time.Time { return now.Add(time.Hour) }}
	beats := []events.Presence{{Kind: events.PresenceNode, Instance: "n1", SeenAt: events.At(now)}, {Kind: events.PresenceNode, Instance: "n2", SeenAt: events.At(now.Add(-time.Minute))}}
	require.Len(t, heardLately(beats, now), 1)
	require.Empty(t, heardLately(beats, l.now()))
	silent := l.silent(beats)
	require.Contains(t, silent.What, "the last heartbeat is that of node n1, whose clock read "+events.At(now).String()+", 1h0m0s earlier")
	require.Contains(t, silent.What, "; node n2 was heard at ")
	require.Contains(t, silent.Remedy, "set the one that is wrong")
	require.NotContains(t, l.silent(nil).What, "clock")
}

// A void record of a newer version stops no reader.
func TestAVoidFactOfANewerVersionStopsNoReader(t *testing.T) {
	t.Parallel()
	l := tail{topic: "x.events"}
	for i, f := range []*events.Fact{
		{Time: 1, Body: &events.PartitionClaimed{ID: "a"}},
		{Time: 2, Body: &events.PartitionClaimed{ID: "b", Prev: "a"}},
		{Epoch: events.Epoch{N: 1, ID: "a"}, Time: 3, Body: &events.VersionBarrier{Reader: 99}},
		{Epoch: events.Epoch{N: 2, ID: "b"}, Time: 3, Body: &events.InputsPassed{}},
	} {
		r, err := events.EncodeFact(f, 0, "/x")
		require.NoError(t, err)
		r.Offset = int64(i)
		require.NoError(t, l.read(r))
	}
	require.Equal(t, doctor.StatusOK, l.findings(time.Now(), 1)[0].Status)
}

// namespaces creates a namespace of this version, and several of a newer version.
func namespaces(t *testing.T, cluster *kafka.Cluster) {
	t.Helper()
	producer, err := kafka.NewProducer(cluster)
	require.NoError(t, err)
	t.Cleanup(producer.Close)
	write := func(topic string, partition int32, r events.Record) {
		r.Topic, r.Partition = topic, partition
		_, err := producer.ProduceSync(t.Context(), r)
		require.NoError(t, err)
	}
	now := events.At(time.Now())
	for name, format := range map[string]int{"ours": events.FormatVersion, "newer": 99, "barrier": events.FormatVersion, "unknown": events.FormatVersion, "foreign": events.FormatVersion} {
		topics := kafka.Topics{Namespace: name}
		kafkatest.Create(t, cluster, topics.Base(2)...)
		r, err := scheduler.EncodeNamespace(scheduler.Namespace{ID: "018f-" + name, Partitions: 2, Format: format}, events.Subject{ID: "n", Source: "/x", Time: now})
		require.NoError(t, err)
		write(topics.Definitions(), 0, r)
	}
	fact := func(partition int32, f *events.Fact) events.Record {
		r, err := events.EncodeFact(f, partition, "/x")
		require.NoError(t, err)
		return r
	}
	for partition, name := range []string{"barrier", "unknown"} {
		topic := kafka.Topics{Namespace: name}.Events()
		write(topic, int32(partition), fact(int32(partition), &events.Fact{Time: now, Body: &events.PartitionClaimed{ID: "a", Reader: 99}}))
		r := fact(int32(partition), &events.Fact{Epoch: events.Epoch{N: 1, ID: "a"}, Time: now, Body: &events.VersionBarrier{Reader: 99}})
		if name == "unknown" {
			i := slices.IndexFunc(r.Headers, func(h events.Header) bool { return h.Key == events.HeaderType })
			r.Headers[i].Value = []byte(events.TypePrefix + "SomethingNew")
		}
		write(topic, int32(partition), r)
	}
	write("foreign.events", 0, events.Record{Key: []byte("k"), Value: []byte("hello")})
}

// files creates the directories for the mistakes.
func files(t *testing.T, dir string) {
	t.Helper()
	write(t, filepath.Join(dir, "dev", "broker", "x"), "")
	write(t, filepath.Join(dir, "file"), "")
	write(t, filepath.Join(dir, "agents", "a.yaml"), "agent: a\nhtpp: {}\n")
	write(t, filepath.Join(dir, "workflows", "a.yaml"), "workflow: a\nsteps:\n  one: {agent: a}\n")
	write(t, filepath.Join(dir, "workflows", "b.yaml"), "workflow: b\nsteps:\n  one: {agnet: a}\n")
	for _, data := range []string{"theirs", "newer"} {
		s, err := projector.Open(filepath.Join(dir, data, "state"), projector.Options{Namespace: "018f-" + data})
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
	// Pebble keeps the number of its format in the name of this file, and a newer version has a higher number.
	markers, err := filepath.Glob(filepath.Join(dir, "newer", "state", "marker.format-version.*"))
	require.NoError(t, err)
	require.Len(t, markers, 1)
	require.NoError(t, os.Rename(markers[0], filepath.Join(dir, "newer", "state", "marker.format-version.000900.900")))
	unlock, err := embedded.Lock(filepath.Join(dir, "locked", lockFile))
	require.NoError(t, err)
	t.Cleanup(func() { _ = unlock() })
}

// listening returns the address of a listener that calls a function with each connection.
func listening(t *testing.T, do func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				do(c)
			}()
		}
	}()
	return l.Addr().String()
}
