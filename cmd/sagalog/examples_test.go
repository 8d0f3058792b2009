//go:build unix

package main

import (
	"cmp"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

// examples is the page of the examples, and the engine and the service that it starts.
type examples struct {
	page     string
	api, bin string
}

// The commands of docs/examples/README.md run as they stand there, and what the page says about them is true.
func TestTheExamplesRun(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	x := startExamples(t)
	sections := map[string]func(t *testing.T, x *examples){
		"An order that waits for a person": checkOrders, "A training that continues": checkTraining,
		"One payment at a time": checkPayments, "A report each night": checkReports,
		"The invoices of a day": checkInvoices, "A trip of several bookings": checkTrips,
	}
	found := regexp.MustCompile(`(?ms)^## ([^\n]+)\n(.*?)(?:\z|(?:^## ))`)
	rest, read := x.page, 0
	for m := found.FindStringSubmatch(rest); m != nil; m = found.FindStringSubmatch(rest) {
		_, rest, _ = strings.Cut(rest, "## "+m[1]+"\n")
		check := sections[m[1]]
		require.NotNil(t, check, "no test checks the section %q", m[1])
		read++
		t.Run(m[1], func(t *testing.T) {
			t.Parallel()
			for _, command := range commands(m[2]) {
				x.run(t, command)
			}
			check(t, x)
		})
	}
	require.Len(t, sections, read)
}

// commands returns the commands of a page or of a section, each of which is a line.
func commands(text string) (list []string) {
	for _, block := range regexp.MustCompile("(?s)```\n(.*?)```").FindAllStringSubmatch(text, -1) {
		list = append(list, strings.Split(strings.TrimSpace(block[1]), "\n")...)
	}
	return list
}

// startExamples starts the service and the engine as the page says, at addresses that nothing else uses, and with shorter epochs.
func startExamples(t *testing.T) *examples {
	page, err := os.ReadFile("../../docs/examples/README.md")
	require.NoError(t, err)
	starts := commands(string(page))
	dir := t.TempDir()
	x := &examples{page: string(page), bin: filepath.Join(dir, "bin")}
	service, after, _ := strings.Cut(strings.TrimPrefix(starts[0], "go run "), " ")
	require.Empty(t, after, starts[0])
	build := exec.Command("go", "build", "-o", filepath.Join(x.bin, "gpu"), service)
	build.Dir = "../.."
	text, err := build.CombinedOutput()
	require.NoError(t, err, string(text))
	program, err := filepath.Abs(os.Args[0])
	require.NoError(t, err)
	require.NoError(t, os.Symlink(program, filepath.Join(x.bin, "sagalog")))

	url, rest, _ := strings.Cut(starts[1], " ")
	variable, _, _ := strings.Cut(url, "=")
	args, isSagalog := strings.CutPrefix(rest, "go run ./cmd/sagalog ")
	require.True(t, isSagalog, starts[1])
	require.Equal(t, "alias sagalog='go run ./cmd/sagalog'", starts[2])
	at := place{dir: "../..", env: []string{variable + "=" + startGPU(t, filepath.Join(x.bin, "gpu"))}}
	data := filepath.Join(dir, "data")
	engine := at.start(t, append(strings.Fields(args), "--data", data, "--http", "127.0.0.1:0", "--kafka", "127.0.0.1:0")...)
	x.api = engine.endpoints(data).HTTP
	engine.eventually("the engine is ready", func() bool {
		r, err := http.Get(x.api + "/readyz")
		if err == nil {
			_ = r.Body.Close()
		}
		return err == nil && r.StatusCode == http.StatusOK
	})
	return x
}

// startGPU starts the service of the training, and returns its URL.
func startGPU(t *testing.T, file string) string {
	var said written
	gpu := exec.Command(file, "--listen", "127.0.0.1:0", "--epoch", "100ms")
	gpu.Stdout, gpu.Stderr = &said, &said
	require.NoError(t, gpu.Start())
	t.Cleanup(func() {
		require.NoError(t, gpu.Process.Signal(os.Interrupt))
		require.NoError(t, gpu.Wait(), said.String())
	})
	address := regexp.MustCompile(`GPU_URL=(\S+)\n`)
	require.Eventually(t, func() bool { return address.MatchString(said.String()) }, stepWait, stepWait/10000)
	return address.FindStringSubmatch(said.String())[1]
}

// badly are the commands of the page of which it says that they exit with 6.
var badly = map[string]bool{"sagalog task get order-3 --wait": true, "sagalog task get trip-2 --wait": true, "sagalog task get trip-3 --wait": true, "sagalog task get invoices-2 --wait --timeout 2m": true}

// run runs a command of the page in a shell, and returns what it prints.
func (x *examples) run(t *testing.T, command string) string {
	t.Helper()
	var c *exec.Cmd
	var text []byte
	var err error
	for tries := 0; tries == 0 || tries < 10 && c.ProcessState.ExitCode() == 5; tries++ { // 5: a task needs longer than --wait waits, on a busy machine
		c = exec.CommandContext(t.Context(), "sh", "-c", command)
		c.Dir = "../.."
		c.Env = append(os.Environ(), "PATH="+x.bin+":"+os.Getenv("PATH"), programEnv+"=1", "SAGALOG_API="+x.api)
		text, err = c.CombinedOutput()
		require.NotNil(t, c.ProcessState, "%s: %v", command, err)
	}
	want := 0
	if badly[command] {
		want = 6
	}
	require.Equal(t, want, c.ProcessState.ExitCode(), "%s\n%s", command, text)
	return string(text)
}

// task reads a task that the page has started.
func (x *examples) task(t *testing.T, id string) (doc api.TaskDocument) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(x.run(t, "sagalog task get "+id+" --wait -o json")), &doc))
	return doc
}

