package sim_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/sim"
)

// familyMutant switches off a rule of parents and children: in the line of the product below //mutant:NAME, a part is changed. Some seed must show it.
type familyMutant struct {
	name, part string
	// changed is what the part becomes. In it, OFF is true if the mutant is selected.
	changed string
	breaks  string
}

var familyMutants = []familyMutant{
	{"children-turn-back", "s.State == StepStateRunning", "!OFF && s.State == StepStateRunning", "does not turn back with|INV5"},
	{"every-try-is-undone", "s.unsettled() < 0", "OFF || s.unsettled() < 0", "is folded to|is undone, and its child|an undo asks"},
	{"decision-is-about-one-child", `child != "" && s.undoneByChild`, `child != "" && !OFF && s.undoneByChild`, "is folded to|is undone, and its child|an undo asks"},
	{"child-past-its-pivot-refuses", "t.Irrevocable()", "!OFF && t.Irrevocable()", "past its pivot|undoes itself|does not fit"},
	{"link-tells-children-apart", "known.Parent == nil || known.Parent.Link != p.Link", "!OFF && (known.Parent == nil || known.Parent.Link != p.Link)", "and is another task"},
	{"unknown-link-is-released", "!known", "!OFF && !known", "INV12"},
	{"answer-counts-once", "!events.AwaitsChild(t, a.Child, a.Link)", "!OFF && !events.AwaitsChild(t, a.Child, a.Link)", "does not fit"},
	{"child-waits-for-its-release", "; kept", "; kept && !OFF", "is forgotten before"},
	{"lost-child-parks", "events.ActionPark", "map[bool]events.Action{false: events.ActionPark, true: events.ActionUndo}[OFF]", "its workflow says park"},
}

// TestSeedsCatchMutants runs seeds with families of tasks on the product with one rule at a time switched off. With the rule, the same seed breaks
// nothing.
// SAGALOG_MUTANTS=1 go test ./internal/sim -run '^TestSeedsCatchMutants$' -v
func TestSeedsCatchMutants(t *testing.T) {
	if os.Getenv("SAGALOG_MUTANTS") == "" {
		t.Skip("compiles the product with its mutants; to run it: SAGALOG_MUTANTS=1 go test ./internal/sim -run '^TestSeedsCatchMutants$' -v")
	}
	program := mutated(t)
	opt := sim.Options{
		Faults: &sim.Faults{
			AgentFails: 0.2, AgentSilent: 0.05, Cancel: 0.3, Retry: 0.3, Slow: 0.2, EffectTwice: 0.3, Duplicate: 0.3, Trim: 1, Crash: 3, Reassign: 2, Families: 8,
		},
		Partitions: 2, Remember: 2e9,
	}
	for _, m := range familyMutants {
		t.Run(m.name, func(t *testing.T) {
			cmd := exec.Command(program, "-test.run=^TestEverySeedKeepsTheInvariants$", "-sim.seed=1", "-sim.seeds=150", "-sim.shrink=0", "-sim.opt="+opt.String())
			cmd.Env = append(os.Environ(), "SAGALOG_MUTANT="+m.name)
			out, err := cmd.CombinedOutput()
			require.Error(t, err, "no seed shows that the rule is off")
			found := regexp.MustCompile(`seed (\d+): (.*)`).FindStringSubmatch(string(out))
			require.NotNil(t, found, "%s", out)
			require.Regexp(t, m.breaks, found[2])
			t.Logf("seed %s: %s", found[1], found[2])
			seed, err := strconv.ParseUint(found[1], 10, 64)
			require.NoError(t, err)
			kept := sim.Run(seed, opt)
			require.False(t, kept.Failed(), "%s", kept)
		})
	}
}

// mutated compiles the tests of this package with all mutants, and returns the path of the program.
func mutated(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	changed, files := map[string]string{}, []string{"events/child.go", "events/child_try.go", "events/by_hand.go", "supervisor/children.go", "supervisor/sweep.go", "supervisor/outbox.go"}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		changed[file] = string(text)
	}
	for _, m := range familyMutants {
		n := 0
		for file, text := range changed {
			before, after, found := strings.Cut(text, "//mutant:"+m.name+"\n")
			if !found {
				continue
			}
			n++
			line, rest, _ := strings.Cut(after, "\n")
			is := strings.Replace(line, m.part, strings.ReplaceAll(m.changed, "OFF", fmt.Sprintf("(selectedMutant == %q)", m.name)), 1)
			require.NotEqual(t, line, is, m.name)
			changed[file] = before + is + "\n" + rest
		}
		require.Equal(t, 1, n, "mark the line once: %s", m.name)
	}
	for _, dir := range []string{"events", "supervisor"} {
		changed[dir+"/selected_mutant.go"] = "package " + dir + "\n\nimport \"os\"\n\nvar selectedMutant = os.Getenv(\"SAGALOG_MUTANT\")\n"
	}
	dir, replace := t.TempDir(), map[string]string{}
	for file, text := range changed {
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		require.NoError(t, os.WriteFile(to, []byte(text), 0o600))
		replace[filepath.Join(root, file)] = to
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	overlay, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "sim.test")
	require.NoError(t, os.WriteFile(overlay, list, 0o600))
	out, err := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay="+overlay, "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}
