package model_test

import (
	"flag"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim/model"
)

var (
	boundFlag = flag.String("model.bound", "small", "how much is searched: small (seconds), ci (minutes), large (an hour and more)")
	turnFlag  = flag.Int("model.turn", -1, "0 to 5: search only this sixth of the long configurations and of the mutants")
	onlyFlag  = flag.String("model.only", "", "a regular expression: search only configurations whose name matches, whatever their bound")
	capFlag   = flag.Int("model.cap", 0, "stop each search after this number of states; a stopped search proves nothing")
)

// A search allocates much. Collecting garbage less often makes it a fifth faster; the limit is far above what most searches keep,
// and the largest ones collect more often when they come near it.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(5 << 30)
	os.Exit(m.Run())
}

// TestModelHolds searches every configuration within the bound completely. No property is violated, every world in
// which nothing can happen any more is at rest, and every world can reach one that is at rest.
func TestModelHolds(t *testing.T) {
	bound, known := map[string]model.Bound{"small": model.Small, "ci": model.Long, "large": model.Large}[*boundFlag]
	require.True(t, known, "-model.bound is small, ci or large")
	require.Less(t, *turnFlag, model.Turns, "-model.turn is 0 to 5")
	only, err := regexp.Compile(*onlyFlag)
	require.NoError(t, err)
	var chosen []model.Config
	var left []string
	for _, c := range model.Configurations() {
		switch {
		case *onlyFlag != "" && !only.MatchString(c.Name), *onlyFlag == "" && c.Bound > bound:
		case *onlyFlag == "" && c.Bound == model.Long && *turnFlag >= 0 && c.Turn != *turnFlag:
			left = append(left, c.Name)
		default:
			chosen = append(chosen, c.Config)
		}
	}
	require.NotEmpty(t, chosen)
	if len(left) > 0 {
		t.Logf("turn %d: %d long configurations are left to other runs: %s", *turnFlag, len(left), strings.Join(left, "; "))
	}
	began := time.Now()
	reports := searchAll(t, chosen)
	var states, transitions, quiet int
	for _, r := range reports {
		require.Empty(t, r.Violation, r.String())
		require.True(t, r.Exhausted || *capFlag > 0, "%s was not searched to its end", r.Name)
		require.True(t, len(r.Idle) == 0 || *capFlag > 0, "%s never uses up its budgets %v", r.Name, r.Idle)
		require.True(t, len(broken(r)) == 0 || *capFlag > 0, "%s never reaches %v", r.Name, broken(r))
		require.Zero(t, r.Livelocks)
		require.NotZero(t, r.Quiet)
		states, transitions, quiet = states+r.States, transitions+r.Transitions, quiet+r.Quiet
	}
	t.Logf("%d configurations: %d states, %d transitions, %d at rest, in %s", len(reports), states, transitions, quiet, time.Since(began).Round(time.Second))
}

// promises are the facts that a configuration must reach because of the words in its name.
var promises = []struct {
	words *regexp.Regexp
	fact  events.Name
}{
	{regexp.MustCompile("an undo"), (*events.CompensationStarted)(nil).Name()},
	{regexp.MustCompile("a rerun"), (*events.RunBegun)(nil).Name()},
	{regexp.MustCompile("was left"), (*events.StepSkipped)(nil).Name()},
	{regexp.MustCompile("^a wrong clock, (a rerun|limits)"), (*events.TimeCorrected)(nil).Name()},
	{regexp.MustCompile("carry|carries"), (*events.CarryEnded)(nil).Name()},
	{regexp.MustCompile("state hashes"), (*events.StateHash)(nil).Name()},
}

// broken returns the facts that the name of a configuration promises, and that its search never reached.
func broken(r *model.Report) (missing []events.Name) {
	for _, p := range promises {
		if p.words.MatchString(r.Name) && r.Logs[p.fact] == 0 {
			missing = append(missing, p.fact)
		}
	}
	return missing
}

// searchAll searches the configurations, as many at once as there are processors.
func searchAll(t *testing.T, chosen []model.Config) []*model.Report {
	reports := make([]*model.Report, len(chosen))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(chosen)) {
		wg.Go(func() {
			for i := range next {
				reports[i] = model.Search{Config: chosen[i], MaxStates: *capFlag}.Run()
				t.Log(reports[i])
			}
		})
	}
	for i := range chosen {
		next <- i
	}
	close(next)
	wg.Wait()
	return reports
}

// Each turn has about as many long configurations as the others.
func TestEachLongConfigurationHasItsTurn(t *testing.T) {
	t.Parallel()
	var in [model.Turns]int
	for _, c := range model.Configurations() {
		if c.Bound == model.Long {
			in[c.Turn]++
		}
	}
	require.NotZero(t, slices.Min(in[:]))
	require.LessOrEqual(t, slices.Max(in[:])-slices.Min(in[:]), 1, "%v", in)
}

func TestASearchIsAFunctionOfItsConfiguration(t *testing.T) {
	t.Parallel()
	search := model.Search{Config: model.Configurations()[0].Config}
	a, b := search.Run(), search.Run()
	a.Took, b.Took = 0, 0
	require.Equal(t, a, b)
	require.True(t, a.Exhausted)
}