func checkOrders(t *testing.T, x *examples) {
	small, large := x.task(t, "order-1"), x.task(t, "order-2")
	require.Regexp(t, `"parcel":\s*"P-`, string(small.Output))
	step := func(doc api.TaskDocument, id string) api.StepDocument {
		for _, s := range doc.Steps {
			if s.ID == id {
				return s
			}
		}
		require.FailNow(t, "no step "+id)
		return api.StepDocument{}
	}
	require.Equal(t, "skipped", string(step(small, "approve").State))
	require.Equal(t, 2, step(small, "charge").Attempt, "the card terminal breaks once")
	require.Contains(t, x.run(t, "sagalog task history order-1"), "the card terminal does not answer")
	require.Equal(t, "completed", string(step(large, "approve").State))

	require.Regexp(t, `STATE +undone\nREASON .*rejected by anna`, x.run(t, "sagalog task get order-3"))
	require.Regexp(t, `reserve +stock +undone`, x.run(t, "sagalog task get order-3"))
}

func checkTraining(t *testing.T, x *examples) {
	history := x.run(t, "sagalog task history train-1")
	require.Contains(t, history, "the GPU is too hot")
	require.Regexp(t, `StepStarted +train +2 .*continues after the progress \{"run":"\S+","epoch":[1-8]\}`, history)
	require.Contains(t, string(x.task(t, "train-1").Output), `12`)
}

// Payments of a customer run one at a time, in whichever order they came, but the express one is not the last.
func checkPayments(t *testing.T, x *examples) {
	order := []api.TaskDocument{x.task(t, "payment-1"), x.task(t, "payment-2"), x.task(t, "payment-3")}
	began := func(doc api.TaskDocument) int64 { return int64(doc.Steps[0].StartedAt) }
	slices.SortFunc(order, func(a, b api.TaskDocument) int { return cmp.Compare(began(a), began(b)) })
	for i := range order[1:] {
		require.GreaterOrEqual(t, began(order[i+1]), int64(order[i].EndedAt), "%s begins when %s has ended", order[i+1].ID, order[i].ID)
	}
	require.NotEqual(t, "payment-3", order[2].ID, "express payments go first")
	require.Less(t, began(x.task(t, "payment-4")), int64(order[0].EndedAt), "another customer does not wait")
	require.Contains(t, x.run(t, "sagalog task history payment-2"), "the bank is busy")
}

// One in ten invoices may fail.
func checkInvoices(t *testing.T, x *examples) {
	doc := x.task(t, "invoices-1")
	require.Equal(t, "processed", doc.State)
	require.JSONEq(t, `{"sent": 19, "failed": ["2027-01-05-13"]}`, string(doc.Output))
	history := x.run(t, "sagalog task history invoices-1")
	require.Contains(t, history, "2027-01-05-13 has no address")
	require.Regexp(t, `Compensated +send\[12\]`, history)
	require.Regexp(t, `REASON .*nobody works on the first of May`, x.run(t, "sagalog task get invoices-2"))
	require.Regexp(t, `report +clerk +not_started`, x.run(t, "sagalog task get invoices-2"))
}

// All of a trip is booked, or all of it is undone.
func checkTrips(t *testing.T, x *examples) {
	text := func(id string) string { return x.run(t, "sagalog task get "+id) }
	require.Regexp(t, `STATE +processed`, text("trip-1"))
	require.Regexp(t, `"paid":\s*600`, text("trip-1"))
	require.Regexp(t, `hotel +task trip-1-hotel +completed`, text("trip-1"))
	require.Regexp(t, `PARENT +step flight of task trip-1`, text("trip-1/flight"))
	require.Equal(t, "processed", x.task(t, "trip-1/survey").State, "it goes on by itself")

	require.Regexp(t, `REASON .*the hotel is full`, text("trip-2"))
	require.Regexp(t, `REASON .*not enough in the purse`, text("trip-3"))
	require.Regexp(t, `car +task trip-3/car +undone`, text("trip-3"))
	for id, want := range map[string]string{"trip-2/flight": "undone", "trip-2-hotel": "undone", "trip-3/flight": "undone", "trip-3-hotel": "undone", "trip-3/car": "processed"} {
		require.Regexp(t, `STATE +`+want, text(id), id)
	}
}

// Six reports of the day were started by a person, and others come by themselves.
func checkReports(t *testing.T, x *examples) {
	next := regexp.MustCompile(`(often/\S+) +(?:running|processed)`)
	var fired []string
	require.Eventually(t, func() bool {
		fired = next.FindStringSubmatch(x.run(t, "sagalog schedule next often"))
		return fired != nil
	}, stepWait, stepWait/1000, "a due time passes")
	x.run(t, "sagalog schedule delete often")
	started := regexp.MustCompile(`daily-report/\S+`).FindAllString(x.run(t, "sagalog task list -w report"), -1)
	require.Len(t, started, 6)
	for _, id := range append(started, fired[1]) {
		doc := x.task(t, id)
		require.Equal(t, "processed", doc.State, id)
		require.Equal(t, 1, doc.FailureCount, "the mail server is down once: %s", id)
	}
}
