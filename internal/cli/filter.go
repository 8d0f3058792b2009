package cli

import (
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// filterNames are the flags that select tasks. They are named like the parameters of the API, with - for _.
var filterNames = []string{"state", "workflow", "label", "since", "until", "schedule", "failed-step", "error-code", "older-than"}

func filterFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringSlice("state", nil, strings.Join(taskStates, ", ")+"; parked is the same as error; with several, any of them")
	f.StringP("workflow", "w", "", "name of a workflow")
	f.StringArray("label", nil, "`key:value`; a task must have all that are given")
	f.String("since", "", "submitted since this instant, or this long ago (24h)")
	f.String("until", "", "submitted before this instant, or this long ago")
	f.String("schedule", "", "the schedule that started the tasks")
	f.String("failed-step", "", "a step that failed, or whose undo failed, at the last attempt")
	f.String("error-code", "", "the error code of a failed step, such as http_503, or its error class if it has no code, such as timeout; without --failed-step, of any step")
	f.String("older-than", "", "not changed for this long (1h), or since an instant")
	suggest(c, "state", taskStates...)
}

// filter returns the tasks that the flags select, as parameters of the API.
func (s *session) filter() (url.Values, error) {
	if err := onlyName(s.flag("workflow")); err != nil {
		return nil, err
	}
	q := url.Values{}
	for _, name := range []string{"workflow", "since", "until", "schedule", "failed-step", "error-code", "older-than"} {
		if v := s.flag(name); v != "" {
			q.Set(strings.ReplaceAll(name, "-", "_"), v)
		}
	}
	var err error
	if q["state"], err = s.cmd.Flags().GetStringSlice("state"); err != nil {
		return nil, err
	}
	labels, err := s.cmd.Flags().GetStringArray("label")
	for _, l := range labels {
		q.Add("label", colon(l))
	}
	return q, err
}

// jobFilter returns the tasks that the flags select, as the filter of a job. A flag that was given and is empty is a mistake: its value is often
// a variable of the shell that was not set, and without the flag more tasks would match.
func (s jobCaller) jobFilter() (map[string]any, error) {
	if s.isSet("all") {
		return map[string]any{"all": true}, nil
	}
	for _, name := range filterNames {
		if f := s.cmd.Flags().Lookup(name); f.Changed && slices.Contains([]string{"", "[]"}, f.Value.String()) {
			return nil, Usage("--%s is empty: leave it out if it is not to filter", name)
		}
	}
	q, err := s.filter()
	if err != nil {
		return nil, err
	}
	f := map[string]any{}
	for name, values := range q {
		switch {
		case len(values) == 0:
		case slices.Contains([]string{"state", "label"}, name):
			f[name] = values
		default:
			f[name] = values[0]
		}
	}
	return f, nil
}
