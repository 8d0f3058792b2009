package node_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/api"
)

// An apply warns of a child whose workflow nobody has applied, and applies the parent all the same.
func TestAnApplyWarnsOfAChildThatDoesNotExist(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		n := w.node(t.TempDir())
		const text = "workflow: trip\nsteps:\n  hotel: {child: {workflow: hotel-booking}}\n  again: {child: {workflow: trip}, if: \"${ input.again }\"}\n"
		check := func(name, text string) []api.Fault {
			a, faults, err := n.Definitions().Check(t.Context(), api.Draft{Name: name, Source: []byte(text)})
			require.NoError(t, err)
			require.Empty(t, faults)
			return a.Warnings
		}
		warnings := check("trip", text)
		require.Len(t, warnings, 1)
		require.Equal(t, "/steps/hotel/child/workflow", warnings[0].Pointer)
		require.Equal(t, 3, warnings[0].Line)
		require.Contains(t, warnings[0].Message, `there is no workflow "hotel-booking" yet: apply it before a task starts this step`)
		w.apply(n, text)

		w.apply(n, "workflow: hotel-booking\nsteps:\n  room: {agent: hotel}\n")
		require.Empty(t, check("trip", text))

		warnings = check("trip", strings.Replace(text, "hotel-booking}", "hotel-booking, version: 9}", 1))
		require.Len(t, warnings, 1)
		require.Contains(t, warnings[0].Message, `workflow "hotel-booking" has no version 9`)
		warnings = check("loop", "workflow: loop\nsteps:\n  again: {child: {workflow: loop}}\n")
		require.Len(t, warnings, 1)
		require.Contains(t, warnings[0].Message, "the workflow starts itself")
	})
}
