package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The sizes of the long tests. Zero means the full size with SAGALOG_E2E=full, and a small size
// without it.
var (
	deliveriesFlag = flag.Int("e2e.deliveries", 0, "deliveries in each test that submits a load (full: up to 10,000)")
	killsFlag      = flag.Int("e2e.kills", 0, "kills of TestKillsLoseNothing and TestClusterKills (full: 12)")
	minutesFlag    = flag.Float64("e2e.minutes", 0, "how long TestKillsLoseNothing and TestClusterKills submit (full: 2.2)")
	rateFlag       = flag.Float64("e2e.rate", 0, "deliveries a second of TestKillsLoseNothing (full: as many as e2e.deliveries in e2e.minutes), and of the cluster tests")
	deadFlag       = flag.Float64("e2e.dead", 0, "how many seconds every other node that TestClusterKills killed stays dead (full: 15)")
	outagesFlag    = flag.Int("e2e.outages", 0, "brokers that TestClusterBrokers kills (full: 6)")
	pausesFlag     = flag.Int("e2e.pauses", 0, "how often TestClusterPausedOwner stops an owner (full: 6)")
	tripsFlag      = flag.Int("e2e.trips", 0, "trips of TestClusterTrips (full: 10,000)")
	itemsFlag      = flag.Int("e2e.items", 0, "items of each task of TestClusterFanOut (full: 10,000)")
	garbageFlag    = flag.Int("e2e.garbage", 0, "bad submissions of each kind in TestGarbageAmongGoodOnes (full: 1,000)")
	appliesFlag    = flag.Int("e2e.applies", 0, "workflows applied in TestAWorkflowIsFoundImmediately (full: 1,000)")
	keepingFlag    = flag.Duration("e2e.keeping", 0, "how long the tests of keep_log submit, with minutes of log instead of seconds")
	keepLogFlag    = flag.Duration("e2e.keeplog", 2*time.Minute, "with e2e.keeping: the setting keep_log")
	seedFlag       = flag.Uint64("e2e.seed", 0, "seed of the random instants (0: a new one, which is printed)")
	keepFlag       = flag.Bool("e2e.keep", false, "keep data and logs of tests that pass, too")
)

// full says that the tests run at their full size.
var full = os.Getenv("SAGALOG_E2E") == "full"

const sayHow = "SAGALOG_E2E=full go test ./internal/e2e -v -timeout 60m"

// besideOthers lets a test run beside others, since it mostly waits. A full run measures, so there it runs alone.
func besideOthers(t *testing.T) {
	t.Helper()
	if !full {
		t.Parallel()
	}
}

// sized returns the flag's value if it is set, and otherwise the size for this kind of run.
func sized[T int | float64](flag T, short, long T) T {
	switch {
	case flag != 0:
		return flag
	case full:
		return long
	}
	return short
}

// seed returns the seed of this run and prints it.
func seed(t *testing.T) uint64 {
	s := *seedFlag
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d (repeat with -e2e.seed %d)", s, s)
	return s
}

// bin holds the binaries under test.
var bin string

func TestMain(m *testing.M) {
	flag.Parse()
	// Short tests mostly wait, so more than one may run on each core. Long ones measure time, so they cannot.
	if full {
		_ = flag.Set("test.parallel", "1")
	} else if !given("test.parallel") {
		_ = flag.Set("test.parallel", "4")
	}
	os.Exit(run(m))
}

// given says whether a flag is on the command line.
func given(name string) (found bool) {
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

func run(m *testing.M) int {
	var err error
	if bin, err = os.MkdirTemp("", "e2e-bin-"); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer os.RemoveAll(bin)
	build := exec.Command("go", "build", "-o", bin+string(filepath.Separator), "./cmd/sagalog", "./cmd/dronedelivery", "./cmd/orders")
	build.Dir, build.Stdout, build.Stderr = filepath.Join("..", ".."), os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: build the programs:", err)
		return 1
	}
	return m.Run()
}

func program(name string) string { return filepath.Join(bin, name) }
