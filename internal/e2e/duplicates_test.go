package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// kcat produces one submission through librdkafka, with librdkafka's default partitioner.
func (e *engine) kcat(id string, body []byte) error {
	cmd := exec.CommandContext(e.t.Context(), "kcat", "-P", "-b", e.Kafka, "-t", topics.Submissions(), "-k", id)
	var compact bytes.Buffer
	if err := json.Compact(&compact, body); err != nil {
		return err
	}
	cmd.Stdin = strings.NewReader(compact.String() + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kcat: %w: %s", err, out)
	}
	return nil
}

// otherPartition is the partition that librdkafka's partitioner picks for a key, or the next one if that happens to be
// the key's home.
func otherPartition(id string) int32 {
	p := int32(crc32.ChecksumIEEE([]byte(id)) % 8)
	if p == events.Home(id, 8) {
		p = (p + 1) % 8
	}
	return p
}

// ways are the ways to submit.
func (e *engine) ways(c *client) map[string]func(id string, body []byte) error {
	ways := map[string]func(string, []byte) error{
		"http": func(id string, body []byte) error {
			status, b, err := e.try("PUT", taskPath(id), body)
			if err == nil && status != 200 && status != 202 {
				err = fmt.Errorf("status %d: %s", status, b)
			}
			return err
		},
		"kafka, home partition": func(id string, body []byte) error {
			return c.send(e.t.Context(), submission(events.Home(id, 8), id, body))
		},
		"kafka, other partition": func(id string, body []byte) error {
			return c.send(e.t.Context(), submission(otherPartition(id), id, body))
		},
	}
	if _, err := exec.LookPath("kcat"); err == nil {
		ways["kcat"] = e.kcat
	} else {
		e.t.Log("SKIPPED: kcat is not in PATH; librdkafka's partitioner is only imitated")
	}
	if hasTasks(e.t) {
		ways["cli"] = func(id string, body []byte) error {
			input, err := inputOf(body)
			if err != nil {
				return err
			}
			cmd := exec.CommandContext(e.t.Context(), program("sagalog"), "task", "submit", "--api", e.HTTP, "-w", "drone-delivery", "--id", id, "--input", input)
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("cli: %w: %s", err, out)
			}
			return nil
		}
	} else {
		e.t.Error("sagalog has no command `task submit` yet")
	}
	return ways
}

func inputOf(body []byte) (string, error) {
	var s struct{ Input json.RawMessage }
	err := json.Unmarshal(body, &s)
	return string(s.Input), err
}

// The same ID submitted a hundred times at once, in any way, is one task. After a restart, different content is a
// conflict, and the first submission counts.
func TestOneIDIsOneTask(t *testing.T) {
	t.Parallel()
	work := workDir(t)
	f := startFleet(t, work)
	e := newEngineWith(t, work, f)
	e.start()
	c := newClient(t, e.cluster())
	ways := e.ways(c)
	const id = "one / Lieferung 7ü"
	body := delivery(id, 7)
	total := sized(0, 40, 100)
	began := make(chan struct{})
	var g errgroup.Group
	n := 0
	for n < total {
		for name, submit := range ways {
			g.Go(func() error {
				<-began
				if err := submit(id, body); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				return nil
			})
			n++
		}
	}
	close(began)
	require.NoError(t, g.Wait())
	first := e.settled(id)
	require.Equal(t, "processed", first.State)
	e.quiet(patience)
	require.Equal(t, 1, count(e.history(id), "Submitted"))
	require.Len(t, e.list("limit=10"), 1)
	require.Len(t, f.ledger(t, "package", "one%20/%20Lieferung%207%C3%BC"), 1, "and one effect")
	require.Empty(t, e.deadReasons(), "a repeat is not an error")
	t.Logf("%d submissions of one ID at once by %d ways: one task", n, len(ways))

	e.stop()
	e.start()
	otherContentIsAConflict(t, e, ways, id)
	require.Equal(t, first, e.settled(id), "the first submission counts")
	require.Equal(t, 1, count(e.history(id), "Submitted"))
	e.stop()
}

