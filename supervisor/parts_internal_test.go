package supervisor

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// foldedBy names, for each kind of fact, the parts of an owner that fold it; the state folds every kind. If a row is empty,
// no part does. changeOf and workOf stand for the dispatch: it folds changes of attempts (changeOf), among them their
// beginnings (workOf).
var foldedBy = map[events.Name]string{
	events.NameNamespaceCreated:        "",
	events.NamePartitionClaimed:        "epoch",
	events.NameVersionBarrier:          "",
	events.NameSettingsAdopted:         "",
	events.NameDefinitionAdopted:       "",
	events.NameSubmitted:               "outbox",
	events.NameNotBeforePassed:         "",
	events.NameStepQueued:              "",
	events.NameStepStarted:             "changeOf outbox workOf",
	events.NameStepProgressed:          "",
	events.NameWaitStarted:             "",
	events.NameStepCompleted:           "changeOf",
	events.NameStepFailed:              "changeOf outbox",
	events.NameTimeout:                 "changeOf outbox",
	events.NameStepSkipped:             "",
	events.NameCompensationStarted:     "changeOf outbox workOf",
	events.NameCompensated:             "changeOf",
	events.NameCompensationFailed:      "changeOf outbox",
	events.NameCancelRequested:         "",
	events.NameSignalReceived:          "",
	events.NameRequestHeld:             "",
	events.NameRequestRefused:          "",
	events.NameDeadlinePassed:          "outbox",
	events.NameSoftLimitPassed:         "outbox",
	events.NameTaskProcessed:           "outbox",
	events.NameTaskUndone:              "outbox",
	events.NameTaskParked:              "outbox planner",
	events.NameTaskReminded:            "outbox",
	events.NameTaskReopened:            "",
	events.NameTaskRerun:               "",
	events.NameRunBegun:                "",
	events.NameTaskPaused:              "",
	events.NameTaskResumed:             "",
	events.NameTaskTerminated:          "outbox",
	events.NameChildAsked:              "outbox",
	events.NameChildAnswered:           "outbox",
	events.NameChildRefused:            "outbox",
	events.NameChildUndoRequested:      "",
	events.NameChildReleased:           "",
	events.NameChildReturned:           "outbox",
	events.NameChildrenReleased:        "outbox",
	events.NameTasksSwept:              "",
	events.NamePermitAsked:             "outbox",
	events.NamePermitGranted:           "",
	events.NamePermitReleased:          "outbox",
	events.NamePermitReturned:          "outbox",
	events.NamePermitBlocked:           "outbox",
	events.NamePermitsDecided:          "outbox",
	events.NameLimitAdopted:            "",
	events.NameLimitPaused:             "",
	events.NameLimitResumed:            "",
	events.NameInputRejected:           "outbox",
	events.NameInputForwarded:          "outbox",
	events.NameInputsPassed:            "inbox",
	events.NameInputLossAccepted:       "inbox",
	events.NameEffectFailed:            "changeOf outbox",
	events.NameEffectsDelayed:          "",
	events.NameEffectsCaughtUp:         "",
	events.NameScheduleAdopted:         "",
	events.NameFanOutStarted:           "",
	events.NameScheduleFired:           "outbox",
	events.NameSchedulePassed:          "outbox",
	events.NameScheduleTaskEnded:       "outbox",
	events.NameScheduleCancelRequested: "outbox",
	events.NameSchedulePaused:          "",
	events.NameScheduleResumed:         "",
	events.NameTimeCorrected:           "",
	events.NameStateHash:               "",
	events.NameNamespaceClosed:         "",
	events.NameCarryBegun:              "",
	events.NameEntityCarried:           "",
	events.NameCarryEnded:              "",
}

// Each kind of fact needs a row, and each row must agree with the code of the parts.
func TestEachPartTakesTheKindsOfFactsOfItsRow(t *testing.T) {
	t.Parallel()
	taken := foldsOf(t)
	for _, name := range events.Names() {
		row, ok := foldedBy[name]
		require.True(t, ok, "which parts of an owner take %s? Say so here", name)
		require.Equal(t, row, strings.Join(slices.Sorted(maps.Keys(taken[string(name)])), " "), name)
	}
	require.Len(t, foldedBy, len(events.Names()))
}

// foldsOf returns, for each kind of fact, the parts whose method fold names it, and which of the functions changeOf and
// workOf do.
func foldsOf(t *testing.T) map[string]map[string]bool {
	paths, err := filepath.Glob("*.go")
	require.NoError(t, err)
	taken, parts := map[string]map[string]bool{}, map[string]bool{}
	collect := func(n ast.Node) bool {
		f, ok := n.(*ast.FuncDecl)
		if !ok {
			return true
		}
		part := f.Name.Name
		if part == "fold" {
			part = f.Recv.List[0].Type.(*ast.StarExpr).X.(*ast.Ident).Name
		} else if part == "effects" {
			part = "outbox"
		} else if part != "changeOf" && part != "workOf" {
			return false
		}
		parts[part] = true
		ast.Inspect(f.Body, func(n ast.Node) bool {
			star, ok := n.(*ast.StarExpr)
			if !ok {
				return true
			}
			if kind, ok := star.X.(*ast.SelectorExpr); ok {
				if taken[kind.Sel.Name] == nil {
					taken[kind.Sel.Name] = map[string]bool{}
				}
				taken[kind.Sel.Name][part] = true
			}
			return true
		})
		return false
	}
	for _, path := range paths {
		if !strings.HasSuffix(path, "_test.go") {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			require.NoError(t, err)
			ast.Inspect(file, collect)
		}
	}
	require.Equal(t, []string{"changeOf", "dispatch", "epoch", "inbox", "outbox", "planner", "workOf"}, slices.Sorted(maps.Keys(parts)))
	return taken
}
