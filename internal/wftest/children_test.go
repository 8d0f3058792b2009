package wftest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/wftest"
	"github.com/sagalog/sagalog/scheduler"
)

const trip = `workflow: trip
steps:
  flight: {child: {workflow: flight-booking}, with: {to: "${ input.to }"}, undo: {}}
  hotel: {child: {workflow: hotel-booking}, complete_within: 1h, undo: {}}
  pay: {needs: [flight, hotel], agent: card, with: {amount: "${ steps.flight.output.price }"}, retry: {attempts: 1}}
`

// The mock of a step says how the task ends that does it.
func TestACaseMocksTheTasksThatDoSteps(t *testing.T) {
	t.Parallel()
	load := func(string) (*scheduler.Source, []scheduler.Fault, error) {
		src, faults := scheduler.Parse("trip.yaml", []byte(trip), nil)
		return src, faults, nil
	}
	const head = "workflow: trip.yaml\ninput: {to: NRT}\nmocks: {flight: {output: {price: 7}}, hotel: {}, pay: {}}\nundo_mocks: {flight: {}, hotel: {}}\ncases:\n  - {name: a, "
	for name, c := range map[string]struct{ text, want string }{
		"all is booked":        {"expect: {state: processed, steps: {flight: {input: {to: NRT}}, pay: {input: {amount: 7}}}}", ""},
		"the card is declined": {"mocks: {pay: {fail: permanent, effect: none}, hotel: {after: 1m}}, expect: {state: undone, undone: [hotel, flight]}", ""},
		"no room":              {"mocks: {hotel: {fail: permanent, error: {message: no room}}}, expect: {state: undone, reason: no room, undone: [flight], never_called: [pay]}", ""},
		"no answer in time":    {"mocks: {hotel: {silent: true}}, expect: {state: undone, undone: [flight], steps: {hotel: {error: is over}}}", ""},
		"a cancel":             {"mocks: {hotel: {after: 30m}}, requests: [{verb: cancel, at: 1m}], expect: {state: undone, undone: [flight]}", ""},
		"no way back":          {"mocks: {pay: {fail: permanent, effect: none}}, undo_mocks: {hotel: {fail: permanent, error: {message: paid}}}, expect: {state: error, reason: paid}", ""},
		"another output":       {"mocks: {flight: {output: {price: 8}}}, expect: {state: processed, steps: {pay: {input: {amount: 7}}}}", "input"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, faults := wftest.Parse("trip.test.yaml", []byte(head+c.text+"}"), load)
			require.NotNil(t, f, "%v", faults)
			r, err := f.Run(f.Cases[0])
			require.NoError(t, err)
			if got := lines(r); c.want == "" {
				require.Empty(t, got)
			} else {
				require.Contains(t, got, c.want)
			}
		})
	}
}
