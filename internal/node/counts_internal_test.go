package node

import (
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

// The page opens a group as a list with the group's key as one more filter. Both must have the same tasks.
func TestAGroupOfFailuresHasTheTasksOfItsList(t *testing.T) {
	t.Parallel()
	busy, other := &events.Error{Class: events.ClassRetryable, Code: "http_503"}, &events.Error{Class: events.ClassRetryable}
	silent := &events.Error{Class: events.ClassTimeout}
	tasks := []*events.Task{
		{ID: "none", Steps: []*events.Step{{Path: "a"}}},
		{ID: "code", Steps: []*events.Step{{Path: "a", Error: busy}}},
		{ID: "class", Steps: []*events.Step{{Path: "a", Error: other}}},
		{ID: "both", Steps: []*events.Step{{Path: "a", Error: busy}, {Path: "b", Error: silent}}},
		{ID: "twice", Steps: []*events.Step{{Path: "a", Error: busy}, {Path: "b", Error: busy}}},
		{ID: "undo", Steps: []*events.Step{{Path: "a", Error: busy, Undo: &events.UndoState{Error: silent}}, {Path: "b", Undo: &events.UndoState{Error: other}}}},
	}
	for _, filter := range []events.TaskMatch{{}, {FailedStep: "a"}, {FailedStep: "b"}, {ErrorCode: "http_503"}, {ErrorCode: "retryable"}, {FailedStep: "a", ErrorCode: "timeout"}} {
		for _, by := range []string{"step", "error_code"} {
			counted := map[string]int{}
			for _, task := range tasks {
				if filter.Fits(task) {
					for _, key := range new(counts).keys(task, filter, api.GroupBy{Kind: by}) {
						counted[key]++
					}
				}
			}
			delete(counted, "") // those that have not failed
			for _, key := range []string{"a", "b", "http_503", "retryable", "timeout"} {
				narrow := filter
				if by == "step" {
					narrow.FailedStep = key
				} else {
					narrow.ErrorCode = key
				}
				listed := 0
				for _, task := range tasks {
					if filter.Fits(task) && narrow.Fits(task) && (by == "step" || key != "a" && key != "b") {
						listed++
					}
				}
				if narrow != filter && (filter.FailedStep != "" && by == "step" || filter.ErrorCode != "" && by == "error_code") {
					continue // another value of the same filter
				}
				require.Equal(t, listed, counted[key], "%+v by %s: %s", filter, by, key)
			}
		}
	}
}