// otherContentIsAConflict submits different content for an existing ID in every way.
func otherContentIsAConflict(t *testing.T, e *engine, ways map[string]func(id string, body []byte) error, id string) {
	t.Helper()
	body, other := delivery(id, 7), delivery(id, 8)
	problem := e.ask(409, "PUT", taskPath(id), other)
	t.Logf("HTTP: %s", problem)
	require.Contains(t, string(problem), "conflict")
	e.ask(200, "PUT", taskPath(id), body)
	if _, ok := ways["cli"]; ok {
		input, err := inputOf(other)
		require.NoError(t, err)
		code, _, errs := output(t, program("sagalog"), "task", "submit", "--api", e.HTTP, "-w", "drone-delivery", "--id", id, "--input", input)
		require.Equal(t, 4, code, errs)
		t.Logf("CLI: exit 4: %s", strings.TrimSpace(errs))
	}
	conflicts := 0
	for name, submit := range ways {
		if strings.HasPrefix(name, "k") {
			require.NoError(t, submit(id, other), name)
			conflicts++
		}
	}
	eventually(t, patience, "each conflict is a dead letter", func() bool { return len(e.deadReasons()) >= conflicts })
	e.quiet(patience)
	require.Len(t, e.deadReasons(), conflicts)
	for _, reason := range e.deadReasons() {
		require.Equal(t, events.RejectConflict, reason)
	}
}

// deadReasons returns the reasons of all dead submissions.
func (e *engine) deadReasons() (reasons []string) {
	records(e.t, e.cluster(), topics.DeadSubmissions(), func(r events.Record) { reasons = append(reasons, r.Header("__dlq.errors.reason")) })
	return reasons
}

// A workflow can be used immediately after it was applied.
func TestAWorkflowIsFoundImmediately(t *testing.T) {
	t.Parallel()
	work := workDir(t)
	f := startFleet(t, work)
	e := newEngineWith(t, work, f)
	e.start()
	c := newClient(t, e.cluster())
	n := sized(*appliesFlag, 40, 1000)
	begun := time.Now()
	for i := range n {
		// A round applies a new workflow. Every other round instead applies a new version of one workflow, and
		// submits to it by number.
		name, version, source := fmt.Sprintf("next-%d", i), 1, "workflow: next-%d\nsteps:\n  package:\n    agent: package\n    with: {id: \"${ task.id }\", package: {size: s, weight: 1}}\n"
		source = fmt.Sprintf(source, i)
		if i%2 == 1 {
			name, version = "again", (i+1)/2
			source = fmt.Sprintf("workflow: again\ndescription: number %d\nsteps:\n  package:\n    agent: package\n    with: {id: \"${ task.id }\", package: {size: s, weight: %d}}\n", i, i%20+1)
		}
		e.ask(200, "PUT", "/v1/workflows/"+name, []byte(source), "Content-Type", "application/yaml")
		var g errgroup.Group
		id := "next-" + strconv.Itoa(i)
		body := fmt.Appendf(nil, `{"workflow":%q,"version":%d}`, name, version)
		g.Go(func() error { return c.send(t.Context(), submission(int32(i%8), "kafka-"+id, body)) })
		g.Go(func() error {
			status, b, err := e.try("PUT", taskPath("http-"+id), body)
			if err == nil && status != 202 {
				err = fmt.Errorf("%s: status %d: %s", id, status, b)
			}
			return err
		})
		require.NoError(t, g.Wait())
	}
	for i := range n {
		for _, way := range []string{"kafka", "http"} {
			id := fmt.Sprintf("%s-next-%d", way, i)
			got := e.settled(id)
			require.Equal(t, "processed", got.State, "%s: %s", id, got.Reason)
			if i%2 == 1 {
				require.Equal(t, (i+1)/2, got.Version, id)
			}
		}
	}
	records(t, e.cluster(), topics.DeadSubmissions(), func(r events.Record) {
		require.Fail(t, "a submission was rejected", "%s: %s", r.Key, r.Header("__dlq.errors.message"))
	})
	t.Logf("%d workflows applied and used immediately through Kafka and HTTP, all found, in %s", n, time.Since(begun).Round(time.Millisecond))
	e.stop()
}
